import type { TableProps } from "@cloudscape-design/components/table";
import { useState } from "react";

/** A column of a list. ``extra`` ones are shown only when a person asks for them. */
export type Column<T> = TableProps.ColumnDefinition<T> & { extra?: boolean };
/** A column with this id holds what can be done with a row: it stays in sight however wide the list is. */
export const ACTS = "acts";

interface Choice {
  id: string;
  visible: boolean;
}

const keyOf = (table: string) => `instantstart.columns.${table}`;

/** What was chosen before for the columns that still are, in that order, and then the columns that are new. */
export function choicesOf(columns: readonly Column<never>[], remembered: readonly Choice[]): Choice[] {
  const plain = columns.filter((each) => each.id && each.id !== ACTS);
  const kept = remembered.filter((each) => plain.some((one) => one.id === each.id));
  const added = plain.filter((each) => !kept.some((one) => one.id === each.id)).map((each) => ({ id: each.id!, visible: !each.extra }));
  return [...kept, ...added];
}

function remembered(table: string): Choice[] {
  try {
    const told: unknown = JSON.parse(localStorage.getItem(keyOf(table)) ?? "[]");
    return Array.isArray(told) ? told.filter((each): each is Choice => typeof each?.id === "string" && typeof each?.visible === "boolean") : [];
  } catch {
    return []; // storage is switched off, or holds something else
  }
}

/** Which columns of a list are shown and in which order; remembered in this browser. */
export function useColumns(table: string, columns: readonly Column<never>[]): [Choice[], (choices: readonly Choice[]) => void] {
  const [kept, setKept] = useState(() => remembered(table));
  const choose = (choices: readonly Choice[]) => {
    setKept([...choices]);
    try {
      localStorage.setItem(keyOf(table), JSON.stringify(choices.map(({ id, visible }) => ({ id, visible }))));
    } catch {
      // not remembered then
    }
  };
  return [choicesOf(columns, kept), choose];
}
