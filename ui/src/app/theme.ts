import { applyMode, Mode } from "@cloudscape-design/global-styles";
import { useSyncExternalStore } from "react";

const KEY = "instantstart.theme";
const listeners = new Set<() => void>();

function remembered(): boolean | null {
  try {
    const said = localStorage.getItem(KEY);
    return said === null ? null : said === "dark";
  } catch {
    return null; // storage is switched off: the system's choice holds
  }
}

let dark = remembered() ?? matchMedia("(prefers-color-scheme: dark)").matches;

export function applyTheme(): void {
  applyMode(dark ? Mode.Dark : Mode.Light);
}

export function toggleTheme(): void {
  dark = !dark;
  try {
    localStorage.setItem(KEY, dark ? "dark" : "light");
  } catch {
    // not remembered then
  }
  applyTheme();
  listeners.forEach((tell) => tell());
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export const useDark = () => useSyncExternalStore(subscribe, () => dark);
