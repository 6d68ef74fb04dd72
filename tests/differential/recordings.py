"""What the real side answered when it was last asked, checked in: where there is no reference, the sandbox is compared with this.

``INSTANTSTART_RECORD=1`` with a reference writes it anew.
"""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "recorded"
WANTED = os.environ.get("INSTANTSTART_RECORD") == "1"


@cache
def _file(name: str) -> dict[str, Any]:
    path = FOLDER / f"{name}.json"
    return dict(json.loads(path.read_text())) if path.exists() else {}


def recorded(file: str, scenario: str) -> list[Any] | None:
    """The recorded answers of a scenario, or None."""
    found = _file(file).get(scenario)
    return None if found is None else list(found)


def record(file: str, scenario: str, answers: list[Any]) -> None:
    """Keep a scenario's answers."""
    known = _file(file)
    known[scenario] = answers
    FOLDER.mkdir(exist_ok=True)
    lines = [f" {json.dumps(name)}: [\n" + ",\n".join(f"  {_line(a)}" for a in steps) + "\n ]" for name, steps in sorted(known.items())]
    (FOLDER / f"{file}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


def _line(answer: Any) -> str:
    return json.dumps(answer, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
