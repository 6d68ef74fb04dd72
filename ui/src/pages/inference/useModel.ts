import { useEffect, useRef, useState } from "react";
import { api, type Schemas } from "../../api/client";
import type { Problem } from "../../api/problems";
import { EventReader, type Figures, type Piece } from "./answer";
import type { Place } from "./acts";

/** A question as it is typed. */
export interface Question {
  api: string;
  prompt: string;
  system: string;
  max_tokens: string;
  temperature: string;
  model: string;
  path: string;
  body: string;
}

interface Answer {
  asking: boolean;
  text: string;
  thought: string;
  refusal: string | null;
  problem: Problem | null;
  figures: Figures | null;
  error: unknown;
}

const NOTHING: Answer = { asking: false, text: "", thought: "", refusal: null, problem: null, figures: null, error: null };

/** Asks a served model, one question at a time, and tells its answer as it comes. */
export function useModel(place: Place) {
  const [answer, setAnswer] = useState<Answer>(NOTHING);
  const going = useRef<AbortController | null>(null);
  useEffect(() => () => going.current?.abort(), []);
  const ask = async (question: Question) => {
    going.current?.abort();
    const control = new AbortController();
    going.current = control;
    setAnswer({ ...NOTHING, asking: true });
    try {
      await relay(place, question, control.signal, (pieces) => setAnswer((now) => pieces.reduce(add, now)));
    } catch (error) {
      if (!control.signal.aborted) setAnswer((now) => ({ ...now, error }));
    } finally {
      if (going.current === control) setAnswer((now) => ({ ...now, asking: false }));
    }
  };
  return { ...answer, ask: (question: Question) => void ask(question), stop: () => going.current?.abort() };
}

async function relay(place: Place, question: Question, signal: AbortSignal, tell: (pieces: Piece[]) => void): Promise<void> {
  const { data } = await api.POST("/api/v1/clusters/{cluster}/served-models/{namespace}/{name}/calls/stream", {
    params: { path: { ...place } },
    body: bodyOf(question) as Schemas["CallModel"],
    parseAs: "stream",
    signal,
  });
  const stream = data as ReadableStream<Uint8Array> | null | undefined;
  if (!stream) return;
  const reader = stream.getReader();
  const events = new EventReader();
  for (let next = await reader.read(); !next.done; next = await reader.read()) tell(events.feed(next.value));
}

function add(now: Answer, piece: Piece): Answer {
  if (piece.kind === "words") return { ...now, text: now.text + piece.text, thought: now.thought + piece.thought };
  if (piece.kind === "answer") return { ...now, text: piece.text };
  if (piece.kind === "refusal") return { ...now, refusal: piece.text };
  if (piece.kind === "problem") return { ...now, problem: piece.problem };
  return { ...now, figures: piece.figures };
}

/** What is sent: only what belongs to the kind of question. What is no JSON stays text, for the server to refuse. */
export function bodyOf(question: Question): Record<string, unknown> {
  const { api: kind, prompt } = question;
  if (kind === "json") return { api: kind, path: question.path || undefined, ...(question.body.trim() ? { body: jsonOf(question.body) } : {}) };
  const base = { api: kind, prompt: prompt || undefined, model: question.model || undefined };
  if (kind === "embeddings") return base;
  const more = { max_tokens: numberOf(question.max_tokens), temperature: numberOf(question.temperature) };
  return kind === "chat" ? { ...base, ...more, system: question.system || undefined } : { ...base, ...more };
}

const numberOf = (text: string) => (text.trim() === "" ? undefined : Number(text));

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}
