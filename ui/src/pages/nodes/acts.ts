import { api, type Schemas } from "../../api/client";
import type { PlannedAct } from "../../components/PlannedAct";

const CLUSTER = "/api/v1/clusters/{cluster}";

function named(count: number): string {
  return count === 1 ? "1 node" : `${count} nodes`;
}

export function rebootNodes(cluster: string, nodes: string[]): PlannedAct {
  return {
    title: `Reboot ${named(nodes.length)}`,
    button: "Reboot",
    destroys: true,
    says: "Pods leave within their disruption budgets first; the instances keep their names and volumes.",
    schema: "RebootNodes",
    initial: { nodes },
    send: (body, { query, header }) => api.POST(`${CLUSTER}/node-reboots`, { params: { path: { cluster }, query, header }, body: body as Schemas["RebootNodes"] }),
  };
}

export function replaceNodes(cluster: string, nodes: string[]): PlannedAct {
  return {
    title: `Replace ${named(nodes.length)}`,
    button: "Replace",
    destroys: true,
    says: "The instances go with what is on their volumes, and others come in their place.",
    schema: "ReplaceNodes",
    initial: { nodes },
    send: (body, { query, header }) => api.POST(`${CLUSTER}/node-replacements`, { params: { path: { cluster }, query, header }, body: body as Schemas["ReplaceNodes"] }),
  };
}

export function deleteNodes(cluster: string, nodes: string[]): PlannedAct {
  return {
    title: `Delete ${named(nodes.length)}`,
    button: "Delete",
    destroys: true,
    says: "The instances go and are not made again: their groups become smaller.",
    schema: "DeleteNodes",
    initial: { nodes },
    send: (body, { query, header }) => api.POST(`${CLUSTER}/node-deletions`, { params: { path: { cluster }, query, header }, body: body as Schemas["DeleteNodes"] }),
  };
}

export function checkNodes(cluster: string, nodes: string[]): PlannedAct {
  return {
    title: `Deep health check of ${named(nodes.length)}`,
    button: "Start the check",
    says: "One to two hours, in which the nodes take no work.",
    schema: "CheckNodes",
    initial: { nodes },
    send: (body, { query, header }) => api.POST(`${CLUSTER}/node-checks`, { params: { path: { cluster }, query, header }, body: body as Schemas["CheckNodes"] }),
  };
}

export function moveNodes(cluster: string, nodes: string[]): PlannedAct {
  return {
    title: `Move ${named(nodes.length)}`,
    button: "Move",
    destroys: true,
    schema: "MoveNodes",
    initial: { nodes },
    send: (body, { query, header }) => api.POST(`${CLUSTER}/node-moves`, { params: { path: { cluster }, query, header }, body: body as Schemas["MoveNodes"] }),
  };
}
