import { api, type Schemas } from "../../api/client";
import type { PlannedAct } from "../../components/PlannedAct";
import type { Values } from "../../components/SchemaField";
import type { Place } from "../inference/acts";

const DEPLOYMENTS = "/api/v1/clusters/{cluster}/model-deployments";
const POOLS = "/api/v1/clusters/{cluster}/model-pools";
const ROUTERS = "/api/v1/clusters/{cluster}/sglang-routers";
const AUTOSCALERS = "/api/v1/clusters/{cluster}/autoscalers";

/** What can be asked for on a page of its own: a server of models, alone or many warm ones. */
export type Kind = "deployment" | "pool";

export function createServer(kind: Kind, cluster: string, body: Values): PlannedAct {
  const pool = kind === "pool";
  return {
    title: pool ? "Make a model pool" : "Deploy a model",
    button: pool ? "Make" : "Deploy",
    says: "The operation ends when a server has answered a first token.",
    send: (_, { query, header }) =>
      pool
        ? api.POST(POOLS, { params: { path: { cluster }, query: { dry_run: query.dry_run }, header }, body: body as Schemas["CreateModelPool"] })
        : api.POST(DEPLOYMENTS, { params: { path: { cluster }, query, header }, body: body as Schemas["CreateModelDeployment"] }),
  };
}

export function scaleDeployment(place: Place): PlannedAct {
  return {
    title: `Scale ${place.namespace}/${place.name}`,
    button: "Scale",
    schema: "ScaleModelDeployment",
    send: (body, { query: { dry_run }, header }) => api.POST(`${DEPLOYMENTS}/{namespace}/{name}/scale`, { params: { path: { ...place }, query: { dry_run }, header }, body: body as Schemas["ScaleModelDeployment"] }),
  };
}

export function deleteDeployment(place: Place): PlannedAct {
  return {
    title: `Delete ${place.namespace}/${place.name}`,
    button: "Delete",
    destroys: true,
    says: "Its pods and its address go. The model's files stay.",
    send: (_, { query, header }) => api.DELETE(`${DEPLOYMENTS}/{namespace}/{name}`, { params: { path: { ...place }, query, header } }),
  };
}

export function scalePool(place: Place): PlannedAct {
  return {
    title: `Scale the pool ${place.name}`,
    button: "Scale",
    says: "Only workers that work for nobody go.",
    schema: "ScaleModelPool",
    send: (body, { query: { dry_run }, header }) => api.POST(`${POOLS}/{namespace}/{name}/scale`, { params: { path: { ...place }, query: { dry_run }, header }, body: body as Schemas["ScaleModelPool"] }),
  };
}

export function deletePool(place: Place): PlannedAct {
  return {
    title: `Delete the pool ${place.name}`,
    button: "Delete",
    destroys: true,
    send: (_, { query, header }) => api.DELETE(`${POOLS}/{namespace}/{name}`, { params: { path: { ...place }, query, header } }),
  };
}

export function bind(place: Place): PlannedAct {
  return {
    title: `Bind a business to ${place.name}`,
    button: "Bind",
    says: "A Service of its own leads to the workers of the business.",
    schema: "CreateModelBinding",
    send: (body, { query: { dry_run }, header }) => api.POST(`${POOLS}/{namespace}/{name}/bindings`, { params: { path: { ...place }, query: { dry_run }, header }, body: body as Schemas["CreateModelBinding"] }),
  };
}

export function unbind(place: Place, business: string): PlannedAct {
  return {
    title: `Take ${business} off ${place.name}`,
    button: "Take off",
    destroys: true,
    says: "Its workers become free, and its Service goes.",
    send: (_, { query, header }) => api.DELETE(`${POOLS}/{namespace}/{name}/bindings/{business}`, { params: { path: { ...place, business }, query, header } }),
  };
}

export function createRouter(cluster: string): PlannedAct {
  return {
    title: "Make a router",
    button: "Make",
    schema: "CreateSglangRouter",
    send: (body, { query: { dry_run }, header }) => api.POST(ROUTERS, { params: { path: { cluster }, query: { dry_run }, header }, body: body as Schemas["CreateSglangRouter"] }),
  };
}

export function deleteRouter(place: Place): PlannedAct {
  return {
    title: `Delete the router ${place.name}`,
    button: "Delete",
    destroys: true,
    send: (_, { query, header }) => api.DELETE(`${ROUTERS}/{namespace}/{name}`, { params: { path: { ...place }, query, header } }),
  };
}

export function createAutoscaler(cluster: string): PlannedAct {
  return {
    title: "Scale a model by its load",
    button: "Scale by load",
    says: "The plan shows the query, and what it answers now.",
    schema: "CreateAutoscaler",
    send: (body, { query: { dry_run }, header }) => api.POST(AUTOSCALERS, { params: { path: { cluster }, query: { dry_run }, header }, body: body as Schemas["CreateAutoscaler"] }),
  };
}

export function deleteAutoscaler(place: Place): PlannedAct {
  const { cluster, namespace, name } = place;
  return {
    title: `Stop scaling ${name} by its load`,
    button: "Stop",
    destroys: true,
    says: "The pods stay as many as they are then.",
    send: (_, { query, header }) => api.DELETE(`${AUTOSCALERS}/{namespace}/{target}`, { params: { path: { cluster, namespace, target: name }, query, header } }),
  };
}
