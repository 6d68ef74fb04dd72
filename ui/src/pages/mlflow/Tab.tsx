import Alert from "@cloudscape-design/components/alert";
import ButtonDropdown from "@cloudscape-design/components/button-dropdown";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useMutation, type UseQueryResult } from "@tanstack/react-query";
import { useState } from "react";
import { $api, type Schemas } from "../../api/client";
import { DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { ListHeader } from "../../components/ListHeader";
import { type PlannedAct, PlannedActModal } from "../../components/PlannedAct";
import { ProblemAlert } from "../../components/ProblemAlert";
import { Status } from "../../components/Status";
import { Text } from "../../components/Text";
import { moment } from "../../components/time";
import { createApp, createServer, grantAccess, KINDS, openPages, removeServer, type Server, share } from "./acts";
import { Runs } from "./Runs";

const REFRESH_MS = 10_000;

/** Where runs are tracked, and the runs. */
export function MlflowTab({ cluster }: { cluster: string }) {
  const [act, setAct] = useState<PlannedAct | null>(null);
  const read = $api.useQuery("get", "/api/v1/clusters/{cluster}/mlflow", { params: { path: { cluster } } }, { refetchInterval: REFRESH_MS });
  const servers = read.data?.items ?? [];
  return (
    <SpaceBetween size="l">
      <Servers cluster={cluster} read={read} onAct={setAct} />
      {servers.some((each) => each.usable) && <Runs cluster={cluster} servers={servers.filter((each) => each.usable)} />}
      {act && <PlannedActModal act={act} onClose={() => setAct(null)} />}
    </SpaceBetween>
  );
}

interface Props {
  cluster: string;
  read: Pick<UseQueryResult<Schemas["MlflowList"], unknown>, "data" | "error" | "isPending" | "refetch">;
  onAct: (act: PlannedAct) => void;
}

function Servers({ cluster, read, onAct }: Props) {
  const [chosen, setChosen] = useState<Server[]>([]);
  const one = read.data?.items.find((each) => each.arn === chosen[0]?.arn);
  const open = useMutation({ mutationFn: (server: Server) => openPages(cluster, server) });
  const access = read.data?.access;
  const acts: Record<string, () => void> = one
    ? { open: () => open.mutate(one), access: () => onAct(grantAccess(cluster, one)), share: () => onAct(share(cluster, one)), delete: () => onAct(removeServer(cluster, one)) }
    : {};
  return (
    <SpaceBetween size="m">
      <ProblemAlert error={read.error ?? open.error} />
      {access && !access.granted && (read.data?.items.length ?? 0) > 0 && (
        <Alert type="info" header="Training pods cannot log to MLflow yet">
          {access.unread ?? `Choose a server and let pods log to it: they run under the service account ${access.service_account}.`}
        </Alert>
      )}
      <DataTable
        items={read.data?.items ?? []}
        trackBy="arn"
        selectionType="single"
        selectedItems={one ? [one] : []}
        onSelectionChange={({ detail }) => setChosen(detail.selectedItems)}
        wrapLines
        loading={read.isPending}
        loadingText="Reading MLflow"
        ariaLabels={{ tableLabel: "MLflow", selectionGroupLabel: "Choose one", itemSelectionLabel: (_, each) => each.name }}
        empty={<EmptyState error={read.error} title="No MLflow here" says="Create an app or a tracking server: the runs of training jobs show here then." />}
        header={
          <ListHeader title="MLflow" counter={read.data ? `(${read.data.items.length})` : undefined} onRefresh={() => void read.refetch()}>
            <ButtonDropdown
              disabled={!one}
              loading={open.isPending}
              items={[
                { id: "open", text: "Open its own pages", disabled: !one?.usable },
                { id: "access", text: "Let training pods log to it" },
                { id: "share", text: "Share runs with another account", disabled: !one?.usable },
                { id: "delete", text: "Delete" },
              ]}
              onItemClick={({ detail }) => acts[detail.id]?.()}
            >
              Actions
            </ButtonDropdown>
            <ButtonDropdown
              variant="primary"
              items={[
                { id: "app", text: "App", description: "Ready in minutes" },
                { id: "server", text: "Tracking server", description: "Half an hour, sizes to choose" },
              ]}
              onItemClick={({ detail }) => onAct(detail.id === "app" ? createApp(cluster) : createServer(cluster))}
            >
              Create
            </ButtonDropdown>
          </ListHeader>
        }
        columnDefinitions={[
          { id: "name", header: "Name", isRowHeader: true, cell: (each) => each.name },
          { id: "kind", header: "Kind", cell: (each) => KINDS[each.kind] ?? each.kind },
          { id: "status", header: "Status", minWidth: 130, cell: (each) => <Status status={each.usable ? "ready" : each.status}>{each.usable ? "Ready" : `${each.status}${each.why ? `: ${each.why}` : ""}`}</Status> },
          { id: "version", header: "Version", cell: (each) => [each.version, each.size].filter(Boolean).join(", ") || "-" },
          { id: "store", header: "Artifacts", cell: (each) => <Text>{each.artifact_store ?? "-"}</Text> },
          { id: "ours", header: "Made for", cell: (each) => (each.ours ? "this cluster" : (each.cluster ?? "others")) },
          { id: "pods", header: "Training pods", cell: (each) => <Status status={each.pods ? "ok" : "off"}>{each.pods ? "may log" : "may not log"}</Status> },
          { id: "created", header: "Made", cell: (each) => (each.created_at ? moment(each.created_at) : "-") },
        ]}
      />
    </SpaceBetween>
  );
}
