import ColumnLayout from "@cloudscape-design/components/column-layout";
import ExpandableSection from "@cloudscape-design/components/expandable-section";
import FormField from "@cloudscape-design/components/form-field";
import Textarea from "@cloudscape-design/components/textarea";
import { useState } from "react";
import type { FieldSchema } from "../../api/schema";
import { labelOf, optional, SchemaField } from "../../components/SchemaField";
import type { Answers, LinesKind } from "./values";

/** A question of the form: a field of the server's, its place in the body, and how it is typed if as lines. */
export interface Question {
  place: string;
  field: FieldSchema;
  lines?: LinesKind;
}

interface Props {
  title: string;
  says?: string;
  questions: readonly Question[];
  answers: Answers;
  errors: Record<string, string>;
  set: (place: string, value: unknown) => void;
  open?: boolean;
  children?: React.ReactNode;
}

/** One part of the form. It opens by itself when something in it is refused. */
export function Section({ title, says, questions, answers, errors, set, open = false, children }: Props) {
  const [expanded, setExpanded] = useState(open);
  const wrong = questions.filter((each) => errors[each.place]).length;
  return (
    <ExpandableSection variant="container" headerText={title} headerDescription={wrong ? `${wrong === 1 ? "One answer is" : `${wrong} answers are`} refused.` : says} expanded={expanded || wrong > 0} onChange={({ detail }) => setExpanded(detail.expanded)}>
      <ColumnLayout columns={2}>
        {questions.map((each) => (
          <Ask key={each.place} question={each} value={answers[each.place]} error={errors[each.place]} onChange={(value) => set(each.place, value)} />
        ))}
      </ColumnLayout>
      {children}
    </ExpandableSection>
  );
}

function Ask({ question, value, error, onChange }: { question: Question; value: unknown; error?: string; onChange: (value: unknown) => void }) {
  const { field, lines } = question;
  if (!lines) return <SchemaField field={field} value={value} error={error} onChange={onChange} />;
  return (
    <FormField label={field.required ? labelOf(field.name) : optional(labelOf(field.name))} description={field.description} errorText={error} constraintText={lines.says} stretch>
      <Textarea value={typeof value === "string" ? value : ""} rows={4} spellcheck={false} onChange={({ detail }) => onChange(detail.value)} />
    </FormField>
  );
}
