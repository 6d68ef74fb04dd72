import KeyValuePairs from "@cloudscape-design/components/key-value-pairs";
import Modal from "@cloudscape-design/components/modal";
import type { Schemas } from "../../api/client";
import { RouterLink } from "../../components/RouterLink";
import { Text } from "../../components/Text";
import { moment } from "../../components/time";

/** One line of the audit log in full. */
export function AuditLine({ line, onClose }: { line: Schemas["AuditRow"]; onClose: () => void }) {
  const plain = (label: string, value: string | number | null | undefined) => ({ label, value: <Text>{value || "-"}</Text> });
  return (
    <Modal visible size="large" header={`Line ${line.number}`} closeAriaLabel="Close" onDismiss={onClose}>
      <KeyValuePairs
        columns={3}
        items={[
          plain("Time", moment(line.at)),
          plain("Who", line.name ?? line.caller),
          plain("Identity", line.caller),
          plain("Role", line.role),
          plain("Kind", line.kind),
          plain("Door", line.face),
          plain("From", line.address),
          plain("Action", line.action),
          plain("Cluster", line.cluster),
          plain("Call", `${line.method} ${line.path}`),
          plain("Asked", line.summary),
          plain("Answer", line.status),
          plain("Problem", line.code),
          { label: "Operation", value: line.operation_id ? <RouterLink href={`/operations/${line.operation_id}`}>{line.operation_id}</RouterLink> : "-" },
        ]}
      />
    </Modal>
  );
}
