import tseslint from "typescript-eslint";

const wire = ["fetch", "XMLHttpRequest", "WebSocket", "EventSource"].map((name) => ({
  name,
  message: "The browser speaks to the server through src/api only.",
}));

export default tseslint.config(
  { ignores: ["dist", "src/api/api.d.ts"] },
  ...tseslint.configs.recommended,
  { files: ["src/**/*.{ts,tsx}"], rules: { "no-restricted-globals": ["error", ...wire] } },
  { files: ["src/api/**"], rules: { "no-restricted-globals": "off" } },
);
