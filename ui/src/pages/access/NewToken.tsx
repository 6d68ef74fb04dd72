import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import Modal from "@cloudscape-design/components/modal";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useMutation } from "@tanstack/react-query";
import { api, type Schemas } from "../../api/client";
import { violations, problemOf, fieldOf } from "../../api/problems";
import { bodyOf, useForm } from "../../components/form";
import { SchemaForm } from "../../components/SchemaForm";
import { Shown } from "./Shown";

/** Making a token; it is shown this once. */
export function NewToken({ onClose, onMade }: { onClose: () => void; onMade: () => void }) {
  const form = useForm({ role: "operator" });
  const make = useMutation({
    mutationFn: () => api.POST("/api/v1/tokens", { body: bodyOf(form.values) as Schemas["NewToken"] }),
    onSuccess: onMade,
    onError: (error) => form.refuse(error, violations(problemOf(error)).map((each) => fieldOf(each.pointer))),
  });
  const token = make.data?.data?.token;
  return (
    <Modal
      visible
      header={token ? "Keep this token" : "Create token"}
      closeAriaLabel="Close"
      onDismiss={onClose}
      footer={
        <Box float="right">
          <SpaceBetween size="xs" direction="horizontal">
            {!token && (
              <Button variant="link" onClick={onClose}>
                Cancel
              </Button>
            )}
            <Button variant="primary" loading={make.isPending} onClick={() => (token ? onClose() : make.mutate())}>
              {token ? "Done" : "Create token"}
            </Button>
          </SpaceBetween>
        </Box>
      }
    >
      {token ? (
        <Shown token={token} />
      ) : (
        <form
          onSubmit={(event) => {
            event.preventDefault();
            make.mutate();
          }}
        >
          <SchemaForm schema="NewToken" form={form} error={make.error} />
        </form>
      )}
    </Modal>
  );
}
