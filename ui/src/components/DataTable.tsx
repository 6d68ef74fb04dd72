import CollectionPreferences from "@cloudscape-design/components/collection-preferences";
import Table, { type TableProps } from "@cloudscape-design/components/table";
import { ACTS, type Column, useColumns } from "./columns";
import { visible } from "./visible";

/** Lists of no more columns than this need no choice of them. */
const FEW = 5;
/** A word with a sign before it, which is not broken in the middle. */
const STATES = new Set(["state", "status", "phase"]);
const STATE_PX = 140;

interface Props<T> extends Omit<TableProps<T>, "columnDefinitions" | "columnDisplay" | "stickyColumns" | "preferences"> {
  columnDefinitions: readonly Column<T>[];
}

/** The only table of the console: its lines wrap, its acts are in sight at any width, and a person chooses the columns of a wide one. */
export function DataTable<T>({ columnDefinitions, ...rest }: Props<T>) {
  const table = rest.ariaLabels?.tableLabel ?? "";
  const [choices, choose] = useColumns(table, columnDefinitions as readonly Column<never>[]);
  const acts = columnDefinitions.some((each) => each.id === ACTS);
  const header = (id: string) => columnDefinitions.find((each) => each.id === id);
  return (
    <Table
      wrapLines
      {...rest}
      columnDefinitions={columnDefinitions.map((each): Column<T> => ({ minWidth: STATES.has(each.id ?? "") ? STATE_PX : undefined, ...each, cell: (item: T) => safe(each.cell(item)) }))}
      columnDisplay={acts ? [...choices, { id: ACTS, visible: true }] : choices}
      stickyColumns={acts ? { last: 1 } : undefined}
      preferences={
        choices.length > FEW ? (
          <CollectionPreferences
            preferences={{ contentDisplay: choices }}
            onConfirm={({ detail }) => detail.contentDisplay && choose(detail.contentDisplay as typeof choices)}
            contentDisplayPreference={{ options: choices.map(({ id }) => ({ id, label: String(header(id)?.header ?? id), alwaysVisible: header(id)?.isRowHeader })) }}
          />
        ) : undefined
      }
    />
  );
}

const safe = (told: React.ReactNode) => (typeof told === "string" ? visible(told) : told);
