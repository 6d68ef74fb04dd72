import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { downloadAddress, type LogEvent, LogStream } from "./logStream";

class FakeSocket {
  onopen: WebSocket["onopen"] = null;
  onmessage: WebSocket["onmessage"] = null;
  onclose: WebSocket["onclose"] = null;
  sent: string[] = [];
  closed = false;
  constructor(readonly path: string) {}
  close() {
    this.closed = true;
  }
  send(text: string | ArrayBufferLike | Blob | ArrayBufferView) {
    this.sent.push(String(text));
  }
  opens() {
    this.onopen?.call(this as unknown as WebSocket, new Event("open"));
  }
  says(events: object[]) {
    this.onmessage?.call(this as unknown as WebSocket, new MessageEvent("message", { data: JSON.stringify(events) }));
  }
  falls(code: number) {
    this.onclose?.call(this as unknown as WebSocket, new CloseEvent("close", { code }));
  }
}

function follow() {
  const sockets: FakeSocket[] = [];
  const told: LogEvent[] = [];
  const stream = new LogStream("a b", { selector: "app=x", tail: 10, search: "" }, (events) => told.push(...events), () => undefined, (path) => {
    const socket = new FakeSocket(path);
    sockets.push(socket);
    return socket;
  });
  stream.start();
  return { stream, sockets, told, last: () => sockets.at(-1)! };
}

describe("LogStream", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it("comes back by itself and says how far it was", () => {
    const { stream, sockets, last } = follow();
    expect(last().path).toBe("/api/v1/clusters/a%20b/logs/stream?selector=app%3Dx&tail=10");
    last().opens();
    expect(last().sent).toEqual([]);
    last().says([{ type: "lines", source: "n/a/c", position: "T#1", lines: 1, text: "T one\n" }]);
    last().says([{ type: "lines", source: "n/a/c", position: "T#2", lines: 1, text: "T two\n" }]);
    last().falls(1006);
    expect(stream.connection).toBe("away");
    vi.advanceTimersByTime(500);
    expect(sockets).toHaveLength(2);
    expect(last().path).toContain("&resume=true");
    last().opens();
    expect(JSON.parse(last().sent[0]!)).toEqual({ after: { "n/a/c": "T#2" } });
    expect(stream.connection).toBe("live");
  });

  it("does not come back after a refusal, and has its reason", () => {
    const { stream, sockets, last } = follow();
    last().opens();
    last().says([{ type: "problem", problem: { code: "job.unknown", title: "t", detail: "There is no job.", kind: "not_found", status: 404 } }]);
    last().falls(4404);
    vi.advanceTimersByTime(60_000);
    expect(sockets).toHaveLength(1);
    expect(stream.connection).toBe("ended");
    expect(stream.problem?.detail).toBe("There is no job.");
  });

  it("closes its socket when nobody looks, and does not come back", () => {
    const { stream, sockets, last } = follow();
    stream.stop();
    expect(last().closed).toBe(true);
    vi.advanceTimersByTime(60_000);
    expect(sockets).toHaveLength(1);
  });

  it("downloads all, not the tail", () => {
    expect(downloadAddress("c", { pod: "p", tail: 10, namespace: "n" })).toBe("/api/v1/clusters/c/logs/download?pod=p&namespace=n");
  });
});
