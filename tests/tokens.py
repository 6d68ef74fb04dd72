"""How many tokens a model reads: the o200k encoding by npm's gpt-tokenizer (a development dependency of ui/), no network."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_PACKAGE = Path(__file__).parents[1] / "ui" / "node_modules" / "gpt-tokenizer"
_COUNT = """
const { encode } = require(process.argv[1] + "/cjs/encoding/o200k_base.js");
let text = "";
process.stdin.on("data", (part) => (text += part)).on("end", () => {
  console.log(JSON.stringify(JSON.parse(text).map((each) => encode(each).length)));
});
"""
#: fewer than our texts have (4.2 to 4.5 as counted): the estimate errs on the side of too many tokens
BYTES_A_TOKEN = 4.0
#: what operation_wait waits at most
LOOK_SECONDS = 50
#: what a whole conversation that makes a cluster may take, calls and answers
CONVERSATION_TOKENS = 12_000


def exact() -> bool:
    """Whether the tokenizer is here; without it ``count`` estimates."""
    return shutil.which("node") is not None and _PACKAGE.is_dir()


def count(texts: Sequence[str]) -> list[int]:
    """Tokens of each text."""
    if not exact():
        return [round(len(text.encode()) / BYTES_A_TOKEN) for text in texts]
    ran = subprocess.run(["node", "-e", _COUNT, str(_PACKAGE)], input=json.dumps(list(texts)), capture_output=True, text=True, check=True)
    return [int(each) for each in json.loads(ran.stdout)]


def how() -> str:
    """What the numbers are."""
    return "o200k" if exact() else f"estimated as bytes / {BYTES_A_TOKEN:g}: no node or no ui/node_modules here"


@dataclass
class Traffic:
    """What went through the tools of one conversation: (tool, call, answer), and how long its operations took in the world."""

    said: list[tuple[str, str, str]] = field(default_factory=list)
    world_seconds: float = 0.0

    def add(self, tool: str, arguments: Mapping[str, Any], answer: str) -> None:
        """One call."""
        self.said.append((tool, json.dumps({"name": tool, "arguments": arguments}, separators=(",", ":")), answer))
        told = json.loads(answer)
        if tool == "operation_wait" and "status_tool" not in told:
            self.world_seconds += told["elapsed_seconds"]

    def each(self) -> list[tuple[str, int, int]]:
        """(tool, tokens asked, tokens answered) of every call."""
        counted = count([text for _, asked, answered in self.said for text in (asked, answered)])
        return [(tool, *pair) for (tool, _, _), pair in zip(self.said, zip(counted[::2], counted[1::2], strict=True), strict=True)]

    def total(self) -> int:
        """All of it."""
        return sum(asked + answered for _, asked, answered in self.each())

    def at_the_worlds_pace(self) -> int:
        """All of it, if every wait had been looked at each 50 seconds, as on a real account."""
        waits = [
            asked + answered
            for (tool, asked, answered), (_, _, text) in zip(self.each(), self.said, strict=True)
            if tool == "operation_wait" and '"status_tool"' in text
        ]
        dearest = max(waits, default=150)
        return self.total() - sum(waits) + math.ceil(self.world_seconds / LOOK_SECONDS) * dearest
