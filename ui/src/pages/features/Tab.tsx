import Alert from "@cloudscape-design/components/alert";
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import ButtonDropdown from "@cloudscape-design/components/button-dropdown";
import Popover from "@cloudscape-design/components/popover";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useState } from "react";
import { $api, type Schemas } from "../../api/client";
import { DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { ListHeader } from "../../components/ListHeader";
import { type PlannedAct, PlannedActModal } from "../../components/PlannedAct";
import { ProblemAlert } from "../../components/ProblemAlert";
import { RouterLink } from "../../components/RouterLink";
import { Status, words } from "../../components/Status";
import { Text } from "../../components/Text";
import { moment } from "../../components/time";
import { change, repair, switchOff, switchOn, upgrade } from "./acts";

const REFRESH_MS = 15_000;
type Feature = Schemas["FeatureView"];

/** Managed features: what is there, what it needs, whether its identity chain holds. */
export function FeaturesTab({ cluster }: { cluster: string }) {
  const read = $api.useQuery("get", "/api/v1/clusters/{cluster}/features", { params: { path: { cluster } } }, { refetchInterval: REFRESH_MS });
  const [act, setAct] = useState<PlannedAct | null>(null);
  const titles = new Map(read.data?.items.map((each) => [each.name as string, each.title]));
  const drifted = (read.data?.drifted ?? []).map((name) => titles.get(name) ?? words(name));
  return (
    <SpaceBetween size="m">
      <ProblemAlert error={read.error} action={<Button onClick={() => void read.refetch()}>Try again</Button>} />
      {drifted.length > 0 && <Alert type="warning">Not as declared any more: {drifted.join(", ")}. Repair puts it right.</Alert>}
      <DataTable
        items={read.data?.items ?? []}
        trackBy="name"
        wrapLines
        loading={read.isPending}
        loadingText="Reading the features"
        ariaLabels={{ tableLabel: "Features" }}
        empty={<EmptyState error={read.error} title="No features" />}
        header={<ListHeader title="Features" description={read.data ? `Read ${moment(read.data.read_at)}` : undefined} onRefresh={() => void read.refetch()} />}
        columnDefinitions={[
          { id: "title", header: "Feature", isRowHeader: true, minWidth: 200, cell: TitleCell },
          { id: "state", header: "State", minWidth: 150, cell: StateCell },
          { id: "version", header: "Version", minWidth: 110, cell: VersionCell },
          { id: "needs", header: "Needs", minWidth: 120, cell: (each) => each.depends_on.map((name) => titles.get(name) ?? words(name)).join(", ") || "-" },
          { id: "identity", header: "Identity", cell: IdentityCell },
          { id: "acts", header: "Actions", minWidth: 130, cell: (each) => <Actions cluster={cluster} feature={each} onAct={setAct} /> },
        ]}
      />
      {act && <PlannedActModal act={act} onClose={() => setAct(null)} />}
    </SpaceBetween>
  );
}

function TitleCell(feature: Feature) {
  return (
    <>
      {feature.title}
      <Box variant="small" color="text-body-secondary" display="block">
        {feature.says}
      </Box>
    </>
  );
}

function StateCell(feature: Feature) {
  return (
    <>
      <Status status={feature.state} />
      {feature.operation ? (
        <Box variant="small" display="block">
          <RouterLink href={`/operations/${feature.operation.id}`}>{feature.operation.workflow}</RouterLink>
        </Box>
      ) : (
        feature.state !== "off" && feature.why && (
          <Box variant="small" color="text-body-secondary" display="block">
            {feature.why}
          </Box>
        )
      )}
    </>
  );
}

function VersionCell(feature: Feature) {
  return (
    <>
      <Text>{feature.version ?? "-"}</Text>
      {feature.installed_by && (
        <Box variant="small" color="text-body-secondary" display="block">
          by {feature.installed_by}
        </Box>
      )}
    </>
  );
}

function IdentityCell(feature: Feature) {
  if (feature.identity.length === 0) return "-";
  const wrong = feature.identity.filter((each) => each.status !== "ok");
  return (
    <Popover
      size="large"
      header="Identity chain"
      content={feature.identity.map((each) => (
        <div key={`${each.chain}/${each.link}`}>
          <Status status={each.status === "ok" ? "ok" : "warn"}>
            {each.link}: {each.detail || words(each.status)}
          </Status>
        </div>
      ))}
    >
      {wrong.length ? `${wrong.length} of ${feature.identity.length} wrong` : "verified"}
    </Popover>
  );
}

function Actions({ cluster, feature, onAct }: { cluster: string; feature: Feature; onAct: (act: PlannedAct) => void }) {
  if (!feature.enabled) {
    return <Button wrapText={false} onClick={() => onAct(switchOn(cluster, feature))}>Switch on</Button>;
  }
  const acts: Record<string, (cluster: string, feature: Feature) => PlannedAct> = { change, off: switchOff, repair, upgrade };
  return (
    <ButtonDropdown
      items={[
        { id: "change", text: "Change settings" },
        { id: "repair", text: "Repair" },
        { id: "upgrade", text: "Upgrade", disabled: !feature.available_version || feature.available_version === feature.version },
        { id: "off", text: "Switch off", disabled: feature.needed_by.length > 0, disabledReason: `Needed by ${feature.needed_by.map(words).join(", ")}` },
      ]}
      onItemClick={({ detail }) => onAct(acts[detail.id]!(cluster, feature))}
    >
      Actions
    </ButtonDropdown>
  );
}
