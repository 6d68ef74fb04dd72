import createClient from "openapi-fetch";
import createQueries from "openapi-react-query";
import type { components, paths } from "./api.d";
import { reportAway } from "./presence";
import { away, fromResponse, ProblemError } from "./problems";

export type Schemas = components["schemas"];

/** The only speaker of HTTP in the console, typed from the server's own document. */
export const api = createClient<paths>({ baseUrl: location.origin, credentials: "same-origin" });

api.use({
  onRequest({ request }) {
    request.headers.set("X-InstantStart-Face", "console");
    return request;
  },
  async onResponse({ response }) {
    const problem = response.ok ? null : await fromResponse(response);
    reportAway(problem?.problem.status === 0);
    if (problem) throw problem;
    return response;
  },
  onError({ error }) {
    if (error instanceof ProblemError) return error;
    if (error instanceof DOMException && error.name === "AbortError") return error;
    reportAway(true);
    return away();
  },
});

export const $api = createQueries(api);

/** A key to send with one intention of the user, however often it is sent. */
export function newIdempotencyKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16)); // randomUUID is missing on plain HTTP
  return Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
}
