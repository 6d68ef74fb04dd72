import Button from "@cloudscape-design/components/button";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { $api, type Schemas } from "../../api/client";
import { DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { ListHeader } from "../../components/ListHeader";
import type { PlannedAct } from "../../components/PlannedAct";
import { ProblemAlert } from "../../components/ProblemAlert";
import { Status } from "../../components/Status";
import { Text } from "../../components/Text";
import { createRouter, deleteRouter } from "./acts";

const REFRESH_MS = 5_000;

/** SGLang routers, with the workers each knows beside those that there are. */
export function Routers({ cluster, onAct }: { cluster: string; onAct: (act: PlannedAct) => void }) {
  const read = $api.useQuery("get", "/api/v1/clusters/{cluster}/sglang-routers", { params: { path: { cluster }, query: { limit: 100 } } }, { refetchInterval: REFRESH_MS });
  const create = () => onAct(createRouter(cluster));
  return (
    <SpaceBetween size="m">
      <ProblemAlert error={read.error} />
      <DataTable
        items={read.data?.items ?? []}
        trackBy={(each) => `${each.namespace}/${each.name}`}
        wrapLines
        loading={read.isPending}
        loadingText="Reading the routers"
        ariaLabels={{ tableLabel: "Routers" }}
        empty={<EmptyState error={read.error} title="No routers" says="A router leads requests to the worker that knows their beginning." action={<Button onClick={create}>Make a router</Button>} />}
        header={
          <ListHeader title="Routers" counter={read.data ? `(${read.data.total})` : undefined} onRefresh={() => void read.refetch()}>
            <Button onClick={create}>Make a router</Button>
          </ListHeader>
        }
        columnDefinitions={[
          { id: "name", header: "Name", isRowHeader: true, cell: (each) => `${each.namespace}/${each.name}` },
          { id: "target", header: "Leads to", cell: (each) => (each.business ? `${each.target}, ${each.business}` : (each.target ?? "-")) },
          { id: "policy", header: "Policy", cell: (each) => each.policy ?? "-" },
          { id: "ready", header: "Ready", cell: (each) => `${each.ready}/${each.replicas}` },
          { id: "knows", header: "Workers", cell: Workers },
          { id: "why", header: "Why not ready", cell: (each) => <Text>{each.why ?? "-"}</Text> },
          { id: "acts", header: "Actions", cell: (each) => <Button variant="inline-link" ariaLabel={`Delete ${each.name}`} onClick={() => onAct(deleteRouter({ cluster, namespace: each.namespace, name: each.name }))}>Delete</Button> },
        ]}
      />
    </SpaceBetween>
  );
}

/** What it knows against what there is: a difference that stays is a fault. */
function Workers(each: Schemas["RouterItem"]) {
  if (each.knows === null || each.knows === undefined) return `? of ${each.workers}`;
  const wrong = [...each.missing.map((name) => `misses ${name}`), ...each.stale.map((address) => `still has ${address}`)];
  return <Status status={wrong.length > 0 ? "warning" : "ok"}>{[`${each.knows} of ${each.workers}`, ...wrong].join("; ")}</Status>;
}
