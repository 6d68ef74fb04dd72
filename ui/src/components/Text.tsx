import { visible } from "./visible";

/** What others wrote, as text: it wraps anywhere, keeps its lines, and cannot turn the text beside it. */
export function Text({ children, log = false }: { children: React.ReactNode; log?: boolean }) {
  return (
    <bdi className={log ? "is-wrap is-log" : "is-wrap"}>{typeof children === "string" ? visible(children) : children}</bdi>
  );
}
