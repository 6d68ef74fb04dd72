import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import Header from "@cloudscape-design/components/header";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Table from "@cloudscape-design/components/table";
import { $api, type Schemas } from "../../api/client";
import { EmptyState } from "../../components/EmptyState";
import { ProblemAlert } from "../../components/ProblemAlert";
import { Status } from "../../components/Status";
import { moment } from "../../components/time";

const REFRESH_MS = 10_000;

interface TabProps {
  cluster: string;
}

export function NodesTab({ cluster }: TabProps) {
  const nodes = $api.useQuery("get", "/api/v1/clusters/{cluster}/nodes", { params: { path: { cluster } } }, { refetchInterval: REFRESH_MS });
  return (
    <SpaceBetween size="m">
      <ProblemAlert error={nodes.error} action={<Button onClick={() => void nodes.refetch()}>Try again</Button>} />
      <Table
        header={
          <Header variant="h2" counter={nodes.data ? `(${nodes.data.ready}/${nodes.data.total} ready)` : undefined}>
            Nodes
          </Header>
        }
        items={nodes.data?.items ?? []}
        trackBy={(each) => each.instance_id ?? each.name ?? each.group}
        wrapLines
        loading={nodes.isPending}
        loadingText="Reading the nodes"
        ariaLabels={{ tableLabel: "Nodes" }}
        empty={<EmptyState title="No nodes" says="They are listed as soon as HyperPod has begun to make them." />}
        columnDefinitions={[
          { id: "id", header: "Instance", isRowHeader: true, minWidth: 180, cell: (each) => each.instance_id ?? "not made yet" },
          { id: "status", header: "SageMaker", minWidth: 110, cell: (each) => <Status status={each.status === "Running" ? "ready" : each.status}>{each.status}</Status> },
          { id: "ready", header: "Kubernetes", minWidth: 150, cell: KubernetesCell },
          { id: "group", header: "Group", minWidth: 190, cell: GroupCell },
          { id: "zone", header: "Zone", minWidth: 130, cell: (each) => each.zone ?? "-" },
          { id: "why", header: "Remarks", cell: (each) => <span className="is-wrap">{each.because ?? "-"}</span> },
        ]}
      />
    </SpaceBetween>
  );
}

function KubernetesCell(node: Schemas["NodeItem"]) {
  return (
    <>
      <Status status={node.ready ? "ready" : "pending"}>{inKubernetes(node)}</Status>
      <Box variant="small" color="text-body-secondary" display="block">
        health: {node.health ?? "unknown"}
      </Box>
    </>
  );
}

function GroupCell(node: Schemas["NodeItem"]) {
  return (
    <>
      {node.group}: {node.instance_type}, {node.capacity_type.replace("_", " ")}
      <Box variant="small" color="text-body-secondary" display="block">
        GPUs: {node.gpus ?? "unknown"}, EFA: {node.efa ?? "unknown"}
      </Box>
    </>
  );
}

function inKubernetes(node: Schemas["NodeItem"]): string {
  if (!node.name) return "Not joined";
  if (!node.ready) return "Not ready";
  return node.schedulable ? "Ready" : "Ready, not schedulable";
}

export function StorageTab({ detail, onAdd }: { detail: Schemas["ClusterDetail"]; onAdd: () => void }) {
  return (
    <Table
      header={
        <Header variant="h2" counter={`(${detail.storage.length})`} actions={<Button onClick={onAdd}>Configure storage</Button>}>
          S3 volumes
        </Header>
      }
      items={detail.storage}
      wrapLines
      trackBy={(each) => String(each["volume"])}
      ariaLabels={{ tableLabel: "S3 volumes" }}
      empty={<EmptyState title="No S3 volume" says="Mount a bucket as a volume claim that pods can name." />}
      columnDefinitions={[
        { id: "claim", header: "Claim", isRowHeader: true, cell: (each) => `${String(each["namespace"] ?? "-")}/${String(each["claim"] ?? "-")}` },
        { id: "phase", header: "Phase", cell: (each) => <Status status={each["bound"] ? "bound" : String(each["phase"])}>{String(each["phase"] ?? "unknown")}</Status> },
        { id: "bucket", header: "Bucket", cell: (each) => <span className="is-wrap">{String(each["bucket"] ?? "-")}</span> },
        { id: "volume", header: "Volume", cell: (each) => <span className="is-wrap">{String(each["volume"] ?? "-")}</span> },
      ]}
    />
  );
}

export function EventsTab({ cluster }: TabProps) {
  const events = $api.useQuery("get", "/api/v1/clusters/{cluster}/events", { params: { path: { cluster }, query: { limit: 200 } } }, { refetchInterval: REFRESH_MS });
  return (
    <SpaceBetween size="m">
      <ProblemAlert error={events.error} action={<Button onClick={() => void events.refetch()}>Try again</Button>} />
      <Table
        header={<Header variant="h2" description="What CloudFormation and HyperPod said, newest first.">Events</Header>}
        items={events.data?.items ?? []}
        wrapLines
        contentDensity="compact"
        loading={events.isPending}
        loadingText="Reading the events"
        ariaLabels={{ tableLabel: "Events of the cluster" }}
        empty={<EmptyState title="No events" />}
        columnDefinitions={[
          { id: "at", header: "Time", width: 190, cell: (each) => moment(each.at) },
          { id: "level", header: "Level", width: 100, cell: (each) => <Status status={each.level} /> },
          { id: "source", header: "Source", width: 130, cell: (each) => each.source },
          { id: "subject", header: "About", width: 180, cell: (each) => <span className="is-wrap">{each.subject}</span> },
          { id: "message", header: "Message", isRowHeader: true, cell: (each) => <span className="is-wrap is-log">{each.message}</span> },
        ]}
      />
    </SpaceBetween>
  );
}
