import type { components } from "./api.d";

/** The one error of the server, as every door tells it (RFC 9457). */
export type Problem = components["schemas"]["Problem"];

export interface Violation {
  pointer: string;
  message: string;
}

const AWAY_CODE = "console.server_away";

/** Thrown by the client for every answer that is not a success. */
export class ProblemError extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail);
    this.name = "ProblemError";
  }
}

/** A Problem of the console's own making, for what never reached the server or did not come from it. */
function local(code: string, status: number, title: string, detail: string, hint?: string): Problem {
  const kind = status === 0 ? "unreachable" : "broken";
  return { type: `urn:instantstart:problem:${code}`, code, status, kind, title, detail, hint, retryable: status === 0 };
}

export function away(): ProblemError {
  const hint = "Nothing is lost: operations go on when it is back, and this page follows.";
  return new ProblemError(local(AWAY_CODE, 0, "The server is away", "The server did not answer.", hint));
}

export async function fromResponse(response: Response): Promise<ProblemError> {
  const text = await response.text().catch(() => "");
  try {
    const body: unknown = JSON.parse(text);
    if (isProblem(body)) return new ProblemError(body);
  } catch {
    // not JSON: a proxy's page, say; its status is all we tell of it
  }
  if (response.status === 502 || response.status === 504) return away();
  return new ProblemError(local("console.answer_unknown", response.status, "Unexpected answer", `The server answered ${response.status}.`));
}

export function isProblem(body: unknown): body is Problem {
  return typeof body === "object" && body !== null && "code" in body && "detail" in body && "title" in body;
}

/** The Problem in whatever a query or a mutation failed with. */
export function problemOf(error: unknown): Problem {
  if (error instanceof ProblemError) return error.problem;
  if (isProblem(error)) return error;
  const detail = error instanceof Error ? error.message : String(error);
  return local("console.crashed", 500, "The console stumbled", detail);
}

export const isAway = (error: unknown) => problemOf(error).code === AWAY_CODE;
export const isSignedOut = (error: unknown) => problemOf(error).status === 401;

export function violations(problem: Problem): Violation[] {
  return (problem.fields ?? []).map((each) => ({ pointer: String(each["pointer"] ?? ""), message: String(each["message"] ?? "") }));
}

/** The field of a form that a JSON pointer points into: "/subnet_ids/0" is subnet_ids. */
export function fieldOf(pointer: string): string {
  const first = pointer.replace(/^\//, "").split("/", 1)[0] ?? "";
  return first.replace(/~1/g, "/").replace(/~0/g, "~");
}

/** The same refusal as it is seen from inside `place`, when a form asks for that part of the body only. */
export function within(place: string, error: unknown): unknown {
  if (!(error instanceof ProblemError)) return error;
  const inside = (text: string, prefix: string) => (text.startsWith(prefix) ? text.slice(prefix.length) : text);
  const fields = violations(error.problem).map(({ pointer, message }) => ({ pointer: pointer.startsWith(`/${place}/`) ? inside(pointer, `/${place}`) : pointer, message: inside(message, `${place}.`) }));
  return new ProblemError({ ...error.problem, detail: error.problem.detail.replaceAll(`${place}.`, ""), fields });
}

/** What to say under each of the `shown` fields, and the violations that belong to none of them. */
export function landOnFields(problem: Problem | null, shown: readonly string[]): { byField: Record<string, string>; others: Violation[] } {
  const byField: Record<string, string> = {};
  const others: Violation[] = [];
  for (const each of problem ? violations(problem) : []) {
    const field = fieldOf(each.pointer);
    if (!shown.includes(field)) others.push(each);
    else byField[field] = byField[field] ? `${byField[field]} ${each.message}` : each.message;
  }
  return { byField, others };
}
