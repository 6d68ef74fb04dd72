import Header from "@cloudscape-design/components/header";
import Pagination from "@cloudscape-design/components/pagination";
import Select from "@cloudscape-design/components/select";
import SpaceBetween from "@cloudscape-design/components/space-between";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import Table from "@cloudscape-design/components/table";
import { useState } from "react";
import { $api, type Schemas } from "../api/client";
import { useCursors } from "../components/cursors";
import { EmptyState } from "../components/EmptyState";
import { ProblemAlert } from "../components/ProblemAlert";
import { RouterLink } from "../components/RouterLink";
import { moment } from "../components/time";

const PAGE_SIZE = 50;
const FACES = [{ value: "", label: "Any door" }, ...["console", "api", "cli", "mcp"].map((each) => ({ value: each, label: each }))];

/** Who changed what, through which door, with which answer. */
export function Audit() {
  const [face, setFace] = useState("");
  const cursors = useCursors(face);
  const query = { face: face || undefined, limit: PAGE_SIZE, cursor: cursors.cursor };
  const page = $api.useQuery("get", "/api/v1/audit", { params: { query } }, { placeholderData: (before) => before });
  const tokens = $api.useQuery("get", "/api/v1/tokens", {}, { staleTime: 60_000 });
  const nameOf = (id: string) => tokens.data?.items.find((each) => each.id === id)?.name ?? id;
  return (
    <SpaceBetween size="m">
      <ProblemAlert error={page.error} />
      <Table
        variant="full-page"
        wrapLines
        contentDensity="compact"
        items={page.data?.items ?? []}
        trackBy={(each) => String(each.number)}
        loading={page.isPending}
        loadingText="Reading the audit log"
        ariaLabels={{ tableLabel: "Audit log" }}
        empty={<EmptyState title="Nothing was changed yet" />}
        header={<Header variant="h1">Audit log</Header>}
        filter={
          <div className="is-narrow">
            <Select inlineLabelText="Door" options={FACES} selectedOption={FACES.find((each) => each.value === face) ?? FACES[0]!} onChange={({ detail }) => setFace(detail.selectedOption.value ?? "")} />
          </div>
        }
        pagination={<Pagination {...cursors.props(page.data?.cursor)} />}
        columnDefinitions={[
          { id: "at", header: "Time", cell: (each) => moment(each.at), minWidth: 200 },
          { id: "who", header: "Who", isRowHeader: true, minWidth: 200, cell: (each) => who(each, nameOf) },
          { id: "face", header: "Door", cell: (each) => each.face },
          { id: "call", header: "Call", minWidth: 220, cell: (each) => <span className="is-wrap is-log">{`${each.method} ${each.path}`}</span> },
          { id: "summary", header: "Asked", minWidth: 180, cell: (each) => <span className="is-wrap is-log">{each.summary}</span> },
          { id: "status", header: "Answer", cell: (each) => <StatusIndicator type={each.status < 400 ? "success" : "error"}>{each.status}</StatusIndicator> },
          { id: "operation", header: "Operation", minWidth: 190, cell: (each) => (each.operation_id ? <RouterLink href={`/operations/${each.operation_id}`}>{each.operation_id}</RouterLink> : "-") },
        ]}
      />
    </SpaceBetween>
  );
}

function who(row: Schemas["AuditRow"], nameOf: (id: string) => string): string {
  const as = [row.role, row.kind].filter(Boolean).join(", ");
  return as ? `${nameOf(row.caller)} (${as})` : nameOf(row.caller);
}
