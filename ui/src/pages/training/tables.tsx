import Button from "@cloudscape-design/components/button";
import Header from "@cloudscape-design/components/header";
import Modal from "@cloudscape-design/components/modal";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useState } from "react";
import type { Schemas } from "../../api/client";
import { DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { LogViewer } from "../../components/logs/LogViewer";
import { Status } from "../../components/Status";
import { Text } from "../../components/Text";
import { moment } from "../../components/time";

type Pod = Schemas["TrainingPod"];

export function PodsTable({ cluster, namespace, detail }: { cluster: string; namespace: string; detail: Schemas["TrainingJobDetail"] }) {
  const [pod, setPod] = useState<Pod | null>(null);
  return (
    <SpaceBetween size="m">
      <DataTable
        items={[...detail.pods]}
        trackBy="name"
        wrapLines
        variant="container"
        header={<Header variant="h2" counter={`(${detail.pods.length + detail.pods_omitted})`}>Pods</Header>}
        ariaLabels={{ tableLabel: "Pods of the job" }}
        empty={<EmptyState title="No pods" says="The job's controller has made none yet, or they are gone with its end." />}
        columnDefinitions={[
          { id: "name", header: "Pod", isRowHeader: true, cell: (each) => each.name },
          { id: "role", header: "Role", cell: (each) => (each.rank === null || each.rank === undefined ? each.role : `${each.role} ${each.rank}`) },
          { id: "phase", header: "Phase", minWidth: 120, cell: (each) => <Status status={each.ready ? "ok" : each.phase}>{each.ready ? "Ready" : each.phase}</Status> },
          { id: "because", header: "Why", cell: (each) => <Text>{each.because ?? "-"}</Text> },
          { id: "node", header: "Node", cell: (each) => each.node ?? "-" },
          { id: "restarts", header: "Restarts", cell: (each) => each.restarts },
          { id: "acts", header: "Logs", cell: (each) => <Button variant="inline-link" ariaLabel={`Logs of ${each.name}`} onClick={() => setPod(each)}>Show</Button> },
        ]}
      />
      {pod && (
        <Modal visible size="max" header={`Logs of ${pod.name}`} closeAriaLabel="Close" onDismiss={() => setPod(null)}>
          <LogViewer cluster={cluster} of={{ namespace, pod: pod.name }} />
        </Modal>
      )}
    </SpaceBetween>
  );
}

/** What the cluster said of the job and its pods. The texts are others': shown as text. */
export function EventsTable({ events }: { events: readonly Schemas["TrainingEvent"][] }) {
  return (
    <DataTable
      items={[...events]}
      wrapLines
      contentDensity="compact"
      header={<Header variant="h2" counter={`(${events.length})`}>Events</Header>}
      ariaLabels={{ tableLabel: "Events of the job" }}
      empty={<EmptyState title="No events" says="The cluster keeps events for about an hour." />}
      columnDefinitions={[
        { id: "at", header: "Time", cell: (each) => (each.at ? moment(each.at) : "-"), width: 190 },
        { id: "level", header: "Level", cell: (each) => <Status status={each.level === "Warning" ? "warning" : "info"}>{each.level}</Status>, width: 120 },
        { id: "about", header: "About", cell: (each) => each.about },
        { id: "reason", header: "Reason", cell: (each) => each.reason },
        { id: "message", header: "Message", isRowHeader: true, cell: (each) => <span className="is-wrap">{each.untrusted_message}{each.count > 1 ? ` (${each.count} times)` : ""}</span> },
      ]}
    />
  );
}
