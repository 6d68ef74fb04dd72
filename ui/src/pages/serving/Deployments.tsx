import Button from "@cloudscape-design/components/button";
import ButtonDropdown from "@cloudscape-design/components/button-dropdown";
import Pagination from "@cloudscape-design/components/pagination";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useNavigate } from "react-router";
import { $api } from "../../api/client";
import { DataTable } from "../../components/DataTable";
import { useCursors } from "../../components/cursors";
import { EmptyState } from "../../components/EmptyState";
import { ListHeader } from "../../components/ListHeader";
import type { PlannedAct } from "../../components/PlannedAct";
import { ProblemAlert } from "../../components/ProblemAlert";
import { RouterLink } from "../../components/RouterLink";
import { Status, words } from "../../components/Status";
import { Text } from "../../components/Text";
import { TimeAgo } from "../../components/TimeAgo";
import { addressOf } from "../inference/acts";
import { deleteDeployment, scaleDeployment } from "./acts";

const REFRESH_MS = 5_000;
const PAGE_SIZE = 25;
const SIGNS: Record<string, string> = { ready: "ready", rolling_out: "running", stopped: "cancelled", failing: "failed" };

/** Models that containers of ours serve. */
export function Deployments({ cluster, onAct }: { cluster: string; onAct: (act: PlannedAct) => void }) {
  const navigate = useNavigate();
  const pages = useCursors(cluster);
  const read = $api.useQuery("get", "/api/v1/clusters/{cluster}/model-deployments", { params: { path: { cluster }, query: { limit: PAGE_SIZE, cursor: pages.cursor } } }, { refetchInterval: REFRESH_MS, placeholderData: (before) => before });
  const create = () => navigate(`/clusters/${encodeURIComponent(cluster)}/deploy-model`);
  return (
    <SpaceBetween size="m">
      <ProblemAlert error={read.error} action={<Button onClick={() => void read.refetch()}>Try again</Button>} />
      <DataTable
        items={read.data?.items ?? []}
        trackBy={(each) => `${each.namespace}/${each.name}`}
        wrapLines
        loading={read.isPending}
        loadingText="Reading the deployments"
        ariaLabels={{ tableLabel: "Model deployments" }}
        empty={<EmptyState error={read.error} title="No deployments" says="Serve a model with vLLM, SGLang or any container, by the command as you type it." action={<Button onClick={create}>Deploy a model</Button>} />}
        pagination={<Pagination {...pages.props(read.data?.cursor)} />}
        header={
          <ListHeader title="Deployments" counter={read.data ? `(${read.data.total})` : undefined} onRefresh={() => void read.refetch()}>
            <Button variant="primary" onClick={create}>
              Deploy a model
            </Button>
          </ListHeader>
        }
        columnDefinitions={[
          { id: "name", header: "Name", isRowHeader: true, cell: (each) => <RouterLink href={addressOf({ cluster, ...each })}>{`${each.namespace}/${each.name}`}</RouterLink> },
          {
            id: "state",
            header: "State",
            cell: (each) => (
              <>
                <Status status={SIGNS[each.state] ?? "unknown"}>{words(each.state)}</Status>
                {each.why && <div className="is-wrap">{each.why}</div>}
              </>
            ),
          },
          { id: "ready", header: "Ready", cell: (each) => `${each.ready}/${each.replicas}` },
          { id: "model", header: "Model", cell: (each) => <Text>{each.model ?? "-"}</Text> },
          { id: "engine", header: "Engine", cell: (each) => each.engine },
          { id: "address", header: "Address", cell: (each) => <Text>{each.address ?? words(each.exposure)}</Text> },
          { id: "autoscaler", header: "Scaled by", cell: (each) => each.autoscaler ?? "-" },
          { id: "created", header: "Made", cell: (each) => <TimeAgo at={each.created_at} /> },
          {
            id: "acts",
            header: "Actions",
            cell: (each) => {
              const place = { cluster, namespace: each.namespace, name: each.name };
              return (
                <ButtonDropdown
                  variant="inline-icon"
                  ariaLabel={`Actions of ${each.name}`}
                  items={[
                    { id: "scale", text: "Scale", disabled: Boolean(each.autoscaler), disabledReason: "An autoscaler owns the number of pods." },
                    { id: "delete", text: "Delete" },
                  ]}
                  onItemClick={({ detail }) => onAct(detail.id === "scale" ? scaleDeployment(place) : deleteDeployment(place))}
                />
              );
            },
          },
        ]}
      />
    </SpaceBetween>
  );
}
