import { useState } from "react";

/** Pages behind cursors: one knows the next page's address only from the page before it. */
export function useCursors(of: string) {
  const [state, setState] = useState<{ of: string; cursors: (string | undefined)[]; page: number }>({ of, cursors: [undefined], page: 1 });
  const now = state.of === of ? state : { of, cursors: [undefined], page: 1 }; // other filters: from the beginning
  return {
    cursor: now.cursors[now.page - 1],
    /** what Pagination needs to know, given the cursor that the shown page answered */
    props(next: string | null | undefined) {
      return {
        currentPageIndex: now.page,
        pagesCount: Math.max(now.cursors.length, now.page + (next ? 1 : 0)),
        openEnd: Boolean(next),
        onChange: ({ detail }: { detail: { currentPageIndex: number } }) => {
          const page = detail.currentPageIndex;
          if (page > now.cursors.length && !next) return;
          const cursors = page > now.cursors.length ? [...now.cursors, next ?? undefined] : now.cursors;
          setState({ of, cursors, page: Math.min(page, cursors.length) });
        },
      };
    },
  };
}
