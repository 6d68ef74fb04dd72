import Button from "@cloudscape-design/components/button";
import CopyToClipboard from "@cloudscape-design/components/copy-to-clipboard";
import ExpandableSection from "@cloudscape-design/components/expandable-section";
import Pagination from "@cloudscape-design/components/pagination";
import SpaceBetween from "@cloudscape-design/components/space-between";
import TextFilter from "@cloudscape-design/components/text-filter";
import { useState } from "react";
import { $api } from "../../api/client";
import { useCursors } from "../../components/cursors";
import { DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { ListHeader } from "../../components/ListHeader";
import { ProblemAlert } from "../../components/ProblemAlert";
import { Text } from "../../components/Text";
import { moment } from "../../components/time";
import { bytes } from "./bytes";

const PAGE_SIZE = 10;
const MOST_IMAGES = 50;

/** Repositories of the account's ECR, and the images of the one that is opened, each with the reference that a form takes. */
export function Images({ cluster }: { cluster: string }) {
  const [open, setOpen] = useState(false);
  return (
    <ExpandableSection variant="container" headerText="Container images" headerDescription="What the account's ECR holds." expanded={open} onChange={({ detail }) => setOpen(detail.expanded)}>
      {open && <Repositories cluster={cluster} />}
    </ExpandableSection>
  );
}

function Repositories({ cluster }: { cluster: string }) {
  const [contains, setContains] = useState("");
  const [repository, setRepository] = useState<string | null>(null);
  const pages = useCursors(`${cluster}/${contains}`);
  const query = { contains, limit: PAGE_SIZE, cursor: pages.cursor };
  const read = $api.useQuery("get", "/api/v1/clusters/{cluster}/image-repositories", { params: { path: { cluster }, query } }, { placeholderData: (before) => before, retry: false });
  return (
    <SpaceBetween size="m">
      <ProblemAlert error={read.error} />
      <DataTable
        variant="embedded"
        contentDensity="compact"
        items={read.data?.items ?? []}
        trackBy="name"
        loading={read.isPending}
        loadingText="Reading the repositories"
        ariaLabels={{ tableLabel: "Image repositories" }}
        empty={<EmptyState error={read.error} title="No repositories" says="Images of other registries can be named in forms all the same." />}
        filter={<TextFilter filteringText={contains} filteringPlaceholder="Find repositories" filteringAriaLabel="Find repositories" onChange={({ detail }) => setContains(detail.filteringText)} />}
        pagination={<Pagination {...pages.props(read.data?.cursor)} />}
        columnDefinitions={[
          { id: "name", header: "Repository", isRowHeader: true, cell: (each) => <Text>{each.name}</Text> },
          { id: "created", header: "Made", cell: (each) => (each.created_at ? moment(each.created_at) : "-") },
          { id: "acts", header: "Images", cell: (each) => <Button variant="inline-link" ariaLabel={`Images of ${each.name}`} onClick={() => setRepository(each.name)}>Show</Button> },
        ]}
      />
      {repository && <Tagged key={repository} cluster={cluster} repository={repository} />}
    </SpaceBetween>
  );
}

function Tagged({ cluster, repository }: { cluster: string; repository: string }) {
  const query = { repository, limit: MOST_IMAGES };
  const read = $api.useQuery("get", "/api/v1/clusters/{cluster}/images", { params: { path: { cluster }, query } }, { retry: false });
  return (
    <SpaceBetween size="m">
      <ProblemAlert error={read.error} />
      <DataTable
        variant="embedded"
        contentDensity="compact"
        items={read.data?.items ?? []}
        trackBy="digest"
        loading={read.isPending}
        loadingText="Reading the images"
        ariaLabels={{ tableLabel: "Images" }}
        empty={<EmptyState error={read.error} title="No images" />}
        header={<ListHeader title={`Images of ${repository}`} counter={read.data ? `(${read.data.total})` : undefined} description="Newest first." />}
        columnDefinitions={[
          { id: "tags", header: "Tags", isRowHeader: true, cell: (each) => <Text>{each.tags.join(", ") || each.digest.slice(0, 19)}</Text> },
          { id: "size", header: "Size", cell: (each) => (each.size_bytes === null ? "-" : bytes(each.size_bytes)) },
          { id: "pushed", header: "Pushed", cell: (each) => (each.pushed_at ? moment(each.pushed_at) : "-") },
          { id: "acts", header: "Reference", cell: (each) => <CopyToClipboard variant="icon" textToCopy={each.reference} copyButtonAriaLabel={`Copy ${each.reference}`} copySuccessText="Copied" copyErrorText="Not copied" /> },
        ]}
      />
    </SpaceBetween>
  );
}
