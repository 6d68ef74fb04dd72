import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

export default defineConfig({
  plugins: [react()],
  build: { outDir: "dist", assetsInlineLimit: 0, chunkSizeWarningLimit: 1500 },
  server: { proxy: { "/api": { target: "http://127.0.0.1:3099", ws: true } } },
  test: { environment: "jsdom", testTimeout: 30_000, include: ["src/**/*.test.{ts,tsx}"] },
});
