import Autosuggest from "@cloudscape-design/components/autosuggest";
import FormField from "@cloudscape-design/components/form-field";
import Input from "@cloudscape-design/components/input";
import RadioGroup from "@cloudscape-design/components/radio-group";
import Select from "@cloudscape-design/components/select";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { $api, type Schemas } from "../api/client";
import { problemOf } from "../api/problems";
import type { FieldSchema } from "../api/schema";
import { labelOf, parse, type Values } from "./SchemaField";
import { words } from "./Status";

/** The fields these questions answer. */
export const CAPACITY_FIELDS = ["instance_type", "zone", "instance_count", "capacity_type", "training_plan_arn"] as const;

interface Props {
  fields: FieldSchema[];
  region: string | undefined;
  values: Values;
  errors: Record<string, string>;
  set: (name: string, value: unknown) => void;
}

/** Which nodes, where and how paid for: the choices and their quotas come from the account. */
export function CapacityFields({ fields, region, values, errors, set }: Props) {
  const field = (name: string) => fields.find((each) => each.name === name)!;
  const planned = values["capacity_type"] === "training_plan";
  const count = field("instance_count");
  return (
    <SpaceBetween size="l">
      <Types region={region} spot={values["capacity_type"] === "spot"} field={field("instance_type")} value={text(values["instance_type"])} error={errors["instance_type"]} onChange={(value) => set("instance_type", value)} />
      <Zones region={region} type={text(values["instance_type"])} field={field("zone")} value={text(values["zone"])} error={errors["zone"]} onChange={(value) => set("zone", value)} />
      <FormField label={labelOf(count.name)} description={count.description} errorText={errors[count.name]}>
        <Input type="number" inputMode="numeric" value={text(values[count.name])} placeholder={String(count.default ?? "")} onChange={({ detail }) => set(count.name, parse(count, detail.value))} />
      </FormField>
      <FormField label={labelOf("capacity_type")} description={field("capacity_type").description} errorText={errors["capacity_type"]}>
        <RadioGroup
          value={text(values["capacity_type"] ?? field("capacity_type").default)}
          items={field("capacity_type").choices.map((each) => ({ value: each, label: words(each) }))}
          onChange={({ detail }) => {
            set("capacity_type", detail.value);
            if (detail.value !== "training_plan") set("training_plan_arn", undefined);
          }}
        />
      </FormField>
      {planned && (
        <FormField label={labelOf("training_plan_arn")} description={field("training_plan_arn").description} errorText={errors["training_plan_arn"]} stretch>
          <Input value={text(values["training_plan_arn"])} spellcheck={false} onChange={({ detail }) => set("training_plan_arn", detail.value || undefined)} />
        </FormField>
      )}
    </SpaceBetween>
  );
}

const text = (value: unknown) => (value === undefined || value === null ? "" : String(value));

interface ChoiceProps {
  region: string | undefined;
  field: FieldSchema;
  value: string;
  error: string | undefined;
  onChange: (value: string | undefined) => void;
}

function Types({ region, spot, field, value, error, onChange }: ChoiceProps & { spot: boolean }) {
  const types = $api.useQuery("get", "/api/v1/instance-types", { params: { query: { region, spot, limit: 300 } } }, { staleTime: 60_000 });
  return (
    <FormField label={labelOf(field.name)} description={field.description} errorText={error}>
      <Autosuggest
        value={value}
        placeholder={field.example}
        enteredTextLabel={(typed) => `Use ${typed}`}
        options={(types.data?.items ?? []).map((each) => ({ value: each.name, description: machine(each), labelTag: quota(each) }))}
        statusType={types.isPending ? "loading" : types.error ? "error" : "finished"}
        loadingText="Reading types and quotas"
        errorText={types.error ? problemOf(types.error).detail : undefined}
        recoveryText="Try again"
        onLoadItems={() => types.error && void types.refetch()}
        empty="No type matches"
        ariaLabel={labelOf(field.name)}
        onChange={({ detail }) => onChange(detail.value || undefined)}
      />
    </FormField>
  );
}

/** The account's quota in words: null is unknown, not zero. */
export function quota(offer: Schemas["InstanceOffer"]): string {
  return offer.quota === null ? "quota unknown" : `quota ${offer.quota}`;
}

function machine(offer: Schemas["InstanceOffer"]): string {
  const gpus = offer.accelerators ? `${offer.accelerators} x ${offer.accelerator ?? "accelerator"}` : "no accelerator";
  const cpus = offer.vcpus === null ? "vCPUs unknown" : `${offer.vcpus} vCPUs`;
  const memory = offer.memory_gib === null ? "memory unknown" : `${offer.memory_gib} GiB`;
  return [cpus, memory, gpus, offer.efa_interfaces ? `${offer.efa_interfaces} EFA` : "no EFA"].join(", ");
}

function Zones({ region, type, field, value, error, onChange }: ChoiceProps & { type: string }) {
  const whole = /^ml\.[a-z0-9-]+\.[a-z0-9-]+$/.test(type); // a name still being typed is not asked about
  const zones = $api.useQuery("get", "/api/v1/zones", { params: { query: { region, instance_type: whole ? type : undefined } } }, { staleTime: 60_000 });
  const options = (zones.data?.items ?? []).map((each) => ({ value: each.zone_id, label: `${each.name} (${each.zone_id})`, description: offered(each, type) }));
  return (
    <FormField label={labelOf(field.name)} description={field.description} errorText={error}>
      <Select
        options={options}
        selectedOption={options.find((each) => each.value === value) ?? (value ? { value, label: value } : null)}
        placeholder="Choose a zone"
        statusType={zones.isPending ? "loading" : zones.error ? "error" : "finished"}
        loadingText="Reading the zones"
        errorText={zones.error ? problemOf(zones.error).detail : undefined}
        recoveryText="Try again"
        onLoadItems={() => zones.error && void zones.refetch()}
        empty="No zone in this region"
        ariaLabel={labelOf(field.name)}
        onChange={({ detail }) => onChange(detail.selectedOption.value)}
      />
    </FormField>
  );
}

function offered(zone: Schemas["Zone"], type: string): string | undefined {
  if (!type) return undefined;
  if (zone.offers_type === null || zone.offers_type === undefined) return `unknown whether it offers ${type}`;
  return zone.offers_type ? `offers ${type}` : `does not offer ${type}`;
}
