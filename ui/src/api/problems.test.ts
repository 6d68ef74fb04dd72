import { describe, expect, it } from "vitest";
import { fieldOf, fromResponse, isAway, landOnFields, type Problem, ProblemError, problemOf, within } from "./problems";

const refused = (fields: { pointer: string; message: string }[]): Problem => ({
  type: "urn:instantstart:problem:request.invalid",
  code: "request.invalid",
  kind: "invalid",
  status: 422,
  title: "The request is not valid",
  detail: "Not valid.",
  retryable: false,
  fields,
});

describe("a refusal lands on its fields", () => {
  it("by pointer, also from inside a list", () => {
    const { byField, others } = landOnFields(refused([{ pointer: "/zone", message: "zone is required." }, { pointer: "/subnet_ids/1", message: "No such subnet." }]), ["zone", "subnet_ids"]);
    expect(byField).toEqual({ zone: "zone is required.", subnet_ids: "No such subnet." });
    expect(others).toEqual([]);
  });

  it("with every message of one field", () => {
    expect(landOnFields(refused([{ pointer: "/tag", message: "Too long." }, { pointer: "/tag", message: "Not ours." }]), ["tag"]).byField).toEqual({ tag: "Too long. Not ours." });
  });

  it("and what no field shows is kept to be told elsewhere", () => {
    const { byField, others } = landOnFields(refused([{ pointer: "", message: "Needs one of two." }, { pointer: "/instance_quota", message: "Quota 2." }]), ["tag"]);
    expect(byField).toEqual({});
    expect(others.map((each) => each.message)).toEqual(["Needs one of two.", "Quota 2."]);
  });

  it("also of a form that asks for one part of the body", () => {
    const error = new ProblemError({ ...refused([{ pointer: "/keda/version", message: "keda.version must be text." }, { pointer: "/kedab/x", message: "Else." }]), detail: "keda.version must be text." });
    const seen = problemOf(within("keda", error));
    expect(seen.detail).toBe("version must be text.");
    expect(landOnFields(seen, ["version"])).toEqual({ byField: { version: "version must be text." }, others: [{ pointer: "/kedab/x", message: "Else." }] });
  });

  it("with the escapes of RFC 6901", () => expect(fieldOf("/a~1b~0c/0")).toBe("a/b~c"));
});

describe("whatever answers becomes a Problem", () => {
  it("the server's own as it is", async () => {
    const problem = refused([]);
    const error = await fromResponse(new Response(JSON.stringify(problem), { status: 422 }));
    expect(error.problem).toEqual(problem);
  });

  it("a proxy's page by its status, without its text", async () => {
    const error = await fromResponse(new Response("<h1>no</h1>", { status: 500 }));
    expect(error.problem.detail).toBe("The server answered 500.");
    expect(isAway(await fromResponse(new Response("<h1>bad gateway</h1>", { status: 502 })))).toBe(true);
  });

  it("a crash of the console's own", () => expect(problemOf(new Error("boom")).detail).toBe("boom"));
});
