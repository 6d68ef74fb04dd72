import type { Schemas } from "../../api/client";
import type { Values } from "../../components/SchemaField";

/** The groups of an endpoint's settings, in the order of a form, with what of each is asked in a way of its own. */
export const GROUPS = [
  { name: "source", schema: "Source", title: "Model", says: "Where it comes from.", without: [] },
  { name: "server", schema: "Server", title: "Server", says: "The container that serves it. Not for jumpstart.", without: ["command", "args", "env", "secret_env"] },
  { name: "autoscaling", schema: "Autoscaling", title: "Autoscaling", says: "Replicas by metrics; then leave the number of replicas out.", without: ["triggers"] },
  { name: "cache", schema: "Cache", title: "Key-value cache", says: "vLLM only.", without: [] },
  { name: "routing", schema: "Routing", title: "Routing", says: "vLLM only. It cannot be switched on later.", without: [] },
  { name: "metrics", schema: "Metrics", title: "Metrics", says: "What is scraped from the server.", without: [] },
  { name: "load_balancer", schema: "LoadBalancer", title: "Load balancer", says: "In front of the replicas.", without: [] },
  { name: "tls", schema: "Tls", title: "Certificate", says: "Left out: the operator makes one of its own.", without: [] },
] as const satisfies readonly { name: string; schema: keyof Schemas; title: string; says: string; without: readonly string[] }[];

const GROUP_NAMES = new Set<string>(GROUPS.map((each) => each.name));

/**
 * Fields that are of another type than the chosen one: the server says of each whose it is ("s3, fsx: folder ..."). What was answered
 * stays shown, so that nobody sends what is not seen.
 */
export function hiddenFor(fields: readonly { name: string; description: string; choices: string[] }[], values: Values): string[] {
  const types = fields.find((each) => each.name === "type")?.choices ?? [];
  const type = values["type"];
  return fields.filter(({ name, description }) => isEmpty(values[name]) && isOfAnother(description, types, type)).map((each) => each.name);
}

function isOfAnother(description: string, types: string[], type: unknown): boolean {
  const own = description.includes(":") ? description.slice(0, description.indexOf(":")).split(", ") : [];
  return own.length > 0 && own.every((each) => types.includes(each)) && !own.includes(String(type));
}

/** Words one a line: a comma or a quote in one is a part of it. */
export const linesOf = (words: unknown) => (Array.isArray(words) ? words.join("\n") : "");
export const wordsOf = (text: string) => text.split(/\r?\n/).filter((line) => line !== "");

/** Variables as NAME=value, one a line. */
export const pairsOf = (mapping: unknown) => (mapping && typeof mapping === "object" ? Object.entries(mapping).map(([name, value]) => `${name}=${String(value)}`).join("\n") : "");
export function mappingOf(text: string): Record<string, string> {
  return Object.fromEntries(wordsOf(text).map((line) => [line.split("=", 1)[0]!.trim(), line.includes("=") ? line.slice(line.indexOf("=") + 1) : ""]));
}

/** The body of a request: what was left empty is left out, in groups too; a group that is empty is none. */
export function bodyOf(values: Values): Values {
  const told = Object.entries(values).map(([name, value]) => [name, GROUP_NAMES.has(name) ? kept(value as Values) : value] as const);
  return Object.fromEntries(told.filter(([, value]) => !isEmpty(value)));
}

function kept(group: Values | undefined): Values {
  return Object.fromEntries(Object.entries(group ?? {}).filter(([, value]) => !isEmpty(value)));
}

function isEmpty(value: unknown): boolean {
  if (value === undefined || value === null || value === "") return true;
  if (Array.isArray(value)) return value.length === 0;
  return typeof value === "object" && Object.keys(value).length === 0;
}

/** The patch that makes `after` of `before`: only what differs; null takes away. */
export function patchOf(before: Values, after: Values): Values {
  const names = new Set([...Object.keys(before), ...Object.keys(after)]);
  const told: Values = {};
  for (const name of names) {
    const was = before[name];
    const now = after[name];
    if (JSON.stringify(was) === JSON.stringify(now)) continue;
    if (isEmpty(now)) told[name] = null;
    else if (isGroup(was) && isGroup(now) && name !== "env") told[name] = patchOf(was, now);
    else told[name] = now;
  }
  return told;
}

const isGroup = (value: unknown): value is Values => typeof value === "object" && value !== null && !Array.isArray(value);
