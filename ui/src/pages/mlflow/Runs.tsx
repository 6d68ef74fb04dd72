import Button from "@cloudscape-design/components/button";
import FormField from "@cloudscape-design/components/form-field";
import Input from "@cloudscape-design/components/input";
import Multiselect from "@cloudscape-design/components/multiselect";
import Pagination from "@cloudscape-design/components/pagination";
import Select from "@cloudscape-design/components/select";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useState } from "react";
import { $api, type Schemas } from "../../api/client";
import { paramsOf } from "../../api/logStream";
import type { Column } from "../../components/columns";
import { DataTable } from "../../components/DataTable";
import { useCursors } from "../../components/cursors";
import { EmptyState } from "../../components/EmptyState";
import { ListHeader } from "../../components/ListHeader";
import { ProblemAlert } from "../../components/ProblemAlert";
import { Status } from "../../components/Status";
import { Text } from "../../components/Text";
import { duration, moment } from "../../components/time";
import type { Server } from "./acts";
import { Compare } from "./Compare";
import { exportAddress, figure, namesOf } from "./figures";

const REFRESH_MS = 10_000;
const PAGE_SIZE = 25;
const MOST_COMPARED = 10;
const MOST_COLUMNS = 4;
export type Run = Schemas["RunItem"];

interface Asked {
  tracking: string;
  experiments: string[];
  filter: string;
}

/** The history of runs: filtered in MLflow's own words, compared, charted, taken away as CSV. */
export function Runs({ cluster, servers }: { cluster: string; servers: readonly Server[] }) {
  const own = servers.find((each) => each.ours) ?? servers[0]!;
  const [asked, setAsked] = useState<Asked>({ tracking: own.arn, experiments: [], filter: "" });
  const [typed, setTyped] = useState("");
  const [chosen, setChosen] = useState<Run[]>([]);
  const pages = useCursors(JSON.stringify([cluster, asked]));
  const query = { tracking: asked.tracking, filter: asked.filter, experiment: asked.experiments.length ? asked.experiments : undefined, limit: PAGE_SIZE, cursor: pages.cursor };
  const read = $api.useQuery("get", "/api/v1/clusters/{cluster}/training-runs", { params: { path: { cluster }, query } }, { refetchInterval: REFRESH_MS, placeholderData: (before) => before, retry: false });
  const experiments = $api.useQuery("get", "/api/v1/clusters/{cluster}/training-experiments", { params: { path: { cluster }, query: { tracking: asked.tracking } } }, { retry: false });
  const runs = read.data?.items ?? [];
  const ask = (part: Partial<Asked>) => {
    setChosen([]);
    setAsked({ ...asked, ...part });
  };
  const options = servers.map((each) => ({ value: each.arn, label: each.name, description: each.kind === "app" ? "App" : "Tracking server" }));
  const names = (experiments.data?.items ?? []).map((each) => ({ value: each.name, label: each.name }));
  return (
    <SpaceBetween size="m">
      <ProblemAlert error={read.error ?? experiments.error} action={<Button onClick={() => void read.refetch()}>Try again</Button>} />
      <DataTable
        items={runs}
        trackBy="id"
        selectionType="multi"
        selectedItems={chosen}
        isItemDisabled={(each) => chosen.length >= MOST_COMPARED && !chosen.some((one) => one.id === each.id)}
        onSelectionChange={({ detail }) => setChosen(detail.selectedItems)}
        wrapLines
        loading={read.isPending}
        loadingText="Reading the runs"
        ariaLabels={{ tableLabel: "Training runs", selectionGroupLabel: "Choose runs", allItemsSelectionLabel: () => "all", itemSelectionLabel: (_, each) => each.name }}
        empty={<EmptyState error={read.error} title="No runs" says="Runs show here as soon as a job logs its first parameter or metric." />}
        pagination={<Pagination {...pages.props(read.data?.cursor)} />}
        header={
          <ListHeader title="Runs" description="Choose up to ten to see their curves and what differs." onRefresh={() => void read.refetch()}>
            <Button iconName="download" href={exportAddress(cluster, asked, paramsOf)} download>
              CSV
            </Button>
          </ListHeader>
        }
        filter={
          <form
            onSubmit={(event) => {
              event.preventDefault();
              ask({ filter: typed.trim() });
            }}
          >
            <SpaceBetween size="xs" direction="horizontal" alignItems="end">
              {servers.length > 1 && (
                <FormField label="MLflow">
                  <Select selectedOption={options.find((each) => each.value === asked.tracking) ?? null} options={options} onChange={({ detail }) => ask({ tracking: detail.selectedOption.value!, experiments: [] })} />
                </FormField>
              )}
              <FormField label="Experiments">
                <Multiselect selectedOptions={names.filter((each) => asked.experiments.includes(each.value))} options={names} placeholder="All" filteringType="auto" onChange={({ detail }) => ask({ experiments: detail.selectedOptions.map((each) => each.value!) })} />
              </FormField>
              <FormField label="Filter, in MLflow's words">
                <Input value={typed} placeholder="metrics.loss < 0.5" spellcheck={false} onChange={({ detail }) => setTyped(detail.value)} />
              </FormField>
              <Button formAction="submit">Filter</Button>
            </SpaceBetween>
          </form>
        }
        columnDefinitions={[...COLUMNS, ...metricColumns(runs)]}
      />
      {chosen.length > 0 && <Compare cluster={cluster} tracking={asked.tracking} runs={chosen} />}
    </SpaceBetween>
  );
}

const COLUMNS: Column<Run>[] = [
  { id: "name", header: "Run", isRowHeader: true, minWidth: 140, cell: (each) => <Text>{each.name}</Text> },
  { id: "experiment", header: "Experiment", cell: (each) => <Text>{each.experiment ?? each.experiment_id}</Text> },
  { id: "status", header: "Status", minWidth: 120, cell: (each) => <Status status={STATUS[each.status] ?? each.status}>{each.status.toLowerCase()}</Status> },
  { id: "started", header: "Started", cell: (each) => (each.started_at ? moment(each.started_at) : "-") },
  { id: "took", header: "Took", cell: (each) => (each.duration_seconds === null || each.duration_seconds === undefined ? "-" : duration(each.duration_seconds)) },
  { id: "job", header: "Job", cell: (each) => each.job ?? "-" },
  { id: "throughput", header: "Throughput", cell: (each) => (each.throughput ? `${figure(each.throughput.value)} ${each.throughput.unit}` : "-") },
];
const STATUS: Record<string, string> = { RUNNING: "running", FINISHED: "succeeded", FAILED: "failed", KILLED: "cancelled", SCHEDULED: "queued" };

/** A column for each of the metrics that most runs of the page have. */
function metricColumns(runs: readonly Run[]): Column<Run>[] {
  return namesOf(runs.map((each) => each.metrics), MOST_COLUMNS).map((name) => ({ id: `metric ${name}`, header: name, cell: (each) => figure(each.metrics[name]) }));
}
