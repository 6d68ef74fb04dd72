import { api, type Schemas } from "../../api/client";
import type { PlannedAct } from "../../components/PlannedAct";

const JOB = "/api/v1/clusters/{cluster}/training-jobs/{kind}/{namespace}/{name}";
export type Job = Pick<Schemas["TrainingJobItem"], "kind" | "namespace" | "name" | "status">;
export type Kind = "pytorch" | "ray_job" | "ray_cluster";

export const KINDS: Record<string, string> = { pytorch: "HyperPod training operator", ray_job: "Ray job", ray_cluster: "Ray cluster" };
const pathOf = (cluster: string, job: Job) => ({ cluster, kind: job.kind as Kind, namespace: job.namespace, name: job.name });

/** Where a job's page is. */
export const addressOf = (cluster: string, job: Job) => `/clusters/${encodeURIComponent(cluster)}/training-jobs/${job.kind}/${job.namespace}/${job.name}`;

export function endJob(cluster: string, job: Job): PlannedAct {
  return {
    title: `End ${job.namespace}/${job.name}`,
    button: "End it",
    destroys: true,
    says: "The job and its pods go, and their logs with them; what they wrote to volumes stays.",
    send: (_, { query, header }) => api.DELETE(JOB, { params: { path: pathOf(cluster, job), query, header } }),
  };
}

export function resubmitJob(cluster: string, job: Job): PlannedAct {
  return {
    title: `Submit ${job.namespace}/${job.name} again`,
    button: "Submit",
    says: "The same job once more, under the next free name unless you say otherwise.",
    schema: "ResubmitTrainingJob",
    send: (body, { query: { dry_run }, header }) => api.POST(`${JOB}/resubmissions`, { params: { path: pathOf(cluster, job), query: { dry_run }, header }, body: body as Schemas["ResubmitTrainingJob"] }),
  };
}
