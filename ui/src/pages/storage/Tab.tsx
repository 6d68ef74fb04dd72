import Button from "@cloudscape-design/components/button";
import ButtonDropdown from "@cloudscape-design/components/button-dropdown";
import Pagination from "@cloudscape-design/components/pagination";
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
import { Status } from "../../components/Status";
import { Text } from "../../components/Text";
import { addFsx, addS3, download, removeFileSystem, removeVolume } from "./acts";
import { Browser } from "./Browser";
import { Downloads } from "./Downloads";
import { HubToken } from "./HubToken";
import { Images } from "./Images";
import { Models } from "./Models";

const REFRESH_MS = 10_000;
const PAGE_SIZE = 25;
type Volume = Schemas["VolumeItem"];

/** What pods mount, what lies there, and what is fetched. */
export function StorageTab({ cluster }: { cluster: string }) {
  const [act, setAct] = useState<PlannedAct | null>(null);
  const [storing, setStoring] = useState(false);
  return (
    <SpaceBetween size="l">
      <Volumes cluster={cluster} onAct={setAct} />
      <Downloads cluster={cluster} onAdd={() => setAct(download(cluster))} onToken={() => setStoring(true)} />
      <Models cluster={cluster} />
      <Browser cluster={cluster} />
      <Images cluster={cluster} />
      {act && <PlannedActModal act={act} onClose={() => setAct(null)} />}
      {storing && <HubToken cluster={cluster} onClose={() => setStoring(false)} />}
    </SpaceBetween>
  );
}

function Volumes({ cluster, onAct }: { cluster: string; onAct: (act: PlannedAct) => void }) {
  const [contains, setContains] = useState("");
  const [chosen, setChosen] = useState<Volume[]>([]);
  const pages = useCursors(`${cluster}/${contains}`);
  const query = { limit: PAGE_SIZE, cursor: pages.cursor, contains };
  const read = $api.useQuery("get", "/api/v1/clusters/{cluster}/volumes", { params: { path: { cluster }, query } }, { refetchInterval: REFRESH_MS, placeholderData: (before) => before });
  const one = chosen[0];
  return (
    <SpaceBetween size="m">
      <ProblemAlert error={read.error} action={<Button onClick={() => void read.refetch()}>Try again</Button>} />
      <DataTable
        items={read.data?.items ?? []}
        trackBy={(each) => `${each.namespace}/${each.claim}`}
        selectionType="single"
        selectedItems={chosen}
        onSelectionChange={({ detail }) => setChosen(detail.selectedItems)}
        isItemDisabled={(each) => !each.ours}
        wrapLines
        loading={read.isPending}
        loadingText="Reading the volumes"
        ariaLabels={{ tableLabel: "Volumes", selectionGroupLabel: "Choose a volume", itemSelectionLabel: (_, each) => each.claim }}
        empty={<EmptyState error={read.error} title="No volumes" says="Mount a bucket or a file system as a claim that pods can name." />}
        filter={<TextFilter filteringText={contains} filteringPlaceholder="Find volumes" filteringAriaLabel="Find volumes" onChange={({ detail }) => setContains(detail.filteringText)} />}
        pagination={<Pagination {...pages.props(read.data?.cursor)} />}
        header={
          <ListHeader title="Volumes" counter={read.data ? `(${read.data.total})` : undefined} onRefresh={() => void read.refetch()}>
            <ButtonDropdown
              disabled={!one}
              items={[
                { id: "claim", text: "The claim only", description: "What it shows stays, with all its data" },
                { id: "data", text: "The claim and its file system", description: "With all data", disabled: !one?.kind.startsWith("fsx"), disabledReason: "It shows no file system." },
              ]}
              onItemClick={({ detail }) => one && onAct(detail.id === "data" ? removeFileSystem(cluster, one) : removeVolume(cluster, one))}
            >
              Remove
            </ButtonDropdown>
            <ButtonDropdown
              items={[
                { id: "s3", text: "S3 bucket" },
                { id: "fsx", text: "FSx for Lustre" },
              ]}
              onItemClick={({ detail }) => onAct(detail.id === "s3" ? addS3(cluster) : addFsx(cluster))}
            >
              Mount
            </ButtonDropdown>
          </ListHeader>
        }
        columnDefinitions={[
          { id: "claim", header: "Claim", isRowHeader: true, cell: (each) => `${each.namespace}/${each.claim}` },
          { id: "phase", header: "Phase", cell: (each) => <Status status={each.bound ? "bound" : each.phase}>{each.phase}</Status> },
          { id: "shows", header: "Shows", cell: (each) => <Text>{each.shows}</Text> },
          { id: "mode", header: "Access", cell: (each) => (each.read_only ? "read only" : "read and write") },
          { id: "size", header: "Size", cell: (each) => each.size ?? "-" },
          { id: "pods", header: "Used by", cell: (each) => (each.pods.length ? `${each.pods.length} pods` : "-") },
          { id: "ours", header: "Made by", cell: (each) => (each.ours ? "InstantStart" : "others") },
        ]}
      />
    </SpaceBetween>
  );
}
