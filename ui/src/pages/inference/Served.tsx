import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import Header from "@cloudscape-design/components/header";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Spinner from "@cloudscape-design/components/spinner";
import Tabs from "@cloudscape-design/components/tabs";
import { useState } from "react";
import { useNavigate, useParams, useSearchParams } from "react-router";
import { $api, type Schemas } from "../../api/client";
import { DataTable } from "../../components/DataTable";
import { Diagnosis } from "../../components/Diagnosis";
import { EmptyState } from "../../components/EmptyState";
import { LogViewer } from "../../components/logs/LogViewer";
import { type PlannedAct, PlannedActModal } from "../../components/PlannedAct";
import { ProblemAlert } from "../../components/ProblemAlert";
import { Status } from "../../components/Status";
import { Text } from "../../components/Text";
import { TimeAgo } from "../../components/TimeAgo";
import { addressOf, deleteEndpoint, type Place } from "./acts";
import { Charts } from "./Charts";
import { EndpointPanel } from "./EndpointPanel";
import { Playground } from "./Playground";
import { StateOf } from "./Tab";

const REFRESH_MS = 5_000;

/** One thing that serves: how it stands, what it measures, what it says, and asking it. */
export function ServedModel() {
  const { cluster = "", namespace = "", name = "" } = useParams();
  const place = { cluster, namespace, name };
  const read = $api.useQuery("get", "/api/v1/clusters/{cluster}/served-models/{namespace}/{name}", { params: { path: place } }, { refetchInterval: REFRESH_MS });
  if (!read.data) return read.error ? <ProblemAlert error={read.error} action={<Button onClick={() => void read.refetch()}>Try again</Button>} /> : <Spinner size="large" />;
  return (
    <SpaceBetween size="m">
      <ProblemAlert error={read.error} />
      <Page key={addressOf(place)} place={place} detail={read.data} />
    </SpaceBetween>
  );
}

function Page({ place, detail }: { place: Place; detail: Schemas["ServedDetail"] }) {
  const { served } = detail;
  const [search, setSearch] = useSearchParams();
  const [act, setAct] = useState<PlannedAct | null>(null);
  const navigate = useNavigate();
  const managed = served.path === "managed";
  const overview = { id: "overview", label: "Overview", content: <Overview place={place} detail={detail} /> };
  const rest = [
    { id: "playground", label: "Playground", content: <Playground place={place} /> },
    { id: "metrics", label: "Metrics", content: <Charts place={place} /> },
    { id: "logs", label: "Logs", content: <LogViewer cluster={place.cluster} of={{ namespace: place.namespace, selector: detail.pod_selector }} /> },
    { id: "events", label: "Events", content: <Events events={detail.events} /> },
    ...(managed || served.kind === "Deployment" ? [{ id: "diagnosis", label: "Diagnosis", content: <Diagnosis of={managed ? "endpoint" : "deployment"} {...place} /> }] : []),
  ];
  return (
    <SpaceBetween size="l">
      <Header
        variant="h1"
        description={[served.model, served.engine, served.kind].filter(Boolean).join(" · ")}
        actions={
          managed && (
            <SpaceBetween size="xs" direction="horizontal">
              <Button onClick={() => navigate(`${addressOf(place)}/edit`)}>Change</Button>
              <Button onClick={() => setAct(deleteEndpoint(place))}>Delete</Button>
            </SpaceBetween>
          )
        }
      >
        {`${place.namespace}/${place.name}`}
      </Header>
      <div>
        <StateOf served={served} />
        {served.next_step && <Box color="text-body-secondary">{served.next_step}</Box>}
      </div>
      <Tabs activeTabId={search.get("tab") ?? "overview"} onChange={({ detail: { activeTabId } }) => setSearch({ tab: activeTabId }, { replace: true })} tabs={[overview, ...rest]} />
      {act && <PlannedActModal act={act} onClose={() => setAct(null)} />}
    </SpaceBetween>
  );
}

function Overview({ place, detail }: { place: Place; detail: Schemas["ServedDetail"] }) {
  return (
    <SpaceBetween size="l">
      {detail.served.path === "managed" && <EndpointPanel place={place} />}
      <DataTable
        header={<Header variant="h2" counter={`(${detail.replicas.length})`}>Replicas</Header>}
        items={detail.replicas}
        trackBy="name"
        ariaLabels={{ tableLabel: "Replicas" }}
        empty={<EmptyState title="No replicas" />}
        columnDefinitions={[
          { id: "name", header: "Pod", isRowHeader: true, cell: (each) => each.name },
          { id: "ready", header: "State", cell: (each) => <Status status={each.ready ? "ready" : "pending"}>{each.ready ? "Ready" : each.phase}</Status> },
          { id: "node", header: "Node", cell: (each) => each.node ?? "-" },
          { id: "restarts", header: "Restarts", cell: (each) => each.restarts },
          { id: "started", header: "Started", cell: (each) => (each.started_at ? <TimeAgo at={each.started_at} /> : "-") },
        ]}
      />
    </SpaceBetween>
  );
}

function Events({ events }: { events: Schemas["ServedDetail"]["events"] }) {
  return (
    <DataTable
      header={<Header variant="h2">Events</Header>}
      items={events}
      wrapLines
      contentDensity="compact"
      ariaLabels={{ tableLabel: "Events" }}
      empty={<EmptyState title="No events" />}
      columnDefinitions={[
        { id: "at", header: "Time", width: 190, cell: (each) => <TimeAgo at={each.at} /> },
        { id: "type", header: "Level", width: 110, cell: (each) => <Status status={each.type === "Warning" ? "warning" : "info"}>{each.type}</Status> },
        { id: "object", header: "About", width: 240, cell: (each) => <Text>{each.object}</Text> },
        { id: "reason", header: "Reason", width: 170, cell: (each) => each.reason },
        { id: "message", header: "Message", isRowHeader: true, cell: (each) => <Text log>{each.message}</Text> },
      ]}
    />
  );
}
