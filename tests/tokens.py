"""How many tokens a model reads: the o200k encoding by npm's gpt-tokenizer (a development dependency of ui/), no network."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

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
