import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import Header from "@cloudscape-design/components/header";
import Modal from "@cloudscape-design/components/modal";
import SpaceBetween from "@cloudscape-design/components/space-between";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import Table from "@cloudscape-design/components/table";
import { useState } from "react";
import { $api, type Schemas } from "../api/client";
import { EmptyState } from "../components/EmptyState";
import { ProblemAlert } from "../components/ProblemAlert";
import { TimeAgo } from "../components/TimeAgo";
import { moment } from "../components/time";
import { NewToken } from "./NewToken";

type Identity = Schemas["IdentityRow"];

export function Tokens() {
  const tokens = $api.useQuery("get", "/api/v1/tokens");
  const [making, setMaking] = useState(false);
  const [revoking, setRevoking] = useState<Identity | null>(null);
  const refresh = () => void tokens.refetch();
  return (
    <SpaceBetween size="m">
      <ProblemAlert error={tokens.error} />
      <Table
        variant="full-page"
        wrapLines
        items={tokens.data?.items ?? []}
        trackBy="id"
        loading={tokens.isPending}
        loadingText="Reading the tokens"
        ariaLabels={{ tableLabel: "Tokens" }}
        empty={<EmptyState title="No tokens" />}
        header={
          <Header
            variant="h1"
            description="Who may enter, and as what. Ended tokens stay listed."
            actions={
              <Button variant="primary" onClick={() => setMaking(true)}>
                Create token
              </Button>
            }
          >
            Tokens
          </Header>
        }
        columnDefinitions={[
          { id: "name", header: "Name", isRowHeader: true, cell: (each) => each.name },
          { id: "state", header: "State", cell: (each) => <State identity={each} /> },
          { id: "role", header: "Role", cell: (each) => each.role },
          { id: "kind", header: "Kind", cell: (each) => each.kind },
          { id: "expires", header: "Ends", cell: (each) => (each.expires_at ? moment(each.expires_at) : "Never") },
          { id: "used", header: "Last used", cell: (each) => <TimeAgo at={each.last_used_at} /> },
          { id: "created", header: "Created", cell: (each) => <TimeAgo at={each.created_at} /> },
          {
            id: "acts",
            header: "Actions",
            cell: (each) => (
              <Button variant="inline-link" disabled={Boolean(each.revoked_at)} ariaLabel={`Revoke ${each.name}`} onClick={() => setRevoking(each)}>
                Revoke
              </Button>
            ),
          },
        ]}
      />
      {making && <NewToken onClose={() => setMaking(false)} onMade={refresh} />}
      {revoking && <Revoke identity={revoking} onClose={() => setRevoking(null)} onRevoked={refresh} />}
    </SpaceBetween>
  );
}

function State({ identity }: { identity: Identity }) {
  if (identity.revoked_at) return <StatusIndicator type="stopped">Revoked</StatusIndicator>;
  if (identity.expires_at && Date.parse(identity.expires_at) < Date.now()) return <StatusIndicator type="stopped">Ended</StatusIndicator>;
  return <StatusIndicator>Valid</StatusIndicator>;
}

function Revoke({ identity, onClose, onRevoked }: { identity: Identity; onClose: () => void; onRevoked: () => void }) {
  const revoke = $api.useMutation("delete", "/api/v1/tokens/{identity_id}", {
    onSuccess: () => {
      onRevoked();
      onClose();
    },
  });
  return (
    <Modal
      visible
      header={`Revoke ${identity.name}?`}
      closeAriaLabel="Close"
      onDismiss={onClose}
      footer={
        <Box float="right">
          <SpaceBetween size="xs" direction="horizontal">
            <Button variant="link" onClick={onClose}>
              Keep it
            </Button>
            <Button variant="primary" loading={revoke.isPending} onClick={() => revoke.mutate({ params: { path: { identity_id: identity.id } } })}>
              Revoke
            </Button>
          </SpaceBetween>
        </Box>
      }
    >
      <SpaceBetween size="m">
        <span>The token and every session it began end at once.</span>
        <ProblemAlert error={revoke.error} />
      </SpaceBetween>
    </Modal>
  );
}
