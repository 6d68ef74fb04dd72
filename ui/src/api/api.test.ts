// @vitest-environment node
import openapiTS, { astToString } from "openapi-typescript";
import { expect, it } from "vitest";
import openapi from "../../../docs/openapi.json";
import written from "./api.d.ts?raw";

/** Without comments and blank lines: a sentence that is put better changes no type. */
const types = (source: string) => source.replace(/\/\*\*[\s\S]*?\*\//g, "").replace(/\n\s*\n/g, "\n").trim();

it("the generated client is the one of the server's document: npm run api", async () => {
  const generated = astToString(await openapiTS(JSON.stringify(openapi), { defaultNonNullable: false }));
  expect(types(written)).toBe(types(generated));
});
