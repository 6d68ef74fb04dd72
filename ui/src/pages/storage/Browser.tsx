import BreadcrumbGroup from "@cloudscape-design/components/breadcrumb-group";
import Button from "@cloudscape-design/components/button";
import ExpandableSection from "@cloudscape-design/components/expandable-section";
import Input from "@cloudscape-design/components/input";
import Pagination from "@cloudscape-design/components/pagination";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { $api, api } from "../../api/client";
import { DataTable } from "../../components/DataTable";
import { useCursors } from "../../components/cursors";
import { EmptyState } from "../../components/EmptyState";
import { ProblemAlert } from "../../components/ProblemAlert";
import { Text } from "../../components/Text";
import { moment } from "../../components/time";
import { bytes } from "./bytes";

const PAGE_SIZE = 50;

interface Row {
  key: string;
  folder: boolean;
  size?: number;
  at?: string;
}

/** Folders and objects of a bucket. Keys are text of others: shown, never followed. */
export function Browser({ cluster }: { cluster: string }) {
  const [open, setOpen] = useState(false);
  return (
    <ExpandableSection variant="container" headerText="Objects" headerDescription="What buckets hold." expanded={open} onChange={({ detail }) => setOpen(detail.expanded)}>
      {open && <Listing cluster={cluster} />}
    </ExpandableSection>
  );
}

/** A folder as the address of a link: anybody may name one "javascript:" or "//elsewhere", which must stay a place on this page. */
const folderLink = (prefix: string) => `#${encodeURIComponent(prefix)}`;
const folderOf = (href: string) => decodeURIComponent(href.slice(1));

function Listing({ cluster }: { cluster: string }) {
  const [typed, setTyped] = useState("");
  const [place, setPlace] = useState({ bucket: "", prefix: "" });
  const pages = useCursors(`${cluster}/${place.bucket}/${place.prefix}`);
  const query = { bucket: place.bucket || undefined, prefix: place.prefix, limit: PAGE_SIZE, cursor: pages.cursor };
  const read = $api.useQuery("get", "/api/v1/clusters/{cluster}/objects", { params: { path: { cluster }, query } }, { retry: false });
  const link = useMutation({
    gcTime: 0, // whoever has the address has the object
    mutationFn: (key: string) => api.GET("/api/v1/clusters/{cluster}/objects/link", { params: { path: { cluster }, query: { key, bucket: place.bucket || undefined } } }),
    onSuccess: ({ data }) => {
      if (data && /^https?:/.test(data.url)) window.open(data.url, "_blank", "noopener,noreferrer");
    },
  });
  const rows: Row[] = [
    ...(read.data?.folders ?? []).map((each) => ({ key: each.prefix, folder: true })),
    ...(read.data?.objects ?? []).map((each) => ({ key: each.key, folder: false, size: each.size_bytes, at: each.modified_at })),
  ];
  const parts = place.prefix.split("/").filter(Boolean);
  const crumbs = [{ text: read.data?.bucket ?? (place.bucket || "data bucket"), href: folderLink("") }, ...parts.map((text, index) => ({ text, href: folderLink(`${parts.slice(0, index + 1).join("/")}/`) }))];
  return (
    <SpaceBetween size="m">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          setPlace({ bucket: typed.trim(), prefix: "" });
        }}
      >
        <SpaceBetween size="xs" direction="horizontal">
          <Input value={typed} placeholder="the cluster's data bucket" ariaLabel="Bucket" spellcheck={false} onChange={({ detail }) => setTyped(detail.value)} />
          <Button formAction="submit">Open</Button>
        </SpaceBetween>
      </form>
      <ProblemAlert error={read.error ?? link.error} />
      <BreadcrumbGroup
        items={crumbs}
        ariaLabel="Folders"
        onFollow={(event) => {
          event.preventDefault();
          setPlace({ ...place, prefix: folderOf(event.detail.href) });
        }}
      />
      <DataTable
        variant="embedded"
        contentDensity="compact"
        items={rows}
        trackBy="key"
        loading={read.isPending}
        loadingText="Reading the bucket"
        ariaLabels={{ tableLabel: "Objects" }}
        empty={<EmptyState error={read.error} title="Nothing is here" />}
        pagination={<Pagination {...pages.props(read.data?.cursor)} />}
        columnDefinitions={[
          { id: "key", header: "Name", isRowHeader: true, cell: (each) => (each.folder ? <Button variant="inline-link" onClick={() => setPlace({ ...place, prefix: each.key })}>{tail(each.key)}/</Button> : <Text>{tail(each.key)}</Text>) },
          { id: "size", header: "Size", cell: (each) => (each.size === undefined ? "-" : bytes(each.size)) },
          { id: "at", header: "Changed", cell: (each) => (each.at ? moment(each.at) : "-") },
          { id: "acts", header: "Actions", cell: (each) => !each.folder && <Button variant="inline-link" ariaLabel={`Download ${tail(each.key)}`} loading={link.isPending && link.variables === each.key} onClick={() => link.mutate(each.key)}>Download</Button> },
        ]}
      />
    </SpaceBetween>
  );
}

const tail = (key: string) => key.split("/").filter(Boolean).at(-1) ?? key;
