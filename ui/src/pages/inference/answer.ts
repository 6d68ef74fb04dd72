import type { Problem } from "../../api/problems";

/** How a model's answer went; see faces/api/model_streams.py. */
export interface Figures {
  model: string | null;
  replica: string;
  status: number;
  latency_ms: number;
  first_token_ms: number | null;
  prompt_tokens: number | null;
  completion_tokens: number | null;
  tokens_per_second: number | null;
  finish_reason: string | null;
  curl: string;
}

/** What comes while a model answers. */
export type Piece =
  | { kind: "words"; text: string; thought: string }
  | { kind: "refusal"; text: string }
  | { kind: "answer"; text: string }
  | { kind: "problem"; problem: Problem }
  | { kind: "figures"; figures: Figures };

/** Reads server-sent events out of whatever pieces they come in. */
export class EventReader {
  private rest = "";
  private name = "message";
  private readonly decoder = new TextDecoder();

  /** The pieces that these bytes complete. */
  feed(bytes: Uint8Array): Piece[] {
    const lines = (this.rest + this.decoder.decode(bytes, { stream: true })).split(/\r?\n/);
    this.rest = lines.pop() ?? "";
    return lines.flatMap((line) => this.line(line));
  }

  private line(line: string): Piece[] {
    if (line === "") this.name = "message";
    if (line.startsWith("event:")) this.name = line.slice(6).trim();
    return line.startsWith("data:") ? piecesOf(this.name, line.slice(5).trim()) : [];
  }
}

interface Choice {
  delta?: { content?: string | null; reasoning_content?: string | null };
  text?: string;
}

function piecesOf(name: string, data: string): Piece[] {
  let told: unknown;
  try {
    told = JSON.parse(data);
  } catch {
    return []; // "[DONE]", or a line of a model that is no JSON
  }
  if (name === "figures") return [{ kind: "figures", figures: told as Figures }];
  if (name === "problem") return [{ kind: "problem", problem: told as Problem }];
  if (name === "answer") return answerOf(told as { error: string | null; text: string | null; answer: unknown });
  const { choices, error } = (told ?? {}) as { choices?: Choice[]; error?: unknown };
  if (error) return [{ kind: "refusal", text: textOf(error) }];
  return (choices ?? []).map((each) => ({ kind: "words", text: each.delta?.content ?? each.text ?? "", thought: each.delta?.reasoning_content ?? "" }));
}

function answerOf({ error, text, answer }: { error: string | null; text: string | null; answer: unknown }): Piece[] {
  return error ? [{ kind: "refusal", text: error }] : [{ kind: "answer", text: text ?? JSON.stringify(answer, null, 2) }];
}

function textOf(error: unknown): string {
  if (typeof error === "object" && error !== null && "message" in error) return String(error.message);
  return typeof error === "string" ? error : JSON.stringify(error);
}
