import Button from "@cloudscape-design/components/button";
import Header from "@cloudscape-design/components/header";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useState } from "react";
import { $api, api, type Schemas } from "../../api/client";
import { DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { type PlannedAct, PlannedActModal } from "../../components/PlannedAct";
import { ProblemAlert } from "../../components/ProblemAlert";
import { Status } from "../../components/Status";
import { Text } from "../../components/Text";

type Candidate = Schemas["Candidate"];

/** Clusters that others made: looked at first, changed only where a switch says so, then managed like our own. */
export function ImportCluster() {
  const read = $api.useQuery("get", "/api/v1/cluster-candidates", { params: { query: {} } });
  const [act, setAct] = useState<PlannedAct | null>(null);
  return (
    <SpaceBetween size="m">
      <ProblemAlert error={read.error} action={<Button onClick={() => void read.refetch()}>Try again</Button>} />
      <DataTable
        variant="full-page"
        items={read.data?.items ?? []}
        trackBy={(each) => each.eks_arn ?? each.hyperpod_arn ?? ""}
        wrapLines
        loading={read.isPending}
        loadingText="Looking for clusters"
        ariaLabels={{ tableLabel: "Clusters that could be imported" }}
        empty={<EmptyState error={read.error} title="No clusters of others" says="Every EKS cluster here is managed already." />}
        header={
          <Header
            variant="h1"
            description={read.data ? `Account ${read.data.account}, ${read.data.region}. The plan lists what is wrong and the cure of each; nothing is changed unless a switch says so.` : undefined}
            actions={<Button iconName="refresh" ariaLabel="Refresh" onClick={() => void read.refetch()} />}
          >
            Import a cluster
          </Header>
        }
        columnDefinitions={[
          { id: "eks", header: "EKS cluster", isRowHeader: true, cell: (each) => each.eks_name ?? "-" },
          { id: "version", header: "Kubernetes", cell: (each) => each.kubernetes_version ?? "-" },
          { id: "status", header: "EKS status", cell: (each) => <Status status={each.eks_status ?? "unknown"}>{each.eks_status ?? "unknown"}</Status> },
          { id: "hyperpod", header: "HyperPod cluster", cell: (each) => (each.hyperpod_name ? `${each.hyperpod_name} (${each.hyperpod_status})` : "none") },
          { id: "why", header: "Remarks", cell: (each) => <Text>{each.why ?? "-"}</Text> },
          { id: "acts", header: "Actions", cell: (each) => <Button disabled={!each.importable} onClick={() => setAct(importing(each))}>Import</Button> },
        ]}
      />
      {act && <PlannedActModal act={act} onClose={() => setAct(null)} />}
    </SpaceBetween>
  );
}

function importing(candidate: Candidate): PlannedAct {
  return {
    title: `Import ${candidate.eks_name}`,
    button: "Import",
    says: "Each switch mends one finding of the plan. What does not bear our tag is never deleted.",
    schema: "ImportCluster",
    without: ["region", "eks_cluster", "hyperpod_cluster"],
    initial: {
      region: candidate.region,
      eks_cluster: candidate.eks_name ?? undefined,
      hyperpod_cluster: candidate.hyperpod_name ?? undefined,
      tag: candidate.suggested_tag ?? undefined,
    },
    send: (body, { query: { dry_run }, header }) => api.POST("/api/v1/cluster-imports", { params: { query: { dry_run }, header }, body: body as Schemas["ImportCluster"] }),
  };
}
