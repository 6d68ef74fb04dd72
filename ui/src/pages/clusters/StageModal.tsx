import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import Modal from "@cloudscape-design/components/modal";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { useNavigate } from "react-router";
import { newIdempotencyKey, type Schemas } from "../../api/client";
import { fieldOf, problemOf, violations } from "../../api/problems";
import { bodyOf, useForm } from "../../components/form";
import { isPlan } from "../../components/PlanView";
import { ProblemAlert } from "../../components/ProblemAlert";
import { SchemaForm } from "../../components/SchemaForm";
import type { StageAct } from "./stages";

interface Props {
  act: StageAct;
  cluster: Schemas["ClusterView"];
  onClose: () => void;
}

/** The questions of one stage, and its beginning. */
export function StageModal({ act, cluster, onClose }: Props) {
  const navigate = useNavigate();
  const form = useForm();
  const [key] = useState(newIdempotencyKey);
  const begin = useMutation({
    mutationFn: () => act.send(cluster, bodyOf(form.values), key),
    onSuccess: ({ data }) => {
      if (data && !isPlan(data)) navigate(`/operations/${data.id}`);
    },
    onError: (error) => form.refuse(error, violations(problemOf(error)).map((each) => fieldOf(each.pointer))),
  });
  return (
    <Modal
      visible
      size={act.schema ? "large" : "medium"}
      header={`${act.button}: ${cluster.tag}`}
      closeAriaLabel="Close"
      onDismiss={onClose}
      footer={
        <Box float="right">
          <SpaceBetween size="xs" direction="horizontal">
            <Button variant="link" onClick={onClose}>
              Cancel
            </Button>
            <Button variant="primary" loading={begin.isPending} onClick={() => begin.mutate()}>
              {act.button}
            </Button>
          </SpaceBetween>
        </Box>
      }
    >
      {act.schema ? (
        <SchemaForm schema={act.schema} without={act.without} form={form} region={cluster.region} error={begin.error} />
      ) : (
        <SpaceBetween size="m">
          <span>{act.title}.</span>
          <ProblemAlert error={begin.error} />
        </SpaceBetween>
      )}
    </Modal>
  );
}
