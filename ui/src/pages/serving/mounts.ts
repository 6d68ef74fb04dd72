/** A volume claim in the container, as the server takes it. */
export interface Mount {
  claim_name: string;
  mount_path: string;
  read_only: boolean;
}

/** Lines of `claim:/path` or `claim:/path:rw`; a line that is none is sent as it stands, for the server to refuse at its place. */
export function mountsOf(text: string): Mount[] {
  const lines = text.split("\n").map((line) => line.trim());
  return lines.filter(Boolean).map((line) => {
    const [claim_name = "", mount_path = "", mode] = line.split(":");
    return { claim_name, mount_path, read_only: mode !== "rw" };
  });
}
