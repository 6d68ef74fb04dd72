import { api, type Schemas } from "../../api/client";
import type { PlannedAct } from "../../components/PlannedAct";

const KARPENTER = "/api/v1/clusters/{cluster}/karpenter";
const POOL = "/api/v1/clusters/{cluster}/karpenter/node-pools/{pool}";

export function enable(cluster: string): PlannedAct {
  return {
    title: "Switch Karpenter on",
    button: "Switch on",
    says: "It scales nothing before a node pool names instance groups.",
    schema: "EnableKarpenter",
    send: (body, { query: { dry_run }, header }) => api.PUT(KARPENTER, { params: { path: { cluster }, query: { dry_run }, header }, body: body as Schemas["EnableKarpenter"] }),
  };
}

export function disable(cluster: string): PlannedAct {
  return {
    title: "Switch Karpenter off",
    button: "Switch off",
    destroys: true,
    says: "Pools go with their nodes; the groups are put back as they were.",
    send: (_, { query, header }) => api.DELETE(KARPENTER, { params: { path: { cluster }, query, header } }),
  };
}

export function addPool(cluster: string): PlannedAct {
  return {
    title: "Add a node pool",
    button: "Add node pool",
    says: "Spot and on-demand are mixed by naming groups of both; groups begin with no nodes.",
    schema: "AddNodePool",
    send: (body, { query, header }) => api.POST(`${KARPENTER}/node-pools`, { params: { path: { cluster }, query, header }, body: body as Schemas["AddNodePool"] }),
  };
}

export function updatePool(cluster: string, pool: Schemas["NodePool"]): PlannedAct {
  return {
    title: `Change ${pool.name}`,
    button: "Change",
    says: "What is left empty stays as it is.",
    schema: "UpdateNodePool",
    send: (body, { query, header }) => api.PATCH(POOL, { params: { path: { cluster, pool: pool.name }, query, header }, body: body as Schemas["UpdateNodePool"] }),
  };
}

export function deletePool(cluster: string, pool: Schemas["NodePool"]): PlannedAct {
  return {
    title: `Delete ${pool.name}`,
    button: "Delete",
    destroys: true,
    says: "Its nodes go with it.",
    send: (_, { query, header }) => api.DELETE(POOL, { params: { path: { cluster, pool: pool.name }, query, header } }),
  };
}
