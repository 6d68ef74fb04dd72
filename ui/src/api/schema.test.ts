import { describe, expect, it } from "vitest";
import openapi from "../../../docs/openapi.json";
import { parse } from "../components/SchemaField";
import { fieldsOf } from "./schema";

const document = openapi as unknown as Parameters<typeof fieldsOf>[0];

describe("the fields of a request, from the server's own document", () => {
  it("every field of the create form has a kind and something to say", () => {
    const fields = fieldsOf(document, "CreateCluster");
    const silent = fields.filter((each) => !each.description && each.name !== "subnet_ids").map((each) => each.name);
    expect(silent).toEqual([]);
    const kinds = Object.fromEntries(fields.map((each) => [each.name, each.kind]));
    expect(kinds).toMatchObject({ tag: "string", instance_count: "integer", capacity_type: "choice", read_only: "boolean", deep_health_checks: "choices", subnet_ids: "strings" });
    expect(fields.filter((each) => each.required).map((each) => each.name).sort()).toEqual(["instance_type", "zone"]);
  });

  it("a choice behind a reference is a choice", () => expect(fieldsOf(document, "NewToken").find((each) => each.name === "role")?.choices).toEqual(["viewer", "operator", "admin"]));

  it("an empty answer is left out, and a number that is none is left to the server to refuse", () => {
    const count = fieldsOf(document, "CreateCluster").find((each) => each.name === "instance_count")!;
    expect([parse(count, ""), parse(count, "3"), parse(count, "3x")]).toEqual([undefined, 3, "3x"]);
  });
});
