import Box from "@cloudscape-design/components/box";
import Container from "@cloudscape-design/components/container";
import Header from "@cloudscape-design/components/header";
import KeyValuePairs from "@cloudscape-design/components/key-value-pairs";
import ProgressBar from "@cloudscape-design/components/progress-bar";
import SpaceBetween from "@cloudscape-design/components/space-between";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import type { Schemas } from "../../api/client";
import { words } from "../../components/Status";
import { Text } from "../../components/Text";
import { moment } from "../../components/time";

type Detail = Schemas["TrainingJobDetail"];

export function Overview({ detail }: { detail: Detail }) {
  const { job } = detail;
  const resources = Object.entries(detail.resources).map(([name, value]) => `${name}: ${value}`).join(", ");
  const pairs: [string, React.ReactNode][] = [
    ["Phase, as the operator says", job.phase],
    ["Framework", job.framework ? words(job.framework) : "-"],
    ["Nodes", `${job.nodes}${job.instance_type ? ` x ${job.instance_type}` : ""}`],
    ["Pods ready", `${job.pods_ready} of ${job.pods}`],
    ["Made", job.created_at ? moment(job.created_at) : "-"],
    ["Started", job.started_at ? moment(job.started_at) : "-"],
    ["Ended", job.ended_at ? moment(job.ended_at) : "-"],
    ["Queue", job.queue ?? "-"],
    ["Image", detail.image ?? "-"],
    ["Resources of a pod", resources || "-"],
    ["Volumes", detail.mounts.join(", ") || "-"],
    ["Service account", detail.service_account ?? "-"],
    ["MLflow", detail.tracking ?? "-"],
  ];
  return (
    <SpaceBetween size="l">
      {detail.budget && <BudgetPanel budget={detail.budget} />}
      <Container header={<Header variant="h2">Job</Header>}>
        <KeyValuePairs columns={3} items={pairs.map(([label, value]) => ({ label, value: <Text>{value}</Text> }))} />
      </Container>
      <Conditions detail={detail} />
    </SpaceBetween>
  );
}

/** What recovery may cost, and has cost. */
function BudgetPanel({ budget }: { budget: NonNullable<Detail["budget"]> }) {
  const hours = budget.evaluation_seconds ? `in each ${Math.round(budget.evaluation_seconds / 360) / 10} h` : undefined;
  return (
    <Container header={<Header variant="h2" description="How often the operator may start the job again before it fails, and what of that is used.">Recovery budget</Header>}>
      <SpaceBetween size="l">
        <Bar label="Restarts of its whole life" spent={budget.retries} />
        <Bar label="Restarts of processes before all pods are made anew" spent={budget.restarts_before_full} says={hours} />
        <Bar label="Restarts with new pods" spent={budget.full_restarts} says={hours} />
        {budget.period_ends_at && <Box color="text-body-secondary">{`Period ${budget.period}, until ${moment(budget.period_ends_at)}.`}</Box>}
      </SpaceBetween>
    </Container>
  );
}

function Bar({ label, spent, says }: { label: string; spent: Schemas["Spent"]; says?: string }) {
  if (spent.limit === null || spent.limit === undefined) return <StatusIndicator type="info">{`${label}: ${spent.used}, no limit`}</StatusIndicator>;
  const share = spent.limit ? Math.min((spent.used / spent.limit) * 100, 100) : 100;
  const over = (spent.left ?? 0) <= 0;
  return <ProgressBar label={label} value={share} description={says} additionalInfo={`${spent.used} of ${spent.limit} used, ${spent.left ?? 0} left`} {...(over && spent.used > 0 ? { status: "error" as const, resultText: `${spent.used} of ${spent.limit} used: the next fault ends the job` } : {})} />;
}

function Conditions({ detail }: { detail: Detail }) {
  if (detail.conditions.length === 0) return null;
  return (
    <Container header={<Header variant="h2">Conditions</Header>}>
      <ul className="is-plain-list">
        {(detail.conditions as unknown as Record<string, string | null>[]).map((each, at) => (
          <li key={at} className="is-wrap">
            <b>{each["type"]}</b> {each["status"]}
            {each["reason"] ? ` (${each["reason"]})` : ""}
            {each["untrusted_message"] ? `: ${each["untrusted_message"]}` : ""}
          </li>
        ))}
      </ul>
    </Container>
  );
}
