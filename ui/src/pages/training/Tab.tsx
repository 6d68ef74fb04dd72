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
import { type PlannedAct, PlannedActModal } from "../../components/PlannedAct";
import { ProblemAlert } from "../../components/ProblemAlert";
import { RouterLink } from "../../components/RouterLink";
import { Status, words } from "../../components/Status";
import { Text } from "../../components/Text";
import { TimeAgo } from "../../components/TimeAgo";
import { addressOf, endJob, type Kind, KINDS, resubmitJob } from "./acts";
import { LogRuleTrial } from "./LogRuleTrial";

const REFRESH_MS = 5_000;
const PAGE_SIZE = 25;
type Job = Schemas["TrainingJobItem"];
const STATUSES = ["queued", "pending", "running", "recovering", "suspended", "succeeded", "failed", "ending"];
const ANY = { value: "", label: "Any status" };
const BOTH = { value: "", label: "Any kind" };

/** Training jobs of every kind, and what their log rules would say. */
export function TrainingTab({ cluster }: { cluster: string }) {
  const [act, setAct] = useState<PlannedAct | null>(null);
  return (
    <SpaceBetween size="l">
      <Jobs cluster={cluster} onAct={setAct} />
      <LogRuleTrial />
      {act && <PlannedActModal act={act} onClose={() => setAct(null)} />}
    </SpaceBetween>
  );
}

function Jobs({ cluster, onAct }: { cluster: string; onAct: (act: PlannedAct) => void }) {
  const navigate = useNavigate();
  const [contains, setContains] = useState("");
  const [kind, setKind] = useState("");
  const [status, setStatus] = useState("");
  const [chosen, setChosen] = useState<Job[]>([]);
  const pages = useCursors(`${cluster}/${contains}/${kind}/${status}`);
  const query = { limit: PAGE_SIZE, cursor: pages.cursor, contains, kind: (kind || undefined) as Kind | undefined, status: (status || undefined) as Job["status"] | undefined };
  const read = $api.useQuery("get", "/api/v1/clusters/{cluster}/training-jobs", { params: { path: { cluster }, query } }, { refetchInterval: REFRESH_MS, placeholderData: (before) => before });
  const one = chosen[0];
  const kinds = [BOTH, ...Object.entries(KINDS).map(([value, label]) => ({ value, label }))];
  const statuses = [ANY, ...STATUSES.map((value) => ({ value, label: words(value) }))];
  return (
    <SpaceBetween size="m">
      <ProblemAlert error={read.error} action={<Button onClick={() => void read.refetch()}>Try again</Button>} />
      <DataTable
        items={read.data?.items ?? []}
        trackBy={(each) => `${each.kind}/${each.namespace}/${each.name}`}
        selectionType="single"
        selectedItems={chosen}
        onSelectionChange={({ detail }) => setChosen(detail.selectedItems)}
        wrapLines
        loading={read.isPending}
        loadingText="Reading the jobs"
        ariaLabels={{ tableLabel: "Training jobs", selectionGroupLabel: "Choose a job", itemSelectionLabel: (_, each) => each.name }}
        empty={<EmptyState error={read.error} title="No training jobs" says="Submit one: a PyTorch script, LLaMA-Factory, MS-Swift, VERL or a container of your own." action={<Button onClick={() => navigate(`/clusters/${cluster}/submit-job`)}>Submit a job</Button>} />}
        filter={
          <SpaceBetween size="xs" direction="horizontal">
            <TextFilter filteringText={contains} filteringPlaceholder="Find by name or framework" filteringAriaLabel="Find jobs" onChange={({ detail }) => setContains(detail.filteringText)} />
            <Select selectedOption={kinds.find((each) => each.value === kind)!} options={kinds} ariaLabel="Kind" onChange={({ detail }) => setKind(detail.selectedOption.value ?? "")} />
            <Select selectedOption={statuses.find((each) => each.value === status)!} options={statuses} ariaLabel="Status" onChange={({ detail }) => setStatus(detail.selectedOption.value ?? "")} />
          </SpaceBetween>
        }
        pagination={<Pagination {...pages.props(read.data?.cursor)} />}
        header={
          <ListHeader title="Training jobs" counter={read.data ? `(${read.data.total})` : undefined} description={read.data?.unknown ?? undefined} onRefresh={() => void read.refetch()}>
            <Button disabled={!one} onClick={() => one && onAct(endJob(cluster, one))}>
              End
            </Button>
            <Button disabled={!one?.made_here} onClick={() => one && onAct(resubmitJob(cluster, one))}>
              Submit again
            </Button>
            <Button variant="primary" onClick={() => navigate(`/clusters/${cluster}/submit-job`)}>
              Submit a job
            </Button>
          </ListHeader>
        }
        columnDefinitions={[
          { id: "name", header: "Job", isRowHeader: true, cell: (each) => <RouterLink href={addressOf(cluster, each)}>{`${each.namespace}/${each.name}`}</RouterLink> },
          { id: "status", header: "Status", minWidth: 150, cell: (each) => <StatusOf job={each} /> },
          { id: "kind", header: "Kind", cell: (each) => KINDS[each.kind] ?? each.kind },
          { id: "framework", header: "Framework", cell: (each) => (each.framework ? words(each.framework) : "-") },
          { id: "nodes", header: "Nodes", cell: (each) => `${each.nodes}${each.instance_type ? ` x ${each.instance_type}` : ""}` },
          { id: "pods", header: "Pods ready", cell: (each) => `${each.pods_ready}/${each.pods}` },
          { id: "restarts", extra: true, header: "Restarts", cell: (each) => each.restarts },
          { id: "created", header: "Made", cell: (each) => (each.created_at ? <TimeAgo at={each.created_at} /> : "-") },
        ]}
      />
    </SpaceBetween>
  );
}

function StatusOf({ job }: { job: Job }) {
  return (
    <>
      <Status status={job.status} />
      {job.because && (
        <Box color="text-body-secondary" fontSize="body-s">
          <Text>{job.because}</Text>
        </Box>
      )}
    </>
  );
}
