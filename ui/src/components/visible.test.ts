import { expect, it } from "vitest";
import { visible } from "./visible";

it("shows what turns the direction of text, and leaves honest right-to-left text alone", () => {
  expect(visible("\u202Eevil gnp.exe")).toBe("[U+202E]evil gnp.exe");
  expect(visible("مرحبا بالعالم")).toBe("مرحبا بالعالم");
});
