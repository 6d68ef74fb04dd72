import Button from "@cloudscape-design/components/button";
import ButtonDropdown from "@cloudscape-design/components/button-dropdown";
import Header from "@cloudscape-design/components/header";
import Input from "@cloudscape-design/components/input";
import Pagination from "@cloudscape-design/components/pagination";
import Select from "@cloudscape-design/components/select";
import SpaceBetween from "@cloudscape-design/components/space-between";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import { useState } from "react";
import { $api } from "../../api/client";
import type { Column } from "../../components/columns";
import { DataTable } from "../../components/DataTable";
import { useCursors } from "../../components/cursors";
import { EmptyState } from "../../components/EmptyState";
import { ProblemAlert } from "../../components/ProblemAlert";
import { Text } from "../../components/Text";
import { TimeAgo } from "../../components/TimeAgo";
import { moment } from "../../components/time";
import { Disable, Edit, EndSessions, type Identity, Revoke, Rotate } from "./acts";
import { NewToken } from "./NewToken";

const PAGE_SIZE = 50;
type Sort = "name" | "role" | "kind" | "last_used_at" | "created_at";
const ACTS = { edit: Edit, rotate: Rotate, disable: Disable, sessions: EndSessions };

/** A choice of a filter; the first means no filter. */
function choices(label: string, values: readonly string[]) {
  return [{ value: "", label: `Any ${label}` }, ...values.map((each) => ({ value: each, label: each }))];
}
const ROLES = choices("role", ["viewer", "operator", "admin"]);
const KINDS = choices("kind", ["person", "agent"]);
const STATES = choices("state", ["active", "disabled", "expired", "revoked"]);

export function Tokens() {
  const [filter, setFilter] = useState({ role: "", kind: "", state: "", text: "" });
  const [sort, setSort] = useState<{ by: Sort; descending: boolean }>({ by: "created_at", descending: false });
  const cursors = useCursors(JSON.stringify([filter, sort]));
  const given = Object.fromEntries(Object.entries(filter).filter(([, value]) => value));
  const query = { ...given, sort: sort.by, descending: sort.descending, limit: PAGE_SIZE, cursor: cursors.cursor };
  const tokens = $api.useQuery("get", "/api/v1/tokens", { params: { query } }, { placeholderData: (before) => before });
  const [making, setMaking] = useState(false);
  const [act, setAct] = useState<{ name: keyof typeof ACTS | "revoke"; identity: Identity } | null>(null);
  const refresh = () => void tokens.refetch();
  const Act = act && (act.name === "revoke" ? Revoke : ACTS[act.name]);
  const pick = (name: keyof typeof filter, options: { value: string; label: string }[]) => (
    <Select ariaLabel={name} options={options} selectedOption={options.find((each) => each.value === filter[name]) ?? options[0]!} onChange={({ detail }) => setFilter({ ...filter, [name]: detail.selectedOption.value ?? "" })} />
  );
  return (
    <SpaceBetween size="m">
      <ProblemAlert error={tokens.error} />
      <DataTable
        variant="full-page"
        wrapLines
        items={tokens.data?.items ?? []}
        trackBy="id"
        loading={tokens.isPending}
        loadingText="Reading who may enter"
        ariaLabels={{ tableLabel: "Users and tokens" }}
        empty={<EmptyState title="Nobody matches" />}
        sortingColumn={{ sortingField: sort.by }}
        sortingDescending={sort.descending}
        onSortingChange={({ detail }) => setSort({ by: (detail.sortingColumn.sortingField ?? "created_at") as Sort, descending: Boolean(detail.isDescending) })}
        header={
          <Header
            variant="h1"
            description="People and agents who may enter, and as what. Ended ones stay listed."
            actions={
              <Button variant="primary" onClick={() => setMaking(true)}>
                Create token
              </Button>
            }
          >
            Users and tokens
          </Header>
        }
        filter={
          <SpaceBetween size="xs" direction="horizontal" alignItems="center">
            <Input type="search" ariaLabel="Name, note or id" placeholder="Name, note or id" value={filter.text} onChange={({ detail }) => setFilter({ ...filter, text: detail.value })} />
            {pick("role", ROLES)}
            {pick("kind", KINDS)}
            {pick("state", STATES)}
          </SpaceBetween>
        }
        pagination={<Pagination {...cursors.props(tokens.data?.cursor)} />}
        columnDefinitions={[...COLUMNS, { id: "acts", header: "Actions", minWidth: 140, cell: (each) => <Acts identity={each} onAct={(name) => setAct({ name, identity: each })} /> }]}
      />
      {making && <NewToken onClose={() => setMaking(false)} onMade={refresh} />}
      {act && Act && <Act key={act.identity.id} identity={act.identity} onClose={() => setAct(null)} onDone={refresh} />}
    </SpaceBetween>
  );
}

const COLUMNS: Column<Identity>[] = [
  { id: "name", header: "Name", sortingField: "name", isRowHeader: true, minWidth: 160, cell: (each) => <Text>{each.name}</Text> },
  { id: "state", header: "State", minWidth: 120, cell: (each) => <State identity={each} /> },
  { id: "role", header: "Role", sortingField: "role", cell: (each) => each.role },
  { id: "kind", header: "Kind", sortingField: "kind", cell: (each) => each.kind },
  { id: "by", extra: true, header: "Enters with", cell: (each) => (each.issuer ? "Identity provider" : "Token") },
  { id: "expires", header: "Ends", cell: (each) => (each.expires_at ? moment(each.expires_at) : "Never") },
  { id: "used", header: "Last used", sortingField: "last_used_at", cell: (each) => <TimeAgo at={each.last_used_at} /> },
  { id: "created", extra: true, header: "Created", sortingField: "created_at", cell: (each) => <TimeAgo at={each.created_at} /> },
  { id: "note", extra: true, header: "Note", cell: (each) => each.note ?? "-" },
];

function Acts({ identity, onAct }: { identity: Identity; onAct: (name: keyof typeof ACTS | "revoke") => void }) {
  if (identity.revoked_at) return <>-</>;
  const items = [
    { id: "edit", text: "Edit" },
    { id: "rotate", text: "Rotate token", disabled: Boolean(identity.issuer), disabledReason: "Enters by the identity provider, without a token." },
    { id: "disable", text: identity.disabled_at ? "Enable" : "Disable" },
    { id: "sessions", text: "End all sessions" },
  ];
  return (
    <SpaceBetween size="xs" direction="horizontal" alignItems="center">
      <Button variant="inline-link" ariaLabel={`Revoke ${identity.name}`} onClick={() => onAct("revoke")}>
        Revoke
      </Button>
      <ButtonDropdown variant="inline-icon" expandToViewport ariaLabel={`More for ${identity.name}`} items={items} onItemClick={({ detail }) => onAct(detail.id as keyof typeof ACTS)} />
    </SpaceBetween>
  );
}

function State({ identity }: { identity: Identity }) {
  if (identity.revoked_at) return <StatusIndicator type="stopped">Revoked</StatusIndicator>;
  if (identity.expires_at && Date.parse(identity.expires_at) < Date.now()) return <StatusIndicator type="stopped">Ended</StatusIndicator>;
  if (identity.disabled_at) return <StatusIndicator type="warning">Disabled</StatusIndicator>;
  return <StatusIndicator>Valid</StatusIndicator>;
}
