import Button from "@cloudscape-design/components/button";
import FormField from "@cloudscape-design/components/form-field";
import Input from "@cloudscape-design/components/input";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useState } from "react";
import { $api, type Schemas } from "../../api/client";
import { problemOf, violations } from "../../api/problems";
import { DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { ListHeader } from "../../components/ListHeader";
import { ProblemAlert } from "../../components/ProblemAlert";
import { moment } from "../../components/time";

interface Wanted {
  instance_type: string;
  instance_count: string;
  duration_hours: string;
}

const FIELDS: { name: keyof Wanted; label: string; placeholder: string }[] = [
  { name: "instance_type", label: "Instance type", placeholder: "ml.p5.48xlarge" },
  { name: "instance_count", label: "Instances", placeholder: "1" },
  { name: "duration_hours", label: "Hours", placeholder: "24" },
];

/** What SageMaker offers for a type, a count and a length. Looking costs nothing. */
export function Offerings({ onBuy }: { onBuy: (offering: Schemas["Offering"]) => void }) {
  const [typed, setTyped] = useState<Wanted>({ instance_type: "", instance_count: "1", duration_hours: "24" });
  const [asked, setAsked] = useState<Wanted | null>(null);
  const query = { instance_type: asked?.instance_type ?? "", instance_count: Number(asked?.instance_count ?? 1), duration_hours: Number(asked?.duration_hours ?? 24) };
  const read = $api.useQuery("get", "/api/v1/training-plan-offerings", { params: { query } }, { enabled: asked !== null, retry: false });
  const looked = asked !== null && !read.error;
  const wrong = (name: string) => (read.error ? violations(problemOf(read.error)).find((each) => each.pointer === `/query/${name}`)?.message : undefined);
  return (
    <DataTable
      items={read.data?.items ?? []}
      trackBy="offering_id"
      wrapLines
      loading={asked !== null && read.isPending}
      loadingText="Asking for offerings"
      ariaLabels={{ tableLabel: "Offerings" }}
      empty={<EmptyState error={read.error} title={looked ? "Nothing is offered" : "Not looked yet"} says={looked ? "Try another length, count or type." : "Say which type, how many, and for how long."} />}
      header={<ListHeader title="Offerings" description="What could be bought. Buying is an administrator's, and never automatic." />}
      filter={
        <form
          onSubmit={(event) => {
            event.preventDefault();
            setAsked(typed);
          }}
        >
          <SpaceBetween size="s">
            <SpaceBetween size="s" direction="horizontal" alignItems="end">
              {FIELDS.map(({ name, label, placeholder }) => (
                <FormField key={name} label={label} errorText={wrong(name)}>
                  <Input value={typed[name]} placeholder={placeholder} spellcheck={false} onChange={({ detail }) => setTyped((now) => ({ ...now, [name]: detail.value }))} />
                </FormField>
              ))}
              <Button formAction="submit">Look</Button>
            </SpaceBetween>
            <ProblemAlert error={read.error} />
          </SpaceBetween>
        </form>
      }
      columnDefinitions={[
        { id: "type", header: "Type", isRowHeader: true, cell: (each) => `${each.instance_count} x ${each.instance_type}` },
        { id: "zones", header: "Zones", cell: (each) => each.zones.join(", ") || "-" },
        { id: "window", header: "Window", cell: (each) => `${each.starts_at ? moment(each.starts_at) : "?"} to ${each.ends_at ? moment(each.ends_at) : "?"}` },
        { id: "hours", header: "Hours", cell: (each) => each.duration_hours ?? "-" },
        { id: "fee", header: "Upfront fee", cell: (each) => (each.upfront_fee ? `${each.upfront_fee} ${each.currency ?? ""}` : "unknown") },
        { id: "acts", header: "Actions", cell: (each) => <Button onClick={() => onBuy(each)}>Buy</Button> },
      ]}
    />
  );
}
