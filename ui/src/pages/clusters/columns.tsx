import Box from "@cloudscape-design/components/box";
import type { Cluster } from "../../api/clusters";
import type { Column } from "../../components/columns";
import { RouterLink } from "../../components/RouterLink";
import { Status } from "../../components/Status";
import { Text } from "../../components/Text";
import { TimeAgo } from "../../components/TimeAgo";

/** "1/2 ml.g5.8xlarge". */
export function nodesOf(cluster: Cluster): string {
  return (cluster.groups ?? []).map((group) => `${group.current}/${group.target} ${group.instance_type ?? ""}`.trim()).join(", ") || "-";
}

function StateCell(cluster: Cluster) {
  return (
    <>
      <Status status={cluster.state} />
      {cluster.why && (
        <Box variant="small" color="text-body-secondary" display="block">
          <Text>{cluster.why}</Text>
        </Box>
      )}
    </>
  );
}

export const COLUMNS: Column<Cluster>[] = [
  {
    id: "tag",
    header: "Cluster",
    sortingField: "tag",
    isRowHeader: true,
    cell: (each) =>
      each.managed ? (
        <span>
          <RouterLink href={`/clusters/${encodeURIComponent(each.tag)}`}>{each.tag}</RouterLink>
          {each.selected && " (selected)"}
        </span>
      ) : (
        each.tag
      ),
  },
  { id: "state", header: "State", sortingField: "state", minWidth: 150, cell: StateCell },
  {
    id: "operation",
    header: "Active operation",
    sortingComparator: (a, b) => (a.operation?.workflow ?? "").localeCompare(b.operation?.workflow ?? ""),
    cell: (each) =>
      each.operation ? (
        <RouterLink href={`/operations/${each.operation.id}`}>
          {each.operation.workflow} ({each.operation.status})
        </RouterLink>
      ) : (
        "-"
      ),
  },
  { id: "nodes", header: "Nodes", minWidth: 140, cell: nodesOf },
  { id: "region", header: "Region", sortingField: "region", cell: (each) => each.region },
  { id: "version", header: "Kubernetes", sortingField: "kubernetes_version", cell: (each) => each.kubernetes_version ?? "-" },
  { id: "created", header: "Created", sortingField: "created_at", cell: (each) => <TimeAgo at={each.created_at} age={each.age_seconds} /> },
];
