import type { Schemas } from "./client";
import { isProblem, type Problem } from "./problems";

export type Operation = Schemas["Operation"];
export type OperationEvent = Schemas["EventRow"];
export type Connection = "connecting" | "live" | "away" | "ended";

const CLOSE_ENDED = 4000;
const CLOSE_PROBLEM = 4404;
/** The token was revoked or the session has ended: coming back would be refused. */
const CLOSE_UNAUTHENTICATED = 4401;
const FIRST_DELAY_MS = 500;
const LONGEST_DELAY_MS = 5000;

export interface StreamState {
  operation: Operation | null;
  events: readonly OperationEvent[];
  connection: Connection;
  problem: Problem | null;
}

/** What the stream needs of a WebSocket; the tests give their own. */
export type Socket = Pick<WebSocket, "close" | "onopen" | "onmessage" | "onclose">;

function openSocket(path: string): Socket {
  const scheme = location.protocol === "https:" ? "wss:" : "ws:";
  return new WebSocket(`${scheme}//${location.host}${path}`);
}

/**
 * Follows one operation: snapshots and events over a WebSocket. When the socket falls it comes back by itself and asks
 * only for what lies behind the last sequence it has, so that no event is lost or told twice.
 */
export class OperationStream {
  private state: StreamState = { operation: null, events: [], connection: "connecting", problem: null };
  private listeners = new Set<() => void>();
  private socket: Socket | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private delay = FIRST_DELAY_MS;
  private lastSeq = 0;

  constructor(
    private readonly id: string,
    private readonly open: (path: string) => Socket = openSocket,
  ) {}

  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    if (this.listeners.size === 1) this.connect();
    return () => {
      this.listeners.delete(listener);
      if (this.listeners.size === 0) this.stop();
    };
  };

  snapshot = (): StreamState => this.state;

  /** Look again at an operation whose stream had ended: it was retried. */
  reopen = (): void => {
    if (this.state.connection === "ended") this.connect();
  };

  private connect(): void {
    clearTimeout(this.timer);
    this.drop();
    const socket = this.open(`/api/v1/operations/${encodeURIComponent(this.id)}/stream?after=${this.lastSeq}`);
    this.socket = socket;
    socket.onopen = () => {
      this.delay = FIRST_DELAY_MS;
      this.change({ connection: "live" });
    };
    socket.onmessage = (message) => this.take(JSON.parse(String(message.data)) as Record<string, unknown>);
    socket.onclose = (close) => this.closed(close.code);
    if (this.state.connection === "ended") this.change({ connection: "connecting" });
  }

  private take(message: Record<string, unknown>): void {
    if (message["type"] === "operation") this.change({ operation: message["operation"] as Operation });
    if (message["type"] === "problem" && isProblem(message["problem"])) this.change({ problem: message["problem"] });
    if (message["type"] !== "event") return;
    const event = message["event"] as OperationEvent;
    if (event.seq <= this.lastSeq) return;
    this.lastSeq = event.seq;
    this.change({ events: [...this.state.events, event] });
  }

  private closed(code: number): void {
    this.socket = null;
    if (code === CLOSE_ENDED || code === CLOSE_PROBLEM || code === CLOSE_UNAUTHENTICATED) {
      this.change({ connection: "ended" });
      return;
    }
    this.change({ connection: "away" });
    this.timer = setTimeout(() => this.connect(), this.delay);
    this.delay = Math.min(this.delay * 2, LONGEST_DELAY_MS);
  }

  private stop(): void {
    clearTimeout(this.timer);
    this.drop();
  }

  private drop(): void {
    if (!this.socket) return;
    this.socket.onopen = this.socket.onmessage = this.socket.onclose = null;
    this.socket.close();
    this.socket = null;
  }

  private change(part: Partial<StreamState>): void {
    this.state = { ...this.state, ...part };
    this.listeners.forEach((tell) => tell());
  }
}
