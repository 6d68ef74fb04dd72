import Button from "@cloudscape-design/components/button";
import Header from "@cloudscape-design/components/header";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import type { Schemas } from "../../api/client";
import { problemOf, violations } from "../../api/problems";
import { type PlannedAct, PlannedActModal } from "../../components/PlannedAct";
import { PlanView } from "../../components/PlanView";
import { ProblemAlert } from "../../components/ProblemAlert";
import type { Values } from "../../components/SchemaField";
import { EndpointForm } from "./EndpointForm";

interface Props {
  title: string;
  description: string;
  initial: Values;
  editing?: boolean;
  /** the act for what was typed; null while nothing differs */
  actOf: (values: Values) => PlannedAct | null;
}

/** A whole page of questions about an endpoint: look at the plan as often as you like, then begin. */
export function EndpointAsk({ title, description, initial, editing, actOf }: Props) {
  const [values, setValues] = useState<Values>(initial);
  const [errors, setErrors] = useState<Record<string, string>>({});
  const [begun, setBegun] = useState<PlannedAct | null>(null);
  const act = actOf(values);
  const look = useMutation({
    mutationFn: (wanted: PlannedAct) => wanted.send({}, { query: { dry_run: true }, header: {} }),
    onSuccess: ({ data }) => setErrors(failing(data as Schemas["Plan"])),
    onError: (error) => setErrors(Object.fromEntries(violations(problemOf(error)).map((each) => [each.pointer.replace(/^\//, ""), each.message]))),
  });
  const plan = look.data?.data as Schemas["Plan"] | undefined;
  const change = (now: Values) => {
    setValues(now);
    look.reset(); // the plan was of other answers
    setErrors({});
  };
  return (
    <SpaceBetween size="l">
      <Header
        variant="h1"
        description={description}
        actions={
          <SpaceBetween size="xs" direction="horizontal">
            <Button disabled={!act} loading={look.isPending} onClick={() => act && look.mutate(act)}>
              Show the plan
            </Button>
            <Button variant="primary" disabled={!act} onClick={() => setBegun(act)}>
              {editing ? "Change" : "Create"}
            </Button>
          </SpaceBetween>
        }
      >
        {title}
      </Header>
      <ProblemAlert error={look.error} />
      {plan && <PlanView plan={plan} />}
      <EndpointForm values={values} errors={errors} editing={editing} onChange={change} />
      {begun && <PlannedActModal act={begun} onClose={() => setBegun(null)} />}
    </SpaceBetween>
  );
}

/** What a plan finds wrong, by the place of the field. */
function failing(plan: Schemas["Plan"]): Record<string, string> {
  const wrong = (plan.findings ?? []).filter((each) => each.level === "fail");
  return Object.fromEntries(wrong.map((each) => [each.check, [each.detail, each.hint].filter(Boolean).join(" ")]));
}
