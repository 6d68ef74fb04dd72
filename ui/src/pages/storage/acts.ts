import { api, type Schemas } from "../../api/client";
import type { PlannedAct } from "../../components/PlannedAct";

const VOLUMES = "/api/v1/clusters/{cluster}/volumes";

export function addS3(cluster: string): PlannedAct {
  return {
    title: "Mount an S3 bucket",
    button: "Mount",
    says: "What a volume shows cannot be changed later, only removed and made anew; the bucket keeps its objects.",
    schema: "AddS3Volume",
    send: (body, { query: { dry_run }, header }) => api.POST(`${VOLUMES}/s3`, { params: { path: { cluster }, query: { dry_run }, header }, body: body as Schemas["AddS3Volume"] }),
  };
}

export function addFsx(cluster: string): PlannedAct {
  return {
    title: "Mount an FSx for Lustre file system",
    button: "Mount",
    says: "Give the id of a file system that is there, or the size of a new one: FSx bills for it until it is deleted.",
    schema: "AddFsxVolume",
    send: (body, { query: { dry_run }, header }) => api.POST(`${VOLUMES}/fsx`, { params: { path: { cluster }, query: { dry_run }, header }, body: numbers(body) as unknown as Schemas["AddFsxVolume"] }),
  };
}

/** A choice among numbers comes from the form as text. */
function numbers(body: Record<string, unknown>): Record<string, unknown> {
  return typeof body["throughput"] === "string" ? { ...body, throughput: Number(body["throughput"]) } : body;
}

export function removeVolume(cluster: string, volume: Schemas["VolumeItem"]): PlannedAct {
  const path = { cluster, namespace: volume.namespace, claim: volume.claim };
  return {
    title: `Remove ${volume.namespace}/${volume.claim}`,
    button: "Remove",
    destroys: true,
    says: "The claim and its volume go; what it shows stays, with all its data.",
    send: (_, { query, header }) => api.DELETE(`${VOLUMES}/{namespace}/{claim}`, { params: { path, query, header } }),
  };
}

/** The file system that was made for the claim goes with it; the plan names it, or says that there is none of ours. */
export function removeFileSystem(cluster: string, volume: Schemas["VolumeItem"]): PlannedAct {
  const path = { cluster, namespace: volume.namespace, claim: volume.claim };
  return {
    title: `Remove ${volume.namespace}/${volume.claim} and its file system`,
    button: "Remove with all data",
    destroys: true,
    says: "The claim, its volume and the file system that was made for it go, with all data. This cannot be undone.",
    send: (_, { query, header }) => api.DELETE(`${VOLUMES}/{namespace}/{claim}`, { params: { path, query: { ...query, delete_file_system: true }, header } }),
  };
}

export function download(cluster: string): PlannedAct {
  return {
    title: "Download from the model hub",
    button: "Download",
    says: "A job in the cluster fetches the files, verifies them, and leaves what is there already alone.",
    schema: "DownloadModel",
    send: (body, { query: { dry_run }, header }) => api.POST("/api/v1/clusters/{cluster}/downloads", { params: { path: { cluster }, query: { dry_run }, header }, body: body as Schemas["DownloadModel"] }),
  };
}
