import Alert from "@cloudscape-design/components/alert";
import Button from "@cloudscape-design/components/button";
import Header from "@cloudscape-design/components/header";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Spinner from "@cloudscape-design/components/spinner";
import Tabs from "@cloudscape-design/components/tabs";
import { useState } from "react";
import { useNavigate, useParams, useSearchParams } from "react-router";
import { $api, type Schemas } from "../../api/client";
import { Diagnosis } from "../../components/Diagnosis";
import { LogViewer } from "../../components/logs/LogViewer";
import { type PlannedAct, PlannedActModal } from "../../components/PlannedAct";
import { ProblemAlert } from "../../components/ProblemAlert";
import { RouterLink } from "../../components/RouterLink";
import { Status } from "../../components/Status";
import { endJob, type Kind, KINDS, resubmitJob } from "./acts";
import { Overview } from "./Overview";
import { EventsTable, PodsTable } from "./tables";

const REFRESH_MS = 5_000;

/** One training job: how it is and why, what recovery has cost, its pods, events and logs. */
export function TrainingJob() {
  const { cluster = "", kind = "", namespace = "", name = "" } = useParams();
  const path = { cluster, kind: kind as Kind, namespace, name };
  const read = $api.useQuery("get", "/api/v1/clusters/{cluster}/training-jobs/{kind}/{namespace}/{name}", { params: { path } }, { refetchInterval: REFRESH_MS });
  if (!read.data) return read.error ? <ProblemAlert error={read.error} action={<Button onClick={() => void read.refetch()}>Try again</Button>} /> : <Spinner size="large" />;
  return (
    <SpaceBetween size="m">
      <ProblemAlert error={read.error} />
      <Page cluster={cluster} detail={read.data} />
    </SpaceBetween>
  );
}

function Page({ cluster, detail }: { cluster: string; detail: Schemas["TrainingJobDetail"] }) {
  const { job, why } = detail;
  const navigate = useNavigate();
  const [search, setSearch] = useSearchParams();
  const [act, setAct] = useState<PlannedAct | null>(null);
  const ended = job.status === "succeeded" || job.status === "failed";
  return (
    <SpaceBetween size="l">
      <Header
        variant="h1"
        info={<Status status={job.status} />}
        description={`${KINDS[job.kind] ?? job.kind} in ${job.namespace} on ${cluster}`}
        actions={
          <SpaceBetween size="xs" direction="horizontal">
            <Button disabled={!detail.asked} onClick={() => navigate(`/clusters/${cluster}/submit-job`, { state: { asked: detail.asked } })}>
              Change and submit
            </Button>
            <Button disabled={!detail.resubmittable} onClick={() => setAct(resubmitJob(cluster, job))}>
              Submit again
            </Button>
            <Button onClick={() => setAct(endJob(cluster, job))}>{ended ? "Remove" : "End"}</Button>
          </SpaceBetween>
        }
      >
        {job.name}
      </Header>
      {why && (
        <Alert type={job.status === "failed" ? "error" : "warning"} header={why.text}>
          <span className="is-wrap">
            <b>Next step:</b> {why.next_step}
          </span>
        </Alert>
      )}
      {detail.held && (detail.held.pods > 0 || detail.held.accelerators > 0) && (
        <Alert type="warning" action={<Button onClick={() => setAct(endJob(cluster, job))}>Release</Button>}>
          {`The job has ended and still holds ${detail.held.pods} pods with ${detail.held.accelerators} accelerators.`}
        </Alert>
      )}
      {detail.operation_id && !ended && <RouterLink href={`/operations/${detail.operation_id}`}>Its submission, stage by stage</RouterLink>}
      <Tabs
        activeTabId={search.get("tab") ?? "overview"}
        onChange={({ detail: { activeTabId } }) => setSearch({ tab: activeTabId }, { replace: true })}
        tabs={[
          { id: "overview", label: "Overview", content: <Overview detail={detail} /> },
          { id: "pods", label: `Pods (${detail.pods.length + detail.pods_omitted})`, content: <PodsTable cluster={cluster} namespace={job.namespace} detail={detail} /> },
          { id: "logs", label: "Logs", content: <LogViewer cluster={cluster} of={{ namespace: job.namespace, job: job.name, job_kind: job.kind }} /> },
          { id: "events", label: "Events", content: <EventsTable events={detail.events} /> },
          { id: "diagnosis", label: "Diagnosis", content: <DiagnosisTab cluster={cluster} job={job} /> },
        ]}
      />
      {act && <PlannedActModal act={act} onClose={() => setAct(null)} />}
    </SpaceBetween>
  );
}

/** Why it does not run; and, for several nodes, whether they talk. */
function DiagnosisTab({ cluster, job }: { cluster: string; job: Schemas["TrainingJobDetail"]["job"] }) {
  const whose = { cluster, name: job.name, namespace: job.namespace, jobKind: job.kind as Kind };
  return (
    <SpaceBetween size="l">
      <Diagnosis of="job" {...whose} />
      {job.nodes > 1 && <Diagnosis of="nccl" {...whose} />}
    </SpaceBetween>
  );
}
