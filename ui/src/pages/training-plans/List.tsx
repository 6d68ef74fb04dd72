import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import Header from "@cloudscape-design/components/header";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useState } from "react";
import { $api, type Schemas } from "../../api/client";
import { DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { type PlannedAct, PlannedActModal } from "../../components/PlannedAct";
import { ProblemAlert } from "../../components/ProblemAlert";
import { Status } from "../../components/Status";
import { Text } from "../../components/Text";
import { moment } from "../../components/time";
import { buyOffering } from "./acts";
import { Offerings } from "./Offerings";

type Plan = Schemas["TrainingPlan"];

/** Reserved capacity: the plans of the account, and what could be bought. */
export function TrainingPlans() {
  const read = $api.useQuery("get", "/api/v1/training-plans", { params: { query: {} } });
  const [act, setAct] = useState<PlannedAct | null>(null);
  return (
    <SpaceBetween size="l">
      <ProblemAlert error={read.error} action={<Button onClick={() => void read.refetch()}>Try again</Button>} />
      <DataTable
        variant="full-page"
        items={read.data?.items ?? []}
        trackBy="arn"
        wrapLines
        loading={read.isPending}
        loadingText="Reading the training plans"
        ariaLabels={{ tableLabel: "Training plans" }}
        empty={<EmptyState error={read.error} title="No training plans" says="Look for an offering below: type, count and length." />}
        header={
          <Header
            variant="h1"
            counter={read.data ? `(${read.data.items.length})` : undefined}
            description={read.data ? `Reserved capacity in ${read.data.region}. An instance group takes it by its ARN.` : undefined}
            actions={<Button iconName="refresh" ariaLabel="Refresh" onClick={() => void read.refetch()} />}
          >
            Training plans
          </Header>
        }
        columnDefinitions={[
          { id: "name", header: "Plan", isRowHeader: true, cell: NameCell },
          { id: "status", header: "Status", cell: (each) => <Status status={each.status}>{each.status}</Status> },
          { id: "window", header: "Window", cell: (each) => `${each.starts_at ? moment(each.starts_at) : "?"} to ${each.ends_at ? moment(each.ends_at) : "?"}` },
          { id: "capacity", header: "Capacity", cell: (each) => each.capacities.map((one) => `${one.instance_type} in ${one.zone_id ?? "an unknown zone"}`).join("; ") },
          { id: "left", header: "Left", cell: (each) => `${each.available} of ${each.total}` },
          { id: "fee", header: "Fee", cell: (each) => (each.upfront_fee ? `${each.upfront_fee} ${each.currency ?? ""}` : "-") },
        ]}
      />
      <Offerings onBuy={(offering) => setAct(buyOffering(offering))} />
      {act && <PlannedActModal act={act} onClose={() => setAct(null)} />}
    </SpaceBetween>
  );
}

function NameCell(plan: Plan) {
  return (
    <>
      {plan.name}
      <Box variant="small" color="text-body-secondary" display="block">
        <Text>{plan.arn}</Text>
      </Box>
      {plan.status_message}
    </>
  );
}
