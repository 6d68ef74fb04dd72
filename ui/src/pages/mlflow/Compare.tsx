import Box from "@cloudscape-design/components/box";
import Container from "@cloudscape-design/components/container";
import Header from "@cloudscape-design/components/header";
import LineChart from "@cloudscape-design/components/line-chart";
import Multiselect from "@cloudscape-design/components/multiselect";
import SegmentedControl from "@cloudscape-design/components/segmented-control";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Spinner from "@cloudscape-design/components/spinner";
import Toggle from "@cloudscape-design/components/toggle";
import { useState } from "react";
import { $api, type Schemas } from "../../api/client";
import { DataTable } from "../../components/DataTable";
import { ProblemAlert } from "../../components/ProblemAlert";
import { Text } from "../../components/Text";
import { type Axis, type Curve, curvesOf, figure, namesOf } from "./figures";
import type { Run } from "./Runs";

const REFRESH_MS = 5_000;
const FIRST_SHOWN = 4;
const MOST_SHOWN = 10;

/** Runs side by side: their curves, and where their parameters and results differ. */
export function Compare({ cluster, tracking, runs }: { cluster: string; tracking: string; runs: readonly Run[] }) {
  const names = namesOf(runs.map((each) => each.metrics), 100);
  const [wanted, setWanted] = useState<string[] | null>(null);
  const [axis, setAxis] = useState<Axis>("step");
  const shown = (wanted ?? names.slice(0, FIRST_SHOWN)).filter((each) => names.includes(each)).slice(0, MOST_SHOWN);
  const run = runs.map((each) => each.id);
  const moving = runs.some((each) => each.status === "RUNNING");
  const query = { tracking, run, metric: shown, points: 500 };
  const read = $api.useQuery("get", "/api/v1/clusters/{cluster}/training-runs/metrics", { params: { path: { cluster }, query } }, { enabled: shown.length > 0, refetchInterval: moving ? REFRESH_MS : false, placeholderData: (before) => before, retry: false });
  const options = names.map((each) => ({ value: each, label: each }));
  return (
    <SpaceBetween size="l">
      <Container
        header={
          <Header variant="h2" counter={`(${runs.length})`} actions={<SegmentedControl selectedId={axis} options={[{ id: "step", text: "Steps" }, { id: "time", text: "Time" }]} label="Along" onChange={({ detail }) => setAxis(detail.selectedId as Axis)} />}>
            Curves
          </Header>
        }
      >
        <SpaceBetween size="l">
          <Multiselect selectedOptions={options.filter((each) => shown.includes(each.value))} options={options} filteringType="auto" ariaLabel="Metrics" placeholder="Metrics" onChange={({ detail }) => setWanted(detail.selectedOptions.map((each) => each.value!))} />
          <ProblemAlert error={read.error} />
          {read.isPending && shown.length > 0 && <Spinner />}
          {names.length === 0 && <Box color="text-body-secondary">These runs have no metrics yet.</Box>}
          {read.data && shown.map((metric) => <Chart key={metric} metric={metric} series={read.data.series} runs={runs} axis={axis} />)}
        </SpaceBetween>
      </Container>
      {runs.length > 1 && <Differences cluster={cluster} tracking={tracking} run={run} />}
    </SpaceBetween>
  );
}

function Chart({ metric, series, runs, axis }: { metric: string; series: readonly Curve[]; runs: readonly Run[]; axis: Axis }) {
  const curves = curvesOf(series, metric, axis);
  const drawn = runs.flatMap((each) => (curves.get(each.id)?.length ? [{ title: `${each.name} (${each.id.slice(0, 6)})`, type: "line" as const, data: curves.get(each.id)! }] : []));
  return (
    <LineChart
      series={drawn}
      height={220}
      xScaleType="linear"
      xTitle={axis === "step" ? "Step" : "Seconds since the start"}
      yTitle={metric}
      hideFilter
      ariaLabel={`Curves of ${metric}`}
      yTickFormatter={(value) => figure(value)}
      xTickFormatter={(value) => figure(value)}
      empty={<Box textAlign="center">No points of {metric} yet.</Box>}
    />
  );
}

function Differences({ cluster, tracking, run }: { cluster: string; tracking: string; run: string[] }) {
  const [all, setAll] = useState(false);
  const read = $api.useQuery("get", "/api/v1/clusters/{cluster}/training-runs/compare", { params: { path: { cluster }, query: { tracking, run } } }, { retry: false });
  const rows = read.data ? [...read.data.params, ...read.data.metrics].filter((each) => all || each.differs) : [];
  return (
    <SpaceBetween size="m">
      <ProblemAlert error={read.error} />
      <DataTable
        items={rows}
        trackBy="name"
        wrapLines
        contentDensity="compact"
        loading={read.isPending}
        loadingText="Comparing"
        ariaLabels={{ tableLabel: "Differences of the runs" }}
        header={
          <Header variant="h2" actions={<Toggle checked={all} onChange={({ detail }) => setAll(detail.checked)}>Also what is the same</Toggle>}>
            Parameters and results
          </Header>
        }
        empty={<Box textAlign="center">Nothing differs.</Box>}
        columnDefinitions={[
          { id: "name", header: "Name", isRowHeader: true, cell: (each) => <Text>{each.name}</Text> },
          ...(read.data?.runs ?? []).map((one, at) => ({ id: one.id, header: one.name, cell: (each: Schemas["Difference"]) => <Text>{shownValue(each.values[at])}</Text> })),
        ]}
      />
    </SpaceBetween>
  );
}

const shownValue = (value: unknown) => (typeof value === "number" ? figure(value) : value === null || value === undefined ? "-" : String(value));
