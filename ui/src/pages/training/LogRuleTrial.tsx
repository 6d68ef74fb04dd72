import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import ExpandableSection from "@cloudscape-design/components/expandable-section";
import FormField from "@cloudscape-design/components/form-field";
import Input from "@cloudscape-design/components/input";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Textarea from "@cloudscape-design/components/textarea";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { api, type Schemas } from "../../api/client";
import { ProblemAlert } from "../../components/ProblemAlert";
import { Status } from "../../components/Status";
import { Text } from "../../components/Text";
import { LogRules, type Rule, rulesOf } from "./LogRules";

const FIRST: Rule[] = [{ name: "loss", pattern: "loss=([0-9.]+)", threshold: 5, comparison: "gt", data_points: 2 }];

/** What log rules would have said of a sample log: before a job depends on them. */
export function LogRuleTrial() {
  const [open, setOpen] = useState(false);
  const [rules, setRules] = useState<Rule[]>(FIRST);
  return (
    <ExpandableSection variant="container" headerText="Try log rules" headerDescription="What a job's log rules would say of a log: which lines they fit, and where they would call it hanging or slow." expanded={open} onChange={({ detail }) => setOpen(detail.expanded)}>
      {open && (
        <SpaceBetween size="l">
          <LogRules rules={rules} onChange={setRules} />
          <Trial rules={rules} />
        </SpaceBetween>
      )}
    </ExpandableSection>
  );
}

/** A sample of a log, and what the rules make of it. */
export function Trial({ rules }: { rules: readonly Rule[] }) {
  const [text, setText] = useState("");
  const [pace, setPace] = useState("");
  const trial = useMutation({
    mutationFn: async () => {
      const body = { rules: rulesOf(rules), text, seconds_per_line: pace ? Number(pace) : undefined } as unknown as Schemas["TryLogRules"];
      return (await api.POST("/api/v1/training-log-rule-trials", { body })).data;
    },
  });
  return (
    <SpaceBetween size="m">
      <FormField label="Sample log" description="Lines of a log of such a job. They are tried here and kept nowhere." stretch>
        <Textarea value={text} rows={6} spellcheck={false} onChange={({ detail }) => setText(detail.value)} placeholder="step 1 loss=2.31" />
      </FormField>
      <SpaceBetween size="xs" direction="horizontal" alignItems="end">
        <FormField label="Seconds between two lines" description="Left empty: times are not judged.">
          <Input value={pace} inputMode="decimal" onChange={({ detail }) => setPace(detail.value)} />
        </FormField>
        <Button disabled={!text.trim() || rules.length === 0} loading={trial.isPending} onClick={() => trial.mutate()}>
          Try the rules
        </Button>
      </SpaceBetween>
      <ProblemAlert error={trial.error} />
      {trial.data?.rules.map((each) => <Verdict key={each.name} trial={each} of={trial.data!.lines} />)}
    </SpaceBetween>
  );
}

function Verdict({ trial, of }: { trial: Schemas["RuleTrial"]; of: number }) {
  return (
    <SpaceBetween size="xxs">
      <Status status={trial.verdicts.length ? "warn" : "ok"}>
        <b>{trial.name}</b>: fits {trial.matches} of {of} lines
      </Status>
      {[...trial.verdicts, ...trial.remarks].map((each) => (
        <Box key={each} padding={{ left: "xl" }}>
          <Text>{each}</Text>
        </Box>
      ))}
      {trial.lines.slice(0, 5).map((each) => (
        <Box key={each.number} padding={{ left: "xl" }} color="text-body-secondary">
          <span className="is-wrap is-log">
            {each.number}: {each.untrusted_text}
            {each.value === null || each.value === undefined ? "" : `  -> ${each.value}`}
          </span>
        </Box>
      ))}
    </SpaceBetween>
  );
}
