import Alert from "@cloudscape-design/components/alert";
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import ExpandableSection from "@cloudscape-design/components/expandable-section";
import Header from "@cloudscape-design/components/header";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useState } from "react";
import { $api, type Schemas } from "../../api/client";
import { DataTable } from "../../components/DataTable";
import { PlannedActModal } from "../../components/PlannedAct";
import { ProblemAlert } from "../../components/ProblemAlert";
import { RouterLink } from "../../components/RouterLink";
import { Status, words } from "../../components/Status";
import { Text } from "../../components/Text";
import { type Place, serveAsNow } from "./acts";

const REFRESH_MS = 5_000;
const SIGNS: Record<string, string> = { ok: "ok", waiting: "waiting", failed: "failed", absent: "skipped", unknown: "unknown" };

/** A managed endpoint: each link up to its callers, and its settings. */
export function EndpointPanel({ place }: { place: Place }) {
  const read = $api.useQuery("get", "/api/v1/clusters/{cluster}/inference-endpoints/{namespace}/{name}", { params: { path: { ...place } } }, { refetchInterval: REFRESH_MS });
  if (!read.data) return <ProblemAlert error={read.error} />;
  const { links, settings, operation, differs, invoke_url: url, generation, observed_generation: observed } = read.data;
  return (
    <SpaceBetween size="l">
      {operation && (
        <Alert type="info">
          <RouterLink href={`/operations/${operation.id}`}>{operation.workflow}</RouterLink> works on it now ({operation.status}).
        </Alert>
      )}
      {differs.length > 0 && <RolledBack place={place} differs={differs} />}
      <DataTable
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
          { id: "detail", header: "Detail", cell: (each) => <Text>{each.detail}</Text> },
        ]}
      />
      {url && (
        <div>
          <Box variant="awsui-key-label">Address inside the VPC</Box>
          <Text>{url}</Text>
        </div>
      )}
      <ExpandableSection headerText="Settings">
        <pre className="is-log is-wrap">{JSON.stringify(settings, null, 2)}</pre>
      </ExpandableSection>
    </SpaceBetween>
  );
}

/** After a change that was taken back: what is asked beside what is served, and the way to ask for the latter. */
function RolledBack({ place, differs }: { place: Place; differs: readonly Schemas["ServedOtherwise"][] }) {
  const [asking, setAsking] = useState(false);
  return (
    <Alert type="error" header="It serves other settings than it asks for" action={<Button onClick={() => setAsking(true)}>Ask for what is served</Button>}>
      <SpaceBetween size="xs">
        <span>A change was rolled back. The operator may try it again; ask for what is served, or put right what was wrong with it.</span>
        {differs.map((each) => (
          <span key={each.setting} className="is-wrap">
            <b>{each.setting}</b>: asked {JSON.stringify(each.asked)}, served {JSON.stringify(each.served)}
          </span>
        ))}
      </SpaceBetween>
      {asking && <PlannedActModal act={serveAsNow(place)} onClose={() => setAsking(false)} />}
    </Alert>
  );
}
