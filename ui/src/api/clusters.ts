import { useQuery } from "@tanstack/react-query";
import { api, type Schemas } from "./client";

export type Cluster = Schemas["ClusterView"];

const PAGE = 200;
const MOST_PAGES = 10;
const REFRESH_MS = 15_000;
const BUSY_REFRESH_MS = 4_000;

/** Every cluster, page after page, so that the table can sort and filter all of them. */
async function readClusters(): Promise<{ items: Cluster[]; page: Schemas["ClusterPage"] }> {
  const items: Cluster[] = [];
  let cursor: string | undefined;
  for (let pages = 1; ; pages++) {
    const { data } = await api.GET("/api/v1/clusters", { params: { query: { limit: PAGE, cursor } } });
    if (!data) throw new Error("The server answered no clusters.");
    items.push(...data.items);
    if (!data.cursor || pages === MOST_PAGES) return { items, page: data };
    cursor = data.cursor;
  }
}

export function useClusters() {
  return useQuery({ queryKey: ["get", "/api/v1/clusters", "all"], queryFn: readClusters, refetchInterval: ({ state }) => refresh(state.data?.items ?? []) });
}

/** How often to look: more often while something works on one of them. */
export function refresh(clusters: readonly Cluster[]): number {
  return clusters.some((each) => each.operation) ? BUSY_REFRESH_MS : REFRESH_MS;
}
