import Button from "@cloudscape-design/components/button";
import Pagination from "@cloudscape-design/components/pagination";
import ProgressBar from "@cloudscape-design/components/progress-bar";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useMutation } from "@tanstack/react-query";
import { $api, api, type Schemas } from "../../api/client";
import { DataTable } from "../../components/DataTable";
import { useCursors } from "../../components/cursors";
import { EmptyState } from "../../components/EmptyState";
import { ListHeader } from "../../components/ListHeader";
import { ProblemAlert } from "../../components/ProblemAlert";
import { RouterLink } from "../../components/RouterLink";
import { Status } from "../../components/Status";
import { Text } from "../../components/Text";

const REFRESH_MS = 5_000;
const PAGE_SIZE = 10;
const GOING = new Set(["queued", "running", "waiting", "blocked"]);
type Download = Schemas["DownloadItem"];

/** What was fetched from the hub, and how far it is. */
export function Downloads({ cluster, onAdd, onToken }: { cluster: string; onAdd: () => void; onToken: () => void }) {
  const pages = useCursors(cluster);
  const query = { limit: PAGE_SIZE, cursor: pages.cursor };
  const read = $api.useQuery("get", "/api/v1/clusters/{cluster}/downloads", { params: { path: { cluster }, query } }, { refetchInterval: REFRESH_MS, placeholderData: (before) => before });
  const cancel = useMutation({
    mutationFn: (operation: string) => api.DELETE("/api/v1/clusters/{cluster}/downloads/{operation_id}", { params: { path: { cluster, operation_id: operation } } }),
    onSuccess: () => void read.refetch(),
  });
  return (
    <SpaceBetween size="m">
      <ProblemAlert error={read.error ?? cancel.error} />
      <DataTable
        items={read.data?.items ?? []}
        trackBy="operation_id"
        wrapLines
        loading={read.isPending}
        loadingText="Reading the downloads"
        ariaLabels={{ tableLabel: "Downloads" }}
        empty={<EmptyState error={read.error} title="No downloads" says="Fetch a model or dataset from the hub into a volume." action={<Button onClick={onAdd}>Download</Button>} />}
        pagination={<Pagination {...pages.props(read.data?.cursor)} />}
        header={
          <ListHeader title="Models and datasets" description="Fetched from the hub into volumes." onRefresh={() => void read.refetch()}>
            <Button onClick={onToken}>Store a hub token</Button>
            <Button onClick={onAdd}>Download</Button>
          </ListHeader>
        }
        columnDefinitions={[
          { id: "repository", header: "Repository", isRowHeader: true, cell: (each) => <RouterLink href={`/operations/${each.operation_id}`}>{each.repository}</RouterLink> },
          { id: "revision", header: "Revision", cell: (each) => (each.commit ? `${each.revision} (${each.commit.slice(0, 12)})` : each.revision) },
          { id: "status", header: "Status", cell: (each) => <Status status={each.status} /> },
          { id: "progress", header: "Progress", minWidth: 180, cell: Progress },
          { id: "place", header: "Folder", cell: (each) => <Text>{`${each.claim}: ${each.folder}`}</Text> },
          { id: "acts", header: "Actions", cell: (each) => GOING.has(each.status) && <Button variant="inline-link" loading={cancel.isPending && cancel.variables === each.operation_id} onClick={() => cancel.mutate(each.operation_id)}>Cancel</Button> },
        ]}
      />
    </SpaceBetween>
  );
}

function Progress(item: Download) {
  if (!item.total_mib || item.done_mib === null) return <Text>{item.because ?? "-"}</Text>;
  return <ProgressBar value={(100 * item.done_mib) / item.total_mib} additionalInfo={`${item.done_mib} of ${item.total_mib} MiB`} ariaLabel={`Progress of ${item.repository}`} />;
}
