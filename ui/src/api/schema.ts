import { useQuery } from "@tanstack/react-query";
import type { components } from "./api.d";
import { reportAway } from "./presence";
import { away, fromResponse } from "./problems";

/** What the server's own document says about one field of a request. */
export interface FieldSchema {
  name: string;
  kind: "string" | "integer" | "number" | "boolean" | "choice" | "choices" | "strings" | "mapping" | "complex";
  description: string;
  required: boolean;
  default?: unknown;
  example?: string;
  choices: string[];
}

interface Node {
  $ref?: string;
  type?: string;
  anyOf?: Node[];
  enum?: string[];
  items?: Node;
  additionalProperties?: Node | boolean;
  patternProperties?: Record<string, Node>;
  description?: string;
  default?: unknown;
  examples?: unknown[];
  properties?: Record<string, Node>;
  required?: string[];
}

interface Document {
  components: { schemas: Record<string, Node> };
}

async function readDocument(): Promise<Document> {
  const response = await fetch("/openapi.json", { credentials: "same-origin" }).catch(() => {
    reportAway(true);
    throw away();
  });
  if (!response.ok) throw await fromResponse(response);
  return (await response.json()) as Document;
}

/** The fields of a request body, in the order the server declares them. */
export function useSchema(name: keyof components["schemas"]) {
  return useQuery({
    queryKey: ["openapi"],
    queryFn: readDocument,
    staleTime: Infinity,
    select: (document) => fieldsOf(document, name),
  });
}

export function fieldsOf(document: Document, name: string): FieldSchema[] {
  const schema = document.components.schemas[name] ?? {};
  const required = schema.required ?? [];
  return Object.entries(schema.properties ?? {}).map(([field, node]) => describe(document, field, node, required.includes(field)));
}

function describe(document: Document, name: string, node: Node, required: boolean): FieldSchema {
  const inner = resolve(document, node);
  const description = node.description ?? inner.description ?? "";
  const example = (node.examples ?? inner.examples)?.[0];
  const items = inner.items ? resolve(document, inner.items) : undefined;
  return {
    name,
    kind: kindOf(inner, items),
    description,
    required,
    default: node.default ?? undefined,
    example: example === undefined ? undefined : String(example),
    choices: inner.enum ?? items?.enum ?? [],
  };
}

/** Behind a reference or an "or null": the thing itself. */
function resolve(document: Document, node: Node): Node {
  const choice = node.anyOf?.find((each) => each.type !== "null") ?? node;
  const name = choice.$ref?.split("/").at(-1);
  return name ? (document.components.schemas[name] ?? {}) : choice;
}

function kindOf(node: Node, items: Node | undefined): FieldSchema["kind"] {
  if (node.enum) return "choice";
  if (node.type === "array" && items?.properties) return "complex";
  if (node.type === "array") return items?.enum ? "choices" : "strings";
  if (node.type === "object") return node.patternProperties || typeof node.additionalProperties === "object" ? "mapping" : "complex";
  if (node.type === "integer" || node.type === "number" || node.type === "boolean") return node.type;
  return "string";
}
