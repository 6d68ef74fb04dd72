import Button from "@cloudscape-design/components/button";
import Header from "@cloudscape-design/components/header";
import Pagination from "@cloudscape-design/components/pagination";
import SpaceBetween from "@cloudscape-design/components/space-between";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import { useState } from "react";
import { useSearchParams } from "react-router";
import { $api, type Schemas } from "../../api/client";
import type { Column } from "../../components/columns";
import { DataTable } from "../../components/DataTable";
import { useCursors } from "../../components/cursors";
import { EmptyState } from "../../components/EmptyState";
import { ProblemAlert } from "../../components/ProblemAlert";
import { RouterLink } from "../../components/RouterLink";
import { Text } from "../../components/Text";
import { moment } from "../../components/time";
import { AuditFilters, exportAddress, wantedOf } from "./AuditFilters";
import { AuditLine } from "./AuditLine";

type Line = Schemas["AuditRow"];
const PAGE_SIZE = 50;
const REFUSALS = [401, 403, 421, 429];

/** Who changed what, from where, through which door, with which answer; and who was refused. The filters are in the address. */
export function Audit() {
  const [search, setSearch] = useSearchParams();
  const [shown, setShown] = useState<Line | null>(null);
  const wanted = wantedOf(search);
  const cursors = useCursors(search.toString());
  const query = { ...wanted, limit: PAGE_SIZE, cursor: cursors.cursor };
  const page = $api.useQuery("get", "/api/v1/audit", { params: { query } }, { placeholderData: (before) => before });
  const change = (name: string, value: string) =>
    setSearch(
      (now) => {
        now.delete(name);
        if (value) now.set(name, value);
        return now;
      },
      { replace: true },
    );
  return (
    <SpaceBetween size="m">
      <ProblemAlert error={page.error} />
      <DataTable
        variant="full-page"
        wrapLines
        contentDensity="compact"
        items={page.data?.items ?? []}
        trackBy={(each) => String(each.number)}
        loading={page.isPending}
        loadingText="Reading the audit log"
        ariaLabels={{ tableLabel: "Audit log" }}
        empty={<EmptyState title="No line matches" />}
        sortingColumn={{ sortingField: "at" }}
        sortingDescending={wanted.order !== "oldest"}
        onSortingChange={({ detail }) => change("order", detail.isDescending ? "" : "oldest")}
        header={
          <Header
            variant="h1"
            description="Every change, and every refusal at the door."
            actions={
              <SpaceBetween size="xs" direction="horizontal">
                <Button iconName="download" href={exportAddress(wanted, "csv")} download>
                  Export CSV
                </Button>
                <Button iconName="download" href={exportAddress(wanted, "jsonl")} download>
                  Export JSON Lines
                </Button>
              </SpaceBetween>
            }
          >
            Audit log
          </Header>
        }
        filter={<AuditFilters wanted={wanted} onChange={change} />}
        pagination={<Pagination {...cursors.props(page.data?.cursor)} />}
        columnDefinitions={[...COLUMNS, { id: "acts", header: "Detail", cell: (each) => <Button variant="inline-link" ariaLabel={`Detail of line ${each.number}`} onClick={() => setShown(each)}>Show</Button> }]}
      />
      {shown && <AuditLine line={shown} onClose={() => setShown(null)} />}
    </SpaceBetween>
  );
}

const COLUMNS: Column<Line>[] = [
  { id: "at", header: "Time", sortingField: "at", cell: (each) => moment(each.at), minWidth: 150 },
  { id: "who", header: "Who", isRowHeader: true, minWidth: 140, cell: (each) => <Text>{who(each)}</Text> },
  { id: "from", extra: true, header: "From", cell: (each) => each.address ?? "-" },
  { id: "face", header: "Door", cell: (each) => each.face },
  { id: "summary", header: "Asked", minWidth: 170, cell: (each) => <Text log>{each.summary}</Text> },
  { id: "status", header: "Answer", minWidth: 120, cell: (each) => <StatusIndicator type={tone(each.status)}>{each.code ? `${each.status} ${each.code}` : each.status}</StatusIndicator> },
  { id: "operation", extra: true, header: "Operation", minWidth: 140, cell: (each) => (each.operation_id ? <RouterLink href={`/operations/${each.operation_id}`}>{each.operation_id}</RouterLink> : "-") },
];

function tone(status: number): "success" | "error" | "stopped" {
  if (status < 400) return "success";
  return REFUSALS.includes(status) ? "stopped" : "error";
}

function who(row: Line): string {
  const as = [row.role, row.kind].filter(Boolean).join(", ");
  return as ? `${row.name ?? row.caller} (${as})` : (row.name ?? row.caller);
}
