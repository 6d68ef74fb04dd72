import { describe, expect, it } from "vitest";
import { mountsOf } from "./mounts";

describe("volumes as they are typed", () => {
  it("takes one a line, for reading unless said otherwise", () => {
    expect(mountsOf("s3-claim:/models\n\n scratch:/data:rw ")).toEqual([
      { claim_name: "s3-claim", mount_path: "/models", read_only: true },
      { claim_name: "scratch", mount_path: "/data", read_only: false },
    ]);
  });

  it("leaves what is no volume for the server to refuse", () => {
    expect(mountsOf("models")).toEqual([{ claim_name: "models", mount_path: "", read_only: true }]);
  });
});
