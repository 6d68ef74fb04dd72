import tseslint from "typescript-eslint";

const wire = ["fetch", "XMLHttpRequest", "WebSocket", "EventSource"].map((name) => ({
  name,
  message: "The browser speaks to the server through src/api only.",
}));

/** What others wrote is text, never markup. */
const markup = ["JSXAttribute[name.name='dangerouslySetInnerHTML']", "AssignmentExpression > MemberExpression.left[property.name=/^(inner|outer)HTML$/]", "Literal[value=/^\\s*javascript:/i]"].map((selector) => ({
  selector,
  message: "Show it as text.",
}));

/** One table for all pages: its acts stay in sight. */
const tables = { paths: [{ name: "@cloudscape-design/components/table", importNames: ["default"], message: "Use components/DataTable." }] };

export default tseslint.config(
  { ignores: ["dist", "src/api/api.d.ts"] },
  ...tseslint.configs.recommended,
  { files: ["src/**/*.{ts,tsx}"], rules: { "no-restricted-globals": ["error", ...wire], "no-restricted-imports": ["error", tables], "no-restricted-syntax": ["error", ...markup] } },
  { files: ["src/components/DataTable.tsx"], rules: { "no-restricted-imports": "off" } },
  { files: ["src/api/**"], rules: { "no-restricted-globals": "off" } },
);
