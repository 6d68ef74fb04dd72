import Alert from "@cloudscape-design/components/alert";
import Box from "@cloudscape-design/components/box";
import ColumnLayout from "@cloudscape-design/components/column-layout";
import Modal from "@cloudscape-design/components/modal";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Spinner from "@cloudscape-design/components/spinner";
import { $api, type Schemas } from "../../api/client";
import { DataTable } from "../../components/DataTable";
import { Diagnosis } from "../../components/Diagnosis";
import { EmptyState } from "../../components/EmptyState";
import { ProblemAlert } from "../../components/ProblemAlert";
import { Status, words } from "../../components/Status";
import { Text } from "../../components/Text";
import { moment } from "../../components/time";

interface Props {
  cluster: string;
  node: string;
  onClose: () => void;
}

/** One node: what it is, what is wrong, what runs on it, what happened to it. */
export function NodeDetail({ cluster, node, onClose }: Props) {
  const read = $api.useQuery("get", "/api/v1/clusters/{cluster}/nodes/{node}", { params: { path: { cluster, node } } });
  return (
    <Modal visible size="max" header={node} closeAriaLabel="Close" onDismiss={onClose}>
      <SpaceBetween size="l">
        <ProblemAlert error={read.error} />
        {read.isPending && <Spinner size="large" />}
        {read.data && <Body detail={read.data} />}
        <Diagnosis cluster={cluster} of="node" name={node} />
      </SpaceBetween>
    </Modal>
  );
}

function Body({ detail }: { detail: Schemas["NodeDetail"] }) {
  const { node } = detail;
  const facts: [string, string | number | null | undefined][] = [
    ["Group", node.group],
    ["Type", node.instance_type],
    ["Capacity", words(node.capacity_type)],
    ["Zone", detail.zone_id ? `${detail.zone} (${detail.zone_id})` : detail.zone],
    ["Private address", detail.private_ip],
    ["Kubernetes name", node.name],
    ["Health", words(node.health_state)],
    ["Deep health check", node.deep_health],
    ["Software", node.software_status ? `${node.software ?? ""} ${node.software_status}` : node.software],
    ["Logical id", node.logical_id],
    ["Kubelet", detail.kubelet_version],
    ["Taints", detail.taints.join(", ")],
  ];
  return (
    <SpaceBetween size="l">
      {detail.advice && <Alert type="warning">{detail.advice}</Alert>}
      {detail.unknown && <Alert type="info">{detail.unknown}</Alert>}
      <ColumnLayout columns={4} variant="text-grid">
        {facts.map(([label, value]) => (
          <div key={label}>
            <Box variant="awsui-key-label">{label}</Box>
            <div className="is-wrap">{value || "-"}</div>
          </div>
        ))}
      </ColumnLayout>
      <div>
        <Box variant="h3">Work on it</Box>
        {detail.work.length ? detail.work.map((each) => <div key={each}>{each}</div>) : "None."}
      </div>
      <DataTable
        header={<Box variant="h3">Events</Box>}
        items={detail.events}
        wrapLines
        contentDensity="compact"
        variant="embedded"
        ariaLabels={{ tableLabel: "Events of the node" }}
        empty={<EmptyState title="No events" />}
        columnDefinitions={[
          { id: "at", header: "Time", width: 190, cell: (each) => moment(each.at) },
          { id: "level", header: "Level", width: 100, cell: (each) => <Status status={each.level} /> },
          { id: "message", header: "Message", isRowHeader: true, cell: (each) => <Text log>{each.message}</Text> },
        ]}
      />
    </SpaceBetween>
  );
}
