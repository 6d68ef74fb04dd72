import Alert from "@cloudscape-design/components/alert";
import Box from "@cloudscape-design/components/box";
import SpaceBetween from "@cloudscape-design/components/space-between";
import type { Schemas } from "../api/client";
import { Findings } from "./Findings";

/** What a request would do, from its dry run. */
export function PlanView({ plan }: { plan: Schemas["Plan"] }) {
  return (
    <SpaceBetween size="m">
      <Lines title="Will be made" lines={plan.make} />
      <Lines title="Will be changed" lines={plan.change} />
      <Lines title="Will be removed" lines={plan.remove} />
      <Lines title="Will be kept" lines={plan.keep} />
      {plan.warnings && plan.warnings.length > 0 && (
        <Alert type="warning" header="What this touches">
          {plan.warnings.map((each) => (
            <div key={each}>{each}</div>
          ))}
        </Alert>
      )}
      {plan.findings && plan.findings.length > 0 && (
        <div>
          <Box variant="h4">Preflight</Box>
          <Findings findings={plan.findings} />
        </div>
      )}
    </SpaceBetween>
  );
}

function Lines({ title, lines }: { title: string; lines: readonly string[] | undefined }) {
  if (!lines || lines.length === 0) return null;
  const [place, rest] = lines[0]!.endsWith(":") ? [lines[0], lines.slice(1)] : [undefined, lines]; // "in account ..., region ...:" heads the others
  return (
    <div>
      <Box variant="h4">
        {title} {place}
      </Box>
      <ul className="is-list">
        {rest.map((each) => (
          <li key={each} className="is-wrap">
            {each}
          </li>
        ))}
      </ul>
    </div>
  );
}

/** The two answers of a changing route told apart. */
export const isPlan = (answer: Schemas["Operation"] | Schemas["Plan"]): answer is Schemas["Plan"] => !("workflow" in answer);
