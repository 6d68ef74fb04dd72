import Alert from "@cloudscape-design/components/alert";
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import LiveRegion from "@cloudscape-design/components/live-region";
import Modal from "@cloudscape-design/components/modal";
import SpaceBetween from "@cloudscape-design/components/space-between";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import { useMutation } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { useNavigate } from "react-router";
import { newIdempotencyKey, type Schemas } from "../api/client";
import { fieldOf, problemOf, violations } from "../api/problems";
import { useNotices } from "../app/notifications";
import { bodyOf, useForm } from "./form";
import { PlanView } from "./PlanView";
import { ProblemAlert } from "./ProblemAlert";
import { SchemaForm } from "./SchemaForm";
import type { Values } from "./SchemaField";

/** How a request is sent: first as a dry run, then with what its plan gave. */
export interface How {
  query: { dry_run: boolean; approval?: string };
  header: { "Idempotency-Key"?: string };
}

/** Something a person can do that is planned before it is done. */
export interface PlannedAct {
  title: string;
  button: string;
  says?: string;
  /** what destroys is said so */
  destroys?: boolean;
  schema?: keyof Schemas;
  without?: readonly string[];
  initial?: Values;
  region?: string;
  send: (body: Values, how: How) => Promise<{ data?: unknown }>;
}

interface Props {
  act: PlannedAct;
  onClose: () => void;
}

/** The questions of an act, its plan, and its beginning: nothing is changed before the plan was seen. */
export function PlannedActModal({ act, onClose }: Props) {
  const form = useForm(act.initial);
  const [plan, setPlan] = useState<Schemas["Plan"] | null>(null);
  const [key, setKey] = useState(newIdempotencyKey);
  const arrive = useArrival(act, onClose);
  const send = useMutation({
    mutationFn: (dryRun: boolean) => act.send(bodyOf(form.values), howTo(dryRun, plan, key)),
    onSuccess: ({ data }, dryRun) => {
      form.accept(dryRun ? failing(data as Schemas["Plan"]) : {});
      if (dryRun) setPlan(data as Schemas["Plan"]);
      else arrive(data);
    },
    onError: (error) => form.refuse(error, violations(problemOf(error)).map((each) => fieldOf(each.pointer))),
  });
  const look = send.mutate;
  useEffect(() => {
    if (!act.schema) look(true); // nothing to ask: the plan is what there is to see
  }, [act.schema, look]);
  const set = (name: string, value: unknown) => {
    setPlan(null); // the plan was of other answers
    form.set(name, value);
  };
  const again = () => {
    setKey(newIdempotencyKey());
    setPlan(null);
    look(true);
  };
  return (
    <Modal
      visible
      size={act.schema ? "large" : "medium"}
      header={act.title}
      closeAriaLabel="Close"
      onDismiss={onClose}
      footer={
        <Box float="right">
          <SpaceBetween size="xs" direction="horizontal">
            <Button variant="link" onClick={onClose}>
              Cancel
            </Button>
            {act.schema && (
              <Button loading={send.isPending && send.variables} onClick={() => look(true)}>
                Show the plan
              </Button>
            )}
            <Button variant="primary" disabled={!plan || send.isPending} loading={send.isPending && !send.variables} onClick={() => look(false)}>
              {act.button}
            </Button>
          </SpaceBetween>
        </Box>
      }
    >
      <SpaceBetween size="l">
        {act.says && <Alert type={act.destroys ? "warning" : "info"}>{act.says}</Alert>}
        {act.schema ? (
          <form
            onSubmit={(event) => {
              event.preventDefault();
              look(true);
            }}
          >
            <SchemaForm schema={act.schema} without={act.without} form={{ ...form, set }} region={act.region} error={send.error} />
          </form>
        ) : (
          <ProblemAlert error={send.error} action={<Button onClick={again}>Read the plan anew</Button>} />
        )}
        {!act.schema && send.isPending && !plan && <StatusIndicator type="loading">Reading what would happen</StatusIndicator>}
        {plan && (
          <div ref={intoView}>
            <LiveRegion hidden>The plan is there.</LiveRegion>
            <Box variant="h3">What will happen</Box>
            <PlanView plan={plan} />
          </div>
        )}
      </SpaceBetween>
    </Modal>
  );
}

/** What has just appeared below a long form is brought before the eyes. */
function intoView(element: HTMLElement | null): void {
  element?.scrollIntoView?.({ block: "nearest" });
}

/** What the findings of a plan say of its fields: a check is called as the field it is about. */
function failing(plan: Schemas["Plan"]): Record<string, string> {
  const wrong = (plan.findings ?? []).filter((each) => each.level === "fail");
  return Object.fromEntries(wrong.map((each) => [each.check, [each.detail, each.hint].filter(Boolean).join(" ")]));
}

function howTo(dryRun: boolean, plan: Schemas["Plan"] | null, key: string): How {
  if (dryRun) return { query: { dry_run: true }, header: {} };
  return { query: { dry_run: false, approval: plan?.approval ?? undefined }, header: { "Idempotency-Key": key } };
}

/** Where an answer leads: to its operation, or to a word that nothing had to be done. */
function useArrival(act: PlannedAct, onClose: () => void) {
  const navigate = useNavigate();
  const { tell } = useNotices();
  return (data: unknown) => {
    const answer = data as { id?: string; workflow?: string; operations?: { id: string }[] } | undefined;
    const operation = answer?.workflow ? answer.id : answer?.operations?.[0]?.id;
    if (operation) {
      navigate(`/operations/${operation}`);
      return;
    }
    tell({ type: "success", content: `${act.title}: it is so already, nothing was started.` });
    onClose();
  };
}
