import { api, type Schemas } from "../../api/client";
import type { PlannedAct } from "../../components/PlannedAct";
import type { Values } from "../../components/SchemaField";

const ENDPOINTS = "/api/v1/clusters/{cluster}/inference-endpoints";

export interface Place {
  cluster: string;
  namespace: string;
  name: string;
}

/** The page of one thing that serves. */
export const addressOf = ({ cluster, namespace, name }: Place) => `/clusters/${encodeURIComponent(cluster)}/served/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;

export function createEndpoint(cluster: string, body: Values): PlannedAct {
  return {
    title: `Create the endpoint ${String(body["name"] ?? "")}`,
    button: "Create",
    says: "The operation ends when the model has answered a first token.",
    send: (_, { query: { dry_run }, header }) => api.POST(ENDPOINTS, { params: { path: { cluster }, query: { dry_run }, header }, body: body as Schemas["CreateInferenceEndpoint"] }),
  };
}

export function updateEndpoint(place: Place, patch: Values): PlannedAct {
  return {
    title: `Change ${place.namespace}/${place.name}`,
    button: "Change",
    says: "It succeeds only when what runs is what was asked: a silent rollback is told as a failure.",
    send: (_, { query: { dry_run }, header }) => api.PATCH(`${ENDPOINTS}/{namespace}/{name}`, { params: { path: { ...place }, query: { dry_run }, header }, body: patch as Schemas["UpdateInferenceEndpoint"] }),
  };
}

/** After a roll-back: what is served becomes what is asked. */
export function serveAsNow(place: Place): PlannedAct {
  return { ...updateEndpoint(place, { as_serving: true }), title: `Ask for what ${place.namespace}/${place.name} serves`, button: "Ask for it" };
}

export function deleteEndpoint(place: Place): PlannedAct {
  return {
    title: `Delete ${place.namespace}/${place.name}`,
    button: "Delete",
    destroys: true,
    says: "Replicas, load balancer and SageMaker endpoint go; the model's files stay.",
    send: (_, { query, header }) => api.DELETE(`${ENDPOINTS}/{namespace}/{name}`, { params: { path: { ...place }, query, header } }),
  };
}
