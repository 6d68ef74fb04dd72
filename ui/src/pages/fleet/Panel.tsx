import Alert from "@cloudscape-design/components/alert";
import Box from "@cloudscape-design/components/box";
import ColumnLayout from "@cloudscape-design/components/column-layout";
import Container from "@cloudscape-design/components/container";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { $api, type Schemas } from "../../api/client";
import { DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { ListHeader } from "../../components/ListHeader";
import { ProblemAlert } from "../../components/ProblemAlert";
import { moment } from "../../components/time";

const REFRESH_MS = 5_000;
type Fleet = Schemas["Fleet"];
type Group = Schemas["FleetGroup"];

/** Nodes and accelerators by group, from what a watch keeps: how much is used, idle, and waited for. */
export function FleetPanel({ cluster }: { cluster: string }) {
  const read = $api.useQuery("get", "/api/v1/clusters/{cluster}/fleet", { params: { path: { cluster } } }, { refetchInterval: REFRESH_MS, retry: false });
  if (!read.data) return read.error ? <ProblemAlert error={read.error} /> : null;
  return <Panel fleet={read.data} onRefresh={() => void read.refetch()} />;
}

function Panel({ fleet, onRefresh }: { fleet: Fleet; onRefresh: () => void }) {
  const { freshness } = fleet;
  return (
    <Container header={<ListHeader title="Fleet" description={freshness.state === "loading" ? "Being read for the first time." : undefined} onRefresh={onRefresh} />}>
      <SpaceBetween size="m">
        {freshness.state === "stale" && (
          <Alert type="warning">
            Not live{freshness.since ? ` since ${moment(freshness.since)}` : ""}: {freshness.because}
          </Alert>
        )}
        <ColumnLayout columns={4} variant="text-grid">
          <Figure label="Nodes usable" value={`${fleet.nodes.usable} of ${fleet.nodes.wanted ?? fleet.nodes.joined}`} />
          <Figure label="Accelerators used" value={fleet.accelerators.map((each) => `${each.used} of ${each.allocatable} ${each.resource}`).join(", ") || "none there"} />
          <Figure label="Waited for" value={fleet.pods_waiting ? counted(fleet.pods_waiting, "pod") : "nothing"} />
          <Figure label="Idle" value={idle(fleet.idle)} />
        </ColumnLayout>
        <DataTable
          variant="embedded"
          contentDensity="compact"
          wrapLines
          items={fleet.groups}
          trackBy={(each) => `${each.group}/${each.instance_type}`}
          ariaLabels={{ tableLabel: "Fleet by group" }}
          empty={<EmptyState title="No nodes" />}
          columnDefinitions={[
            { id: "group", header: "Group", isRowHeader: true, cell: (each) => each.group ?? "outside HyperPod" },
            { id: "type", header: "Type", cell: (each) => each.instance_type ?? "-" },
            { id: "nodes", header: "Usable", cell: (each) => `${each.nodes.usable}/${each.nodes.wanted ?? each.nodes.joined}` },
            { id: "trouble", header: "In trouble", cell: trouble },
            { id: "used", header: "Used", cell: (each) => counts(each, "used") },
            { id: "idle", header: "Idle", cell: (each) => counts(each, "idle") },
            { id: "pending", header: "Waited for", cell: (each) => each.accelerators.map((one) => one.pending).join(", ") || "-" },
            { id: "cost", header: "Idle accelerator hours", cell: (each) => each.idle.accelerator_hours.toFixed(1) },
          ]}
        />
      </SpaceBetween>
    </Container>
  );
}

function Figure({ label, value }: { label: string; value: string }) {
  return (
    <div>
      <Box variant="awsui-key-label">{label}</Box>
      {value}
    </div>
  );
}

function idle(hint: Schemas["IdleHint"]): string {
  if (!hint.accelerators) return "nothing";
  return `${counted(hint.accelerators, "accelerator")} on ${counted(hint.nodes, "node")}`;
}

function counted(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? "" : "s"}`;
}

function trouble({ nodes }: Group): string {
  const named: [string, number][] = [
    ["unhealthy", nodes.unhealthy],
    ["not ready", nodes.not_ready],
    ["repairing", nodes.repairing],
    ["checking", nodes.checking],
    ["cordoned", nodes.cordoned],
  ];
  return named.filter(([, count]) => count > 0).map(([word, count]) => `${count} ${word}`).join(", ") || "-";
}

function counts(group: Group, what: "used" | "idle"): string {
  return group.accelerators.map((each) => `${each[what]}/${each.allocatable} ${each.resource}`).join(", ") || "-";
}
