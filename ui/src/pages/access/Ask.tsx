import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import Modal from "@cloudscape-design/components/modal";
import SpaceBetween from "@cloudscape-design/components/space-between";
import type { ReactNode } from "react";
import { ProblemAlert } from "../../components/ProblemAlert";

interface Props {
  title: string;
  /** what happens, in a sentence */
  children: ReactNode;
  act: string;
  keep?: string;
  pending: boolean;
  error: unknown;
  onAct: () => void;
  onClose: () => void;
}

/** A question before something ends. */
export function Ask({ title, children, act, keep = "Keep it", pending, error, onAct, onClose }: Props) {
  return (
    <Modal
      visible
      header={title}
      closeAriaLabel="Close"
      onDismiss={onClose}
      footer={
        <Box float="right">
          <SpaceBetween size="xs" direction="horizontal">
            <Button variant="link" onClick={onClose}>
              {keep}
            </Button>
            <Button variant="primary" loading={pending} onClick={onAct}>
              {act}
            </Button>
          </SpaceBetween>
        </Box>
      }
    >
      <SpaceBetween size="m">
        <span>{children}</span>
        <ProblemAlert error={error} />
      </SpaceBetween>
    </Modal>
  );
}
