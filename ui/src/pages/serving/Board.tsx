import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import ButtonDropdown from "@cloudscape-design/components/button-dropdown";
import ColumnLayout from "@cloudscape-design/components/column-layout";
import { useState } from "react";
import type { Schemas } from "../../api/client";
import type { PlannedAct } from "../../components/PlannedAct";
import { Status } from "../../components/Status";
import type { Place } from "../inference/acts";
import { unbind } from "./acts";
import { type Column, columnsOf, FREE } from "./columns";

/** A worker that is to work for another. `from` is what the person saw: another's is refused by the server. */
export interface Move {
  worker: string;
  from: string;
  to: string;
}

interface Props {
  place: Place;
  pool: Schemas["PoolItem"];
  /** the worker that is on its way */
  moving?: string;
  onMove: (move: Move) => void;
  onAct: (act: PlannedAct) => void;
}

/** Workers by whom they work for. A worker is dragged to another column, or moved by its menu with the keyboard. */
export function Board({ place, pool, moving, onMove, onAct }: Props) {
  const [over, setOver] = useState<string | null>(null);
  const columns = columnsOf(pool);
  const drop = (to: string, told: string) => {
    setOver(null);
    const [worker, from] = told.split(" ");
    if (worker && from && from !== to) onMove({ worker, from, to });
  };
  return (
    <ColumnLayout columns={Math.min(Math.max(columns.length, 1), 4) as 1 | 2 | 3 | 4} borders="vertical">
      {columns.map((column) => (
        <section
          key={column.business}
          aria-label={column.title}
          className={over === column.business ? "is-board-over" : undefined}
          onDragOver={(event) => {
            if (!column.takes) return;
            event.preventDefault();
            setOver(column.business);
          }}
          onDragLeave={() => setOver(null)}
          onDrop={(event) => drop(column.business, event.dataTransfer.getData("text/plain"))}
        >
          <Box variant="h3">
            {column.title} {column.wanted === undefined ? `(${column.workers.length})` : `(${column.workers.length} of ${column.wanted})`}
          </Box>
          {column.service && (
            <Box color="text-body-secondary">
              Service {column.service}{" "}
              <Button variant="inline-link" ariaLabel={`Take ${column.business} off`} onClick={() => onAct(unbind(place, column.business))}>
                Take off
              </Button>
            </Box>
          )}
          <ul className="is-plain-list">
            {column.workers.map((worker) => (
              <Card key={worker.name} worker={worker} column={column} columns={columns} moving={moving === worker.name} onMove={onMove} />
            ))}
          </ul>
        </section>
      ))}
    </ColumnLayout>
  );
}

interface CardProps {
  worker: Schemas["PoolWorker"];
  column: Column;
  columns: Column[];
  moving: boolean;
  onMove: (move: Move) => void;
}

function Card({ worker, column, columns, moving, onMove }: CardProps) {
  const others = columns.filter((each) => each.takes && each.business !== column.business);
  const moves = column.takes && worker.ready && !worker.leaving;
  const state = worker.leaving ? "cancelled" : worker.ready ? "ready" : "pending";
  return (
    <li draggable={moves} onDragStart={(event) => event.dataTransfer.setData("text/plain", `${worker.name} ${column.business}`)}>
      <Status status={state}>{worker.name}</Status>{" "}
      {moves && (
        <ButtonDropdown
          variant="inline-icon"
          ariaLabel={`Move ${worker.name}`}
          loading={moving}
          items={others.map((each) => ({ id: each.business, text: each.business === FREE ? "Set free" : `Give to ${each.business}` }))}
          onItemClick={({ detail }) => onMove({ worker: worker.name, from: column.business, to: detail.id })}
        />
      )}
      <Box color="text-body-secondary" fontSize="body-s">
        {worker.leaving ? "It is ending." : (worker.why ?? worker.node ?? "")}
      </Box>
    </li>
  );
}
