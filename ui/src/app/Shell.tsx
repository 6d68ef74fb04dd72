import AppLayout from "@cloudscape-design/components/app-layout";
import Box from "@cloudscape-design/components/box";
import Flashbar, { type FlashbarProps } from "@cloudscape-design/components/flashbar";
import Spinner from "@cloudscape-design/components/spinner";
import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { Navigate, Outlet, useLocation } from "react-router";
import { useServerAway } from "../api/presence";
import { isSignedOut } from "../api/problems";
import { AwayIsTold, ProblemAlert } from "../components/ProblemAlert";
import { Breadcrumbs } from "./Breadcrumbs";
import { Navigation } from "./Navigation";
import { useNotices } from "./notifications";
import { useMe } from "./session";
import { TopBar } from "./TopBar";

/** Below this width the lists need the room of the navigation, which then opens by its button. */
const ROOMY_PX = 1100;

/** What is round every page: the top bar, the navigation, the notices. */
export function Shell() {
  const me = useMe();
  const place = useLocation();
  const [open, setOpen] = useState(() => innerWidth >= ROOMY_PX);
  const notices = useNotices();
  const away = useServerAway();
  const cache = useQueryClient();
  const wasAway = useRef(false);
  useEffect(() => {
    if (wasAway.current && !away) void cache.invalidateQueries(); // what was missed meanwhile
    wasAway.current = away;
  }, [away, cache]);
  if (isSignedOut(me.error ?? "")) {
    return <Navigate to={`/login?next=${encodeURIComponent(place.pathname + place.search)}`} replace />;
  }
  if (!me.data) return <Waiting error={me.error} />;
  return (
    <>
      <div id="is-top">
        <TopBar me={me.data} />
      </div>
      <AppLayout
        headerSelector="#is-top"
        toolsHide
        navigationOpen={open}
        onNavigationChange={({ detail }) => setOpen(detail.open)}
        navigation={<Navigation me={me.data} />}
        breadcrumbs={<Breadcrumbs />}
        notifications={<Flashbar items={[...(away ? [AWAY] : []), ...notices.items]} stackItems={notices.items.length > 2} />}
        content={
          <AwayIsTold.Provider value={away}>
            <Outlet />
          </AwayIsTold.Provider>
        }
        contentType="default"
      />
    </>
  );
}

const AWAY: FlashbarProps.MessageDefinition = {
  id: "away",
  type: "in-progress",
  loading: true,
  header: "The server is away, reconnecting",
  content: "Nothing is lost: operations go on when it is back, and this page follows.",
};

function Waiting({ error }: { error: unknown }) {
  return (
    <Box padding="xxl" textAlign={error ? "left" : "center"}>
      {error ? <ProblemAlert error={error} /> : <Spinner size="large" />}
    </Box>
  );
}
