import Alert from "@cloudscape-design/components/alert";
import Button from "@cloudscape-design/components/button";
import ButtonDropdown from "@cloudscape-design/components/button-dropdown";
import Header from "@cloudscape-design/components/header";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Spinner from "@cloudscape-design/components/spinner";
import Tabs from "@cloudscape-design/components/tabs";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { useNavigate, useParams, useSearchParams } from "react-router";
import { $api, api, type Schemas } from "../../api/client";
import { refresh } from "../../api/clusters";
import { useNotices } from "../../app/notifications";
import { ConfirmDelete } from "../../components/ConfirmDelete";
import { Diagnosis } from "../../components/Diagnosis";
import { ProblemAlert } from "../../components/ProblemAlert";
import { RouterLink } from "../../components/RouterLink";
import { Status } from "../../components/Status";
import { FeaturesTab } from "../features/Tab";
import { FleetPanel } from "../fleet/Panel";
import { GroupsTab } from "../instance-groups/Tab";
import { KarpenterTab } from "../karpenter/Tab";
import { LogsTab } from "../logs/Tab";
import { MlflowTab } from "../mlflow/Tab";
import { NodesTab } from "../nodes/Tab";
import { OperationTable } from "../operations/OperationTable";
import { ServingTabs } from "../serving/Tabs";
import { StorageTab } from "../storage/Tab";
import { TrainingTab } from "../training/Tab";
import { Overview } from "./Overview";
import { StageModal } from "./StageModal";
import { type StageAct, STAGES, VERIFY } from "./stages";
import { EventsTab } from "./tabs";

const CONNECT = STAGES.find((each) => each.stage === "connection")!;

export function ClusterDetail() {
  const { cluster = "" } = useParams();
  const read = $api.useQuery("get", "/api/v1/clusters/{cluster}", { params: { path: { cluster } } }, { refetchInterval: ({ state }) => refresh(state.data ? [state.data.cluster] : []) });
  if (!read.data) {
    return read.error ? <ProblemAlert error={read.error} action={<Button onClick={() => void read.refetch()}>Try again</Button>} /> : <Spinner size="large" />;
  }
  return (
    <SpaceBetween size="m">
      <ProblemAlert error={read.error} />
      <Page key={cluster} detail={read.data} />
    </SpaceBetween>
  );
}

function Page({ detail }: { detail: Schemas["ClusterDetail"] }) {
  const { cluster } = detail;
  const [search, setSearch] = useSearchParams();
  const [act, setAct] = useState<StageAct | null>(null);
  const [deleting, setDeleting] = useState(false);
  const navigate = useNavigate();
  const forget = useForget(cluster.tag);
  return (
    <SpaceBetween size="l">
      <Header
        variant="h1"
        info={<Status status={cluster.state} />}
        description={cluster.selected ? "Your selected cluster: the default of your CLI and agent." : undefined}
        actions={
          <SpaceBetween size="xs" direction="horizontal">
            {!cluster.selected && <Button onClick={() => setAct(CONNECT)}>Select</Button>}
            <Button onClick={() => setAct(VERIFY)}>Verify</Button>
            <ButtonDropdown
              items={[
                { id: "delete", text: "Delete", description: "Everything it is made of, on AWS" },
                { id: "forget", text: "Forget", description: "Only off the list; nothing on AWS changes" },
              ]}
              onItemClick={({ detail: { id } }) => (id === "delete" ? setDeleting(true) : forget.mutate())}
            >
              Actions
            </ButtonDropdown>
          </SpaceBetween>
        }
      >
        {cluster.tag}
      </Header>
      <ProblemAlert error={forget.error} />
      {cluster.why && <Alert type="warning">{cluster.why}</Alert>}
      {cluster.operation && (
        <Alert type="info" action={<Button onClick={() => navigate(`/operations/${cluster.operation?.id}`)}>Show progress</Button>}>
          <RouterLink href={`/operations/${cluster.operation.id}`}>{cluster.operation.workflow}</RouterLink> works on it now ({cluster.operation.status}).
        </Alert>
      )}
      <Tabs
        activeTabId={search.get("tab") ?? "overview"}
        onChange={({ detail: { activeTabId } }) => setSearch({ tab: activeTabId }, { replace: true })}
        tabs={[
          { id: "overview", label: "Overview", content: <OverviewTab detail={detail} onAct={setAct} /> },
          { id: "groups", label: "Instance groups", content: <GroupsTab cluster={cluster.tag} region={cluster.region} /> },
          { id: "nodes", label: "Nodes", content: <NodesTab cluster={cluster.tag} /> },
          { id: "karpenter", label: "Karpenter", content: <KarpenterTab cluster={cluster.tag} /> },
          { id: "features", label: "Features", content: <FeaturesTab cluster={cluster.tag} /> },
          { id: "inference", label: "Inference", content: <ServingTabs cluster={cluster.tag} /> },
          { id: "storage", label: "Storage", content: <StorageTab cluster={cluster.tag} /> },
          { id: "training", label: "Training", content: <TrainingTab cluster={cluster.tag} /> },
          { id: "mlflow", label: "MLflow", content: <MlflowTab cluster={cluster.tag} /> },
          { id: "logs", label: "Logs", content: <LogsTab cluster={cluster.tag} /> },
          { id: "operations", label: "Operations", content: <OperationTable filter={{ cluster: cluster.tag }} hidden={["cluster"]} header={<Header variant="h2">Operations</Header>} /> },
          { id: "events", label: "Events", content: <EventsTab cluster={cluster.tag} /> },
          { id: "diagnosis", label: "Diagnosis", content: <DiagnosisTab cluster={cluster.tag} /> },
        ]}
      />
      {act && <StageModal act={act} cluster={cluster} onClose={() => setAct(null)} />}
      {deleting && <ConfirmDelete cluster={cluster.tag} onClose={() => setDeleting(false)} onStarted={(operation) => navigate(`/operations/${operation.id}`)} />}
    </SpaceBetween>
  );
}

/** Where it stands, and what its nodes do. */
function OverviewTab({ detail, onAct }: { detail: Schemas["ClusterDetail"]; onAct: (act: StageAct) => void }) {
  return (
    <SpaceBetween size="l">
      <Overview detail={detail} onAct={onAct} />
      {detail.stages.hyperpod && <FleetPanel cluster={detail.cluster.tag} />}
    </SpaceBetween>
  );
}

/** Its creation, and whether its nodes can talk. */
function DiagnosisTab({ cluster }: { cluster: string }) {
  return (
    <SpaceBetween size="l">
      <Diagnosis cluster={cluster} of="cluster" />
      <Diagnosis cluster={cluster} of="nccl" />
    </SpaceBetween>
  );
}

function useForget(tag: string) {
  const navigate = useNavigate();
  const { tell } = useNotices();
  return useMutation({
    mutationFn: () => api.POST("/api/v1/clusters/{cluster}/forget", { params: { path: { cluster: tag } } }),
    onSuccess: () => {
      tell({ type: "success", content: `${tag} is off the list. Nothing on AWS changed.` });
      navigate("/clusters");
    },
  });
}
