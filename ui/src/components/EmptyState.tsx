import Box from "@cloudscape-design/components/box";
import SpaceBetween from "@cloudscape-design/components/space-between";

export function EmptyState({ title, says, action }: { title: string; says?: string; action?: React.ReactNode }) {
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
