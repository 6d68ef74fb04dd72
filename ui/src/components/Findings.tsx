import Box from "@cloudscape-design/components/box";
import SpaceBetween from "@cloudscape-design/components/space-between";
import type { Schemas } from "../api/client";
import { labelOf } from "./SchemaField";
import { Status } from "./Status";

const ORDER = ["fail", "unknown", "warn", "ok"];

/** The preflight's answers, what stands in the way first. */
export function Findings({ findings }: { findings: readonly Schemas["Finding"][] }) {
  const sorted = [...findings].sort((a, b) => ORDER.indexOf(a.level) - ORDER.indexOf(b.level));
  return (
    <ul className="is-plain-list" aria-label="Findings of the preflight">
      {sorted.map((each) => (
        <li key={each.check} data-check={each.check} data-level={each.level}>
          <SpaceBetween size="xxxs">
            <Status status={each.level}>
              <b>{labelOf(each.check)}</b>: {each.detail}
            </Status>
            {each.hint && (
              <Box color="text-body-secondary" padding={{ left: "xl" }}>
                {each.hint}
              </Box>
            )}
          </SpaceBetween>
        </li>
      ))}
    </ul>
  );
}
