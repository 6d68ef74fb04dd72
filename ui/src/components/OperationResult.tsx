import Container from "@cloudscape-design/components/container";
import ExpandableSection from "@cloudscape-design/components/expandable-section";
import Header from "@cloudscape-design/components/header";
import KeyValuePairs from "@cloudscape-design/components/key-value-pairs";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { labelOf } from "./SchemaField";

/** What an operation learned at its end, whatever that is: one level deep, and the whole of it on request. */
export function OperationResult({ result }: { result: Record<string, unknown> }) {
  const items = Object.entries(result).map(([key, value]) => ({
    label: labelOf(key),
    value: lines(value).map((line, i) => (
      <div key={i} className="is-wrap">
        {line}
      </div>
    )),
  }));
  return (
    <Container header={<Header variant="h2">Result</Header>}>
      <SpaceBetween size="m">
        <KeyValuePairs columns={3} items={items} />
        <ExpandableSection headerText="Everything that was read">
          <pre className="is-log is-wrap">{JSON.stringify(result, null, 2)}</pre>
        </ExpandableSection>
      </SpaceBetween>
    </Container>
  );
}

/** A list is a line an item, an object a line a field; a list in an object follows with a line an item. */
function lines(value: unknown): string[] {
  if (Array.isArray(value)) return value.length ? value.map(plain) : ["none"];
  if (typeof value !== "object" || value === null) return [plain(value)];
  return known(value).flatMap(([key, inner]) => (Array.isArray(inner) ? inner.map(plain) : [`${key}: ${plain(inner)}`]));
}

const known = (value: object) => Object.entries(value).filter(([, inner]) => inner !== null);

function plain(value: unknown): string {
  if (value === null || value === undefined) return "-";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (Array.isArray(value)) return value.map(plain).join("; ") || "none";
  return typeof value === "object" ? known(value).map(([key, inner]) => `${key}: ${plain(inner)}`).join(", ") : String(value);
}
