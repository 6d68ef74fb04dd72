import Alert from "@cloudscape-design/components/alert";
import Box from "@cloudscape-design/components/box";
import ExpandableSection from "@cloudscape-design/components/expandable-section";
import Header from "@cloudscape-design/components/header";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Table from "@cloudscape-design/components/table";
import { $api } from "../../api/client";
import { ProblemAlert } from "../../components/ProblemAlert";
import { RouterLink } from "../../components/RouterLink";
import { Status, words } from "../../components/Status";
import type { Place } from "./acts";

const REFRESH_MS = 5_000;
const SIGNS: Record<string, string> = { ok: "ok", waiting: "waiting", failed: "failed", absent: "skipped", unknown: "unknown" };

/** A managed endpoint: each link up to its callers, and its settings. */
export function EndpointPanel({ place }: { place: Place }) {
  const read = $api.useQuery("get", "/api/v1/clusters/{cluster}/inference-endpoints/{namespace}/{name}", { params: { path: { ...place } } }, { refetchInterval: REFRESH_MS });
  if (!read.data) return <ProblemAlert error={read.error} />;
  const { links, settings, operation, invoke_url: url, generation, observed_generation: observed } = read.data;
  return (
    <SpaceBetween size="l">
      {operation && (
        <Alert type="info">
          <RouterLink href={`/operations/${operation.id}`}>{operation.workflow}</RouterLink> works on it now ({operation.status}).
        </Alert>
      )}
      <Table
        header={
          <Header variant="h2" description={`The first that does not hold is the one to mend. Settings ${generation}, seen by the operator: ${observed}.`}>
            From the operator to the caller
          </Header>
        }
        items={links}
        trackBy="name"
        wrapLines
        ariaLabels={{ tableLabel: "Links of the endpoint" }}
        columnDefinitions={[
          { id: "name", header: "Link", width: 200, isRowHeader: true, cell: (each) => words(each.name) },
          { id: "status", header: "Status", width: 140, cell: (each) => <Status status={SIGNS[each.status] ?? "unknown"}>{words(each.status)}</Status> },
          { id: "detail", header: "Detail", cell: (each) => <span className="is-wrap">{each.detail}</span> },
        ]}
      />
      {url && (
        <div>
          <Box variant="awsui-key-label">Address inside the VPC</Box>
          <span className="is-wrap">{url}</span>
        </div>
      )}
      <ExpandableSection headerText="Settings">
        <pre className="is-log is-wrap">{JSON.stringify(settings, null, 2)}</pre>
      </ExpandableSection>
    </SpaceBetween>
  );
}
