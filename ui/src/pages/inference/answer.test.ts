import { describe, expect, it } from "vitest";
import { EventReader, type Piece } from "./answer";

const bytes = (text: string) => new TextEncoder().encode(text);
const chat = (content: string) => `data: ${JSON.stringify({ choices: [{ delta: { content } }] })}\n\n`;

function read(text: string, size: number): Piece[] {
  const reader = new EventReader();
  const whole = bytes(text);
  const pieces: Piece[] = [];
  for (let at = 0; at < whole.length; at += size) pieces.push(...reader.feed(whole.slice(at, at + size)));
  return pieces;
}

const wordsOf = (pieces: Piece[]) => pieces.map((each) => (each.kind === "words" ? each.text : "")).join("");

describe("a model's answer", () => {
  it("is read in whatever pieces it comes", () => {
    const whole = chat("Hé") + chat("llo 😀") + "data: [DONE]\n\n" + `event: figures\ndata: {"latency_ms": 3}\n\n`;
    for (const size of [1, 3, 1000]) {
      const pieces = read(whole, size);
      expect(wordsOf(pieces)).toBe("Héllo 😀");
      expect(pieces.at(-1)).toEqual({ kind: "figures", figures: { latency_ms: 3 } });
    }
  });

  it("keeps what is no JSON to itself", () => {
    expect(read("data: rubbish\n\n: comment\n\n", 5)).toEqual([]);
  });

  it("tells what the model refuses", () => {
    expect(read(`data: {"error": {"message": "too long"}}\n\n`, 9)).toEqual([{ kind: "refusal", text: "too long" }]);
    expect(read(`event: answer\ndata: {"error": "no such model", "text": null, "answer": null}\n\n`, 9)).toEqual([{ kind: "refusal", text: "no such model" }]);
  });

  it("shows an answer that is no text as JSON", () => {
    const [piece] = read(`event: answer\ndata: {"error": null, "text": null, "answer": {"data": [1]}}\n\n`, 50);
    expect(piece).toEqual({ kind: "answer", text: JSON.stringify({ data: [1] }, null, 2) });
  });
});
