import "@cloudscape-design/global-styles/index.css";
import "./app/style.css";
import I18nProvider from "@cloudscape-design/components/i18n";
import messages from "@cloudscape-design/components/i18n/messages/all.en.json";
import { QueryCache, QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { RouterProvider } from "react-router";
import { isSignedOut, problemOf } from "./api/problems";
import { NoticesProvider } from "./app/notifications";
import { router } from "./app/routes";
import { applyTheme } from "./app/theme";

const MAX_RETRIES = 2;
const ME = "/api/v1/me";

const queries: QueryClient = new QueryClient({
  queryCache: new QueryCache({
    onError: (error, query) => {
      // the session has ended: ask who we are, and the shell leads to the sign-in page
      if (isSignedOut(error) && query.queryKey[1] !== ME) void queries.invalidateQueries({ queryKey: ["get", ME] });
    },
  }),
  defaultOptions: {
    mutations: { networkMode: "always" },
    queries: {
      networkMode: "always", // the server may be on this machine: whether the machine is online says nothing
      staleTime: 2_000,
      retry: (failures, error) => failures < MAX_RETRIES && problemOf(error).retryable,
    },
  },
});

applyTheme();
createRoot(document.getElementById("root")!).render(
  <StrictMode>
    <I18nProvider locale="en" messages={[messages]}>
      <QueryClientProvider client={queries}>
        <NoticesProvider>
          <RouterProvider router={router} />
        </NoticesProvider>
      </QueryClientProvider>
    </I18nProvider>
  </StrictMode>,
);
