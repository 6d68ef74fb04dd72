import { describe, expect, it } from "vitest";
import type { FieldSchema } from "../api/schema";
import { parse, textOf } from "./SchemaField";

const field = (kind: FieldSchema["kind"]): FieldSchema => ({ name: "x", kind, description: "", required: false, choices: [] });

describe("what is typed", () => {
  it("a list has no empty items, also while its next one is awaited", () => {
    expect(parse(field("strings"), "a, ")).toEqual(["a"]);
    expect(parse(field("strings"), "a,b , c")).toEqual(["a", "b", "c"]);
    expect(parse(field("strings"), "")).toBeUndefined();
  });

  it("a mapping that is none yet stays text, for the server to refuse", () => {
    expect(parse(field("mapping"), "a=1, b=x=y,")).toEqual({ a: "1", b: "x=y" });
    expect(parse(field("mapping"), "a=1, b")).toBe("a=1, b");
  });

  it("is shown as it was meant", () => expect(textOf({ a: "1", b: "2" })).toBe("a=1, b=2"));
});
