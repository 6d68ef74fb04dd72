import { describe, expect, it } from "vitest";
import type { LogEvent } from "../../api/logStream";
import { LogBuffer, shownOf } from "./buffer";

const lines = (source: string, ...texts: string[]): LogEvent => ({ type: "lines", source, position: "", lines: texts.length, text: texts.map((each) => `${each}\n`).join("") });
const settled: LogEvent = { type: "settled", sources: 2 };
const texts = (buffer: LogBuffer) => buffer.lines.map((each) => each.text);

describe("LogBuffer", () => {
  it("puts what was there at first in the order of time once all of it has come", () => {
    const buffer = new LogBuffer();
    buffer.take([lines("a", "2026-01-01T00:00:01Z one", "2026-01-01T00:00:03Z three")]);
    expect(buffer.lines).toHaveLength(0);
    buffer.take([lines("b", "2026-01-01T00:00:02Z two", "2026-01-01T00:00:04Z  four, with spaces "), settled]);
    expect(texts(buffer)).toEqual(["one", "two", "three", " four, with spaces "]);
  });

  it("keeps lines of one time in the order in which they came, and shows one container alone", () => {
    const buffer = new LogBuffer();
    buffer.take([settled, lines("a", "T first", "T second"), lines("b", "T other"), lines("a", "T third")]);
    expect(texts(buffer)).toEqual(["first", "second", "other", "third"]);
    expect(shownOf(buffer.lines, "a").map((each) => each.text)).toEqual(["first", "second", "third"]);
    expect(shownOf(buffer.lines, "")).toBe(buffer.lines);
  });

  it("stands a note behind the last line of its container and tells what was dropped", () => {
    const buffer = new LogBuffer();
    buffer.take([settled, lines("a", "T1 one"), { type: "note", source: "a", text: "restarted" }, lines("b", "T2 two"), { type: "dropped", source: "b", lines: 7 }]);
    expect(buffer.lines.map((each) => each.kind)).toEqual(["line", "note", "line", "dropped"]);
    expect(texts(buffer)[3]).toContain("7 lines");
  });

  it("never grows beyond its bound and counts what it forgot", () => {
    const buffer = new LogBuffer(10_000);
    buffer.take([settled]);
    for (let round = 0; round < 40; round++) buffer.take([lines("a", ...Array.from({ length: 1000 }, (_, n) => `T${String(round).padStart(3, "0")} ${n}`))]);
    expect(buffer.lines.length).toBeLessThanOrEqual(15_000);
    expect(buffer.lines.length + buffer.forgotten).toBe(40_000);
    expect(texts(buffer).at(-1)).toBe("999");
  });

  it("keeps an empty line and begins anew when it is cleared", () => {
    const buffer = new LogBuffer();
    buffer.take([settled, lines("a", "T ")]);
    expect(texts(buffer)).toEqual([""]);
    buffer.clear();
    expect([buffer.lines.length, buffer.places.size, buffer.settled]).toEqual([0, 0, false]);
  });
});
