import Box from "@cloudscape-design/components/box";
import SpaceBetween from "@cloudscape-design/components/space-between";

/** What a list says when it shows nothing: that there is nothing, or, where it could not be read, that this is not known. */
export function EmptyState({ title, says, action, error }: { title: string; says?: string; action?: React.ReactNode; error?: unknown }) {
  if (error) return <EmptyState title="Not read" says="Why is told above; what there is, is not known." />;
  return (
    <Box textAlign="center" color="inherit" margin={{ vertical: "xs" }}>
      <SpaceBetween size="xs">
        <b>{title}</b>
        {says && <Box color="inherit">{says}</Box>}
        {action}
      </SpaceBetween>
    </Box>
  );
}
