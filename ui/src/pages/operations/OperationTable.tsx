import Pagination from "@cloudscape-design/components/pagination";
import type { TableProps } from "@cloudscape-design/components/table";
import { $api } from "../../api/client";
import type { Operation } from "../../api/stream";
import { DataTable } from "../../components/DataTable";
import { useCursors } from "../../components/cursors";
import { EmptyState } from "../../components/EmptyState";
import { ProblemAlert } from "../../components/ProblemAlert";
import { COLUMNS } from "./columns";

const PAGE_SIZE = 20;
const REFRESH_MS = 4_000;

export interface OperationFilter {
  status?: Operation["status"][];
  workflow?: string;
  cluster?: string;
  mine?: boolean;
  sort?: "newest" | "oldest";
}

interface Props {
  filter: OperationFilter;
  hidden?: readonly string[];
  variant?: TableProps.Variant;
  header?: React.ReactNode;
  filters?: React.ReactNode;
}

/** Operations that match, page after page, kept fresh. */
export function OperationTable({ filter, hidden = [], variant, header, filters }: Props) {
  const cursors = useCursors(JSON.stringify(filter));
  const query = { ...filter, limit: PAGE_SIZE, cursor: cursors.cursor };
  const page = $api.useQuery("get", "/api/v1/operations", { params: { query } }, { refetchInterval: REFRESH_MS, placeholderData: (before) => before });
  return (
    <>
      <ProblemAlert error={page.error} />
      <DataTable
        variant={variant}
        wrapLines
        header={header}
        filter={filters}
        items={page.data?.items ?? []}
        trackBy="id"
        loading={page.isPending}
        loadingText="Reading the operations"
        ariaLabels={{ tableLabel: "Operations" }}
        columnDefinitions={COLUMNS.filter((each) => !hidden.includes(each.id ?? ""))}
        empty={<EmptyState title="No operations" says="Everything that changes something is listed here, and stays." />}
        pagination={<Pagination {...cursors.props(page.data?.cursor)} />}
      />
    </>
  );
}
