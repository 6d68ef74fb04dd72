import { describe, expect, it } from "vitest";
import type { Problem } from "../../api/problems";
import { answersOf, bodyOf, byPlace, LINES, LIST, MOUNTS, SECRETS, SETTINGS } from "./values";

const lines = { ...LINES, "recipe.arguments": LIST, "recipe.settings": SETTINGS };

describe("bodyOf", () => {
  it("puts dotted places into their parts, reads lines, and leaves out what is empty", () => {
    const answers = {
      name: "a", zone: "", nodes: 2, "recovery.max_retries": 3, "recipe.framework": "pytorch", "recipe.arguments": "--lr=1e-4\n\n--name a, b\n",
      env: "A=1\nB=x=y", secret_env: "T=hub/token", mounts: "data:/data\nout/run-1:/out:ro", "recipe.settings": "",
    };
    expect(bodyOf(answers, lines)).toEqual({
      name: "a", nodes: 2, recovery: { max_retries: 3 }, recipe: { framework: "pytorch", arguments: ["--lr=1e-4", "--name a, b"] },
      env: { A: "1", B: "x=y" }, secret_env: { T: { secret: "hub", key: "token" } },
      mounts: [{ claim: "data", path: "/data" }, { claim: "out", folder: "run-1", path: "/out", read_only: true }],
    });
  });

  it("gives back what it read", () => {
    const body = { name: "a", recipe: { framework: "x", settings: { lr: 0.1, on: true, text: "true story", quoted: "1", list: [1, 2] } }, mounts: [{ claim: "c", folder: "f/g", path: "/p", read_only: true }], secret_env: { T: { secret: "s", key: "k" } } };
    const answers = answersOf(body, (place) => lines[place as keyof typeof lines]);
    expect(bodyOf(answers, lines)).toEqual(body);
  });

  it("keeps texts that a line cannot hold", () => {
    const items = ["-c", "import os\nprint(1)\n", " spaced ", "", '"already quoted"', '"half', "plain text, with comma"];
    expect(LIST.parse(LIST.print(items))).toEqual(items);
    const env = { A: "x\ny", B: "", C: '"q"', D: "a b" };
    expect(LINES["env"]!.parse(LINES["env"]!.print(env))).toEqual(env);
    const settings = { a: "x\ny", b: " s ", c: "1", d: 1 };
    expect(SETTINGS.parse(SETTINGS.print(settings))).toEqual(settings);
  });

  it("leaves a line that is none for the server to refuse", () => {
    expect(bodyOf({ env: "no sign here" }, lines)).toEqual({ env: "no sign here" });
    expect(SETTINGS.parse("a: 1\nb: [1, 2]\nc: x: y")).toEqual({ a: 1, b: [1, 2], c: "x: y" });
    expect(SECRETS.parse("A=only")).toEqual({ A: { secret: "only", key: undefined } });
    expect(MOUNTS.print([{ claim: "c", path: "/p" }])).toBe("c:/p");
  });
});

describe("byPlace", () => {
  it("lands a refusal where the form asks, and keeps the rest", () => {
    const problem = {
      fields: [
        { pointer: "/recipe/pytorch/script", message: "A." },
        { pointer: "/recovery/max_retries", message: "B." },
        { pointer: "/mounts/0/path", message: "C." },
        { pointer: "/mounts/1/path", message: "D." },
        { pointer: "/elsewhere", message: "E." },
      ],
    } as unknown as Problem;
    expect(byPlace(problem, ["recipe.script", "recovery.max_retries", "mounts"])).toEqual({ told: { "recipe.script": "A.", "recovery.max_retries": "B.", mounts: "C. D." }, others: ["E."] });
  });
});
