/** Characters that turn the direction of text: a name may use them to be read as another one. */
const TURNS = /[\u061C\u200E\u200F\u202A-\u202E\u2066-\u2069]/g;

/** What others wrote, with the characters that would change how it reads made visible. */
export function visible(text: string): string {
  return text.replace(TURNS, (each) => `[U+${each.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}]`);
}
