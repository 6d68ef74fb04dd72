import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import Modal from "@cloudscape-design/components/modal";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useState } from "react";
import { type Act, isActive } from "../api/operations";
import type { Operation } from "../api/stream";

interface Props {
  operation: Operation;
  perform: (act: Act) => void;
  pending: Act | null | undefined;
}

/** The buttons for what a person may do to an operation where it stands; the server has the last word. */
export function OperationActs({ operation, perform, pending }: Props) {
  const [asks, setAsks] = useState(false);
  const waitsForYes = operation.status === "awaiting_approval";
  const stopped = ["failed", "blocked", "cancelled"].includes(operation.status);
  const button = (act: Act, text: string, variant: "primary" | "normal" = "normal") => (
    <Button variant={variant} loading={pending === act} disabled={Boolean(pending)} onClick={() => perform(act)}>
      {text}
    </Button>
  );
  return (
    <SpaceBetween size="xs" direction="horizontal">
      {isActive(operation) && !waitsForYes && (
        <Button loading={pending === "cancel" || operation.cancelling} disabled={Boolean(pending)} onClick={() => setAsks(true)}>
          {operation.cancelling ? "Cancelling" : "Cancel operation"}
        </Button>
      )}
      {waitsForYes && button("reject", "Reject")}
      {waitsForYes && button("approve", "Approve", "primary")}
      {stopped && button("retry", "Retry", "primary")}
      <Modal
        visible={asks}
        onDismiss={() => setAsks(false)}
        header="Cancel this operation?"
        closeAriaLabel="Close"
        footer={
          <Box float="right">
            <SpaceBetween size="xs" direction="horizontal">
              <Button onClick={() => setAsks(false)}>Let it go on</Button>
              <Button
                variant="primary"
                onClick={() => {
                  setAsks(false);
                  perform("cancel");
                }}
              >
                Cancel operation
              </Button>
            </SpaceBetween>
          </Box>
        }
      >
        It stops after the act in flight. What was made stays; it can be retried from where it stopped, or deleted.
      </Modal>
    </SpaceBetween>
  );
}
