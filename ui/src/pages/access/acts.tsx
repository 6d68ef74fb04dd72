import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import Modal from "@cloudscape-design/components/modal";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useMutation } from "@tanstack/react-query";
import { $api, api, type Schemas } from "../../api/client";
import { fieldOf, problemOf, violations } from "../../api/problems";
import { bodyOf, useForm } from "../../components/form";
import { SchemaForm } from "../../components/SchemaForm";
import { Ask } from "./Ask";
import { Shown } from "./Shown";

export type Identity = Schemas["IdentityRow"];
interface Props {
  identity: Identity;
  onClose: () => void;
  onDone: () => void;
}

/** Ending an identity for good. */
export function Revoke({ identity, onClose, onDone }: Props) {
  const revoke = $api.useMutation("delete", "/api/v1/tokens/{identity_id}", { onSuccess: () => { onDone(); onClose(); } });
  const act = () => revoke.mutate({ params: { path: { identity_id: identity.id } } });
  return (
    <Ask title={`Revoke ${identity.name}?`} act="Revoke" pending={revoke.isPending} error={revoke.error} onAct={act} onClose={onClose}>
      The token and every session end at once and for good. To keep somebody out for a while, disable instead.
    </Ask>
  );
}

/** Ending every session; the token stays. */
export function EndSessions({ identity, onClose, onDone }: Props) {
  const end = $api.useMutation("delete", "/api/v1/tokens/{identity_id}/sessions", { onSuccess: () => { onDone(); onClose(); } });
  const act = () => end.mutate({ params: { path: { identity_id: identity.id } } });
  return (
    <Ask title={`End all sessions of ${identity.name}?`} act="End sessions" keep="Keep them" pending={end.isPending} error={end.error} onAct={act} onClose={onClose}>
      Browsers and command lines that are signed in are signed out at once. The token stays valid.
    </Ask>
  );
}

/** Keeping somebody out, or letting in again. */
export function Disable({ identity, onClose, onDone }: Props) {
  const disabled = !identity.disabled_at;
  const change = $api.useMutation("patch", "/api/v1/tokens/{identity_id}", { onSuccess: () => { onDone(); onClose(); } });
  const act = () => change.mutate({ params: { path: { identity_id: identity.id } }, body: { disabled } });
  return (
    <Ask title={`${disabled ? "Disable" : "Enable"} ${identity.name}?`} act={disabled ? "Disable" : "Enable"} keep="Leave it" pending={change.isPending} error={change.error} onAct={act} onClose={onClose}>
      {disabled ? "The token is refused and every session ends at once, until it is enabled again." : "The token is taken again. Sessions have to be begun anew."}
    </Ask>
  );
}

/** A new token in place of the old one. */
export function Rotate({ identity, onClose, onDone }: Props) {
  const form = useForm();
  const rotate = useMutation({
    mutationFn: () => api.POST("/api/v1/tokens/{identity_id}:rotate", { params: { path: { identity_id: identity.id } }, body: bodyOf(form.values) as Schemas["RotateToken"] }),
    onSuccess: onDone,
    onError: (error) => form.refuse(error, violations(problemOf(error)).map((each) => fieldOf(each.pointer))),
  });
  const token = rotate.data?.data?.token;
  return (
    <Sheet title={token ? "Keep this token" : `Rotate the token of ${identity.name}`} act={token ? "Done" : "Rotate"} pending={rotate.isPending} onAct={() => (token ? onClose() : rotate.mutate())} onClose={onClose}>
      {token ? (
        <Shown token={token} />
      ) : (
        <SpaceBetween size="m">
          <span>The old token and the sessions it began end at once.</span>
          <SchemaForm schema="RotateToken" form={form} error={rotate.error} />
        </SpaceBetween>
      )}
    </Sheet>
  );
}

/** Name, role and note. */
export function Edit({ identity, onClose, onDone }: Props) {
  const elsewhere = Boolean(identity.issuer);
  const form = useForm({ name: identity.name, role: identity.role, note: identity.note ?? "" });
  const change = useMutation({
    mutationFn: () => {
      const { note, ...rest } = form.values as { note: string };
      const body = { ...(elsewhere ? {} : bodyOf(rest)), note } as Schemas["ChangeToken"];
      return api.PATCH("/api/v1/tokens/{identity_id}", { params: { path: { identity_id: identity.id } }, body });
    },
    onSuccess: () => { onDone(); onClose(); },
    onError: (error) => form.refuse(error, violations(problemOf(error)).map((each) => fieldOf(each.pointer))),
  });
  return (
    <Sheet title={`Edit ${identity.name}`} act="Save" pending={change.isPending} onAct={() => change.mutate()} onClose={onClose}>
      <SpaceBetween size="m">
        {elsewhere && <span>Name and role come from the identity provider at each sign-in.</span>}
        <SchemaForm schema="ChangeToken" form={form} error={change.error} without={elsewhere ? ["disabled", "name", "role"] : ["disabled"]} />
      </SpaceBetween>
    </Sheet>
  );
}

interface SheetProps {
  title: string;
  act: string;
  pending: boolean;
  children: React.ReactNode;
  onAct: () => void;
  onClose: () => void;
}

function Sheet({ title, act, pending, children, onAct, onClose }: SheetProps) {
  return (
    <Modal
      visible
      header={title}
      closeAriaLabel="Close"
      onDismiss={onClose}
      footer={
        <Box float="right">
          <SpaceBetween size="xs" direction="horizontal">
            <Button variant="link" onClick={onClose}>
              Cancel
            </Button>
            <Button variant="primary" loading={pending} onClick={onAct}>
              {act}
            </Button>
          </SpaceBetween>
        </Box>
      }
    >
      <form
        onSubmit={(event) => {
          event.preventDefault();
          onAct();
        }}
      >
        {children}
      </form>
    </Modal>
  );
}
