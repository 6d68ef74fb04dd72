import Alert from "@cloudscape-design/components/alert";
import Box from "@cloudscape-design/components/box";
import ExpandableSection from "@cloudscape-design/components/expandable-section";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { createContext, useContext } from "react";
import { isAway, landOnFields, problemOf } from "../api/problems";
import { visible } from "./visible";

/** Whether the page round this says already that the server is away. */
export const AwayIsTold = createContext(false);

interface Props {
  error: unknown;
  /** fields that a form shows and that carry their own messages */
  shown?: readonly string[];
  action?: React.ReactNode;
}

/** Any Problem: what, why, what to do next, the fields that no form shows, and the evidence. */
export function ProblemAlert({ error, shown = [], action }: Props) {
  const told = useContext(AwayIsTold);
  if (!error || (told && isAway(error))) return null;
  const problem = problemOf(error);
  const others = landOnFields(problem, shown).others.filter((each) => !problem.detail.includes(each.message)); // told once
  const warns = ["busy", "unreachable", "blocked", "no_capacity"].includes(problem.kind);
  return (
    <Alert type={warns ? "warning" : "error"} header={problem.title} action={action}>
      <SpaceBetween size="xs">
        <Text>{visible(problem.detail)}</Text>
        {others.length > 0 && (
          <ul className="is-plain-list">
            {others.map((each) => (
              <li key={each.pointer + each.message}>
                <code>{each.pointer}</code> {each.message}
              </li>
            ))}
          </ul>
        )}
        {problem.hint && (
          <Text>
            <b>Next step:</b> {problem.hint}
          </Text>
        )}
        <Evidence code={problem.code} evidence={problem.evidence ?? {}} />
      </SpaceBetween>
    </Alert>
  );
}

function Text({ children }: { children: React.ReactNode }) {
  return <div className="is-wrap">{children}</div>;
}

function Evidence({ code, evidence }: { code: string; evidence: Record<string, unknown> }) {
  return (
    <ExpandableSection variant="inline" headerText="Evidence">
      <Box variant="code" display="block">
        <span className="is-wrap">code: {code}</span>
      </Box>
      {Object.entries(evidence).map(([key, value]) => (
        <Box key={key} variant="code" display="block">
          <span className="is-wrap">
            {key}: {typeof value === "string" ? value : JSON.stringify(value)}
          </span>
        </Box>
      ))}
    </ExpandableSection>
  );
}
