import { type Problem, violations } from "../../api/problems";

/** The answers of the form by their place in the body: "recovery.max_retries", "recipe.script". What is typed as lines stays text here. */
export type Answers = Record<string, unknown>;
type Body = Record<string, unknown>;

/** How a text of several lines becomes a value of the body, and back. */
export interface LinesKind {
  says: string;
  parse: (text: string) => unknown;
  print: (value: unknown) => string;
}

const rows = (text: string) => text.split("\n").map((each) => each.replace(/\r$/, "")).filter((each) => each.trim() !== "");
const entries = (value: unknown) => Object.entries((value ?? {}) as Body);

/** Texts that a line cannot hold as they are stand in double quotes, as in JSON. */
const quoted = (text: string) => (text === "" || text !== text.trim() || text.includes("\n") || unquoted(text) !== text ? JSON.stringify(text) : text);
const unquoted = (text: string) => {
  const told = text.startsWith('"') ? jsonOr(text) : text;
  return typeof told === "string" ? told : text;
};

/** Each line one item, exactly as it is. */
export const LIST: LinesKind = {
  says: 'One on each line, exactly as it is to arrive. What has line ends in it stands in double quotes: "a\\nb".',
  parse: (text) => rows(text).map(unquoted),
  print: (value) => (Array.isArray(value) ? value.map((each) => quoted(String(each))).join("\n") : ""),
};

/** KEY=value on each line. */
export const VARIABLES: LinesKind = {
  says: "One on each line: NAME=value.",
  parse: (text) => {
    const told = pairs(text, "=");
    return typeof told === "string" ? told : Object.fromEntries(Object.entries(told).map(([key, each]) => [key, unquoted(each)]));
  },
  print: (value) => entries(value).map(([key, each]) => `${key}=${String(each) === "" ? "" : quoted(String(each))}`).join("\n"),
};

/** name: value on each line; numbers, true, false and lists as in JSON. */
export const SETTINGS: LinesKind = {
  says: "One on each line: name: value. Numbers, true, false and lists are written as in JSON.",
  parse: (text) => {
    const told = pairs(text, ":");
    return typeof told === "string" ? told : Object.fromEntries(Object.entries(told).map(([key, each]) => [key, jsonOr(each.trim())]));
  },
  print: (value) => entries(value).map(([key, each]) => `${key}: ${typeof each === "string" && jsonOr(each) === each && each === each.trim() && !each.includes("\n") ? each : JSON.stringify(each)}`).join("\n"),
};

/** NAME=secret/key on each line. */
export const SECRETS: LinesKind = {
  says: "One on each line: NAME=secret/key. The values stay in their Secrets.",
  parse: (text) => {
    const told = pairs(text, "=");
    if (typeof told === "string") return told;
    return Object.fromEntries(Object.entries(told).map(([name, each]) => [name, { secret: each.split("/")[0], key: each.split("/").slice(1).join("/") || undefined }]));
  },
  print: (value) => entries(value).map(([name, each]) => `${name}=${(each as Body)["secret"] as string}/${((each as Body)["key"] as string | undefined) ?? "token"}`).join("\n"),
};

/** claim:/path on each line, claim/folder:/path for a folder of it, :ro at the end for reading only. */
export const MOUNTS: LinesKind = {
  says: "One on each line: claim:/path. Only a folder of it: claim/folder:/path. For reading only: claim:/path:ro.",
  parse: (text) =>
    rows(text).map((line) => {
      const [what = "", path = "", ...rest] = line.trim().split(":");
      const [claim, ...folder] = what.split("/");
      return { claim, path, folder: folder.join("/") || undefined, read_only: rest.includes("ro") || undefined };
    }),
  print: (value) => (Array.isArray(value) ? (value as Body[]).map((each) => [[each["claim"], each["folder"]].filter(Boolean).join("/"), each["path"], each["read_only"] ? "ro" : ""].filter(Boolean).join(":")).join("\n") : ""),
};

/** Fields of the body that are typed as lines; of recipes, by the type that the server tells. */
export const LINES: Record<string, LinesKind> = { env: VARIABLES, secret_env: SECRETS, mounts: MOUNTS, tolerate: LIST, "tracking.tags": VARIABLES };

function pairs(text: string, sign: string): Record<string, string> | string {
  const told = rows(text).map((line) => [line.slice(0, line.indexOf(sign)).trim(), line.slice(line.indexOf(sign) + 1)] as const);
  return told.every(([key]) => key !== "") && rows(text).every((line) => line.includes(sign)) ? Object.fromEntries(told) : text;
}

function jsonOr(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

/** The body of a request: dotted places become parts of it, what was left empty is left out. */
export function bodyOf(answers: Answers, lines: Record<string, LinesKind>): Body {
  const body: Body = {};
  for (const [place, answer] of Object.entries(answers)) {
    const value = lines[place] && typeof answer === "string" ? (answer.trim() ? lines[place].parse(answer) : undefined) : answer;
    if (value === undefined || value === "" || value === null || (Array.isArray(value) && value.length === 0)) continue;
    const [group, name] = place.split(".", 2) as [string, string | undefined];
    if (name === undefined) body[group] = value;
    else body[group] = { ...(body[group] as Body | undefined), [name]: value };
  }
  return body;
}

const GROUPS = ["recipe", "recovery", "elastic", "tracking", "ray"];

/** The answers that made a body: to load a saved form, or to submit once more. */
export function answersOf(body: Body, lines: (place: string, value: unknown) => LinesKind | undefined): Answers {
  const answers: Answers = {};
  const put = (place: string, value: unknown) => {
    if (value !== null && value !== undefined) answers[place] = lines(place, value)?.print(value) ?? value;
  };
  for (const [name, value] of Object.entries(body)) {
    if (GROUPS.includes(name) && value && typeof value === "object") for (const [inner, each] of Object.entries(value)) put(`${name}.${inner}`, each);
    else put(name, value);
  }
  return answers;
}

/** What a refusal says of each place that the form shows: "/recipe/pytorch/script" is recipe.script, "/mounts/0/path" is mounts. */
export function byPlace(problem: Problem | null, shown: readonly string[]): { told: Record<string, string>; others: string[] } {
  const told: Record<string, string> = {};
  const others: string[] = [];
  for (const { pointer, message } of problem ? violations(problem) : []) {
    const parts = pointer.replace(/^\//, "").split("/");
    const place = [`${parts[0]}.${parts[1]}`, `${parts[0]}.${parts[2]}`, parts[0]!].find((each) => shown.includes(each));
    if (place === undefined) others.push(message);
    else told[place] = told[place] ? `${told[place]} ${message}` : message;
  }
  return { told, others };
}
