import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import ColumnLayout from "@cloudscape-design/components/column-layout";
import Container from "@cloudscape-design/components/container";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Spinner from "@cloudscape-design/components/spinner";
import { useState } from "react";
import { $api, type Schemas } from "../../api/client";
import { DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { Findings } from "../../components/Findings";
import { ListHeader } from "../../components/ListHeader";
import { type PlannedAct, PlannedActModal } from "../../components/PlannedAct";
import { ProblemAlert } from "../../components/ProblemAlert";
import { Status } from "../../components/Status";
import { Text } from "../../components/Text";
import { addPool, deletePool, disable, enable, updatePool } from "./acts";

const REFRESH_MS = 10_000;
type Pool = Schemas["NodePool"];

export function KarpenterTab({ cluster }: { cluster: string }) {
  const read = $api.useQuery("get", "/api/v1/clusters/{cluster}/karpenter", { params: { path: { cluster } } }, { refetchInterval: REFRESH_MS });
  const [act, setAct] = useState<PlannedAct | null>(null);
  const [chosen, setChosen] = useState<Pool[]>([]);
  const pool = read.data?.pools.find((each) => each.name === chosen[0]?.name);
  if (!read.data) return read.error ? <ProblemAlert error={read.error} action={<Button onClick={() => void read.refetch()}>Try again</Button>} /> : <Spinner size="large" />;
  const on = read.data.status !== "off";
  return (
    <SpaceBetween size="l">
      <Standing karpenter={read.data} onSwitch={() => setAct(on ? disable(cluster) : enable(cluster))} />
      <DataTable
        items={read.data.pools}
        trackBy="name"
        selectionType="single"
        selectedItems={pool ? [pool] : []}
        onSelectionChange={({ detail }) => setChosen(detail.selectedItems)}
        wrapLines
        ariaLabels={{ tableLabel: "Node pools", selectionGroupLabel: "Choose a pool", itemSelectionLabel: (_, each) => each.name }}
        empty={<EmptyState error={read.error} title="No node pools" says="A pool names the instance groups that Karpenter may scale from nothing, and how far." />}
        header={
          <ListHeader title="Node pools" counter={`(${read.data.pools.length})`} onRefresh={() => void read.refetch()}>
            <Button disabled={!pool} onClick={() => pool && setAct(updatePool(cluster, pool))}>
              Change
            </Button>
            <Button disabled={!pool} onClick={() => pool && setAct(deletePool(cluster, pool))}>
              Delete
            </Button>
            <Button disabled={!on} onClick={() => setAct(addPool(cluster))}>
              Add node pool
            </Button>
          </ListHeader>
        }
        columnDefinitions={[
          { id: "name", header: "Pool", isRowHeader: true, cell: (each) => each.name },
          { id: "ready", header: "State", cell: (each) => <Status status={each.ready ? "ready" : "degraded"}>{each.ready ? "Ready" : "Not ready"}</Status> },
          { id: "nodes", header: "Nodes", cell: (each) => each.nodes },
          { id: "groups", header: "Instance groups", cell: (each) => each.instance_groups.join(", ") },
          { id: "limits", header: "Limits", cell: (each) => pairs(each.limits) },
          { id: "idle", header: "Idle nodes go", cell: (each) => `${each.consolidation_policy ?? "-"} after ${each.consolidate_after ?? "-"}` },
          { id: "why", header: "Remarks", cell: (each) => <Text>{each.because ?? (each.waiting.join("; ") || "-")}</Text> },
        ]}
      />
      {act && <PlannedActModal act={act} onClose={() => setAct(null)} />}
    </SpaceBetween>
  );
}

function pairs(values: Record<string, unknown>): string {
  return Object.entries(values).map(([key, value]) => `${key}: ${String(value)}`).join(", ") || "-";
}

function Standing({ karpenter, onSwitch }: { karpenter: Schemas["Karpenter"]; onSwitch: () => void }) {
  const off = karpenter.status === "off";
  return (
    <Container
      header={
        <ListHeader title="Managed Karpenter" description="Makes nodes for pods that wait, and takes them away when they are idle.">
          <Button onClick={onSwitch}>{off ? "Switch on" : "Switch off"}</Button>
        </ListHeader>
      }
    >
      <SpaceBetween size="m">
        <ColumnLayout columns={3} variant="text-grid">
          <div>
            <Box variant="awsui-key-label">State</Box>
            <Status status={karpenter.status} />
            {karpenter.because && <div className="is-wrap">{karpenter.because}</div>}
          </div>
          <div>
            <Box variant="awsui-key-label">Nodes it made</Box>
            {karpenter.nodes}
          </div>
          <div>
            <Box variant="awsui-key-label">Cluster role</Box>
            <Text>{karpenter.role_arn ?? "-"}</Text>
          </div>
        </ColumnLayout>
        {off && <Findings findings={karpenter.findings} />}
      </SpaceBetween>
    </Container>
  );
}
