import { isProblem, type Problem } from "./problems";
import type { Connection, Socket } from "./stream";

/** What the server says of logs; see faces/api/log_stream.py. */
export type LogEvent =
  | { type: "source"; source: string; pod: string; container: string; state: string; because: string | null }
  | { type: "lines"; source: string; position: string; lines: number; text: string }
  | { type: "note"; source: string; text: string }
  | { type: "dropped"; source: string; lines: number }
  | { type: "settled"; sources: number }
  | { type: "problem"; problem: unknown };

export interface LogQuery {
  namespace?: string;
  pod?: string;
  job?: string;
  job_kind?: string;
  deployment?: string;
  endpoint?: string;
  selector?: string;
  container?: string;
  tail?: number;
  since_seconds?: number;
  search?: string;
  context?: number;
}

const CLOSE_PROBLEM = 4404;
const CLOSE_UNAUTHENTICATED = 4401;
const FIRST_DELAY_MS = 500;
const LONGEST_DELAY_MS = 10_000;
/** places that fit into one message of the socket */
const MOST_PLACES = 400;

type LogSocket = Socket & Pick<WebSocket, "send">;

function openSocket(path: string): LogSocket {
  const scheme = location.protocol === "https:" ? "wss:" : "ws:";
  return new WebSocket(`${scheme}//${location.host}${path}`);
}

/** The parameters of an address; what is left out is left out. */
export function paramsOf(query: LogQuery): string {
  const told = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
  return new URLSearchParams(told.map(([name, value]) => [name, String(value)])).toString();
}

/** Where everything that is still there is downloaded as text. */
export function downloadAddress(cluster: string, query: LogQuery): string {
  return `/api/v1/clusters/${encodeURIComponent(cluster)}/logs/download?${paramsOf({ ...query, tail: undefined })}`;
}

/**
 * Follows logs over a WebSocket. When it falls it comes back by itself and says how far it was in each container: nothing is missed that
 * is still there, and nothing is told twice.
 */
export class LogStream {
  connection: Connection = "connecting";
  problem: Problem | null = null;
  private places = new Map<string, string>();
  private socket: LogSocket | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private delay = FIRST_DELAY_MS;

  constructor(
    private readonly cluster: string,
    private readonly query: LogQuery,
    private readonly take: (events: readonly LogEvent[]) => void,
    private readonly changed: () => void,
    private readonly open: (path: string) => LogSocket = openSocket,
  ) {}

  start(): void {
    const resume = this.places.size > 0;
    const params = paramsOf(this.query) + (resume ? "&resume=true" : "");
    const socket = this.open(`/api/v1/clusters/${encodeURIComponent(this.cluster)}/logs/stream?${params}`);
    this.socket = socket;
    socket.onopen = () => {
      this.delay = FIRST_DELAY_MS;
      if (resume) socket.send(JSON.stringify({ after: Object.fromEntries([...this.places].slice(-MOST_PLACES)) }));
      this.become("live");
    };
    socket.onmessage = (message) => this.heard(JSON.parse(String(message.data)) as LogEvent[]);
    socket.onclose = (close) => this.closed(close.code);
  }

  stop(): void {
    clearTimeout(this.timer);
    if (!this.socket) return;
    this.socket.onopen = this.socket.onmessage = this.socket.onclose = null;
    this.socket.close();
    this.socket = null;
  }

  private heard(events: readonly LogEvent[]): void {
    for (const event of events) {
      if (event.type === "lines") this.note(event.source, event.position);
      if (event.type === "problem" && isProblem(event.problem)) this.problem = event.problem;
    }
    this.take(events);
  }

  /** The newest places last: those are kept when there are too many. */
  private note(source: string, position: string): void {
    this.places.delete(source);
    this.places.set(source, position);
  }

  private closed(code: number): void {
    this.socket = null;
    if (code === CLOSE_PROBLEM || code === CLOSE_UNAUTHENTICATED) {
      this.become("ended");
      return;
    }
    this.become("away");
    this.timer = setTimeout(() => this.start(), this.delay);
    this.delay = Math.min(this.delay * 2, LONGEST_DELAY_MS);
  }

  private become(connection: Connection): void {
    this.connection = connection;
    this.changed();
  }
}
