import Alert from "@cloudscape-design/components/alert";
import Button from "@cloudscape-design/components/button";
import Container from "@cloudscape-design/components/container";
import ExpandableSection from "@cloudscape-design/components/expandable-section";
import Form from "@cloudscape-design/components/form";
import Header from "@cloudscape-design/components/header";
import LiveRegion from "@cloudscape-design/components/live-region";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Spinner from "@cloudscape-design/components/spinner";
import { useMutation } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { useNavigate } from "react-router";
import { api, newIdempotencyKey, type Schemas } from "../../api/client";
import { type FieldSchema, useSchema } from "../../api/schema";
import { CAPACITY_FIELDS, CapacityFields } from "../../components/CapacityFields";
import { bodyOf, useForm } from "../../components/form";
import { isPlan, PlanView } from "../../components/PlanView";
import { ProblemAlert } from "../../components/ProblemAlert";
import { SchemaField } from "../../components/SchemaField";

const NAME_FIELDS = ["tag", "region"];
const ASKED = new Set<string>([...NAME_FIELDS, ...CAPACITY_FIELDS]);

export function CreateCluster() {
  const schema = useSchema("CreateCluster");
  if (schema.error) return <ProblemAlert error={schema.error} action={<Button onClick={() => void schema.refetch()}>Try again</Button>} />;
  return schema.data ? <CreateForm fields={schema.data} /> : <Spinner size="large" />;
}

/** Asked in two steps: the plan with its preflight, which changes nothing, and then the cluster itself. */
function CreateForm({ fields }: { fields: FieldSchema[] }) {
  const navigate = useNavigate();
  const form = useForm();
  const [key] = useState(newIdempotencyKey); // once a form: sent again after a lost answer it makes nothing twice
  const [plan, setPlan] = useState<Schemas["Plan"] | null>(null);
  const shown = fields.map((each) => each.name);
  const send = useMutation({
    mutationFn: (dryRun: boolean) => ask(form.values, dryRun, key),
    onSuccess: (answer) => {
      form.accept();
      if (isPlan(answer)) setPlan(answer);
      else navigate(`/operations/${answer.id}`);
    },
    onError: (error) => form.refuse(error, shown),
  });
  const page = useRef<HTMLFormElement>(null);
  useEffect(() => {
    if (send.error) show(page.current);
  }, [send.error]);
  const set = (name: string, value: unknown) => {
    setPlan(null); // the plan was of other answers
    form.set(name, value);
  };
  const advanced = fields.filter((each) => !ASKED.has(each.name));
  const advancedWrong = advanced.some((each) => form.errors[each.name]);
  const draw = (each: FieldSchema) => (
    <SchemaField key={each.name} field={each} value={form.values[each.name]} error={form.errors[each.name]} onChange={(value) => set(each.name, value)} />
  );
  const stands = plan?.findings?.some((each) => each.level === "fail");
  return (
    <form
      ref={page}
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        if (!send.isPending) send.mutate(plan === null);
      }}
    >
      <Form
        header={
          <Header variant="h1" description="Network, EKS, dependencies, HyperPod with its first nodes, storage, and a verified end.">
            Create cluster
          </Header>
        }
        actions={
          <SpaceBetween size="xs" direction="horizontal">
            <Button formAction="none" variant="link" onClick={() => navigate("/clusters")}>
              Cancel
            </Button>
            <Button formAction={plan ? "none" : "submit"} loading={send.isPending && send.variables} onClick={plan ? () => send.mutate(true) : undefined}>
              Run preflight
            </Button>
            <Button variant="primary" formAction={plan ? "submit" : "none"} disabled={plan === null || send.isPending} loading={send.isPending && !send.variables}>
              {stands ? "Create anyway" : "Create cluster"}
            </Button>
          </SpaceBetween>
        }
      >
        <SpaceBetween size="l">
          <ProblemAlert error={send.error} shown={shown} />
          <Container header={<Header variant="h2">Name and place</Header>}>
            <SpaceBetween size="l">{fields.filter((each) => NAME_FIELDS.includes(each.name)).map(draw)}</SpaceBetween>
          </Container>
          <Container header={<Header variant="h2">Nodes</Header>}>
            <CapacityFields fields={fields} region={regionOf(form.values["region"])} values={form.values} errors={form.errors} set={set} />
          </Container>
          <AdvancedFields open={advancedWrong}>{advanced.map(draw)}</AdvancedFields>
          {plan ? (
            <Container header={<Header variant="h2">What will happen</Header>}>
              <LiveRegion hidden>The preflight has run.</LiveRegion>
              <SpaceBetween size="m">
                {stands && <Alert type="error">The preflight found what stands in the way. Mend it, or the operation will stop there.</Alert>}
                <PlanView plan={plan} />
              </SpaceBetween>
            </Container>
          ) : (
            <Alert type="info">Run the preflight: it shows what would be made and what stands in the way, and changes nothing. Then the cluster can be created.</Alert>
          )}
        </SpaceBetween>
      </Form>
    </form>
  );
}

/** Bring a refusal before the eyes: the first wrong field, else the top of the form, where the problem is told. */
function show(form: HTMLFormElement | null): void {
  const wrong = form?.querySelector<HTMLElement>("[aria-invalid=true]");
  if (wrong) wrong.focus();
  else form?.scrollIntoView({ block: "start" });
}

/** The questions whose answers are usually left to the server; opened when one of them is refused. */
function AdvancedFields({ open, children }: { open: boolean; children: React.ReactNode }) {
  const [wanted, setWanted] = useState(false);
  return (
    <ExpandableSection variant="container" headerText="Advanced" headerDescription="Network, versions, storage and checks: left alone, the server decides." expanded={open || wanted} onChange={({ detail }) => setWanted(detail.expanded)}>
      <SpaceBetween size="l">{children}</SpaceBetween>
    </ExpandableSection>
  );
}

/** A region still being typed is not asked about. */
function regionOf(value: unknown): string | undefined {
  return typeof value === "string" && /^[a-z]{2}(-[a-z]+)+-\d$/.test(value) ? value : undefined;
}

async function ask(values: Record<string, unknown>, dryRun: boolean, key: string) {
  const { data } = await api.POST("/api/v1/clusters", {
    body: bodyOf(values) as Schemas["CreateCluster"], // its shape is the server's to judge: refusals land on the fields
    params: { query: { dry_run: dryRun }, header: dryRun ? {} : { "Idempotency-Key": key } },
  });
  if (!data) throw new Error("The server answered nothing.");
  return data;
}
