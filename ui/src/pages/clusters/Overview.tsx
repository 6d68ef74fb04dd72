import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import Container from "@cloudscape-design/components/container";
import Header from "@cloudscape-design/components/header";
import KeyValuePairs from "@cloudscape-design/components/key-value-pairs";
import SpaceBetween from "@cloudscape-design/components/space-between";
import type { Schemas } from "../../api/client";
import { DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { Status } from "../../components/Status";
import { Text } from "../../components/Text";
import { TimeAgo } from "../../components/TimeAgo";
import { nodesOf } from "./columns";
import { type StageAct, STAGES } from "./stages";

interface Props {
  detail: Schemas["ClusterDetail"];
  onAct: (act: StageAct) => void;
}

export function Overview({ detail, onAct }: Props) {
  return (
    <SpaceBetween size="l">
      <Facts detail={detail} />
      <StageList detail={detail} onAct={onAct} />
      <Components detail={detail} />
    </SpaceBetween>
  );
}

function Facts({ detail }: { detail: Schemas["ClusterDetail"] }) {
  const { cluster } = detail;
  return (
    <Container header={<Header variant="h2">Facts</Header>}>
      <KeyValuePairs
        columns={3}
        items={[
          { label: "Account", value: cluster.account },
          { label: "Region", value: cluster.region },
          { label: cluster.origin === "imported" ? "Created (by others)" : "Created", value: <TimeAgo at={cluster.created_at} age={cluster.age_seconds} /> },
          { label: "EKS cluster", value: named(cluster.eks_name, cluster.eks_status) },
          { label: "HyperPod cluster", value: named(cluster.hyperpod_name, cluster.hyperpod_status) },
          { label: "Kubernetes version", value: cluster.kubernetes_version ?? "-" },
          { label: "Nodes", value: nodesOf(cluster) },
          { label: "VPC", value: detail.vpc_id ?? "-" },
          { label: "HyperPod ARN", value: <Text>{cluster.hyperpod_arn ?? "-"}</Text> },
        ]}
      />
    </Container>
  );
}

function named(name: string | null | undefined, status: string | null | undefined): React.ReactNode {
  return name ? (
    <span className="is-wrap">
      {name} {status ? <Status status={status}>{status}</Status> : null}
    </span>
  ) : (
    "-"
  );
}

/** Which stages are true now; each that is missing has the button that makes it true. */
function StageList({ detail, onAct }: Props) {
  const busy = Boolean(detail.cluster.operation);
  const items = STAGES.map((act) => ({ act, done: detail.stages[act.stage] === true, why: detail.missing[act.stage] }));
  return (
    <DataTable
      header={
        <Header variant="h2" counter={`(${items.filter((each) => each.done).length}/${items.length})`} description="Read from AWS and Kubernetes now. Their order is the server's: a stage asked for too early is refused with the reason.">
          Stages
        </Header>
      }
      items={items}
      wrapLines
      trackBy={(each) => each.act.stage}
      ariaLabels={{ tableLabel: "Stages of the cluster" }}
      columnDefinitions={[
        { id: "stage", header: "Stage", isRowHeader: true, cell: (each) => each.act.title },
        { id: "state", header: "State", width: 140, cell: (each) => <Status status={each.done ? "done" : "missing"} /> },
        { id: "why", header: "Why", cell: (each) => (each.done ? "-" : (each.why ?? "-")) },
        {
          id: "acts",
          header: "Next step",
          cell: (each) =>
            each.done ? (
              <Box color="text-status-inactive">-</Box>
            ) : (
              <Button wrapText={false} disabled={busy} disabledReason="An operation works on this cluster now." onClick={() => onAct(each.act)}>
                {each.act.button}
              </Button>
            ),
        },
      ]}
    />
  );
}

function Components({ detail }: { detail: Schemas["ClusterDetail"] }) {
  return (
    <DataTable
      header={<Header variant="h2">Components in the cluster</Header>}
      items={detail.components}
      wrapLines
      trackBy={(each) => String(each["name"])}
      ariaLabels={{ tableLabel: "Components in the cluster" }}
      empty={<EmptyState title="No component was read" says="They are seen once the cluster can be reached." />}
      columnDefinitions={[
        { id: "name", header: "Name", isRowHeader: true, cell: (each) => String(each["name"] ?? "-") },
        { id: "state", header: "State", cell: (each) => <Status status={String(each["state"] ?? "unknown")} /> },
        { id: "kind", header: "Kind", cell: (each) => String(each["kind"] ?? "-") },
        { id: "version", header: "Version", cell: (each) => String(each["version"] ?? "-") },
        { id: "why", header: "Why", cell: (each) => <Text>{String(each["why"] ?? "-")}</Text> },
      ]}
    />
  );
}
