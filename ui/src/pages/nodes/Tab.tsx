import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import ButtonDropdown from "@cloudscape-design/components/button-dropdown";
import Pagination from "@cloudscape-design/components/pagination";
import Select from "@cloudscape-design/components/select";
import SpaceBetween from "@cloudscape-design/components/space-between";
import TextFilter from "@cloudscape-design/components/text-filter";
import { useState } from "react";
import { $api, type Schemas } from "../../api/client";
import { DataTable } from "../../components/DataTable";
import { useCursors } from "../../components/cursors";
import { EmptyState } from "../../components/EmptyState";
import { ListHeader } from "../../components/ListHeader";
import { type PlannedAct, PlannedActModal } from "../../components/PlannedAct";
import { ProblemAlert } from "../../components/ProblemAlert";
import { Status, words } from "../../components/Status";
import { Text } from "../../components/Text";
import { checkNodes, deleteNodes, moveNodes, rebootNodes, replaceNodes } from "./acts";
import { NodeDetail } from "./Detail";

const REFRESH_MS = 10_000;
const PAGE_SIZE = 50;
const HEALTH = ["healthy", "unhealthy", "recovering", "checking", "starting", "unknown"] as const;
const ANY = { value: "", label: "Any" };
type Node = Schemas["NodeItem"];

const ACTS: Record<string, (cluster: string, nodes: string[]) => PlannedAct> = {
  reboot: rebootNodes,
  replace: replaceNodes,
  check: checkNodes,
  move: moveNodes,
  delete: deleteNodes,
};

export const nameOf = (node: Node) => node.instance_id ?? node.logical_id ?? node.name ?? "";

export function NodesTab({ cluster }: { cluster: string }) {
  const [contains, setContains] = useState("");
  const [health, setHealth] = useState("");
  const [chosen, setChosen] = useState<Node[]>([]);
  const [act, setAct] = useState<PlannedAct | null>(null);
  const [shown, setShown] = useState<string | null>(null);
  const pages = useCursors(`${cluster}/${contains}/${health}`);
  const query = { limit: PAGE_SIZE, cursor: pages.cursor, contains, health: (health || undefined) as (typeof HEALTH)[number] | undefined };
  const nodes = $api.useQuery("get", "/api/v1/clusters/{cluster}/nodes", { params: { path: { cluster }, query } }, { refetchInterval: REFRESH_MS, placeholderData: (before) => before });
  const uncordon = $api.useMutation("post", "/api/v1/clusters/{cluster}/node-uncordons", { onSuccess: () => void nodes.refetch() });
  const names = chosen.map(nameOf);
  const choose = (id: string) => (id === "uncordon" ? uncordon.mutate({ params: { path: { cluster } }, body: { nodes: names } }) : setAct(ACTS[id]!(cluster, names)));
  const options = [ANY, ...HEALTH.map((each) => ({ value: each, label: words(each) }))];
  return (
    <SpaceBetween size="m">
      <ProblemAlert error={nodes.error} action={<Button onClick={() => void nodes.refetch()}>Try again</Button>} />
      <ProblemAlert error={uncordon.error} />
      {Object.entries(uncordon.data?.left ?? {}).map(([name, why]) => (
        <Box key={name} color="text-status-warning">{`${name}: ${why}`}</Box>
      ))}
      {nodes.data?.unknown && <Box color="text-status-warning">{nodes.data.unknown}</Box>}
      <DataTable
        items={nodes.data?.items ?? []}
        trackBy={nameOf}
        selectionType="multi"
        selectedItems={chosen}
        onSelectionChange={({ detail }) => setChosen(detail.selectedItems)}
        isItemDisabled={(each) => !nameOf(each)}
        wrapLines
        loading={nodes.isPending}
        loadingText="Reading the nodes"
        ariaLabels={{ tableLabel: "Nodes", selectionGroupLabel: "Choose nodes", allItemsSelectionLabel: () => "All of this page", itemSelectionLabel: (_, each) => nameOf(each) }}
        empty={<EmptyState title="No nodes" says={contains || health ? "None fits the filters." : "They are listed as soon as HyperPod has begun to make them."} />}
        header={
          <ListHeader title="Nodes" counter={nodes.data ? `(${nodes.data.ready}/${nodes.data.total} ready)` : undefined} onRefresh={() => void nodes.refetch()}>
            <ButtonDropdown
              disabled={names.length === 0}
              items={[
                { id: "reboot", text: "Reboot" },
                { id: "replace", text: "Replace" },
                { id: "check", text: "Start a deep health check" },
                { id: "move", text: "Move to another group" },
                { id: "uncordon", text: "Uncordon", description: "After a cancelled operation: pods may come again" },
                { id: "delete", text: "Delete" },
              ]}
              onItemClick={({ detail }) => choose(detail.id)}
            >
              Actions
            </ButtonDropdown>
          </ListHeader>
        }
        filter={
          <SpaceBetween size="xs" direction="horizontal" alignItems="end">
            <TextFilter filteringText={contains} filteringPlaceholder="Find nodes" filteringAriaLabel="Find nodes" onDelayedChange={({ detail }) => setContains(detail.filteringText)} onChange={({ detail }) => setContains(detail.filteringText)} />
            <Select inlineLabelText="Health" options={options} selectedOption={options.find((each) => each.value === health) ?? ANY} onChange={({ detail }) => setHealth(detail.selectedOption.value ?? "")} />
          </SpaceBetween>
        }
        pagination={<Pagination {...pages.props(nodes.data?.cursor)} />}
        columnDefinitions={[
          { id: "id", header: "Instance", isRowHeader: true, minWidth: 170, cell: (each) => <Button variant="inline-link" onClick={() => setShown(nameOf(each))}>{nameOf(each) || "not made yet"}</Button> },
          { id: "status", header: "SageMaker", minWidth: 110, cell: (each) => <Status status={each.status === "Running" ? "ready" : each.status}>{each.status}</Status> },
          { id: "ready", header: "Kubernetes", minWidth: 130, cell: KubernetesCell },
          { id: "group", header: "Group", minWidth: 160, cell: GroupCell },
          { id: "zone", header: "Zone", minWidth: 100, cell: (each) => each.zone ?? "-" },
          { id: "why", header: "Remarks", minWidth: 120, cell: (each) => <Text>{each.because ?? "-"}</Text> },
        ]}
      />
      {act && <PlannedActModal act={act} onClose={() => setAct(null)} />}
      {shown && <NodeDetail cluster={cluster} node={shown} onClose={() => setShown(null)} />}
    </SpaceBetween>
  );
}

function KubernetesCell(node: Node) {
  return (
    <>
      <Status status={node.ready ? "ready" : "pending"}>{inKubernetes(node)}</Status>
      <Box variant="small" color="text-body-secondary" display="block">
        {words(node.health_state)}
        {node.faults.length > 0 && `: ${node.faults.join(", ")}`}
      </Box>
    </>
  );
}

function GroupCell(node: Node) {
  return (
    <>
      {node.group}: {node.instance_type}, {node.capacity_type.replace("_", " ")}
      <Box variant="small" color="text-body-secondary" display="block">
        GPUs: {node.gpus ?? "unknown"}, EFA: {node.efa ?? "unknown"}
      </Box>
    </>
  );
}

function inKubernetes(node: Node): string {
  if (!node.name) return "Not joined";
  if (!node.ready) return "Not ready";
  return node.schedulable ? "Ready" : "Ready, not schedulable";
}
