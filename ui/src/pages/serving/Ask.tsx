import Alert from "@cloudscape-design/components/alert";
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import FormField from "@cloudscape-design/components/form-field";
import Header from "@cloudscape-design/components/header";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Textarea from "@cloudscape-design/components/textarea";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { useParams } from "react-router";
import type { Schemas } from "../../api/client";
import { problemOf, violations } from "../../api/problems";
import { bodyOf } from "../../components/form";
import { type PlannedAct, PlannedActModal } from "../../components/PlannedAct";
import { PlanView } from "../../components/PlanView";
import { ProblemAlert } from "../../components/ProblemAlert";
import { SchemaForm } from "../../components/SchemaForm";
import type { Values } from "../../components/SchemaField";
import { createServer, type Kind } from "./acts";
import { mountsOf } from "./mounts";

type Plan = Schemas["DeploymentPlan"];

/** A new deployment: the command as it is typed, and what the server makes of it. */
export function DeployModel() {
  return <Ask kind="deployment" title="Deploy a model" schema="CreateModelDeployment" />;
}

/** A new pool of warm workers. */
export function MakePool() {
  return <Ask kind="pool" title="Make a model pool" schema="CreateModelPool" />;
}

function Ask({ kind, title, schema }: { kind: Kind; title: string; schema: keyof Schemas }) {
  const { cluster = "" } = useParams();
  const [values, setValues] = useState<Values>({});
  const [errors, setErrors] = useState<Record<string, string>>({});
  const [begun, setBegun] = useState<PlannedAct | null>(null);
  const [mounts, setMounts] = useState("");
  const act = createServer(kind, cluster, bodyOf(values));
  const look = useMutation({
    mutationFn: (wanted: PlannedAct) => wanted.send({}, { query: { dry_run: true }, header: {} }),
    onSuccess: ({ data }) => setErrors(failing(data as Plan)),
    onError: (error) => setErrors(Object.fromEntries(violations(problemOf(error)).map((each) => [each.pointer.replace(/^\//, ""), each.message]))),
  });
  const plan = look.data?.data as Plan | undefined;
  const set = (name: string, value: unknown) => {
    setValues((now) => ({ ...now, [name]: value }));
    look.reset(); // the plan was of other answers
    setErrors({});
  };
  const mount = (text: string) => {
    setMounts(text);
    set("volumes", mountsOf(text));
  };
  return (
    <SpaceBetween size="l">
      <Header
        variant="h1"
        description={`On ${cluster}. What is left out is filled in by the server; the plan shows the argv, and what is in the way.`}
        actions={
          <SpaceBetween size="xs" direction="horizontal">
            <Button loading={look.isPending} onClick={() => look.mutate(act)}>
              Show the plan
            </Button>
            <Button variant="primary" onClick={() => setBegun(act)}>
              {act.button}
            </Button>
          </SpaceBetween>
        }
      >
        {title}
      </Header>
      <ProblemAlert error={look.error} />
      <FormField stretch label="Command" description="As you would type it: quotes, JSON and lines that end with a backslash stay. No shell runs it. Flags alone go to the image's entry point." errorText={errors["command"]}>
        <Textarea value={String(values["command"] ?? "")} rows={6} spellcheck={false} placeholder={"vllm serve Qwen/Qwen3-0.6B \\\n  --max-model-len 8192"} onChange={({ detail }) => set("command", detail.value)} />
      </FormField>
      {plan && <Argv plan={plan} />}
      {plan && <PlanView plan={plan} />}
      <FormField label={<>Volumes <i>- optional</i></>} description="claim:/path, one a line; claim:/path:rw to write there." errorText={wrongVolumes(errors)}>
        <Textarea value={mounts} rows={2} spellcheck={false} placeholder="s3-claim:/models" onChange={({ detail }) => mount(detail.value)} />
      </FormField>
      <SchemaForm schema={schema} without={["command", "argv"]} form={{ values, errors, set }} error={null} />
      {begun && <PlannedActModal act={begun} onClose={() => setBegun(null)} />}
    </SpaceBetween>
  );
}

/** What is wrong with any of the volumes. */
function wrongVolumes(errors: Record<string, string>): string | undefined {
  const told = Object.entries(errors).filter(([place]) => place.startsWith("volumes"));
  return told.length > 0 ? told.map(([, text]) => text).join(" ") : undefined;
}

/** What the container gets, word by word: a quote that went wrong is seen here. */
function Argv({ plan }: { plan: Plan }) {
  const words = plan.argv ?? [];
  const added = plan.added ?? [];
  if (words.length === 0) return <Alert type="info">The image&apos;s own command is run.</Alert>;
  return (
    <div>
      <Box variant="h3">The command, word by word</Box>
      <ol className="is-list">
        {[...words, ...added].map((word, at) => (
          <li key={`${at} ${word}`} className="is-wrap is-log">
            {word === "" ? <i>an empty word</i> : word} {at >= words.length && <i>(added)</i>}
          </li>
        ))}
      </ol>
    </div>
  );
}

/** What a plan finds wrong, by the place of the field. */
function failing(plan: Plan): Record<string, string> {
  const wrong = (plan.findings ?? []).filter((each) => each.level === "fail");
  return Object.fromEntries(wrong.map((each) => [each.check, [each.detail, each.hint].filter(Boolean).join(" ")]));
}
