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

export default tseslint.config(
  { ignores: ["dist", "src/api/api.d.ts"] },
  ...tseslint.configs.recommended,
  { files: ["src/**/*.{ts,tsx}"], rules: { "no-restricted-globals": ["error", ...wire], "no-restricted-syntax": ["error", ...markup] } },
  { files: ["src/api/**"], rules: { "no-restricted-globals": "off" } },
);
