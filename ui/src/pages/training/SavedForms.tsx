import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import ButtonDropdown from "@cloudscape-design/components/button-dropdown";
import FormField from "@cloudscape-design/components/form-field";
import Input from "@cloudscape-design/components/input";
import Modal from "@cloudscape-design/components/modal";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { $api, api } from "../../api/client";
import { useNotices } from "../../app/notifications";
import { ProblemAlert } from "../../components/ProblemAlert";

const KIND = "training_job";
type Body = Record<string, unknown>;

/** Forms that the caller keeps: save this one, load or drop another. */
export function SavedForms({ body, onLoad }: { body: Body; onLoad: (content: Body) => void }) {
  const [saving, setSaving] = useState(false);
  const kept = $api.useQuery("get", "/api/v1/saved-forms", { params: { query: { kind: KIND } } });
  const items = kept.data?.items ?? [];
  const drop = useMutation({
    mutationFn: (name: string) => api.DELETE("/api/v1/saved-forms/{kind}/{name}", { params: { path: { kind: KIND, name } } }),
    onSuccess: () => void kept.refetch(),
  });
  return (
    <SpaceBetween size="xs" direction="horizontal">
      <ProblemAlert error={kept.error ?? drop.error} />
      <ButtonDropdown
        disabled={items.length === 0}
        items={[
          { text: "Load", items: items.map((each) => ({ id: `load ${each.name}`, text: each.name })) },
          { text: "Drop", items: items.map((each) => ({ id: `drop ${each.name}`, text: each.name })) },
        ]}
        onItemClick={({ detail }) => {
          const [act, ...rest] = detail.id.split(" ");
          const name = rest.join(" ");
          if (act === "drop") drop.mutate(name);
          else onLoad((items.find((each) => each.name === name)?.content ?? {}) as Body);
        }}
      >
        Saved forms
      </ButtonDropdown>
      <Button onClick={() => setSaving(true)}>Save form</Button>
      {saving && <SaveModal body={body} onClose={() => { setSaving(false); void kept.refetch(); }} />}
    </SpaceBetween>
  );
}

function SaveModal({ body, onClose }: { body: Body; onClose: () => void }) {
  const [name, setName] = useState(String(body["name"] ?? ""));
  const { tell } = useNotices();
  const save = useMutation({
    mutationFn: () => api.PUT("/api/v1/saved-forms/{kind}/{name}", { params: { path: { kind: KIND, name } }, body: { content: body as Record<string, never> } }),
    onSuccess: () => {
      tell({ type: "success", content: `The form is kept as ${name}, for you alone.` });
      onClose();
    },
  });
  return (
    <Modal
      visible
      header="Save this form"
      closeAriaLabel="Close"
      onDismiss={onClose}
      footer={
        <Box float="right">
          <SpaceBetween size="xs" direction="horizontal">
          <Button variant="link" onClick={onClose}>Cancel</Button>
          <Button variant="primary" disabled={!name} loading={save.isPending} onClick={() => save.mutate()}>
            Save
          </Button>
          </SpaceBetween>
        </Box>
      }
    >
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (name) save.mutate();
        }}
      >
        <SpaceBetween size="m">
          <ProblemAlert error={save.error} />
          <FormField label="Name" description="One of the same name is replaced.">
            <Input value={name} spellcheck={false} onChange={({ detail }) => setName(detail.value)} />
          </FormField>
        </SpaceBetween>
      </form>
    </Modal>
  );
}
