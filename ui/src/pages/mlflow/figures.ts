import type { paramsOf } from "../../api/logStream";

type Point = { x: number; y: number };
/** points: step, milliseconds, value */
export type Curve = { run_id: string; metric: string; points: readonly (readonly (number | null)[])[] };
export type Axis = "step" | "time";

/** A number as a person reads it: four digits that count. */
export function figure(value: number | null | undefined): string {
  if (value === null || value === undefined) return "-";
  if (value !== 0 && (Math.abs(value) < 0.001 || Math.abs(value) >= 1e7)) return value.toExponential(3);
  return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(4)));
}

/** The names that most of these have, the commonest first. */
export function namesOf(all: readonly Record<string, unknown>[], most: number): string[] {
  const counts = new Map<string, number>();
  for (const each of all) for (const name of Object.keys(each)) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).slice(0, most).map(([name]) => name);
}

/** The curves of one metric, by run: over steps, or over seconds since each run's first point. What is no number is left out. */
export function curvesOf(series: readonly Curve[], metric: string, axis: Axis): Map<string, Point[]> {
  const curves = new Map<string, Point[]>();
  for (const each of series) {
    if (each.metric !== metric) continue;
    const points = each.points as readonly (readonly [number, number, number | null])[];
    const first = points[0]?.[1] ?? 0;
    curves.set(each.run_id, points.flatMap(([step, at, value]) => (value === null ? [] : [{ x: axis === "step" ? step : (at - first) / 1000, y: value }])));
  }
  return curves;
}

/** Where the runs are downloaded as CSV, with the filters of the page. */
export function exportAddress(cluster: string, asked: { tracking: string; experiments: readonly string[]; filter: string }, params: typeof paramsOf): string {
  const query = params({ tracking: asked.tracking, filter: asked.filter } as Parameters<typeof paramsOf>[0]);
  const experiments = asked.experiments.map((each) => `&experiment=${encodeURIComponent(each)}`).join("");
  return `/api/v1/clusters/${encodeURIComponent(cluster)}/training-runs/export?${query}${experiments}`;
}
