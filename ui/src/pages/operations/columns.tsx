import type { Operation } from "../../api/stream";
import type { Column } from "../../components/columns";
import { RouterLink } from "../../components/RouterLink";
import { Status } from "../../components/Status";
import { Text } from "../../components/Text";
import { TimeAgo } from "../../components/TimeAgo";
import { duration } from "../../components/time";

function standing(operation: Operation): string {
  const stage = operation.stages.find((each) => ["running", "waiting", "failed", "blocked"].includes(each.status));
  return stage ? (stage.because ?? stage.says) : "-";
}

export const COLUMNS: Column<Operation>[] = [
  { id: "title", header: "Operation", isRowHeader: true, cell: (each) => <RouterLink href={`/operations/${each.id}`}>{each.title}</RouterLink> },
  { id: "status", header: "Status", minWidth: 140, cell: (each) => <Status status={each.status} /> },
  {
    id: "cluster",
    header: "Cluster",
    cell: (each) => (each.cluster ? <RouterLink href={`/clusters/${encodeURIComponent(each.cluster)}`}>{each.cluster}</RouterLink> : "-"),
  },
  {
    id: "stages",
    header: "Stages",
    cell: (each) => `${each.stages.filter((stage) => stage.status === "done" || stage.status === "skipped").length}/${each.stages.length}`,
  },
  { id: "standing", header: "Now", minWidth: 220, cell: (each) => <Text>{standing(each)}</Text> },
  { id: "elapsed", header: "Elapsed", cell: (each) => `${duration(each.elapsed_seconds)}${each.slow ? " (slow)" : ""}` },
  { id: "created", header: "Asked for", cell: (each) => <TimeAgo at={each.created_at} /> },
];
