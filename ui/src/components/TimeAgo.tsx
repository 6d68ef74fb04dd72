import { useEffect, useState } from "react";
import { duration, moment } from "./time";

/**
 * How long ago, with the exact moment as its title. ``age``: the seconds since then as the server tells them, for moments of AWS's
 * clock, which in a sandbox is not the browser's. Without it a moment that lies ahead is told exactly.
 */
export function TimeAgo({ at, age }: { at: string | null | undefined; age?: number | null | undefined }) {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 15_000);
    return () => clearInterval(timer);
  }, []);
  if (!at) return <>-</>;
  const seconds = age ?? (now - Date.parse(at)) / 1000;
  const told = seconds < -60 ? moment(at) : seconds < 45 ? "just now" : `${duration(seconds < 3600 ? Math.round(seconds / 60) * 60 : seconds)} ago`;
  return (
    <time dateTime={at} title={moment(at)}>
      {told}
    </time>
  );
}
