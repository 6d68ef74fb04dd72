import { describe, expect, it } from "vitest";
import { paramsOf } from "../../api/logStream";
import { curvesOf, exportAddress, figure, namesOf } from "./figures";

describe("figures", () => {
  it.each([[0.123456, "0.1235"], [2, "2"], [0.00001234, "1.234e-5"], [0, "0"], [null, "-"], [18342.7, "18340"], [123456789, "1.235e+8"]])("shows %s as %s", (value, told) => {
    expect(figure(value)).toBe(told);
  });

  it("names what most have first", () => {
    expect(namesOf([{ b: 1, a: 1 }, { a: 2 }, { c: 1 }], 2)).toEqual(["a", "b"]);
  });

  it("draws curves over steps or seconds, without what is no number", () => {
    const series = [
      { run_id: "r", metric: "loss", points: [[0, 1000, 3], [1, 3000, null], [2, 5000, 1]], total: 3 },
      { run_id: "r", metric: "lr", points: [[0, 1000, 9]], total: 1 },
    ] as unknown as Parameters<typeof curvesOf>[0];
    expect(curvesOf(series, "loss", "step").get("r")).toEqual([{ x: 0, y: 3 }, { x: 2, y: 1 }]);
    expect(curvesOf(series, "loss", "time").get("r")).toEqual([{ x: 0, y: 3 }, { x: 4, y: 1 }]);
  });

  it("exports what the page shows", () => {
    expect(exportAddress("c", { tracking: "arn:x", experiments: ["a b"], filter: "metrics.loss < 1" }, paramsOf)).toBe("/api/v1/clusters/c/training-runs/export?tracking=arn%3Ax&filter=metrics.loss+%3C+1&experiment=a%20b");
  });
});
