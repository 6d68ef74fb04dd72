import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import FormField from "@cloudscape-design/components/form-field";
import Header from "@cloudscape-design/components/header";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Tiles from "@cloudscape-design/components/tiles";
import { useMutation } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { useLocation, useNavigate, useParams } from "react-router";
import { api, newIdempotencyKey, type Schemas } from "../../api/client";
import { problemOf } from "../../api/problems";
import { ProblemAlert } from "../../components/ProblemAlert";
import { LogRules, type Rule, rulesOf } from "./LogRules";
import { Trial } from "./LogRuleTrial";
import { PreviewView } from "./Preview";
import { SavedForms } from "./SavedForms";
import { Section } from "./Section";
import { useQuestions } from "./useQuestions";
import { type Answers, answersOf, bodyOf, byPlace, LINES, LIST, SETTINGS } from "./values";

const JOBS = "/api/v1/clusters/{cluster}/training-jobs";
type Body = Record<string, unknown>;

/** How to type what a body holds, also of recipes whose questions are not known yet. */
const linesOf = (place: string, value: unknown) => LINES[place] ?? (!place.startsWith("recipe.") ? (place === "elastic.node_counts" ? LIST : undefined) : Array.isArray(value) ? LIST : value && typeof value === "object" ? SETTINGS : undefined);

/** All questions of a job on one page: what is run, where, on what data, how it is kept alive; its preview; then it is submitted. */
export function SubmitJob() {
  const { cluster = "" } = useParams();
  const navigate = useNavigate();
  const given = (useLocation().state as { asked?: Body } | null)?.asked;
  const [answers, setAnswers] = useState<Answers>(() => (given ? answersOf(withoutRules(given), linesOf) : { "recipe.framework": "pytorch" }));
  const [rules, setRules] = useState<Rule[]>(() => (given?.["log_rules"] as Rule[] | undefined) ?? []);
  const [key, setKey] = useState(newIdempotencyKey);
  const framework = String(answers["recipe.framework"] ?? "");
  const { questions, lines, recipes, recipe, error } = useQuestions(framework);
  const body = useMemo(() => ({ ...bodyOf(answers, lines), ...(rules.length ? { log_rules: rulesOf(rules) } : {}) }), [answers, lines, rules]);
  const send = useMutation({
    mutationFn: async (act: "preview" | "submit") => {
      const params = { path: { cluster } };
      if (act === "preview") return { preview: (await api.POST(`${JOBS}/previews`, { params, body: body as unknown as Schemas["SubmitTrainingJob"] })).data };
      return { operation: (await api.POST(JOBS, { params: { ...params, header: { "Idempotency-Key": key } }, body: body as unknown as Schemas["SubmitTrainingJob"] })).data as { id: string } };
    },
    onSuccess: ({ operation }) => {
      if (operation) navigate(`/operations/${operation.id}`);
    },
    onError: () => setKey(newIdempotencyKey()),
  });
  const shown = [...Object.values(questions).flat().map((each) => each.place), "recipe.framework", "log_rules"];
  const { told } = byPlace(send.error ? problemOf(send.error) : null, shown);
  const set = (place: string, value: unknown) => {
    send.reset(); // the preview and its refusals were of other answers
    setAnswers((now) => ({ ...now, [place]: value }));
  };
  const load = (content: Body) => {
    send.reset();
    setAnswers(answersOf(withoutRules(content), linesOf));
    setRules((content["log_rules"] as Rule[] | undefined) ?? []);
  };
  const part = { answers, errors: told, set };
  const kind = String(answers["kind"] ?? recipe?.kinds[0] ?? "pytorch");
  return (
    <SpaceBetween size="l">
      <Header variant="h1" description={`On ${cluster}. Nothing is made before you submit.`} actions={<SavedForms body={body} onLoad={load} />}>
        Submit a training job
      </Header>
      <ProblemAlert error={error} />
      <FormField label="What is run" errorText={told["recipe.framework"]} stretch>
        <Tiles columns={3} value={framework} onChange={({ detail }) => set("recipe.framework", detail.value)} items={recipes.map((each) => ({ value: each.framework, label: each.title, description: each.says }))} />
      </FormField>
      <Section title="Job" questions={questions.job} {...part} open />
      <Section key={framework} title={recipe?.title ?? "Recipe"} says="What the container runs. The preview shows its exact arguments." questions={questions.recipe} {...part} open />
      <Section title="Nodes and resources" says="What is left out is taken from the nodes: all accelerators, the memory that fits." questions={questions.nodes} {...part} open />
      <Section title="Data and variables" questions={questions.data} {...part} />
      {kind === "pytorch" && <Section title="Recovery budget" says="How often, and how, the job is started again before it fails." questions={questions.recovery} {...part} />}
      {kind === "pytorch" && (
        <Section title="Log rules" says="What the operator looks for in the log: a hang, or numbers out of bounds." questions={[]} {...part}>
          <SpaceBetween size="l">
            <LogRules rules={rules} error={told["log_rules"]} onChange={(next) => { send.reset(); setRules(next); }} />
            {rules.length > 0 && <Trial rules={rules} />}
          </SpaceBetween>
        </Section>
      )}
      {kind === "pytorch" && <Section title="Elastic training" says="The job grows and shrinks with what is free." questions={questions.elastic} {...part} />}
      {kind !== "pytorch" && <Section title="Ray" questions={questions.ray} {...part} />}
      <Section title="Queue, limits, checkpoints" questions={questions.life} {...part} />
      <Section title="Tracking with MLflow" questions={questions.tracking} {...part} />
      <ProblemAlert error={send.error} shown={shownFields(shown)} />
      {send.data?.preview && <PreviewView preview={send.data.preview} />}
      <Box float="right">
        <SpaceBetween size="xs" direction="horizontal">
          <Button variant="link" onClick={() => navigate(`/clusters/${cluster}?tab=training`)}>
            Cancel
          </Button>
          <Button loading={send.isPending && send.variables === "preview"} onClick={() => send.mutate("preview")}>
            Preview
          </Button>
          <Button variant="primary" loading={send.isPending && send.variables === "submit"} onClick={() => send.mutate("submit")}>
            Submit
          </Button>
        </SpaceBetween>
      </Box>
    </SpaceBetween>
  );
}

const withoutRules = (body: Body) => Object.fromEntries(Object.entries(body).filter(([name]) => name !== "log_rules"));
const shownFields = (places: readonly string[]) => places.map((each) => each.split(".")[0]!);
