import ExpandableSection from "@cloudscape-design/components/expandable-section";
import FormField from "@cloudscape-design/components/form-field";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Textarea from "@cloudscape-design/components/textarea";
import { useState } from "react";
import { useSchema } from "../../api/schema";
import { SchemaForm } from "../../components/SchemaForm";
import type { Values } from "../../components/SchemaField";
import { GROUPS, hiddenFor, linesOf, mappingOf, pairsOf, wordsOf } from "./settings";
import { Triggers } from "./Triggers";

interface Props {
  values: Values;
  /** "server/image" -> what is wrong */
  errors: Record<string, string>;
  onChange: (values: Values) => void;
  /** what cannot be changed is not asked */
  editing?: boolean;
}

type Group = (typeof GROUPS)[number];
const FIRST = new Set(["source", "server"]);
const ABOVE = GROUPS.map((each) => each.name);

/** Every setting of an endpoint: its own fields, then its groups, each drawn from the server's own document. */
export function EndpointForm({ values, errors, onChange, editing }: Props) {
  const set = (name: string, value: unknown) => onChange({ ...values, [name]: value });
  return (
    <SpaceBetween size="l">
      <SchemaForm schema={editing ? "UpdateInferenceEndpoint" : "CreateInferenceEndpoint"} without={ABOVE} form={{ values, errors, set }} error={null} />
      {GROUPS.map((group) => (
        <GroupOf key={group.name} group={group} values={(values[group.name] as Values | undefined) ?? {}} errors={errors} editing={editing} onChange={(value) => set(group.name, value)} />
      ))}
    </SpaceBetween>
  );
}

function GroupOf({ group, values, errors, editing, onChange }: { group: Group; values: Values; errors: Record<string, string>; editing?: boolean; onChange: (values: Values) => void }) {
  const prefix = `${group.name}/`;
  const own = Object.fromEntries(Object.entries(errors).filter(([name]) => name.startsWith(prefix)).map(([name, text]) => [name.slice(prefix.length), text]));
  const [open, setOpen] = useState(FIRST.has(group.name) || Object.keys(values).length > 0);
  const set = (name: string, value: unknown) => onChange({ ...values, [name]: value });
  const wrong = Object.keys(own).length > 0;
  const fields = useSchema(group.schema).data ?? [];
  const without = [...group.without, ...(group.name === "source" ? hiddenFor(fields, values) : [])];
  return (
    <ExpandableSection variant="container" headerText={group.title} headerDescription={group.says} expanded={open || wrong} onChange={({ detail }) => setOpen(detail.expanded)}>
      <SpaceBetween size="l">
        <SchemaForm schema={group.schema} without={without} form={{ values, errors: own, set }} error={null} />
        {group.name === "server" && <Words values={values} errors={own} editing={editing} set={set} />}
        {group.name === "autoscaling" && <Triggers triggers={(values["triggers"] as Values[] | undefined) ?? []} errors={own} onChange={(triggers) => set("triggers", triggers)} />}
      </SpaceBetween>
    </ExpandableSection>
  );
}

/** Words of the command and variables: one a line, so that quotes and commas in them stay. */
function Words({ values, errors, editing, set }: { values: Values; errors: Record<string, string>; editing?: boolean; set: (name: string, value: unknown) => void }) {
  const [typed, setTyped] = useState({ command: linesOf(values["command"]), args: linesOf(values["args"]), env: pairsOf(values["env"]) });
  const change = (name: "command" | "args" | "env", text: string) => {
    setTyped((now) => ({ ...now, [name]: text }));
    const told = name === "env" ? mappingOf(text) : wordsOf(text);
    set(name, text.trim() === "" ? undefined : told);
  };
  return (
    <SpaceBetween size="l">
      <FormField label="Arguments" description="One word a line; no shell reads them." errorText={errors["args"]}>
        <Textarea value={typed.args} rows={5} spellcheck={false} placeholder={"--model\n/opt/ml/model"} onChange={({ detail }) => change("args", detail.value)} />
      </FormField>
      <FormField label="Command" description="Entry point, one word a line. Left out: the image's." errorText={errors["command"]}>
        <Textarea value={typed.command} rows={2} spellcheck={false} onChange={({ detail }) => change("command", detail.value)} />
      </FormField>
      {!editing && (
        <FormField label="Variables" description="NAME=value, one a line. They cannot be changed later." errorText={errors["env"]}>
          <Textarea value={typed.env} rows={3} spellcheck={false} onChange={({ detail }) => change("env", detail.value)} />
        </FormField>
      )}
    </SpaceBetween>
  );
}
