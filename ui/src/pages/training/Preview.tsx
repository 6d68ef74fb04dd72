import Box from "@cloudscape-design/components/box";
import Container from "@cloudscape-design/components/container";
import ExpandableSection from "@cloudscape-design/components/expandable-section";
import Header from "@cloudscape-design/components/header";
import LiveRegion from "@cloudscape-design/components/live-region";
import SpaceBetween from "@cloudscape-design/components/space-between";
import type { Schemas } from "../../api/client";
import { Findings } from "../../components/Findings";

/** Exactly what would be made, and exactly what the container would be started with. */
export function PreviewView({ preview }: { preview: Schemas["TrainingJobPreview"] }) {
  const objects = preview.objects as Record<string, unknown>[];
  return (
    <div ref={(element) => element?.scrollIntoView?.({ block: "nearest" })}>
      <LiveRegion hidden>The preview is there.</LiveRegion>
      <Container header={<Header variant="h2" description="Nothing was made.">{`Preview of ${preview.namespace}/${preview.name}`}</Header>}>
        <SpaceBetween size="l">
          <Findings findings={preview.findings} />
          <div>
            <Box variant="h3">Arguments of the container</Box>
            <ol className="is-code" aria-label="Arguments of the container">
              {preview.argv.map((each, at) => (
                <li key={at}>{each}</li>
              ))}
            </ol>
          </div>
          <Pairs title="Rendezvous, set by the operator" of={preview.rendezvous} />
          <Pairs title="Settings" of={preview.settings} />
          {objects.map((each, at) => (
            <ExpandableSection key={at} headerText={`${String(each["kind"])} as it is applied`}>
              <pre className="is-code">{JSON.stringify(each, null, 2)}</pre>
            </ExpandableSection>
          ))}
        </SpaceBetween>
      </Container>
    </div>
  );
}

function Pairs({ title, of }: { title: string; of: Record<string, unknown> }) {
  const told = Object.entries(of);
  if (told.length === 0) return null;
  return (
    <div>
      <Box variant="h3">{title}</Box>
      {told.map(([name, value]) => (
        <div key={name} className="is-wrap is-log">
          {name}: {typeof value === "string" ? value : JSON.stringify(value)}
        </div>
      ))}
    </div>
  );
}
