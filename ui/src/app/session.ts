import { $api } from "../api/client";
import { useServerAway } from "../api/presence";

const LOOK_MS = 60_000;
const LOOK_AGAIN_MS = 1_500;

/** Who is signed in. While the server is away it is asked again and again: its answer ends the banner. */
export function useMe() {
  const away = useServerAway();
  return $api.useQuery("get", "/api/v1/me", {}, { refetchInterval: away ? LOOK_AGAIN_MS : LOOK_MS, retry: false, refetchIntervalInBackground: away });
}
