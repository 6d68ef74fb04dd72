import type { FlashbarProps } from "@cloudscape-design/components/flashbar";
import { createContext, useCallback, useContext, useMemo, useState } from "react";

interface Notice {
  type: FlashbarProps.Type;
  content: React.ReactNode;
}

interface Notices {
  items: FlashbarProps.MessageDefinition[];
  tell: (notice: Notice) => void;
}

const Context = createContext<Notices>({ items: [], tell: () => undefined });

/** Messages at the top of the page that outlive the page that told them. */
export function NoticesProvider({ children }: { children: React.ReactNode }) {
  const [told, setTold] = useState<(Notice & { id: string })[]>([]);
  const tell = useCallback((notice: Notice) => {
    const id = `${Date.now()}-${Math.random()}`;
    setTold((now) => [{ ...notice, id }, ...now].slice(0, 4));
  }, []);
  const value = useMemo(() => {
    const items = told.map((each) => ({
      ...each,
      dismissible: true,
      onDismiss: () => setTold((now) => now.filter((other) => other.id !== each.id)),
    }));
    return { items, tell };
  }, [told, tell]);
  return <Context.Provider value={value}>{children}</Context.Provider>;
}

export const useNotices = () => useContext(Context);
