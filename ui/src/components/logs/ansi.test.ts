import { describe, expect, it } from "vitest";
import { piecesOf, plainOf } from "./ansi";

describe("plainOf", () => {
  it.each([
    ["step 1 loss=2.3", "step 1 loss=2.3"],
    ["\x1b]0;owned\x07\x1b[2J\x1b[1;1Hfake $ ", "fake $ "],
    ["\x1b]8;;https://evil.example\x1b\\click\x1b]8;;\x1b\\", "click"],
    ["\x1b[31mred\x1b[0m and \x1b[1;38;5;208mbold\x1b[m", "red and bold"],
    ["unfinished \x1b[31", "unfinished "],
    ["bell \x07 tab\tstays", "bell \ufffd tab\tstays"],
    ["abc\u202etxt.exe", "abc\ufffdtxt.exe"],
    ["\rdownload 10%|#  |\rdownload 100%|###|", "download 100%|###|"],
    ["100%\r7", "700%"],
    ["long line\r\x1b[Kshort", "short"],
    ["windows line\r", "windows line"],
    ["spin |\b/\b-", "spin -"],
    ["col\x1b[10Gten", "col      ten"],
    ["größe 日本語 🚀", "größe 日本語 🚀"],
    ["<script>alert(1)</script>", "<script>alert(1)</script>"],
  ])("shows %j as it would end up", (line, seen) => {
    expect(plainOf(line)).toBe(seen);
  });

  it("bounds what it draws", () => {
    expect(plainOf("x".repeat(100_000) + "\r")).toHaveLength(20_004);
    expect(plainOf(`\x1b[999999999Gx`).length).toBeLessThan(20_002);
  });
});

describe("piecesOf", () => {
  it("colours pieces and keeps a plain line as one", () => {
    expect(piecesOf("plain")).toEqual([{ text: "plain", className: "" }]);
    expect(piecesOf("\x1b[1;31mred\x1b[0m no")).toEqual([
      { text: "red", className: "is-fg-31 is-bold", color: undefined, background: undefined },
      { text: " no", className: "", color: undefined, background: undefined },
    ]);
  });

  it("knows 256 and true colours, and what is inverse", () => {
    expect(piecesOf("\x1b[38;5;208mo\x1b[48;2;1;2;300mb")[0]).toMatchObject({ color: "rgb(255, 135, 0)" });
    expect(piecesOf("\x1b[38;5;9mr")[0]).toMatchObject({ className: "is-fg-91" });
    expect(piecesOf("\x1b[48;2;1;2;300mb")[0]).toMatchObject({ background: "rgb(1, 2, 255)" });
    expect(piecesOf("\x1b[7mi")[0]?.className).toBe("is-fg-inverse is-bg-inverse");
  });

  it("lets a coloured progress bar overwrite itself", () => {
    const bar = "\x1b[32m 10%\x1b[0m\r\x1b[32m100%\x1b[0m done";
    expect(piecesOf(bar).map((each) => [each.text, each.className])).toEqual([["100%", "is-fg-32"], [" done", ""]]);
  });
});
