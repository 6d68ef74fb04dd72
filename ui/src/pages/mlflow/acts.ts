import { api, type Schemas } from "../../api/client";
import type { PlannedAct } from "../../components/PlannedAct";

const BASE = "/api/v1/clusters/{cluster}/mlflow";
const ONE = `${BASE}/{kind}/{name}` as const;
export type Server = Schemas["MlflowItem"];
type Kind = "tracking_server" | "app";

export const KINDS: Record<string, string> = { tracking_server: "Tracking server", app: "App" };
const pathOf = (cluster: string, server: Server) => ({ cluster, kind: server.kind as Kind, name: server.name });

export function createServer(cluster: string): PlannedAct {
  return {
    title: "Create a tracking server",
    button: "Create",
    says: "It takes about half an hour, and bills by the hour for its size until it is deleted. Training pods get their way to it.",
    schema: "CreateMlflowServer",
    send: (body, { query: { dry_run }, header }) => api.POST(`${BASE}/tracking_server`, { params: { path: { cluster }, query: { dry_run }, header }, body: body as Schemas["CreateMlflowServer"] }),
  };
}

export function createApp(cluster: string): PlannedAct {
  return {
    title: "Create an MLflow app",
    button: "Create",
    says: "Minutes instead of half an hour, and no size to choose. Training pods get their way to it.",
    schema: "CreateMlflowApp",
    send: (body, { query: { dry_run }, header }) => api.POST(`${BASE}/app`, { params: { path: { cluster }, query: { dry_run }, header }, body: body as Schemas["CreateMlflowApp"] }),
  };
}

export function removeServer(cluster: string, server: Server): PlannedAct {
  return {
    title: `Delete ${server.name}`,
    button: "Delete",
    destroys: true,
    says: "Its runs, parameters and metrics go. Artifacts stay in S3.",
    send: (_, { query, header }) => api.DELETE(ONE, { params: { path: pathOf(cluster, server), query, header } }),
  };
}

export function grantAccess(cluster: string, server: Server): PlannedAct {
  return {
    title: `Let training pods log to ${server.name}`,
    button: "Let them",
    schema: "GrantMlflow",
    send: (body, { query: { dry_run }, header }) => api.POST(`${ONE}/access`, { params: { path: pathOf(cluster, server), query: { dry_run }, header }, body: body as Schemas["GrantMlflow"] }),
  };
}

export function share(cluster: string, server: Server): PlannedAct {
  return {
    title: `Share runs of ${server.name}`,
    button: "Share",
    says: "Complete copies with all of their histories go into another account's MLflow. Asked again, only what is missing is copied.",
    schema: "ShareMlflow",
    send: (body, { query: { dry_run }, header }) => api.POST(`${ONE}/shares`, { params: { path: pathOf(cluster, server), query: { dry_run }, header }, body: body as Schemas["ShareMlflow"] }),
  };
}

/** Opens MLflow's own pages in a new tab, by an address that signs in once. */
export async function openPages(cluster: string, server: Server): Promise<void> {
  const { data } = await api.POST(`${ONE}/link`, { params: { path: pathOf(cluster, server) } });
  if (data && /^https?:\/\//.test(data.url)) window.open(data.url, "_blank", "noopener,noreferrer");
}
