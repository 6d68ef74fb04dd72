import type { LogEvent } from "../../api/logStream";

export interface LogLine {
  id: number;
  kind: "line" | "note" | "dropped";
  source: string;
  /** RFC 3339, as the node wrote it; empty for what is no line */
  at: string;
  text: string;
}

export interface Place {
  source: string;
  pod: string;
  container: string;
  state: string;
  because: string | null;
}

/** more than this is not kept in the page; a download has all of it */
export const MOST_LINES = 50_000;
const SLACK = 5_000;

/**
 * The lines of a page in the order of their times: what was there at first is sorted as a whole when all of it has come, later lines as they
 * come, message by message. It never grows beyond a bound; what falls out is counted.
 */
export class LogBuffer {
  lines: LogLine[] = [];
  places = new Map<string, Place>();
  /** lines that were here and are not any more */
  forgotten = 0;
  settled = false;
  private held: LogLine[] = [];
  private nextId = 0;

  constructor(private readonly most = MOST_LINES) {}

  take(events: readonly LogEvent[]): void {
    for (const event of events) this.takeOne(event);
    if (this.settled || this.held.length > this.most) this.release();
  }

  /** Begin anew, as for other questions. */
  clear(): void {
    this.lines = [];
    this.held = [];
    this.places = new Map();
    this.forgotten = 0;
    this.settled = false;
  }

  private takeOne(event: LogEvent): void {
    if (event.type === "source") this.places.set(event.source, event);
    if (event.type === "settled") this.settled = true;
    if (event.type === "lines") for (const line of event.text.slice(0, -1).split("\n")) this.hold("line", event.source, line);
    if (event.type === "note" || event.type === "dropped") {
      const text = event.type === "note" ? event.text : `${event.lines} lines were written faster than they could be shown, and are left out.`;
      this.held.push({ id: this.nextId++, kind: event.type, source: event.source, at: this.lastOf(event.source), text });
    }
  }

  private hold(kind: "line", source: string, line: string): void {
    const space = line.indexOf(" ");
    this.held.push({ id: this.nextId++, kind, source, at: line.slice(0, space), text: line.slice(space + 1) });
  }

  /** A note stands behind the last line of its container. */
  private lastOf(source: string): string {
    for (const lines of [this.held, this.lines]) {
      for (let at = lines.length - 1; at >= Math.max(lines.length - 1000, 0); at--) if (lines[at]!.source === source) return lines[at]!.at;
    }
    return this.lines.at(-1)?.at ?? "";
  }

  private release(): void {
    if (this.held.length === 0) return;
    const came = this.held.sort((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : a.id - b.id));
    this.held = [];
    const lines = this.lines.concat(came);
    const over = lines.length - this.most;
    this.forgotten += over > SLACK ? over : 0;
    this.lines = over > SLACK ? lines.slice(over) : lines;
  }
}

/** What is shown of the lines: of one container or all. */
export function shownOf(lines: readonly LogLine[], source: string): readonly LogLine[] {
  return source ? lines.filter((each) => each.source === source) : lines;
}
