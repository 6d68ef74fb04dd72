import { describe, expect, it } from "vitest";
import type { Schemas } from "../../api/client";
import { columnsOf } from "./columns";

const worker = (name: string, business: string | null) => ({ name, business, ready: true, leaving: false, node: null, why: null });
const pool = (workers: Schemas["PoolWorker"][]) =>
  ({ workers, bindings: [{ business: "chat", service: "warm-chat", port: 30000, workers: 2, bound: 1, ready: 1 }] }) as unknown as Schemas["PoolItem"];

describe("the board of a pool", () => {
  it("shows the free ones first, then each business with what it is to have", () => {
    const columns = columnsOf(pool([worker("a", "unassigned"), worker("b", "chat")]));
    expect(columns.map((each) => [each.business, each.workers.length, each.wanted, each.takes])).toEqual([
      ["unassigned", 1, undefined, true],
      ["chat", 1, 2, true],
    ]);
  });

  it("shows who is on the way out, and labels that no binding has, where nobody can be moved to", () => {
    const columns = columnsOf(pool([worker("a", "retiring"), worker("b", "stray"), worker("c", null)]));
    expect(columns.filter((each) => !each.takes).map((each) => each.title)).toEqual(["On the way out", "stray"]);
    expect(columns[0]!.workers.map((each) => each.name)).toEqual(["c"]);
  });
});
