import Spinner from "@cloudscape-design/components/spinner";
import SpaceBetween from "@cloudscape-design/components/space-between";
import type { Schemas } from "../api/client";
import { type FieldSchema, useSchema } from "../api/schema";
import { CAPACITY_FIELDS, CapacityFields } from "./CapacityFields";
import type { useForm } from "./form";
import { ProblemAlert } from "./ProblemAlert";
import { SchemaField } from "./SchemaField";

interface Props {
  schema: keyof Schemas;
  form: Pick<ReturnType<typeof useForm>, "values" | "errors" | "set">;
  region?: string;
  error: unknown;
  /** fields that are answered already */
  without?: readonly string[];
}

/** All questions of a request body, drawn from the server's own document; a group of nodes is asked for with its pickers. */
export function SchemaForm({ schema, form, region, error, without = [] }: Props) {
  const fields = useSchema(schema);
  if (fields.error) return <ProblemAlert error={fields.error} />;
  if (!fields.data) return <Spinner />;
  const shown = fields.data.filter((each) => each.kind !== "complex" && !without.includes(each.name));
  const capacity = CAPACITY_FIELDS.every((name) => shown.some((each) => each.name === name));
  const plain = capacity ? shown.filter((each) => !(CAPACITY_FIELDS as readonly string[]).includes(each.name)) : shown;
  const draw = (each: FieldSchema) => (
    <SchemaField key={each.name} field={each} value={form.values[each.name]} error={form.errors[each.name]} onChange={(value) => form.set(each.name, value)} />
  );
  return (
    <SpaceBetween size="l">
      <ProblemAlert error={error} shown={shown.map((each) => each.name)} />
      {plain.filter((each) => each.required).map(draw)}
      {capacity && <CapacityFields fields={shown} region={region} values={form.values} errors={form.errors} set={form.set} />}
      {plain.filter((each) => !each.required).map(draw)}
    </SpaceBetween>
  );
}
