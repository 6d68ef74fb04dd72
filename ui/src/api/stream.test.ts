import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { OperationStream, type Socket } from "./stream";

class FakeSocket implements Socket {
  onopen: Socket["onopen"] = null;
  onmessage: Socket["onmessage"] = null;
  onclose: Socket["onclose"] = null;
  closed = false;
  constructor(readonly path: string) {}
  close() {
    this.closed = true;
  }
  opens() {
    this.onopen?.call(this as unknown as WebSocket, new Event("open"));
  }
  says(message: object) {
    this.onmessage?.call(this as unknown as WebSocket, new MessageEvent("message", { data: JSON.stringify(message) }));
  }
  falls(code: number) {
    this.onclose?.call(this as unknown as WebSocket, new CloseEvent("close", { code }));
  }
}

const event = (seq: number) => ({ type: "event", event: { seq, message: `event ${seq}` } });

function follow() {
  const sockets: FakeSocket[] = [];
  const stream = new OperationStream("op-1", (path) => {
    const socket = new FakeSocket(path);
    sockets.push(socket);
    return socket;
  });
  const stop = stream.subscribe(() => undefined);
  return { stream, sockets, stop, last: () => sockets.at(-1)! };
}

describe("OperationStream", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it("asks again only for what lies behind the last event it has, and tells none twice", () => {
    const { stream, sockets, last } = follow();
    expect(last().path).toBe("/api/v1/operations/op-1/stream?after=0");
    last().opens();
    last().says(event(1));
    last().says(event(2));
    last().falls(1006);
    expect(stream.snapshot().connection).toBe("away");
    vi.advanceTimersByTime(500);
    expect(sockets).toHaveLength(2);
    expect(last().path).toBe("/api/v1/operations/op-1/stream?after=2");
    last().opens();
    last().says(event(2));
    last().says(event(3));
    expect(stream.snapshot().connection).toBe("live");
    expect(stream.snapshot().events.map((each) => each.seq)).toEqual([1, 2, 3]);
  });

  it("waits longer each time, up to five seconds, and afresh after it was live", () => {
    const { sockets, last } = follow();
    for (const delay of [500, 1000, 2000, 4000, 5000, 5000]) {
      const before = sockets.length;
      last().falls(1006);
      vi.advanceTimersByTime(delay - 1);
      expect(sockets).toHaveLength(before);
      vi.advanceTimersByTime(1);
      expect(sockets).toHaveLength(before + 1);
    }
    last().opens();
    last().falls(1006);
    vi.advanceTimersByTime(500);
    expect(sockets).toHaveLength(8);
  });

  it("does not come back after the end, until it is reopened", () => {
    const { stream, sockets, last } = follow();
    last().opens();
    last().says(event(7));
    last().falls(4000);
    vi.advanceTimersByTime(60_000);
    expect(stream.snapshot().connection).toBe("ended");
    expect(sockets).toHaveLength(1);
    stream.reopen();
    expect(last().path).toContain("after=7");
    expect(sockets).toHaveLength(2);
  });

  it("keeps the server's problem and ends", () => {
    const { stream, last } = follow();
    last().says({ type: "problem", problem: { code: "operation.unknown", title: "Unknown", detail: "There is none." } });
    last().falls(4404);
    expect(stream.snapshot().problem?.code).toBe("operation.unknown");
    expect(stream.snapshot().connection).toBe("ended");
  });

  it("does not come back when the session has ended", () => {
    const { stream, sockets, last } = follow();
    last().opens();
    last().says({ type: "problem", problem: { code: "identity.ended", title: "Ended", detail: "The session has ended." } });
    last().falls(4401);
    vi.advanceTimersByTime(60_000);
    expect(stream.snapshot().problem?.code).toBe("identity.ended");
    expect(sockets).toHaveLength(1);
  });

  it("lets go of the socket when nobody looks", () => {
    const { sockets, stop, last } = follow();
    last().opens();
    stop();
    expect(last().closed).toBe(true);
    vi.advanceTimersByTime(60_000);
    expect(sockets).toHaveLength(1);
  });
});
