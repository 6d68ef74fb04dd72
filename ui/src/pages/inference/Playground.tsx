import Alert from "@cloudscape-design/components/alert";
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import ColumnLayout from "@cloudscape-design/components/column-layout";
import Container from "@cloudscape-design/components/container";
import CopyToClipboard from "@cloudscape-design/components/copy-to-clipboard";
import FormField from "@cloudscape-design/components/form-field";
import Input from "@cloudscape-design/components/input";
import Select from "@cloudscape-design/components/select";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Textarea from "@cloudscape-design/components/textarea";
import { useState } from "react";
import { landOnFields, ProblemError, problemOf } from "../../api/problems";
import { ProblemAlert } from "../../components/ProblemAlert";
import type { Place } from "./acts";
import type { Figures } from "./answer";
import { type Question, useModel } from "./useModel";

const APIS = [
  { value: "chat", label: "Chat" },
  { value: "completions", label: "Completion" },
  { value: "embeddings", label: "Embeddings" },
  { value: "json", label: "Any JSON" },
] as const;
const FIELDS = ["prompt", "system", "max_tokens", "temperature", "model", "path", "body"];

/** Ask a model and see its words as they come, and how fast they were. */
export function Playground({ place }: { place: Place }) {
  const [question, setQuestion] = useState<Question>({ api: "chat", prompt: "", system: "", max_tokens: "256", temperature: "", model: "", path: "", body: "" });
  const model = useModel(place);
  const wrong = model.error ? landOnFields(problemOf(model.error), FIELDS).byField : {};
  const set = (name: keyof Question) => (value: string) => setQuestion((now) => ({ ...now, [name]: value }));
  const json = question.api === "json";
  const words = question.api === "chat" || question.api === "completions";
  return (
    <ColumnLayout columns={2}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          model.ask(question);
        }}
      >
        <SpaceBetween size="m">
          <FormField label="Kind of question">
            <Select options={APIS} selectedOption={APIS.find((each) => each.value === question.api)!} onChange={({ detail }) => set("api")(detail.selectedOption.value ?? "chat")} />
          </FormField>
          {json ? (
            <>
              <FormField label="Path" description="At the server, such as v1/rerank." errorText={wrong["path"]}>
                <Input value={question.path} onChange={({ detail }) => set("path")(detail.value)} spellcheck={false} />
              </FormField>
              <FormField label="JSON" errorText={wrong["body"]}>
                <Textarea value={question.body} rows={8} onChange={({ detail }) => set("body")(detail.value)} spellcheck={false} />
              </FormField>
            </>
          ) : (
            <FormField label="Prompt" errorText={wrong["prompt"]}>
              <Textarea value={question.prompt} rows={6} onChange={({ detail }) => set("prompt")(detail.value)} />
            </FormField>
          )}
          {question.api === "chat" && (
            <FormField label="System" description="What the model is told first." errorText={wrong["system"]}>
              <Textarea value={question.system} rows={2} onChange={({ detail }) => set("system")(detail.value)} />
            </FormField>
          )}
          {words && (
            <ColumnLayout columns={2}>
              <FormField label="Most tokens" errorText={wrong["max_tokens"]}>
                <Input type="number" value={question.max_tokens} onChange={({ detail }) => set("max_tokens")(detail.value)} />
              </FormField>
              <FormField label="Temperature" errorText={wrong["temperature"]}>
                <Input type="number" step={0.1} value={question.temperature} onChange={({ detail }) => set("temperature")(detail.value)} />
              </FormField>
            </ColumnLayout>
          )}
          <SpaceBetween size="xs" direction="horizontal">
            <Button variant="primary" formAction="submit" loading={model.asking}>
              Ask
            </Button>
            {model.asking && (
              <Button formAction="none" onClick={model.stop}>
                Stop
              </Button>
            )}
          </SpaceBetween>
        </SpaceBetween>
      </form>
      <SpaceBetween size="m">
        {model.error ? <ProblemAlert error={model.error} shown={FIELDS} /> : null}
        {model.problem && <ProblemAlert error={new ProblemError(model.problem)} />}
        {model.refusal && <Alert type="error" header="The model says">{model.refusal}</Alert>}
        {model.thought && <Box color="text-body-secondary"><span className="is-log is-wrap">{model.thought}</span></Box>}
        <Container header={<Box variant="h3">Answer</Box>}>
          <div aria-live="polite" aria-busy={model.asking} className="is-log is-wrap">
            {model.text || (model.asking ? "…" : "Nothing was asked yet.")}
          </div>
        </Container>
        {model.figures && <How figures={model.figures} />}
      </SpaceBetween>
    </ColumnLayout>
  );
}

/** How fast it was, and the same question by hand. */
function How({ figures }: { figures: Figures }) {
  const told: [string, string | null][] = [
    ["Whole answer", `${figures.latency_ms} ms`],
    ["First token", figures.first_token_ms === null ? null : `${figures.first_token_ms} ms`],
    ["Tokens a second", figures.tokens_per_second === null ? null : String(figures.tokens_per_second)],
    ["Tokens", figures.completion_tokens === null ? null : `${figures.prompt_tokens ?? "?"} read, ${figures.completion_tokens} written`],
    ["Ended because", figures.finish_reason],
    ["Replica", figures.replica],
  ];
  return (
    <SpaceBetween size="m">
      <ColumnLayout columns={3} variant="text-grid">
        {told.filter(([, value]) => value !== null).map(([name, value]) => (
          <div key={name}>
            <Box variant="awsui-key-label">{name}</Box>
            <div>{value}</div>
          </div>
        ))}
      </ColumnLayout>
      <div>
        <Box variant="awsui-key-label">By hand</Box>
        <pre className="is-log is-wrap">{figures.curl}</pre>
        <CopyToClipboard copyButtonText="Copy" copySuccessText="Copied" copyErrorText="It could not be copied" textToCopy={figures.curl} />
      </div>
    </SpaceBetween>
  );
}
