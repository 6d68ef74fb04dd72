import Alert from "@cloudscape-design/components/alert";
import Badge from "@cloudscape-design/components/badge";
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import Container from "@cloudscape-design/components/container";
import ExpandableSection from "@cloudscape-design/components/expandable-section";
import Header from "@cloudscape-design/components/header";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useState } from "react";
import { $api, type Schemas } from "../api/client";
import { DataTable } from "./DataTable";
import { ProblemAlert } from "./ProblemAlert";
import { words } from "./Status";
import { Text } from "./Text";

type Subject = Schemas["Diagnosis"]["of"];

interface Props {
  cluster: string;
  of: Subject;
  name?: string;
  namespace?: string;
  jobKind?: "pytorch" | "ray_job" | "ray_cluster";
}

const SAYS: Record<Subject, string> = {
  cluster: "Why making it failed, or does not end.",
  node: "What is wrong with it.",
  job: "Why it does not run, or failed.",
  endpoint: "Why it does not answer.",
  deployment: "Why it does not answer.",
  nccl: "Why its nodes do not talk, or slowly.",
};
const COLOURS = { certain: "red", likely: "blue", possible: "grey" } as const;

/** Gathers the evidence when asked, and shows the causes with what to do. It changes nothing. */
export function Diagnosis({ cluster, of, name, namespace, jobKind }: Props) {
  const [asked, setAsked] = useState(false);
  const query = { of, ...(name ? { name } : {}), ...(namespace ? { namespace } : {}), ...(jobKind ? { job_kind: jobKind } : {}) };
  const read = $api.useQuery("get", "/api/v1/clusters/{cluster}/diagnosis", { params: { path: { cluster }, query } }, { enabled: asked, refetchOnWindowFocus: false, staleTime: Infinity });
  const ask = () => (asked ? void read.refetch() : setAsked(true));
  return (
    <Container
      header={
        <Header
          variant="h2"
          description={`${SAYS[of]} It only looks; nothing is changed.`}
          actions={
            <Button iconName="search" loading={read.isFetching} loadingText="Gathering evidence" onClick={ask}>
              {read.data ? "Diagnose again" : "Diagnose"}
            </Button>
          }
        >
          {of === "nccl" ? "Diagnosis of NCCL" : "Diagnosis"}
        </Header>
      }
    >
      <SpaceBetween size="m">
        <ProblemAlert error={read.error} />
        {read.data ? <Told told={read.data} /> : !read.error && <Box color="text-status-inactive">Not asked yet.</Box>}
      </SpaceBetween>
    </Container>
  );
}

function Told({ told }: { told: Schemas["Diagnosis"] }) {
  return (
    <SpaceBetween size="m">
      <Text>{told.standing}</Text>
      {told.found === "nothing" && <Alert type="success">Nothing was found.</Alert>}
      {told.found === "unknown" && <Alert type="info">{told.verdict}</Alert>}
      {told.causes.map((cause, at) => (
        <Cause key={cause.code} cause={cause} first={at === 0} />
      ))}
      {told.causes_omitted > 0 && <Box color="text-status-inactive">{told.causes_omitted} less sure causes are left out.</Box>}
      {told.unread.length > 0 && (
        <Alert type="warning" header="Not read">
          {told.unread.map((each) => (
            <div key={each.part} className="is-wrap">
              {each.part}: {each.because}
            </div>
          ))}
        </Alert>
      )}
      <ExpandableSection headerText="What was looked at">
        <Text>{told.looked_at.join(", ") || "Nothing could be read."}</Text>
      </ExpandableSection>
    </SpaceBetween>
  );
}

function Cause({ cause, first }: { cause: Schemas["DiagnosisCause"]; first: boolean }) {
  const heading = (
    <span className="is-wrap">
      <Badge color={COLOURS[cause.confidence]}>{cause.confidence}</Badge> {cause.text}
    </span>
  );
  return (
    <ExpandableSection defaultExpanded={first} headerText={heading} headerDescription={cause.code} headingTagOverride="h3">
      <SpaceBetween size="s">
        <ol className="is-list" aria-label="Next steps">
          {(cause.next_steps ?? []).map((step) => (
            <li key={step.rung + step.text} className="is-wrap">
              <b>{words(step.rung)}:</b> {step.text} {step.tool && <code>{step.tool}</code>}
            </li>
          ))}
        </ol>
        {cause.evidence && cause.evidence.length > 0 && <Evidence items={cause.evidence} />}
      </SpaceBetween>
    </ExpandableSection>
  );
}

function Evidence({ items }: { items: readonly Schemas["DiagnosisEvidence"][] }) {
  return (
    <DataTable
      items={items}
      wrapLines
      contentDensity="compact"
      variant="embedded"
      ariaLabels={{ tableLabel: "Evidence" }}
      columnDefinitions={[
        { id: "source", header: "Source", width: 120, cell: (each) => each.source },
        { id: "where", header: "Where", width: 260, isRowHeader: true, cell: (each) => <Text>{each.reference}</Text> },
        {
          id: "seen",
          header: "Seen",
          cell: (each) => (
            <div>
              <Text>{each.text}</Text>
              {each.untrusted_text && <pre className="is-log is-wrap">{each.untrusted_text}</pre>}
            </div>
          ),
        },
      ]}
    />
  );
}
