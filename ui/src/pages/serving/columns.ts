import type { Schemas } from "../../api/client";

export const FREE = "unassigned";
const RETIRING = "retiring";

/** One column of the board. `takes`: workers may be moved there and away; `wanted`: how many the business is to have. */
export interface Column {
  business: string;
  title: string;
  takes: boolean;
  wanted?: number;
  service?: string;
  workers: Schemas["PoolWorker"][];
}

/** The columns of a pool: the free ones, each business, and whoever is on the way out or bears a stranger's label. */
export function columnsOf(pool: Schemas["PoolItem"]): Column[] {
  const of = (business: string) => pool.workers.filter((each) => (each.business ?? FREE) === business);
  const bound = pool.bindings.map((each) => ({ business: each.business, title: each.business, takes: true, wanted: each.workers, service: each.service, workers: of(each.business) }));
  const known = new Set([FREE, ...pool.bindings.map((each) => each.business)]);
  const others = [...new Set(pool.workers.map((each) => each.business ?? FREE))].filter((each) => !known.has(each)).sort();
  return [
    { business: FREE, title: "Free", takes: true, workers: of(FREE) },
    ...bound,
    ...others.map((business) => ({ business, title: business === RETIRING ? "On the way out" : business, takes: false, workers: of(business) })),
  ];
}
