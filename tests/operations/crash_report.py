"""What came of killing the process at each point: collected while the tests run, written as JSON and as a table.

The files go to ``$INSTANTSTART_REPORT_DIR`` (default: ``build/crash``), one pair for each workflow and kind of database.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Sequence
from pathlib import Path

FOLDER_VARIABLE = "INSTANTSTART_REPORT_DIR"


@dataclasses.dataclass(frozen=True)
class Outcome:
    """One disturbed run. ``repeated``: acts that happened more than once; ``missing``: that never did."""

    point: str
    kills: int
    status: str
    repeated: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def right(self) -> bool:
        """The world equals the undisturbed run's, and each act happened once."""
        return self.status == "succeeded" and not self.repeated and not self.missing


def outcome(point: str, kills: int, status: str, acts: Sequence[str], wished: Sequence[str]) -> Outcome:
    """Compare what happened with what an undisturbed run does."""
    repeated = tuple(sorted({name for name in acts if acts.count(name) > 1}))
    return Outcome(point, kills, status, repeated, tuple(sorted(set(wished) - set(acts))))


def write(workflow: str, database: str, outcomes: Sequence[Outcome]) -> Path:
    """Write the report; the answer is its folder."""
    folder = Path(os.environ.get(FOLDER_VARIABLE, "build/crash"))
    folder.mkdir(parents=True, exist_ok=True)
    stem = folder / f"{workflow}.{database}"
    rows = [{**dataclasses.asdict(each), "right": each.right} for each in outcomes]
    stem.with_suffix(f".{database}.json").write_text(json.dumps(rows, indent=1) + "\n")
    right = sum(each.right for each in outcomes)
    lines = [
        f"# Crash enumeration: {workflow} on {database}",
        "",
        f"{right} of {len(outcomes)} disturbed runs ended like the undisturbed one, with each act done once.",
        "",
        "| killed at | kills | ended | acts repeated | acts missing |",
        "|---|---|---|---|---|",
    ]
    for each in outcomes:
        lines.append(
            f"| {each.point} | {each.kills} | {each.status} | {', '.join(each.repeated) or '-'} | {', '.join(each.missing) or '-'} |"
        )
    stem.with_suffix(f".{database}.md").write_text("\n".join(lines) + "\n")
    return folder
