import SpaceBetween from "@cloudscape-design/components/space-between";
import { $api } from "../../api/client";
import { DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { ListHeader } from "../../components/ListHeader";
import { ProblemAlert } from "../../components/ProblemAlert";
import { Text } from "../../components/Text";
import { words } from "../../components/Status";
import { moment } from "../../components/time";
import { bytes } from "./bytes";

/** Models and datasets that lie complete in the mounted buckets. */
export function Models({ cluster }: { cluster: string }) {
  const read = $api.useQuery("get", "/api/v1/clusters/{cluster}/models", { params: { path: { cluster } } }, { retry: false });
  const unread = Object.entries(read.data?.unread ?? {});
  return (
    <SpaceBetween size="m">
      <ProblemAlert error={read.error} />
      {unread.map(([claim, why]) => (
        <Text key={claim}>{`Not read in ${claim}: ${String(why)}`}</Text>
      ))}
      <DataTable
        items={read.data?.items ?? []}
        trackBy={(each) => `${each.claim}/${each.folder}`}
        loading={read.isPending}
        loadingText="Reading the buckets"
        ariaLabels={{ tableLabel: "Downloaded models" }}
        empty={<EmptyState error={read.error} title="No complete model" says="A download that has ended shows here with its folder." />}
        header={<ListHeader title="Downloaded, complete" counter={read.data ? `(${read.data.items.length})` : undefined} onRefresh={() => void read.refetch()} />}
        columnDefinitions={[
          { id: "repository", header: "Repository", isRowHeader: true, cell: (each) => <Text>{each.repository}</Text> },
          { id: "kind", header: "Kind", cell: (each) => words(each.kind) },
          { id: "revision", header: "Revision", cell: (each) => `${each.revision} (${each.commit.slice(0, 12)})` },
          { id: "size", header: "Size", cell: (each) => `${bytes(each.bytes)}, ${each.files} files` },
          { id: "place", header: "Folder", minWidth: 160, cell: (each) => <Text>{`${each.claim}: ${each.folder}`}</Text> },
          { id: "at", header: "Complete since", extra: true, cell: (each) => moment(each.finished_at) },
        ]}
      />
    </SpaceBetween>
  );
}
