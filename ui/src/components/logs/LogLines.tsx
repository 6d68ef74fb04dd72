import { memo, useLayoutEffect, useRef, useState } from "react";
import { piecesOf } from "./ansi";
import type { LogLine } from "./buffer";

const ROW_PX = 20;
const BEYOND = 40;
/** With wrapped lines rows have heights of their own: so many are put down, no more. */
const MOST_WRAPPED = 2_000;
const COLOURS = 10;

interface Props {
  lines: readonly LogLine[];
  /** source -> its number, for its colour; null when there is only one */
  numbers: ReadonlyMap<string, number> | null;
  wrap: boolean;
  times: boolean;
  search: string;
  follow: boolean;
  onFollow: (follow: boolean) => void;
}

/** The lines themselves: only those before the eyes are in the page, however many there are. */
export function LogLines({ lines, numbers, wrap, times, search, follow, onFollow }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  const shown = wrap ? lines.slice(-MOST_WRAPPED) : lines;
  const from = wrap ? 0 : Math.max(Math.floor(view.top / ROW_PX) - BEYOND, 0);
  const to = wrap ? shown.length : Math.min(Math.ceil((view.top + view.height) / ROW_PX) + BEYOND, shown.length);
  useLayoutEffect(() => {
    if (follow && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [follow, shown, wrap]);
  const scrolled = () => {
    const { scrollTop: top, clientHeight: height, scrollHeight } = box.current!;
    setView({ top, height });
    const atEnd = scrollHeight - top - height < ROW_PX * 1.5;
    if (atEnd !== follow) onFollow(atEnd);
  };
  const rows = shown.slice(from, to).map((each) => <Row key={each.id} line={each} number={numbers?.get(each.source)} times={times} search={search} />);
  return (
    <div ref={box} className={`is-logs ${wrap ? "is-logs-wrapped" : ""}`} role="log" aria-label="Log lines" tabIndex={0} onScroll={scrolled}>
      {wrap ? (
        rows
      ) : (
        <div style={{ height: shown.length * ROW_PX, position: "relative" }}>
          <div style={{ position: "absolute", top: from * ROW_PX, minWidth: "100%" }}>{rows}</div>
        </div>
      )}
    </div>
  );
}

const Row = memo(function Row({ line, number, times, search }: { line: LogLine; number?: number; times: boolean; search: string }) {
  if (line.kind !== "line") {
    return (
      <div className="is-log-row is-log-note">
        -- {nameOf(line.source)}: {line.text} --
      </div>
    );
  }
  return (
    <div className="is-log-row">
      {times && <span className="is-log-time">{line.at.slice(11, 23)} </span>}
      {number !== undefined && <span className={`is-log-source is-source-${number % COLOURS}`}>{nameOf(line.source)} </span>}
      {piecesOf(line.text).map((piece, at) => (
        <span key={at} className={piece.className || undefined} style={piece.color || piece.background ? { color: piece.color, background: piece.background } : undefined}>
          <Marked text={piece.text} search={search} />
        </span>
      ))}
    </div>
  );
});

/** A text with what was searched for marked. */
function Marked({ text, search }: { text: string; search: string }) {
  const at = search ? text.toLowerCase().indexOf(search.toLowerCase()) : -1;
  if (at < 0) return text;
  return (
    <>
      {text.slice(0, at)}
      <mark>{text.slice(at, at + search.length)}</mark>
      <Marked text={text.slice(at + search.length)} search={search} />
    </>
  );
}

/** "namespace/pod/container" without the namespace, and without the container where its name says nothing. */
export function nameOf(source: string): string {
  const [, pod = source, container = ""] = source.split("/");
  return container && container !== "main" ? `${pod}/${container}` : pod;
}
