import { cleanup, render, screen } from "@testing-library/react";
import { afterEach, describe, expect, it } from "vitest";
import type { Schemas } from "../api/client";
import type { Operation } from "../api/stream";
import { OperationProgress } from "./OperationProgress";

type Stage = Schemas["StageView"];

function stage(part: Partial<Stage>): Stage {
  const plain = { name: "one", says: "Do one thing", status: "pending", because: null, since: null, elapsed_seconds: 0, typical_seconds: 0 } as const;
  return { ...plain, slow: false, progress: null, attempt: 1, problem: null, learned: {}, ...part };
}

function operation(stages: Stage[], part: Partial<Operation> = {}): Operation {
  const times = { created_at: "2026-11-30T12:00:00Z", started_at: null, ended_at: null, elapsed_seconds: 65, typical_seconds: 600, slow: false };
  const plain = { id: "op-1", workflow: "anything.do", title: "Do anything", subject: "x/y", cluster: null, caller: "id-1", spec: {}, seq: 1, cancelling: false };
  return { ...plain, ...times, status: "running", problem: null, next_step: null, result: null, next_check_in_seconds: 1, stages, ...part };
}

afterEach(cleanup);

describe("OperationProgress", () => {
  it("draws the stages of a workflow it has never heard of, in their order", () => {
    render(<OperationProgress operation={operation([stage({ says: "First", status: "done" }), stage({ says: "Second", status: "running" }), stage({ says: "Third" })])} />);
    expect([...document.querySelectorAll("[data-stage]")].map((each) => each.textContent)).toEqual(["First", "Second", "Third"]);
    expect(screen.getByText("1 of 3 stages")).toBeTruthy();
  });

  it("tells elapsed beside usual time, why it waits, and how far it has come", () => {
    const waiting = stage({ status: "waiting", because: "3/8 nodes Running: no capacity in the zone", progress: { done: 3, total: 8, unit: "nodes" }, elapsed_seconds: 125, typical_seconds: 300 });
    render(<OperationProgress operation={operation([waiting])} />);
    expect(screen.getByText("2 min 5 s, usually 5 min")).toBeTruthy();
    expect(screen.getByText("3/8 nodes Running: no capacity in the zone")).toBeTruthy();
    expect(screen.getByText("3/8 nodes")).toBeTruthy();
  });

  it("marks a slow stage and a repeated one", () => {
    render(<OperationProgress operation={operation([stage({ status: "running", slow: true, attempt: 2 })])} />);
    expect(screen.getByText("slow")).toBeTruthy();
    expect(screen.getByText("attempt 2")).toBeTruthy();
  });

  it("tells a failed stage's problem with its hint, as text and never as markup", () => {
    const problem = { type: "urn:x", title: "Quota too low", status: 409, kind: "out_of_quota", code: "a.b", detail: "<img src=x onerror=alert(1)>", hint: "Ask for more.", retryable: false };
    render(<OperationProgress operation={operation([stage({ status: "failed", problem })], { status: "failed" })} />);
    expect(screen.getByText("Quota too low")).toBeTruthy();
    expect(screen.getByText("<img src=x onerror=alert(1)>")).toBeTruthy();
    expect(document.querySelector("img")).toBeNull();
    expect(document.body.textContent).toContain("Ask for more.");
  });

  it("no longer tells why a finished stage once waited", () => {
    render(<OperationProgress operation={operation([stage({ status: "done", because: "It was creating" })], { status: "succeeded" })} />);
    expect(screen.queryByText("It was creating")).toBeNull();
  });
});
