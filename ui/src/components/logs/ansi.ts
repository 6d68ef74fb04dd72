/** A piece of a line in one look. Colours beyond the sixteen named ones are given as they are. */
export interface Piece {
  text: string;
  className: string;
  color?: string;
  background?: string;
}

interface Look {
  fg?: number | string;
  bg?: number | string;
  bold?: boolean;
  dim?: boolean;
  italic?: boolean;
  underline?: boolean;
  inverse?: boolean;
}

interface Cell {
  text: string;
  look: Look;
}

const PLAIN: Look = {};
const LONGEST = 20_000;
/** escape sequences of any kind, ended or not: strings (titles, links), control sequences, single ones */
const ESCAPE = /(?:\x1b\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?|(?:\x1b[PX^_]|[\x90\x98\x9e\x9f])[^\x1b\x9c]*(?:\x1b\\|\x9c)?|(?:\x1b\[|\x9b)([0-?]*)[ -/]*([@-~]?)|\x1b[ -/]*[0-~]?/y;
const ACTS = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/;
const FLAGS: Record<number, keyof Look> = { 1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "inverse" };

/**
 * A line as a terminal would show it in the end: carriage returns and backspaces overwrite (a progress bar is its last state), colours
 * colour, and whatever else a program may ask of a terminal is left out. The result is text: a page puts it down as such.
 */
export function piecesOf(line: string): Piece[] {
  const text = line.length > LONGEST ? `${line.slice(0, LONGEST)} ...` : line;
  if (!ACTS.test(text)) return text ? [{ text, className: "" }] : [];
  return joined(cellsOf(text));
}

/** The same without looks: for searching and for the clipboard. */
export function plainOf(line: string): string {
  return ACTS.test(line) ? piecesOf(line).map((each) => each.text).join("") : line;
}

function cellsOf(text: string): Cell[] {
  const cells: Cell[] = [];
  let look = PLAIN;
  let column = 0;
  let at = 0;
  while (at < text.length) {
    ESCAPE.lastIndex = at;
    const escape = ESCAPE.exec(text);
    if (escape) {
      at += escape[0].length;
      if (escape[2] === "m") look = changed(look, escape[1] ?? "");
      else column = moved(cells, column, escape[2] ?? "", Number(escape[1] || NaN));
      continue;
    }
    const character = String.fromCodePoint(text.codePointAt(at)!);
    at += character.length;
    if (character === "\r") column = 0;
    else if (character === "\b") column = Math.max(column - 1, 0);
    else cells[column++] = { text: ACTS.test(character) ? "\ufffd" : character, look };
  }
  return cells;
}

/** What stays within a line of what moves a cursor or erases. */
function moved(cells: Cell[], column: number, act: string, count: number): number {
  if (act === "G") return Math.min(Math.max((count || 1) - 1, 0), LONGEST);
  if (act === "D") return Math.max(column - (count || 1), 0);
  if (act === "C") return Math.min(column + (count || 1), LONGEST);
  if (act === "K" && !count) cells.length = Math.min(cells.length, column);
  if (act === "K" && count === 2) cells.fill({ text: " ", look: PLAIN }, 0, cells.length);
  return column;
}

function changed(look: Look, told: string): Look {
  const codes = told.split(/[;:]/).map(Number);
  let next = { ...look };
  for (let at = 0; at < codes.length; at++) {
    const code = codes[at]!;
    const flag = FLAGS[code];
    if (code === 0) next = {};
    else if (flag) next = { ...next, [flag]: true };
    else if (code === 22) next = { ...next, bold: false, dim: false };
    else if (code === 23 || code === 24 || code === 27) next = { ...next, [FLAGS[code - 20]!]: false };
    else if (code === 38 || code === 48) {
      const [colour, used] = wide(codes.slice(at + 1));
      next = code === 38 ? { ...next, fg: colour } : { ...next, bg: colour };
      at += used;
    } else next = { ...next, ...named(code) };
  }
  return next;
}

function named(code: number): Look {
  if ((code >= 30 && code <= 37) || (code >= 90 && code <= 97)) return { fg: code };
  if ((code >= 40 && code <= 47) || (code >= 100 && code <= 107)) return { bg: code - 10 };
  if (code === 39) return { fg: undefined };
  if (code === 49) return { bg: undefined };
  return {};
}

/** One of 256 colours, or red, green and blue; and how many numbers that took. */
function wide(codes: number[]): [number | string | undefined, number] {
  const [kind, ...rest] = codes;
  if (kind === 2) return [rgb(rest.slice(0, 3)), 4];
  if (kind !== 5) return [undefined, 1];
  const index = rest[0] ?? 0;
  if (index < 8) return [30 + index, 2];
  if (index < 16) return [82 + index, 2];
  if (index >= 232) return [rgb(Array(3).fill(8 + (index - 232) * 10) as number[]), 2];
  const cube = index - 16;
  return [rgb([Math.floor(cube / 36), Math.floor(cube / 6) % 6, cube % 6].map((each) => (each ? 55 + each * 40 : 0))), 2];
}

const rgb = (parts: number[]) => `rgb(${[0, 1, 2].map((each) => Math.min(Math.max(Math.trunc(parts[each] ?? 0) || 0, 0), 255)).join(", ")})`;

function joined(cells: Cell[]): Piece[] {
  const pieces: (Piece & { look: Look })[] = [];
  for (let at = 0; at < cells.length; at++) {
    const { text, look } = cells[at] ?? { text: " ", look: PLAIN };
    const last = pieces.at(-1);
    if (last && last.look === look) last.text += text;
    else pieces.push({ text, look, ...drawn(look) });
  }
  return pieces.map(({ text, className, color, background }) => ({ text, className, color, background }));
}

function drawn(look: Look): Omit<Piece, "text"> {
  const [fg, bg] = look.inverse ? [look.bg ?? "inverse", look.fg ?? "inverse"] : [look.fg, look.bg];
  const names = [
    typeof fg === "number" && `is-fg-${fg}`,
    typeof bg === "number" && `is-bg-${bg}`,
    fg === "inverse" && "is-fg-inverse",
    bg === "inverse" && "is-bg-inverse",
    ...(["bold", "dim", "italic", "underline"] as const).map((each) => look[each] && `is-${each}`),
  ];
  const colour = (each: unknown) => (typeof each === "string" && each !== "inverse" ? each : undefined);
  return { className: names.filter(Boolean).join(" "), color: colour(fg), background: colour(bg) };
}
