import Button from "@cloudscape-design/components/button";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { $api } from "../../api/client";
import { DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { ListHeader } from "../../components/ListHeader";
import type { PlannedAct } from "../../components/PlannedAct";
import { ProblemAlert } from "../../components/ProblemAlert";
import { Status, words } from "../../components/Status";
import { Text } from "../../components/Text";
import { createAutoscaler, deleteAutoscaler } from "./acts";

const REFRESH_MS = 5_000;

/** Autoscalers of anybody: two on one workload would undo one another. */
export function Autoscalers({ cluster, onAct }: { cluster: string; onAct: (act: PlannedAct) => void }) {
  const read = $api.useQuery("get", "/api/v1/clusters/{cluster}/autoscalers", { params: { path: { cluster }, query: { limit: 200 } } }, { refetchInterval: REFRESH_MS });
  const create = () => onAct(createAutoscaler(cluster));
  return (
    <SpaceBetween size="m">
      <ProblemAlert error={read.error} />
      <DataTable
        items={read.data?.items ?? []}
        trackBy={(each) => `${each.kind}/${each.namespace}/${each.name}`}
        wrapLines
        loading={read.isPending}
        loadingText="Reading the autoscalers"
        ariaLabels={{ tableLabel: "Autoscalers" }}
        empty={<EmptyState error={read.error} title="No autoscalers" says="KEDA can scale a deployment or pool by its load." action={<Button onClick={create}>Scale by load</Button>} />}
        header={
          <ListHeader title="Autoscalers" counter={read.data ? `(${read.data.total})` : undefined} onRefresh={() => void read.refetch()}>
            <Button onClick={create}>Scale by load</Button>
          </ListHeader>
        }
        columnDefinitions={[
          { id: "target", header: "Scales", isRowHeader: true, cell: (each) => `${each.namespace}/${each.target}` },
          { id: "kind", header: "Kind", cell: (each) => `${each.kind}${each.ours ? "" : ", of others"}` },
          { id: "state", header: "State", cell: (each) => <Status status={each.paused ? "cancelled" : each.ready ? "ready" : "waiting"}>{each.paused ? "Paused" : each.ready ? "Works" : "Does not work yet"}</Status> },
          { id: "pods", header: "Pods", cell: (each) => `${each.replicas ?? "?"} (${each.min_replicas} to ${each.max_replicas})` },
          { id: "metric", header: "By", cell: (each) => (each.metric ? `${words(each.metric)}, ${each.threshold} each` : "-") },
          { id: "query", header: "Query", cell: (each) => <Text log>{each.query ?? "-"}</Text> },
          { id: "why", header: "Why not", cell: (each) => <Text>{each.why ?? "-"}</Text> },
          { id: "acts", header: "Actions", cell: (each) => each.ours && <Button variant="inline-link" ariaLabel={`Stop scaling ${each.target}`} onClick={() => onAct(deleteAutoscaler({ cluster, namespace: each.namespace, name: each.target }))}>Stop</Button> },
        ]}
      />
    </SpaceBetween>
  );
}
