import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import Pagination from "@cloudscape-design/components/pagination";
import Select from "@cloudscape-design/components/select";
import SpaceBetween from "@cloudscape-design/components/space-between";
import TextFilter from "@cloudscape-design/components/text-filter";
import { useState } from "react";
import { useNavigate } from "react-router";
import { $api, type Schemas } from "../../api/client";
import { DataTable } from "../../components/DataTable";
import { useCursors } from "../../components/cursors";
import { EmptyState } from "../../components/EmptyState";
import { ListHeader } from "../../components/ListHeader";
import { ProblemAlert } from "../../components/ProblemAlert";
import { RouterLink } from "../../components/RouterLink";
import { Status, words } from "../../components/Status";
import { Text } from "../../components/Text";
import { TimeAgo } from "../../components/TimeAgo";
import { addressOf } from "./acts";

const REFRESH_MS = 5_000;
const PAGE_SIZE = 25;
type Served = Schemas["ServedItem"];
const PATHS: Record<string, string> = { managed: "Managed", self_managed: "Self-managed", foreign: "Of others" };
const ANY = { value: "", label: "Any path" };
/** how a state of serving is coloured */
const SIGNS: Record<string, string> = { answering: "succeeded", partly: "warning", starting: "running", failing: "failed", stopped: "cancelled", unknown: "unknown" };

/** Everything that serves a model in a cluster, whoever made it. */
export function InferenceTab({ cluster }: { cluster: string }) {
  const navigate = useNavigate();
  const [contains, setContains] = useState("");
  const [path, setPath] = useState("");
  const pages = useCursors(`${cluster}/${contains}/${path}`);
  const query = { limit: PAGE_SIZE, cursor: pages.cursor, contains, path: (path || undefined) as Served["path"] | undefined };
  const read = $api.useQuery("get", "/api/v1/clusters/{cluster}/served-models", { params: { path: { cluster }, query } }, { refetchInterval: REFRESH_MS, placeholderData: (before) => before });
  const paths = [ANY, ...Object.entries(PATHS).map(([value, label]) => ({ value, label }))];
  const create = () => navigate(`/clusters/${encodeURIComponent(cluster)}/create-endpoint`);
  return (
    <SpaceBetween size="m">
      <ProblemAlert error={read.error} action={<Button onClick={() => void read.refetch()}>Try again</Button>} />
      <DataTable
        items={read.data?.items ?? []}
        trackBy={(each) => `${each.kind}/${each.namespace}/${each.name}`}
        wrapLines
        loading={read.isPending}
        loadingText="Reading what serves"
        ariaLabels={{ tableLabel: "Served models" }}
        empty={<EmptyState error={read.error} title="Nothing serves a model" says="Let the inference operator serve one, or deploy a server of your own." action={<Button onClick={create}>Create an endpoint</Button>} />}
        filter={
          <SpaceBetween size="xs" direction="horizontal">
            <TextFilter filteringText={contains} filteringPlaceholder="Find by name" filteringAriaLabel="Find served models" onChange={({ detail }) => setContains(detail.filteringText)} />
            <Select selectedOption={paths.find((each) => each.value === path)!} options={paths} ariaLabel="Path" onChange={({ detail }) => setPath(detail.selectedOption.value ?? "")} />
          </SpaceBetween>
        }
        pagination={<Pagination {...pages.props(read.data?.cursor)} />}
        header={
          <ListHeader title="Served models" counter={read.data ? `(${read.data.total})` : undefined} onRefresh={() => void read.refetch()}>
            <Button variant="primary" onClick={create}>
              Create an endpoint
            </Button>
          </ListHeader>
        }
        columnDefinitions={[
          { id: "name", header: "Name", isRowHeader: true, cell: (each) => <RouterLink href={addressOf({ cluster, ...each })}>{`${each.namespace}/${each.name}`}</RouterLink> },
          { id: "state", header: "State", minWidth: 190, cell: (each) => <StateOf served={each} /> },
          { id: "path", header: "Path", cell: (each) => PATHS[each.path] ?? each.path },
          { id: "part", extra: true, header: "Part", cell: (each) => words(each.part.replace(/-/g, " ")) },
          { id: "model", header: "Model", minWidth: 180, cell: (each) => <Text>{each.model ?? "-"}</Text> },
          { id: "engine", extra: true, header: "Engine", cell: (each) => each.engine },
          { id: "ready", header: "Ready", cell: (each) => `${each.ready}/${each.replicas}` },
          { id: "load", header: "Running, waiting", cell: (each) => (each.running === null || each.running === undefined ? "-" : `${each.running}, ${each.waiting ?? 0}`) },
          { id: "created", header: "Made", cell: (each) => (each.created_at ? <TimeAgo at={each.created_at} /> : "-") },
        ]}
      />
    </SpaceBetween>
  );
}

/** A state with its colour, and why in one sentence. */
export function StateOf({ served }: { served: Served }) {
  return (
    <>
      <Status status={SIGNS[served.state] ?? "unknown"}>{words(served.state)}</Status>
      {served.why && (
        <Box color="text-body-secondary" fontSize="body-s">
          <Text>{served.why}</Text>
        </Box>
      )}
    </>
  );
}
