import { describe, expect, it } from "vitest";
import { bodyOf, hiddenFor, linesOf, mappingOf, pairsOf, patchOf, wordsOf } from "./settings";

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

  it("show only what belongs to the chosen type, and what was answered", () => {
    const field = (name: string, description: string, choices: string[] = []) => ({ name, description, choices });
    const fields = [field("type", "s3 or fsx", ["s3", "fsx"]), field("bucket", "s3: the bucket."), field("location", "s3, fsx: folder."), field("id", "fsx: its id."), field("prefetch", "Read it first: not always.")];
    expect(hiddenFor(fields, { type: "s3" })).toEqual(["id"]);
    expect(hiddenFor(fields, { type: "fsx", bucket: "b" })).toEqual([]);
  });

  it("become a patch of what differs, with null for what goes", () => {
    const before = { replicas: 1, server: { image: "a", env: { A: "1", B: "2" } }, cache: { l1: true } };
    expect(patchOf(before, before)).toEqual({});
    expect(patchOf(before, { replicas: 2, server: { image: "a", env: { A: "1" } } })).toEqual({ replicas: 2, server: { env: { A: "1" } }, cache: null });
    expect(patchOf(before, { ...before, server: { env: before.server.env } })).toEqual({ server: { image: null } });
  });
});
