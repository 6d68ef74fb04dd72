/** Bytes as a person reads them. */
export function bytes(count: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const step = Math.min(units.length - 1, count > 0 ? Math.floor(Math.log2(count) / 10) : 0);
  return `${(count / 1024 ** step).toFixed(step ? 1 : 0)} ${units[step]}`;
}
