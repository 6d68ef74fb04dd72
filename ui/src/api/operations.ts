import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useEffect, useMemo, useSyncExternalStore } from "react";
import { $api, api } from "./client";
import { reportAway } from "./presence";
import { type Operation, OperationStream } from "./stream";

const HELD = new Set<Operation["status"]>(["queued", "awaiting_approval", "running", "waiting", "blocked"]);

/** Whether an operation has not ended. */
export const isActive = (operation: Operation) => HELD.has(operation.status);

/** One operation, live. The first picture comes by REST, everything after it over the stream. */
export function useOperation(id: string) {
  const first = $api.useQuery("get", "/api/v1/operations/{operation_id}", { params: { path: { operation_id: id } } });
  const stream = useMemo(() => new OperationStream(id), [id]);
  const live = useSyncExternalStore(stream.subscribe, stream.snapshot);
  const cache = useQueryClient();
  const isAway = live.connection === "away";
  useEffect(() => {
    if (live.connection !== "connecting") reportAway(isAway);
  }, [live.connection, isAway]);
  const status = live.operation?.status;
  useEffect(() => {
    // what the operation changed is to be read anew
    if (status) void cache.invalidateQueries({ predicate: (query) => String(query.queryKey[1]).startsWith("/api/v1/clusters") });
  }, [status, cache]);
  return { operation: live.operation ?? first.data, events: live.events, connection: live.connection, error: live.problem ?? first.error, reopen: stream.reopen };
}

const ACTS = {
  retry: "/api/v1/operations/{operation_id}:retry",
  cancel: "/api/v1/operations/{operation_id}:cancel",
  approve: "/api/v1/operations/{operation_id}:approve",
  reject: "/api/v1/operations/{operation_id}:reject",
} as const;

export type Act = keyof typeof ACTS;

/** What a person may do to an operation. */
export function useActs(id: string, then: () => void) {
  const act = useMutation({
    mutationFn: (which: Act) => api.POST(ACTS[which], { params: { path: { operation_id: id } } }),
    onSuccess: then,
  });
  return { perform: act.mutate, pending: act.isPending ? act.variables : null, error: act.error };
}
