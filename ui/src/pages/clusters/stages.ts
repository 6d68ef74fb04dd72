import { api, type Schemas } from "../../api/client";
import type { Values } from "../../components/SchemaField";

type Answer = Promise<{ data?: Schemas["Operation"] | Schemas["Plan"] }>;

/** A stage of a cluster and the request that makes it true. Whether it may be asked for yet is the server's to say. */
export interface StageAct {
  stage: string;
  title: string;
  button: string;
  /** the request's questions; without them it is asked at once */
  schema?: keyof Schemas;
  without?: readonly string[];
  send: (cluster: Schemas["ClusterView"], values: Values, key: string) => Answer;
}

const at = (cluster: Schemas["ClusterView"], key: string) => ({ params: { path: { cluster: cluster.tag }, header: { "Idempotency-Key": key } } });

export const STAGES: StageAct[] = [
  {
    stage: "eks",
    title: "Network and EKS control plane",
    button: "Create EKS",
    schema: "CreateEks",
    without: ["tag", "region"],
    send: (cluster, values, key) =>
      api.POST("/api/v1/eks-clusters", {
        params: { header: { "Idempotency-Key": key } },
        body: { ...values, tag: cluster.tag, region: cluster.region } as Schemas["CreateEks"],
      }),
  },
  {
    stage: "connection",
    title: "Connection to its Kubernetes API",
    button: "Connect and select",
    send: (cluster, _values, key) => api.POST("/api/v1/clusters/{cluster}/selection", at(cluster, key)),
  },
  {
    stage: "dependencies",
    title: "What HyperPod needs in EKS",
    button: "Configure dependencies",
    schema: "ConfigureDependencies",
    send: (cluster, values, key) => api.POST("/api/v1/clusters/{cluster}/dependencies", { ...at(cluster, key), body: values as Schemas["ConfigureDependencies"] }),
  },
  {
    stage: "hyperpod",
    title: "HyperPod cluster with its nodes",
    button: "Create HyperPod",
    schema: "CreateHyperPod",
    send: (cluster, values, key) => api.POST("/api/v1/clusters/{cluster}/hyperpod", { ...at(cluster, key), body: values as Schemas["CreateHyperPod"] }),
  },
  {
    stage: "storage",
    title: "S3 storage as a volume claim",
    button: "Configure storage",
    schema: "ConfigureStorage",
    send: (cluster, values, key) => api.POST("/api/v1/clusters/{cluster}/storage/s3", { ...at(cluster, key), body: values as Schemas["ConfigureStorage"] }),
  },
];

export const VERIFY: StageAct = {
  stage: "verify",
  title: "Verified",
  button: "Verify",
  send: (cluster, _values, key) => api.POST("/api/v1/clusters/{cluster}/verification", at(cluster, key)),
};
