import Box from "@cloudscape-design/components/box";
import Toggle from "@cloudscape-design/components/toggle";
import { useState } from "react";
import type { OperationEvent } from "../api/stream";
import { DataTable } from "./DataTable";
import { EmptyState } from "./EmptyState";
import { Status } from "./Status";
import { Text } from "./Text";
import { clock, moment } from "./time";

const MOST_SHOWN = 500;

/** What happened, newest first. The text may be AWS's: it is shown as text. */
export function EventLog({ events }: { events: readonly OperationEvent[] }) {
  const [loudOnly, setLoudOnly] = useState(false);
  const wanted = loudOnly ? events.filter((each) => each.level !== "info") : events;
  const items = wanted.slice(-MOST_SHOWN).reverse();
  return (
    <DataTable
      variant="embedded"
      contentDensity="compact"
      wrapLines
      items={items}
      trackBy={(each) => String(each.seq)}
      ariaLabels={{ tableLabel: "Events of the operation" }}
      empty={<EmptyState title="No events" />}
      header={
        <Toggle checked={loudOnly} onChange={({ detail }) => setLoudOnly(detail.checked)}>
          Only warnings and errors
        </Toggle>
      }
      footer={wanted.length > MOST_SHOWN ? <Box textAlign="center">The newest {MOST_SHOWN} of {wanted.length}</Box> : undefined}
      columnDefinitions={[
        { id: "at", header: "Time", cell: (each) => <time title={moment(each.at)} dateTime={each.at}>{clock(each.at)}</time>, width: 120 },
        { id: "level", header: "Level", cell: (each) => <Status status={each.level} />, width: 110 },
        { id: "stage", header: "Stage", cell: (each) => each.stage ?? "-", width: 150 },
        { id: "message", header: "Message", cell: (each) => <Text log>{each.message}</Text>, isRowHeader: true },
      ]}
    />
  );
}
