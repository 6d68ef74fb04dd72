import { api, type Schemas } from "../../api/client";
import { within } from "../../api/problems";
import type { PlannedAct } from "../../components/PlannedAct";
import type { Values } from "../../components/SchemaField";
import { words } from "../../components/Status";

const FEATURES = "/api/v1/clusters/{cluster}/features";
type Feature = Schemas["FeatureView"];
type Name = keyof Schemas["UpdateFeatures"];

/** Only the touched feature is sent: presence is intent. What is refused of it lands on the fields of its form. */
function patch(cluster: string, name: string, change: Values): PlannedAct["send"] {
  return (body, { query, header }) =>
    api.PATCH(FEATURES, { params: { path: { cluster }, query, header }, body: { [name as Name]: { ...body, ...change } } as Schemas["UpdateFeatures"] }).catch((error: unknown) => {
      throw within(name, error);
    });
}

const SWITCHES: Partial<Record<Name, keyof Schemas>> = {
  tiered_checkpointing: "CheckpointSwitch",
  observability: "ObservabilitySwitch",
  karpenter: "Switch",
  keda: "CopySwitch",
  kuberay: "CopySwitch",
};

export function switchOn(cluster: string, feature: Feature): PlannedAct {
  return {
    title: `Switch ${feature.title} on`,
    button: "Switch on",
    says: feature.depends_on.length ? `It needs ${feature.depends_on.map(words).join(", ")}: what is missing is installed first.` : undefined,
    schema: SWITCHES[feature.name as Name] ?? "AddonSwitch",
    without: ["enabled"],
    send: patch(cluster, feature.name, { enabled: true }),
  };
}

export function change(cluster: string, feature: Feature): PlannedAct {
  return { ...switchOn(cluster, feature), title: `Change ${feature.title}`, button: "Change", says: "What is left empty stays as it is." };
}

export function switchOff(cluster: string, feature: Feature): PlannedAct {
  return { title: `Switch ${feature.title} off`, button: "Switch off", destroys: true, says: "What was made for it goes; what others need stays.", send: patch(cluster, feature.name, { enabled: false }) };
}

export function repair(cluster: string, feature: Feature): PlannedAct {
  return {
    title: `Repair ${feature.title}`,
    button: "Repair",
    send: (_, { query: { dry_run }, header }) =>
      api.POST(`${FEATURES}/repair`, { params: { path: { cluster }, query: { dry_run }, header }, body: { features: [feature.name] } as Schemas["RepairFeatures"] }),
  };
}

export function upgrade(cluster: string, feature: Feature): PlannedAct {
  return {
    title: `Upgrade ${feature.title}`,
    button: "Upgrade",
    schema: "UpgradeFeature",
    initial: { version: feature.available_version ?? undefined },
    send: (body, { query: { dry_run }, header }) =>
      api.POST(`${FEATURES}/{feature}/upgrade`, { params: { path: { cluster, feature: feature.name as never }, query: { dry_run }, header }, body: body as Schemas["UpgradeFeature"] }),
  };
}
