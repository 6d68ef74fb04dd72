import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import { useRouteError } from "react-router";
import { ProblemAlert } from "../components/ProblemAlert";

/** A page that failed to draw, or whose file a newer server no longer has. */
export function Crash() {
  const error = useRouteError();
  return (
    <Box padding="xxl">
      <ProblemAlert error={error} action={<Button onClick={() => location.reload()}>Load the page again</Button>} />
    </Box>
  );
}
