import Button from "@cloudscape-design/components/button";
import FormField from "@cloudscape-design/components/form-field";
import Input from "@cloudscape-design/components/input";
import Select from "@cloudscape-design/components/select";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useState } from "react";
import { useSearchParams } from "react-router";
import type { LogQuery } from "../../api/logStream";
import { LogViewer } from "../../components/logs/LogViewer";

const TARGETS = [
  { value: "pod", label: "Pod" },
  { value: "job", label: "Training job" },
  { value: "deployment", label: "Deployment" },
  { value: "endpoint", label: "Inference endpoint" },
  { value: "selector", label: "Label selector" },
];

/** The logs of any pods of the cluster. What is shown stands in the page's address. */
export function LogsTab({ cluster }: { cluster: string }) {
  const [search, setSearch] = useSearchParams();
  const now = TARGETS.find((each) => search.get(each.value)) ?? TARGETS[0]!;
  const [target, setTarget] = useState(now.value);
  const [name, setName] = useState(search.get(now.value) ?? "");
  const [namespace, setNamespace] = useState(search.get("namespace") ?? "default");
  const shown = search.get(now.value);
  const of: LogQuery = { namespace: search.get("namespace") ?? "default", [now.value]: shown ?? undefined };
  return (
    <SpaceBetween size="m">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (name.trim()) setSearch({ tab: "logs", namespace: namespace.trim() || "default", [target]: name.trim() }, { replace: true });
        }}
      >
        <SpaceBetween size="xs" direction="horizontal" alignItems="end">
          <FormField label="Logs of">
            <Select selectedOption={TARGETS.find((each) => each.value === target)!} options={TARGETS} ariaLabel="Whose logs" onChange={({ detail }) => setTarget(detail.selectedOption.value ?? "pod")} />
          </FormField>
          <FormField label={target === "selector" ? "Labels" : "Name"}>
            <Input value={name} spellcheck={false} placeholder={target === "selector" ? "app=web,tier!=db" : "its name"} onChange={({ detail }) => setName(detail.value)} />
          </FormField>
          <FormField label="Namespace">
            <Input value={namespace} spellcheck={false} onChange={({ detail }) => setNamespace(detail.value)} />
          </FormField>
          <Button formAction="submit" variant="primary">
            Show
          </Button>
        </SpaceBetween>
      </form>
      {shown && <LogViewer key={JSON.stringify(of)} cluster={cluster} of={of} />}
    </SpaceBetween>
  );
}
