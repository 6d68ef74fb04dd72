import Alert from "@cloudscape-design/components/alert";
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import Checkbox from "@cloudscape-design/components/checkbox";
import Form from "@cloudscape-design/components/form";
import FormField from "@cloudscape-design/components/form-field";
import Input from "@cloudscape-design/components/input";
import Modal from "@cloudscape-design/components/modal";
import SpaceBetween from "@cloudscape-design/components/space-between";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, newIdempotencyKey, type Schemas } from "../api/client";
import { isPlan, PlanView } from "./PlanView";
import { ProblemAlert } from "./ProblemAlert";

interface Props {
  cluster: string;
  onClose: () => void;
  onStarted: (operation: Schemas["Operation"]) => void;
}

/** Deleting with friction: the plan is read first, the tag is typed, and the plan's own approval goes with the request. */
export function ConfirmDelete({ cluster, onClose, onStarted }: Props) {
  const [typed, setTyped] = useState("");
  const [withData, setWithData] = useState(false);
  const [key, setKey] = useState(newIdempotencyKey);
  const plan = useQuery({
    queryKey: ["delete-plan", cluster, withData],
    queryFn: () => readPlan(cluster, withData),
    staleTime: Infinity,
    gcTime: 0,
    refetchOnWindowFocus: false,
  });
  const remove = useMutation({
    mutationFn: (approval: string) => requestDelete(cluster, withData, approval, key),
    onSuccess: onStarted,
  });
  const approval = plan.data?.approval;
  const ready = typed === cluster && Boolean(approval) && !plan.isFetching;
  const planAnew = () => {
    remove.reset();
    setKey(newIdempotencyKey());
    void plan.refetch();
  };
  const submit = () => {
    if (ready && approval) remove.mutate(approval);
  };
  return (
    <Modal
      visible
      size="large"
      header={`Delete ${cluster}?`}
      closeAriaLabel="Close"
      onDismiss={onClose}
      footer={
        <Box float="right">
          <SpaceBetween size="xs" direction="horizontal">
            <Button variant="link" onClick={onClose}>
              Keep it
            </Button>
            <Button variant="primary" disabled={!ready} loading={remove.isPending} onClick={submit}>
              Delete
            </Button>
          </SpaceBetween>
        </Box>
      }
    >
      <form
        onSubmit={(event) => {
          event.preventDefault();
          submit();
        }}
      >
        <Form>
          <SpaceBetween size="m">
            <Alert type="warning">Nodes, their volumes and the EKS cluster go. This cannot be undone.</Alert>
            {plan.isFetching && <StatusIndicator type="loading">Reading what would be removed</StatusIndicator>}
            {plan.error && <ProblemAlert error={plan.error} action={<Button onClick={planAnew}>Try again</Button>} />}
            {plan.data && !plan.isFetching && <PlanView plan={plan.data} />}
            <Checkbox checked={withData} disabled={remove.isPending} onChange={({ detail }) => setWithData(detail.checked)}>
              Delete the data bucket too, with everything in it
            </Checkbox>
            <FormField label={`Type ${cluster} to confirm`}>
              <Input value={typed} onChange={({ detail }) => setTyped(detail.value)} placeholder={cluster} spellcheck={false} autoComplete={false} />
            </FormField>
            <ProblemAlert error={remove.error} action={<Button onClick={planAnew}>Read the plan anew</Button>} />
          </SpaceBetween>
        </Form>
      </form>
    </Modal>
  );
}

async function readPlan(cluster: string, withData: boolean): Promise<Schemas["Plan"]> {
  const { data } = await api.DELETE("/api/v1/clusters/{cluster}", {
    params: { path: { cluster }, query: { dry_run: true, delete_data: withData } },
  });
  if (!data || !isPlan(data)) throw new Error("The server answered no plan.");
  return data;
}

async function requestDelete(cluster: string, withData: boolean, approval: string, key: string): Promise<Schemas["Operation"]> {
  const { data } = await api.DELETE("/api/v1/clusters/{cluster}", {
    params: { path: { cluster }, query: { delete_data: withData, approval }, header: { "Idempotency-Key": key } },
  });
  if (!data || isPlan(data)) throw new Error("The server answered no operation.");
  return data;
}
