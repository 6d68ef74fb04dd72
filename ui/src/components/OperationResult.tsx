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

function lines(value: unknown): string[] {
  if (Array.isArray(value)) return value.length ? value.map((each) => pairs(each).join(", ")) : ["none"];
  return pairs(value);
}

/** Each "key: value" of an object, or the value itself. */
function pairs(value: unknown): string[] {
  if (typeof value !== "object" || value === null) return [plain(value)];
  return Object.entries(value).map(([key, inner]) => `${key}: ${plain(inner)}`);
}

function plain(value: unknown): string {
  if (value === null || value === undefined) return "-";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (Array.isArray(value)) return value.map(plain).join("; ") || "none";
  return typeof value === "object" ? pairs(value).join(", ") : String(value);
}
