import { describe, expect, it } from "vitest";
import { type Column, choicesOf } from "./columns";

const COLUMNS: Column<never>[] = [
  { id: "name", header: "Name", cell: () => "" },
  { id: "note", header: "Note", extra: true, cell: () => "" },
  { id: "acts", header: "Actions", cell: () => "" },
];

describe("the columns of a list", () => {
  it("leaves extra ones out at first, and the acts out of the choice", () => {
    expect(choicesOf(COLUMNS, [])).toEqual([{ id: "name", visible: true }, { id: "note", visible: false }]);
  });

  it("keeps what was chosen, forgets columns that are gone, and adds new ones", () => {
    const remembered = [{ id: "gone", visible: true }, { id: "note", visible: true }];
    expect(choicesOf(COLUMNS, remembered)).toEqual([{ id: "note", visible: true }, { id: "name", visible: true }]);
  });
});
