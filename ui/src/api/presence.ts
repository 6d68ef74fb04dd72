import { useSyncExternalStore } from "react";

/** Whether the server answers: told by every call and by the stream, shown by the shell. */
let away = false;
const listeners = new Set<() => void>();

export function reportAway(now: boolean): void {
  if (now === away) return;
  away = now;
  listeners.forEach((tell) => tell());
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function useServerAway(): boolean {
  return useSyncExternalStore(subscribe, () => away);
}
