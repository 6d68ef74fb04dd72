import { describe, expect, it } from "vitest";
import { bodyOf, linesOf, mappingOf, pairsOf, patchOf, wordsOf } from "./settings";

describe("settings of an endpoint", () => {
  it("keep words whole, whatever is in them", () => {
    const words = ["--config", '{"a": "b, c"}', "--x='y z'"];
    expect(wordsOf(linesOf(words))).toEqual(words);
    expect(mappingOf(pairsOf({ A: "b=c", B: "" }))).toEqual({ A: "b=c", B: "" });
  });

  it("leave out what was left empty, in groups too", () => {
    expect(bodyOf({ name: "q", replicas: undefined, server: { image: "", port: 8000 }, cache: { l1: undefined }, instance_types: [] })).toEqual({ name: "q", server: { port: 8000 } });
    expect(bodyOf({ server: { accelerators: 0 }, cache: { l1: false } })).toEqual({ server: { accelerators: 0 }, cache: { l1: false } });
  });

  it("become a patch of what differs, with null for what goes", () => {
    const before = { replicas: 1, server: { image: "a", env: { A: "1", B: "2" } }, cache: { l1: true } };
    expect(patchOf(before, before)).toEqual({});
    expect(patchOf(before, { replicas: 2, server: { image: "a", env: { A: "1" } } })).toEqual({ replicas: 2, server: { env: { A: "1" } }, cache: null });
    expect(patchOf(before, { ...before, server: { env: before.server.env } })).toEqual({ server: { image: null } });
  });
});
