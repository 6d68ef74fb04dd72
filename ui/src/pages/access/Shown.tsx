import Alert from "@cloudscape-design/components/alert";
import CopyToClipboard from "@cloudscape-design/components/copy-to-clipboard";
import SpaceBetween from "@cloudscape-design/components/space-between";

/** A token that is shown this once. */
export function Shown({ token }: { token: string }) {
  return (
    <SpaceBetween size="m">
      <Alert type="warning">It is shown this once; only its hash is kept here.</Alert>
      <CopyToClipboard variant="inline" textToCopy={token} copyButtonAriaLabel="Copy the token" copySuccessText="Copied" copyErrorText="Could not copy; select the text instead" />
    </SpaceBetween>
  );
}
