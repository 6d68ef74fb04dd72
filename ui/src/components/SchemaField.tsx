import Checkbox from "@cloudscape-design/components/checkbox";
import FormField from "@cloudscape-design/components/form-field";
import Input from "@cloudscape-design/components/input";
import Multiselect from "@cloudscape-design/components/multiselect";
import Select from "@cloudscape-design/components/select";
import { useState } from "react";
import type { FieldSchema } from "../api/schema";
import { words } from "./Status";

export type Values = Record<string, unknown>;

interface Props {
  field: FieldSchema;
  value: unknown;
  error?: string;
  onChange: (value: unknown) => void;
}

const CONSTRAINTS: Partial<Record<FieldSchema["kind"], string>> = { strings: "Separated by commas.", mapping: "As key=value, separated by commas." };
const ACRONYMS: [RegExp, string][] = [[/\bhyperpod\b/gi, "HyperPod"], [/\b(vpc|arn|s3|eks|cidr|cpu|efa|mig|uri)\b/gi, ""], [/\bid\b/g, "ID"], [/\bids\b/g, "IDs"], [/\bgib\b/g, "(GiB)"]];

/** "training_plan_arn" as a label: "Training plan ARN". */
export function labelOf(name: string): string {
  return ACRONYMS.reduce((text, [pattern, to]) => text.replace(pattern, (found) => to || found.toUpperCase()), words(name));
}

/** One question of a form, drawn from what the server says of the field. */
export function SchemaField({ field, value, error, onChange }: Props) {
  if (field.kind === "boolean" && (field.required || field.default !== undefined)) {
    return (
      <FormField errorText={error} stretch>
        <Checkbox checked={Boolean(value ?? field.default)} description={field.description} onChange={({ detail }) => onChange(detail.checked)}>
          {labelOf(field.name)}
        </Checkbox>
      </FormField>
    );
  }
  const label = field.required ? labelOf(field.name) : optional(labelOf(field.name));
  return (
    <FormField label={label} description={field.description} errorText={error} constraintText={CONSTRAINTS[field.kind]}>
      <Control field={field} value={value} onChange={onChange} />
    </FormField>
  );
}

export function optional(label: string): React.ReactNode {
  return (
    <span>
      {label} <i>- optional</i>
    </span>
  );
}

function Control({ field, value, onChange }: Omit<Props, "error">) {
  if (field.kind === "choice") return <Choice field={field} value={value} onChange={onChange} />;
  if (field.kind === "choices") return <Choices field={field} value={value} onChange={onChange} />;
  if (field.kind === "boolean") return <YesOrNo value={value} onChange={onChange} />;
  return <Typed field={field} value={value} onChange={onChange} />;
}

/** What a person types stays as typed (a list ends with a comma before its next item comes) while it means the same. */
function Typed({ field, value, onChange }: Omit<Props, "error">) {
  const [typed, setTyped] = useState(textOf(value));
  const placeholder = field.default !== undefined && field.default !== "" && typeof field.default !== "object" ? String(field.default) : field.example;
  const text = JSON.stringify(parse(field, typed)) === JSON.stringify(value) ? typed : textOf(value);
  return (
    <Input
      name={field.name}
      type={field.kind === "integer" ? "number" : "text"}
      inputMode={field.kind === "integer" ? "numeric" : field.kind === "number" ? "decimal" : undefined}
      placeholder={placeholder}
      value={text}
      spellcheck={false}
      autoComplete={false}
      onChange={({ detail }) => {
        setTyped(detail.value);
        onChange(parse(field, detail.value));
      }}
    />
  );
}

const ANSWERS = [{ value: "", label: "Left out" }, { value: "yes", label: "Yes" }, { value: "no", label: "No" }];

/** A switch that means something else when it is left out: no empty box can say that. */
function YesOrNo({ value, onChange }: Pick<Props, "value" | "onChange">) {
  const now = typeof value === "boolean" ? (value ? "yes" : "no") : "";
  const told: Record<string, boolean> = { yes: true, no: false };
  return <Select options={ANSWERS} selectedOption={ANSWERS.find((each) => each.value === now) ?? null} onChange={({ detail }) => onChange(told[detail.selectedOption.value ?? ""])} />;
}

/** A value as it is typed. */
export function textOf(value: unknown): string {
  if (Array.isArray(value)) return value.join(", ");
  if (value !== null && typeof value === "object") return Object.entries(value).map(([key, each]) => `${key}=${String(each)}`).join(", ");
  return String(value ?? "");
}

/** What a typed text means; an empty one is "left out", and a number that is none stays text for the server to refuse. */
export function parse(field: FieldSchema, text: string): unknown {
  if (text === "") return undefined;
  if (field.kind === "integer") return /^-?\d+$/.test(text) ? Number(text) : text;
  if (field.kind === "number") return /^-?\d+(\.\d+)?$/.test(text) ? Number(text) : text;
  if (field.kind === "strings") return itemsOf(text);
  if (field.kind === "mapping") return mappingOf(text);
  return text;
}

function itemsOf(text: string): string[] {
  return text.split(",").map((each) => each.trim()).filter(Boolean);
}

/** "a=1, b=2" as a mapping; while it is none yet it stays text, for the server to refuse. */
function mappingOf(text: string): unknown {
  const pairs = itemsOf(text).map((each) => each.split(/=(.*)/s));
  return pairs.every((each) => each.length > 1) ? Object.fromEntries(pairs.map(([key, value]) => [key, value])) : text;
}

function Choice({ field, value, onChange }: Omit<Props, "error">) {
  const options = field.choices.map((each) => ({ value: each, label: words(each) }));
  const chosen = options.find((each) => each.value === (value ?? field.default)) ?? null;
  return <Select options={options} selectedOption={chosen} onChange={({ detail }) => onChange(detail.selectedOption.value)} />;
}

function Choices({ field, value, onChange }: Omit<Props, "error">) {
  const options = field.choices.map((each) => ({ value: each, label: each }));
  const chosen = Array.isArray(value) ? value : [];
  return (
    <Multiselect
      options={options}
      placeholder="None"
      selectedOptions={options.filter((each) => chosen.includes(each.value))}
      onChange={({ detail }) => onChange(detail.selectedOptions.map((each) => each.value))}
    />
  );
}
