import Button from "@cloudscape-design/components/button";
import Header from "@cloudscape-design/components/header";
import Pagination from "@cloudscape-design/components/pagination";
import SegmentedControl from "@cloudscape-design/components/segmented-control";
import SpaceBetween from "@cloudscape-design/components/space-between";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import { useState } from "react";
import { $api, type Schemas } from "../../api/client";
import { useMe } from "../../app/session";
import { DataTable } from "../../components/DataTable";
import { useCursors } from "../../components/cursors";
import { EmptyState } from "../../components/EmptyState";
import { ProblemAlert } from "../../components/ProblemAlert";
import { Text } from "../../components/Text";
import { TimeAgo } from "../../components/TimeAgo";
import { moment } from "../../components/time";
import { Ask } from "./Ask";

type Session = Schemas["SessionView"];
const PAGE_SIZE = 50;
const VIA: Record<string, string> = { link: "one-time link", token: "token", oidc: "identity provider" };

/** Where one is signed in; administrators see where everybody is. */
export function Sessions() {
  const admin = useMe().data?.role === "admin";
  const [whose, setWhose] = useState<"mine" | "all">("mine");
  const cursors = useCursors(whose);
  const query = { whose, limit: PAGE_SIZE, cursor: cursors.cursor };
  const sessions = $api.useQuery("get", "/api/v1/sessions", { params: { query } }, { placeholderData: (before) => before });
  const [ending, setEnding] = useState<Session | null>(null);
  return (
    <SpaceBetween size="m">
      <ProblemAlert error={sessions.error} />
      <DataTable
        variant="full-page"
        wrapLines
        items={sessions.data?.items ?? []}
        trackBy="id"
        loading={sessions.isPending}
        loadingText="Reading the sessions"
        ariaLabels={{ tableLabel: "Sessions" }}
        empty={<EmptyState title="No open session" />}
        header={
          <Header variant="h1" description="Browsers and command lines that are signed in. One that is ended is cut off at once, with the streams it holds open.">
            Sessions
          </Header>
        }
        filter={
          admin ? (
            <SegmentedControl
              label="Whose"
              selectedId={whose}
              options={[
                { id: "mine", text: "Mine" },
                { id: "all", text: "Everybody's" },
              ]}
              onChange={({ detail }) => setWhose(detail.selectedId as "mine" | "all")}
            />
          ) : undefined
        }
        pagination={<Pagination {...cursors.props(sessions.data?.cursor)} />}
        columnDefinitions={[
          { id: "name", header: "Who", isRowHeader: true, minWidth: 140, cell: (each) => <Text>{`${each.name} (${each.role})`}</Text> },
          { id: "client", header: "Client", minWidth: 150, cell: (each) => (each.current ? <StatusIndicator>{`${each.client} (this one)`}</StatusIndicator> : each.client) },
          { id: "via", header: "Signed in with", cell: (each) => VIA[each.via ?? ""] ?? "-" },
          { id: "address", header: "From", cell: (each) => each.address ?? "-" },
          { id: "agent", header: "Program", minWidth: 150, cell: (each) => <Text>{each.agent || "-"}</Text> },
          { id: "seen", header: "Last seen", cell: (each) => <TimeAgo at={each.last_seen_at} /> },
          { id: "created", extra: true, header: "Began", cell: (each) => <TimeAgo at={each.created_at} /> },
          { id: "expires", header: "Ends", cell: (each) => moment(each.expires_at) },
          {
            id: "acts",
            header: "Actions",
            cell: (each) => (
              <Button variant="inline-link" ariaLabel={`End the session of ${each.name}`} onClick={() => setEnding(each)}>
                End
              </Button>
            ),
          },
        ]}
      />
      {ending && <End session={ending} onClose={() => setEnding(null)} onDone={() => void sessions.refetch()} />}
    </SpaceBetween>
  );
}

function End({ session, onClose, onDone }: { session: Session; onClose: () => void; onDone: () => void }) {
  const end = $api.useMutation("delete", "/api/v1/sessions/{session_id}", { onSuccess: () => { onDone(); onClose(); } });
  const act = () => end.mutate({ params: { path: { session_id: session.id } } });
  return (
    <Ask title={`End this session of ${session.name}?`} act="End session" pending={end.isPending} error={end.error} onAct={act} onClose={onClose}>
      {session.current ? "It is the one you are using: you will have to sign in again." : "It is signed out at once, with the streams it holds open."}
    </Ask>
  );
}
