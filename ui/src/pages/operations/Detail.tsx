import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import Container from "@cloudscape-design/components/container";
import Header from "@cloudscape-design/components/header";
import KeyValuePairs from "@cloudscape-design/components/key-value-pairs";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Spinner from "@cloudscape-design/components/spinner";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import { useParams } from "react-router";
import { useActs, useOperation } from "../../api/operations";
import type { Connection, Operation } from "../../api/stream";
import { EventLog } from "../../components/EventLog";
import { OperationActs } from "../../components/OperationActs";
import { OperationProgress } from "../../components/OperationProgress";
import { OperationResult } from "../../components/OperationResult";
import { ProblemAlert } from "../../components/ProblemAlert";
import { RouterLink } from "../../components/RouterLink";
import { Status } from "../../components/Status";
import { duration, moment } from "../../components/time";

export function OperationDetail() {
  const { id = "" } = useParams();
  return <Live key={id} id={id} />;
}

function Live({ id }: { id: string }) {
  const { operation, events, connection, error, reopen } = useOperation(id);
  const acts = useActs(id, reopen);
  if (!operation) return error ? <ProblemAlert error={error} action={<Button onClick={() => location.reload()}>Try again</Button>} /> : <Spinner size="large" />;
  return (
    <SpaceBetween size="l">
      <Header
        variant="h1"
        description={operation.id}
        info={<Status status={operation.status} />}
        actions={<OperationActs operation={operation} perform={acts.perform} pending={acts.pending} />}
      >
        {operation.title}
        {operation.cluster ? `: ${operation.cluster}` : ""}
      </Header>
      <ProblemAlert error={acts.error} />
      <Stuck operation={operation} />
      <Facts operation={operation} />
      <Container header={<Header variant="h2">Stages</Header>}>
        <OperationProgress operation={operation} />
      </Container>
      {operation.result && <OperationResult result={operation.result} />}
      <Container header={<Header variant="h2" info={<Link connection={connection} />}>Events</Header>}>
        <EventLog events={events} />
      </Container>
    </SpaceBetween>
  );
}

/** Why it stands still, where it does, and what to do next. */
function Stuck({ operation }: { operation: Operation }) {
  if (operation.problem) {
    const said = operation.next_step && !operation.problem["hint"] ? { ...operation.problem, hint: operation.next_step } : operation.problem;
    return <ProblemAlert error={said} />;
  }
  return operation.next_step ? <Box>{operation.next_step}</Box> : null;
}

function Facts({ operation }: { operation: Operation }) {
  const cluster = operation.cluster;
  return (
    <Container>
      <KeyValuePairs
        columns={4}
        items={[
          { label: "Cluster", value: cluster ? <RouterLink href={`/clusters/${encodeURIComponent(cluster)}`}>{cluster}</RouterLink> : "-" },
          { label: "Asked for", value: moment(operation.created_at) },
          { label: operation.ended_at ? "Ended" : "Started", value: ended(operation) },
          { label: "Elapsed", value: duration(operation.elapsed_seconds) },
        ]}
      />
    </Container>
  );
}

function ended(operation: Operation): string {
  const at = operation.ended_at ?? operation.started_at;
  return at ? moment(at) : "Not yet";
}

function Link({ connection }: { connection: Connection }) {
  if (connection === "live") return <StatusIndicator type="success">Live</StatusIndicator>;
  if (connection === "ended") return <StatusIndicator type="stopped">Ended</StatusIndicator>;
  return <StatusIndicator type="loading">{connection === "away" ? "Server is away, reconnecting" : "Connecting"}</StatusIndicator>;
}
