import BreadcrumbGroup from "@cloudscape-design/components/breadcrumb-group";
import Button from "@cloudscape-design/components/button";
import ExpandableSection from "@cloudscape-design/components/expandable-section";
import Input from "@cloudscape-design/components/input";
import Pagination from "@cloudscape-design/components/pagination";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Table from "@cloudscape-design/components/table";
import { useState } from "react";
import { $api } from "../../api/client";
import { useCursors } from "../../components/cursors";
import { EmptyState } from "../../components/EmptyState";
import { ProblemAlert } from "../../components/ProblemAlert";
import { moment } from "../../components/time";

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
      <ProblemAlert error={read.error} />
      <BreadcrumbGroup
        items={crumbs}
        ariaLabel="Folders"
        onFollow={(event) => {
          event.preventDefault();
          setPlace({ ...place, prefix: folderOf(event.detail.href) });
        }}
      />
      <Table
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
          { id: "key", header: "Name", isRowHeader: true, cell: (each) => (each.folder ? <Button variant="inline-link" onClick={() => setPlace({ ...place, prefix: each.key })}>{tail(each.key)}/</Button> : <span className="is-wrap">{tail(each.key)}</span>) },
          { id: "size", header: "Size", cell: (each) => (each.size === undefined ? "-" : bytes(each.size)) },
          { id: "at", header: "Changed", cell: (each) => (each.at ? moment(each.at) : "-") },
        ]}
      />
    </SpaceBetween>
  );
}

const tail = (key: string) => key.split("/").filter(Boolean).at(-1) ?? key;

/** Bytes as a person reads them. */
export function bytes(count: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const step = Math.min(units.length - 1, count > 0 ? Math.floor(Math.log2(count) / 10) : 0);
  return `${(count / 1024 ** step).toFixed(step ? 1 : 0)} ${units[step]}`;
}
