import StatusIndicator, { type StatusIndicatorProps } from "@cloudscape-design/components/status-indicator";

/** The one map from a status word to its colour and sign. */
const TYPES: Record<string, StatusIndicatorProps.Type> = {
  // operations and stages
  queued: "pending",
  pending: "pending",
  awaiting_approval: "warning",
  running: "in-progress",
  waiting: "in-progress",
  blocked: "warning",
  succeeded: "success",
  done: "success",
  skipped: "not-started",
  failed: "error",
  cancelled: "stopped",
  // clusters
  creating: "in-progress",
  deleting: "in-progress",
  ready: "success",
  incomplete: "warning",
  gone: "stopped",
  not_managed: "info",
  unreadable: "error",
  missing: "pending",
  // features and links
  off: "stopped",
  on: "success",
  installing: "in-progress",
  removing: "in-progress",
  drifted: "warning",
  wrong: "error",
  // findings
  ok: "success",
  warn: "warning",
  fail: "error",
  unknown: "info",
  // components and claims
  waiting_for_nodes: "in-progress",
  progressing: "in-progress",
  absent: "pending",
  active: "success",
  degraded: "warning",
  create_failed: "error",
  bound: "success",
  lost: "error",
  // AWS's own
  inservice: "success",
  systemupdating: "in-progress",
  updating: "in-progress",
  failure: "error",
  deephealthcheckinprogress: "in-progress",
  // training jobs
  starting: "in-progress",
  recovering: "warning",
  suspended: "stopped",
  ending: "in-progress",
  // events
  info: "info",
  warning: "warning",
  error: "error",
};

export function statusType(status: string): StatusIndicatorProps.Type {
  return TYPES[status.toLowerCase()] ?? "info";
}

/** "awaiting_approval" as a person reads it. */
export function words(status: string): string {
  const spaced = status.replace(/_/g, " ");
  return spaced.charAt(0).toUpperCase() + spaced.slice(1);
}

export function Status({ status, children }: { status: string; children?: React.ReactNode }) {
  return <StatusIndicator type={statusType(status)}>{children ?? words(status)}</StatusIndicator>;
}
