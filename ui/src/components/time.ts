/** Durations and moments in words. The world's seconds come from the server; a sandbox's clock runs faster than ours. */
export function duration(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole} s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return whole % 60 ? `${minutes} min ${whole % 60} s` : `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  return `${Math.floor(hours / 24)} days`;
}

const MOMENT = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

const CLOCK = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });

export const moment = (iso: string) => MOMENT.format(new Date(iso));
export const clock = (iso: string) => CLOCK.format(new Date(iso));
