import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import Input from "@cloudscape-design/components/input";
import Select from "@cloudscape-design/components/select";
import SpaceBetween from "@cloudscape-design/components/space-between";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import Toggle from "@cloudscape-design/components/toggle";
import { useMemo, useState } from "react";
import { downloadAddress, type LogQuery } from "../../api/logStream";
import { ProblemError } from "../../api/problems";
import { ProblemAlert } from "../ProblemAlert";
import { type LogLine, shownOf } from "./buffer";
import { LogLines, nameOf } from "./LogLines";
import { type Logs, useLogs } from "./useLogs";

const TAILS = ["100", "1000", "5000"].map((each) => ({ value: each, label: `Last ${each} lines` }));
const CONTEXTS = ["0", "2", "5", "20"].map((each) => ({ value: each, label: each === "0" ? "Only what is found" : `${each} lines around` }));
const ALL = { value: "", label: "All containers, merged" };

interface Props {
  cluster: string;
  /** whose logs: a pod, a job, a deployment, an endpoint or a selector */
  of: LogQuery;
}

/** Logs as they are written, of one pod or of many. What programs wrote is put down as text, whatever it says. */
export function LogViewer({ cluster, of }: Props) {
  const [tail, setTail] = useState("100");
  const [typed, setTyped] = useState("");
  const [search, setSearch] = useState("");
  const [context, setContext] = useState("0");
  const [source, setSource] = useState("");
  const [look, setLook] = useState({ wrap: false, times: true });
  const [follow, setFollow] = useState(true);
  const [paused, setPaused] = useState<readonly LogLine[] | null>(null);
  const query: LogQuery = { ...of, tail: search ? 5000 : Number(tail), search: search || undefined, context: search ? Number(context) : undefined };
  const logs = useLogs(cluster, query);
  const numbers = useMemo(() => new Map(logs.places.map((each, at) => [each.source, at])), [logs.places]);
  const lines = useMemo(() => shownOf(paused ?? logs.lines, source), [paused, logs.lines, source]);
  const sources = [ALL, ...logs.places.map((each) => ({ value: each.source, label: nameOf(each.source), description: each.because ?? each.state }))];
  return (
    <SpaceBetween size="s">
      {logs.problem && <ProblemAlert error={new ProblemError(logs.problem)} />}
      <form
        onSubmit={(event) => {
          event.preventDefault();
          setPaused(null);
          setSearch(typed.trim());
        }}
      >
        <SpaceBetween size="xs" direction="horizontal" alignItems="center">
          {logs.places.length > 1 && <Select selectedOption={sources.find((each) => each.value === source) ?? ALL} options={sources} filteringType={sources.length > 10 ? "auto" : "none"} ariaLabel="Containers" onChange={({ detail }) => setSource(detail.selectedOption.value ?? "")} />}
          <Input value={typed} type="search" placeholder="Find, then Enter" ariaLabel="Find in the logs" spellcheck={false} onChange={({ detail }) => { setTyped(detail.value); if (!detail.value) setSearch(""); }} />
          {search ? (
            <Select selectedOption={CONTEXTS.find((each) => each.value === context)!} options={CONTEXTS} ariaLabel="Lines around what is found" onChange={({ detail }) => setContext(detail.selectedOption.value ?? "0")} />
          ) : (
            <Select selectedOption={TAILS.find((each) => each.value === tail)!} options={TAILS} ariaLabel="How many lines at first" onChange={({ detail }) => setTail(detail.selectedOption.value ?? "100")} />
          )}
          <Button iconName={paused ? "play" : "pause"} onClick={() => setPaused(paused ? null : logs.lines)}>
            {paused ? "Go on" : "Pause"}
          </Button>
          <Button iconName="angle-down" disabled={follow} onClick={() => setFollow(true)}>
            Newest
          </Button>
          <Button iconName="download" href={downloadAddress(cluster, { ...of, search: search || undefined })} download>
            Download
          </Button>
          <Toggle checked={look.wrap} onChange={({ detail }) => setLook({ ...look, wrap: detail.checked })}>
            Wrap
          </Toggle>
          <Toggle checked={look.times} onChange={({ detail }) => setLook({ ...look, times: detail.checked })}>
            Times
          </Toggle>
          <State logs={logs} paused={paused !== null} />
        </SpaceBetween>
      </form>
      <LogLines lines={lines} numbers={logs.places.length > 1 ? numbers : null} {...look} search={search} follow={follow} onFollow={setFollow} />
      <Box color="text-body-secondary" fontSize="body-s">
        {told(logs, lines.length, paused)}
      </Box>
    </SpaceBetween>
  );
}

function State({ logs, paused }: { logs: Logs; paused: boolean }) {
  if (logs.connection === "away") return <StatusIndicator type="warning">Connection lost, trying again</StatusIndicator>;
  if (logs.connection === "ended") return <StatusIndicator type="stopped">Ended</StatusIndicator>;
  if (paused) return <StatusIndicator type="stopped">Paused</StatusIndicator>;
  if (!logs.settled) return <StatusIndicator type="loading">Reading</StatusIndicator>;
  return <StatusIndicator type="success">Live</StatusIndicator>;
}

const count = (number: number, what: string) => `${number} ${what}${number === 1 ? "" : "s"}`;

function told(logs: Logs, shown: number, paused: readonly LogLine[] | null): string {
  const waiting = logs.places.filter((each) => each.state === "waiting");
  const parts = [
    `${count(shown, "line")} of ${count(logs.places.length, "container")}`,
    logs.forgotten > 0 && `${logs.forgotten} older ones are no longer in this page: download has them`,
    paused && `${logs.lines.length - paused.length + logs.forgotten} came since the pause`,
    waiting.length > 0 && `${count(waiting.length, "container")} not begun (${waiting[0]!.because ?? "waiting"})`,
  ];
  return `${parts.filter(Boolean).join("; ")}.`;
}
