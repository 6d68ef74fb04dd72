"""What came of it, as tables: ``build/weather/matrix.md`` (workflow by weather) and ``build/crash/<workflow>.md`` (point by point).

Every test adds its rows as soon as it has them, so that tables of a run that was cut short are there, too. ``$INSTANTSTART_REPORT_DIR``
replaces ``build``.
"""

from __future__ import annotations

import datetime as dt
import functools
import json
import os
import subprocess
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.clusters.worlds import ROOT

FOLDER_VARIABLE = "INSTANTSTART_REPORT_DIR"


@functools.cache
def _commit() -> str:
    """The commit of this checkout; empty when git does not tell."""
    told = subprocess.run(
        ["git", "-C", str(ROOT), "describe", "--always", "--dirty=+", "--abbrev=8", "--exclude=*"],
        capture_output=True,
        text=True,
        check=False,
    )
    return told.stdout.strip()


@dataclass(frozen=True)
class Row:
    """One disturbed run. ``ended``: the operation's status, with the reasons it stood blocked for; ``world``: equal, or what differs."""

    workflow: str
    point: str
    ended: str
    world: str
    kills: int = 0
    #: of the wall, for the disturbed run with what is around it; 0: not measured
    seconds: int = 0
    #: calls that the weather struck
    strikes: int = 0
    #: day of the run (UTC) and the commit that ran, with a plus when files differed from it
    on: str = field(default_factory=lambda: dt.datetime.now(dt.UTC).date().isoformat())
    commit: str = field(default_factory=_commit)


def folder(kind: str) -> Path:
    """``build/weather`` or ``build/crash``, made when missing."""
    found = Path(os.environ.get(FOLDER_VARIABLE, str(ROOT / "build"))) / kind
    found.mkdir(parents=True, exist_ok=True)
    return found


def difference(world: list[str], expected: list[str]) -> str:
    """``equal``, or the lines that are missing and those that are too many."""
    if world == expected:
        return "equal"
    missing, more = [x for x in expected if x not in world], [x for x in world if x not in expected]
    twice = sorted({x for x in world if world.count(x) > expected.count(x)} - set(more))
    return f"missing {missing}, more {more}, twice {twice}"


def add(kind: str, name: str, rows: Iterable[Row]) -> None:
    """Put rows under ``name`` (those of the same workflow and point are replaced) and write the table anew."""
    path = folder(kind) / f"{name}.json"
    kept = {(r["workflow"], r["point"]): r for r in (json.loads(path.read_text()) if path.exists() else [])}
    kept.update({(row.workflow, row.point): asdict(row) for row in rows})
    path.write_text(json.dumps(list(kept.values()), indent=1) + "\n")
    _write_table(path.with_suffix(".md"), name, [Row(**each) for each in kept.values()])


def _write_table(path: Path, name: str, rows: list[Row]) -> None:
    right = sum(row.world == "equal" for row in rows)
    head = [f"# {name}", "", f"{right} of {len(rows)} disturbed runs ended in the world of the undisturbed one.", ""]
    lines = [f"| {row.workflow} | {row.point} | {row.kills} | {row.ended} | {row.world} |" for row in sorted(rows, key=_order)]
    path.write_text("\n".join([*head, "| workflow | point | kills | ended | world |", "|---|---|---|---|---|", *lines]) + "\n")


def _order(row: Row) -> tuple[str, str]:
    return row.workflow, row.point
