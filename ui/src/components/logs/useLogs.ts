import { useEffect, useMemo, useState } from "react";
import { type LogQuery, LogStream } from "../../api/logStream";
import type { Problem } from "../../api/problems";
import type { Connection } from "../../api/stream";
import { LogBuffer, type LogLine, type Place } from "./buffer";

export interface Logs {
  lines: readonly LogLine[];
  places: readonly Place[];
  forgotten: number;
  settled: boolean;
  connection: Connection;
  problem: Problem | null;
}

const NOTHING: Logs = { lines: [], places: [], forgotten: 0, settled: false, connection: "connecting", problem: null };

/** Logs as they are written; another question begins anew. The page is told at most once a frame, however much comes. */
export function useLogs(cluster: string, query: LogQuery): Logs {
  const asked = JSON.stringify(query);
  const [logs, setLogs] = useState<{ of: string; told: Logs }>({ of: "", told: NOTHING });
  const of = `${cluster} ${asked}`;
  useEffect(() => {
    const buffer = new LogBuffer();
    let frame = 0;
    const tell = () => {
      frame = 0;
      setLogs({
        of,
        told: {
          lines: buffer.lines,
          places: [...buffer.places.values()],
          forgotten: buffer.forgotten,
          settled: buffer.settled,
          connection: stream.connection,
          problem: stream.problem,
        },
      });
    };
    const soon = () => {
      frame ||= requestAnimationFrame(tell);
    };
    const stream = new LogStream(cluster, JSON.parse(asked) as LogQuery, (events) => { buffer.take(events); soon(); }, soon);
    stream.start();
    return () => {
      cancelAnimationFrame(frame);
      stream.stop();
    };
  }, [cluster, asked, of]);
  return useMemo(() => (logs.of === of ? logs.told : NOTHING), [logs, of]);
}
