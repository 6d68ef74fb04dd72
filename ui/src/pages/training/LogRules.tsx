import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import ColumnLayout from "@cloudscape-design/components/column-layout";
import Container from "@cloudscape-design/components/container";
import Header from "@cloudscape-design/components/header";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useSchema } from "../../api/schema";
import { SchemaField, type Values } from "../../components/SchemaField";

export type Rule = Values;

/** The rules without what was left empty. */
export function rulesOf(rules: readonly Rule[]): Rule[] {
  return rules.map((rule) => Object.fromEntries(Object.entries(rule).filter(([, value]) => value !== undefined && value !== "")));
}

/** What the operator looks for in a job's log: each rule drawn from the server's own description. */
export function LogRules({ rules, error, onChange }: { rules: readonly Rule[]; error?: string; onChange: (rules: Rule[]) => void }) {
  const fields = useSchema("LogRule");
  const put = (at: number, name: string, value: unknown) => onChange(rules.map((each, index) => (index === at ? { ...each, [name]: value } : each)));
  return (
    <SpaceBetween size="m">
      {error && <Box color="text-status-error">{error}</Box>}
      {rules.map((rule, at) => (
        <Container key={at} header={<Header variant="h3" actions={<Button onClick={() => onChange(rules.filter((_, index) => index !== at))}>Remove</Button>}>{`Rule ${at + 1}`}</Header>}>
          <ColumnLayout columns={2}>
            {fields.data?.map((field) => <SchemaField key={field.name} field={field} value={rule[field.name]} onChange={(value) => put(at, field.name, value)} />)}
          </ColumnLayout>
        </Container>
      ))}
      <Button iconName="add-plus" onClick={() => onChange([...rules, {}])}>
        Add a rule
      </Button>
    </SpaceBetween>
  );
}
