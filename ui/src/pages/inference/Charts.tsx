import Box from "@cloudscape-design/components/box";
import ColumnLayout from "@cloudscape-design/components/column-layout";
import LineChart from "@cloudscape-design/components/line-chart";
import SpaceBetween from "@cloudscape-design/components/space-between";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import { $api, type Schemas } from "../../api/client";
import { ProblemAlert } from "../../components/ProblemAlert";
import type { Place } from "./acts";

const LOOK_MS = 5_000;
type Sample = Schemas["Sample"];
type Measure = Exclude<keyof Sample, "at" | "replicas" | "unread">;
const CHARTS: { title: string; unit: string; lines: [Measure, string][] }[] = [
  { title: "Requests", unit: "requests", lines: [["running", "Running"], ["waiting", "Waiting"]] },
  { title: "Tokens a second", unit: "tokens/s", lines: [["generated_tokens_per_second", "Generated"], ["prompt_tokens_per_second", "Read"]] },
  { title: "Key-value cache in use", unit: "share", lines: [["cache", "Share"]] },
  { title: "Time to first token", unit: "ms", lines: [["first_token_ms", "First token"], ["latency_ms", "Whole answer"]] },
];

/** What the servers measure of themselves, read while somebody looks. */
export function Charts({ place }: { place: Place }) {
  const read = $api.useQuery("get", "/api/v1/clusters/{cluster}/served-models/{namespace}/{name}/metrics", { params: { path: { ...place } } }, { refetchInterval: LOOK_MS });
  const samples = read.data?.samples ?? [];
  const newest = samples.at(-1);
  return (
    <SpaceBetween size="m">
      <ProblemAlert error={read.error} />
      {read.data?.trouble && <StatusIndicator type="warning">{read.data.trouble}</StatusIndicator>}
      {newest && <Box color="text-body-secondary">{`Of ${newest.replicas} replicas${newest.unread ? `; ${newest.unread} could not be read` : ""}. The history begins when somebody looks.`}</Box>}
      <ColumnLayout columns={2}>
        {CHARTS.map((each) => (
          <Chart key={each.title} {...each} samples={samples} loading={read.isPending} />
        ))}
      </ColumnLayout>
    </SpaceBetween>
  );
}

function Chart({ title, unit, lines, samples, loading }: (typeof CHARTS)[number] & { samples: readonly Sample[]; loading: boolean }) {
  const series = lines.map(([measure, name]) => ({ title: name, type: "line" as const, data: pointsOf(samples, measure), valueFormatter: (value: number) => `${round(value)} ${unit}` }));
  const values = series.flatMap((each) => each.data.map((point) => point.y));
  const times = samples.map((each) => new Date(each.at));
  return (
    <div>
      <Box variant="h3" padding={{ bottom: "s" }}>
        {title}
      </Box>
      <LineChart
        series={series}
        xScaleType="time"
        xDomain={times.length > 1 ? [times[0]!, times.at(-1)!] : undefined}
        yDomain={[0, unit === "share" ? 1 : Math.max(1, ...values) * 1.1]}
        height={180}
        hideFilter
        hideLegend={lines.length === 1}
        xTickFormatter={(time) => time.toLocaleTimeString()}
        yTickFormatter={(value) => String(round(value))}
        statusType={loading ? "loading" : "finished"}
        loadingText="Reading"
        ariaLabel={title}
        empty={<Box color="text-body-secondary">Nothing was measured yet.</Box>}
      />
    </div>
  );
}

const round = (value: number) => (value >= 10 ? Math.round(value) : Math.round(value * 100) / 100);

/** The points of one measure; looks at which it was not measured are left out. */
function pointsOf(samples: readonly Sample[], measure: Measure) {
  return samples.filter((each) => typeof each[measure] === "number").map((each) => ({ x: new Date(each.at), y: each[measure] as number }));
}
