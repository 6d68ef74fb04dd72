import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import FormField from "@cloudscape-design/components/form-field";
import Input from "@cloudscape-design/components/input";
import Modal from "@cloudscape-design/components/modal";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { api } from "../../api/client";
import { fieldOf, problemOf, violations } from "../../api/problems";
import { useNotices } from "../../app/notifications";
import { ProblemAlert } from "../../components/ProblemAlert";

const FIELDS = ["namespace", "secret", "token"] as const;

/** Keeps a token of the hub as a Secret of the cluster: what is typed goes there and stays nowhere else, not in this page either. */
export function HubToken({ cluster, onClose }: { cluster: string; onClose: () => void }) {
  const [asked, setAsked] = useState({ namespace: "default", secret: "hub-token", token: "" });
  const { tell } = useNotices();
  const store = useMutation({
    gcTime: 0, // what was sent is not kept by the console
    mutationFn: () => api.PUT("/api/v1/clusters/{cluster}/hub-tokens/{namespace}/{secret}", { params: { path: { cluster, namespace: asked.namespace, secret: asked.secret } }, body: { token: asked.token } }),
    onSuccess: () => {
      tell({ type: "success", content: `The token is kept as Secret ${asked.secret} in ${asked.namespace}. Name it where a download or a server asks for a token's Secret.` });
      onClose();
    },
  });
  const refused = store.error ? violations(problemOf(store.error)) : [];
  const errorOf = (field: string) => refused.filter((each) => fieldOf(each.pointer.replace(/^\/path/, "")) === field).map((each) => each.message).join(" ") || undefined;
  const ready = Boolean(asked.namespace && asked.secret && asked.token);
  const field = (name: (typeof FIELDS)[number], label: string, description: string) => (
    <FormField label={label} description={description} errorText={errorOf(name)}>
      <Input name={name} type={name === "token" ? "password" : "text"} value={asked[name]} spellcheck={false} autoComplete={false} onChange={({ detail }) => setAsked({ ...asked, [name]: detail.value })} />
    </FormField>
  );
  return (
    <Modal
      visible
      header="Store a hub token"
      closeAriaLabel="Close"
      onDismiss={onClose}
      footer={
        <Box float="right">
          <SpaceBetween size="xs" direction="horizontal">
            <Button variant="link" onClick={onClose}>
              Cancel
            </Button>
            <Button variant="primary" disabled={!ready} loading={store.isPending} onClick={() => store.mutate()}>
              Store
            </Button>
          </SpaceBetween>
        </Box>
      }
    >
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (ready) store.mutate();
        }}
      >
        <SpaceBetween size="m">
          <ProblemAlert error={store.error} shown={FIELDS} />
          {field("namespace", "Namespace", "Where the downloads and servers run that need it.")}
          {field("secret", "Name of the Secret", "One of the same name is replaced.")}
          {field("token", "Token", "Made on the hub, with the right to read. It cannot be read back here.")}
          <button type="submit" hidden />
        </SpaceBetween>
      </form>
    </Modal>
  );
}
