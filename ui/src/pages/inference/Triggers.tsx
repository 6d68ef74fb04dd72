import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import Container from "@cloudscape-design/components/container";
import FormField from "@cloudscape-design/components/form-field";
import Header from "@cloudscape-design/components/header";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Textarea from "@cloudscape-design/components/textarea";
import { useSchema } from "../../api/schema";
import { SchemaForm } from "../../components/SchemaForm";
import type { Values } from "../../components/SchemaField";
import { hiddenFor, mappingOf, pairsOf } from "./settings";

interface Props {
  triggers: Values[];
  /** "triggers/0/metric" -> what is wrong */
  errors: Record<string, string>;
  onChange: (triggers: Values[]) => void;
}

const NUMBERS = new Set(["target", "activation"]);
const NEW: Values = { type: "cloudwatch", name: "", target: undefined };

/** What scales: CloudWatch metrics and Prometheus queries, any number of them. */
export function Triggers({ triggers, errors, onChange }: Props) {
  const put = (at: number, value: Values) => onChange(triggers.map((each, index) => (index === at ? value : each)));
  return (
    <SpaceBetween size="m">
      {errors["triggers"] && <Box color="text-status-error">{errors["triggers"]}</Box>}
      {triggers.map((trigger, at) => (
        <One key={at} trigger={trigger} errors={inside(errors, `triggers/${at}/`)} onChange={(value) => put(at, value)} onRemove={() => onChange(triggers.filter((_, index) => index !== at))} />
      ))}
      <Button formAction="none" onClick={() => onChange([...triggers, NEW])}>
        Add a trigger
      </Button>
    </SpaceBetween>
  );
}

function inside(errors: Record<string, string>, prefix: string): Record<string, string> {
  return Object.fromEntries(Object.entries(errors).filter(([name]) => name.startsWith(prefix)).map(([name, text]) => [name.slice(prefix.length), text]));
}

function One({ trigger, errors, onChange, onRemove }: { trigger: Values; errors: Record<string, string>; onChange: (value: Values) => void; onRemove: () => void }) {
  const set = (name: string, value: unknown) => onChange({ ...trigger, [name]: NUMBERS.has(name) ? numberOf(value) : value });
  const fields = useSchema("Trigger").data ?? [];
  const dimensions = (trigger["dimensions"] as { name: string; value: string }[] | undefined) ?? [];
  return (
    <Container header={<Header variant="h3" actions={<Button formAction="none" onClick={onRemove}>Remove</Button>}>{String(trigger["name"] || "New trigger")}</Header>}>
      <SpaceBetween size="m">
        <SchemaForm schema="Trigger" without={["dimensions", ...hiddenFor(fields, trigger)]} form={{ values: trigger, errors, set }} error={null} />
        {trigger["type"] === "cloudwatch" && (
          <FormField label="Dimensions" description="NAME=value, one a line." errorText={errors["dimensions"]}>
            <Textarea
              value={pairsOf(Object.fromEntries(dimensions.map((each) => [each.name, each.value])))}
              rows={2}
              spellcheck={false}
              onChange={({ detail }) => set("dimensions", Object.entries(mappingOf(detail.value)).map(([name, value]) => ({ name, value })))}
            />
          </FormField>
        )}
      </SpaceBetween>
    </Container>
  );
}

/** A number as the server takes it; what is none stays text, for the server to refuse. */
function numberOf(value: unknown): unknown {
  return typeof value === "string" && value.trim() !== "" && !Number.isNaN(Number(value)) ? Number(value) : value;
}
