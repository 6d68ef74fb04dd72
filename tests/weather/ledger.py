"""The ledger of what was run: ``tests/weather/ledger.json``, and the page that is drawn from it, ``docs/weather-report.md``.

The runs write tables into ``build`` (report.py); ``make weather-report`` (or ``python -m tests.weather.ledger``) takes them into the
ledger, newer results in place of older ones. Nobody writes either file by hand.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.clusters.worlds import ROOT
from tests.weather import report

FILE, PAGE = Path(__file__).parent / "ledger.json", ROOT / "docs" / "weather-report.md"
#: trial -> what it is, in the order of the page's columns; weathers come before them, by name
KILLS: Mapping[str, str] = {
    "halt": "killed before each change",
    "hold": "killed between each change and its record",
    "begun": "killed as each stage begins",
    "ended": "killed as each stage ends",
    "random": "killed at random instants",
    "cut": "cancelled after a stage, then the cluster deleted",
}
#: the same, of two clients at once
CLIENTS: Mapping[str, str] = {
    "twice": "the same wish by two clients at once: one change",
    "contrary": "what ends its thing, or another change of it, asked for at once: one goes first, none is mixed",
}
_POINTS = (
    (re.compile(r"^before "), "halt"),
    (re.compile(r"^after, not recorded"), "hold"),
    (re.compile(r"^stage .* begun$"), "begun"),
    (re.compile(r"^stage .* ended$"), "ended"),
    (re.compile(r"^random instants"), "random"),
    (re.compile(r"^cut "), "cut"),
    (re.compile(r"^the same wish "), "twice"),
    (re.compile(r".* at once$"), "contrary"),
)
_WEATHER = re.compile(r"^([a-z]+) \([a-z_.]+\)$")


@dataclass(frozen=True)
class Cell:
    """One workflow under one trial: at how many points it was disturbed, how many ended right, when (UTC) and by which commit."""

    workflow: str
    trial: str
    points: int
    right: int
    on: str
    commit: str
    wrong: tuple[str, ...] = field(default=())


def trial_of(point: str) -> str:
    """The trial that a row's point belongs to."""
    weather = _WEATHER.match(point)
    return weather[1] if weather else next((name for pattern, name in _POINTS if pattern.match(point)), point)


def cells(rows: Iterable[Mapping[str, Any]]) -> Iterator[Cell]:
    """Rows of the runs' tables, taken together by workflow and trial."""
    together: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        together[row["workflow"], trial_of(row["point"])].append(row)
    for (workflow, trial), found in sorted(together.items()):
        newest = max(found, key=lambda row: row["on"])
        wrong = tuple(f"{row['point']}: {row['ended']}; {row['world']}"[:400] for row in found if row["world"] != "equal")
        yield Cell(workflow, trial, len(found), len(found) - len(wrong), newest["on"], newest["commit"], wrong)


def read() -> tuple[dict[tuple[str, str], Cell], list[str]]:
    """The cells that are kept, and the workflows there were when they were."""
    kept = json.loads(FILE.read_text()) if FILE.exists() else {"cells": [], "workflows": []}
    found = [Cell(**{**each, "wrong": tuple(each["wrong"])}) for each in kept["cells"]]
    return {(cell.workflow, cell.trial): cell for cell in found}, list(kept["workflows"])


def take_in(rows: Iterable[Mapping[str, Any]], workflows: Sequence[str]) -> None:
    """Newer results in place of older ones, unless they are good and of fewer points; workflows that are gone go."""
    kept, _ = read()
    for cell in cells(row for row in rows if row.get("workflow") in workflows and row.get("on")):
        present = kept.get((cell.workflow, cell.trial))
        if present is None or (present.on <= cell.on and (cell.points >= present.points or cell.right < cell.points)):
            kept[cell.workflow, cell.trial] = cell
    lines = [json.dumps(asdict(kept[key])) for key in sorted(kept) if key[0] in workflows]
    FILE.write_text('{"cells": [\n' + ",\n".join(lines) + '\n],\n"workflows": ' + json.dumps(list(workflows)) + "}\n")


def page(weathers: Sequence[tuple[str, str]]) -> str:
    """The page of the ledger. ``weathers``: name and what it is."""
    kept, workflows = read()
    trials = {trial for _, trial in kept}
    special = sorted(trials - {*KILLS, *CLIENTS} - {name for name, _ in weathers})
    wrong = [f"- {cell.workflow}, {line}" for cell in kept.values() for line in cell.wrong]
    points, right = sum(cell.points for cell in kept.values()), sum(cell.right for cell in kept.values())
    return "\n".join(
        [
            "# What was run in bad weather",
            "",
            "Drawn by `make weather-report` from `tests/weather/ledger.json`, which the runs of [weather.md](weather.md) fill. A cell says",
            "how many disturbed runs (for kills: points) ended in the world of the undisturbed run, of how many, and on which day.",
            "",
            f"**{right} of {points}** in all. An empty cell was never run.",
            "",
            "## Weathers",
            "",
            *(f"- **{name}**: {says}" for name, says in weathers),
            "",
            *_table(workflows, [name for name, _ in weathers], kept),
            "",
            "## Kills (SIGKILL of the real process) and cuts",
            "",
            *(f"- **{name}**: {says}" for name, says in KILLS.items()),
            "",
            *_table(workflows, list(KILLS), kept),
            "",
            "## Two clients at once",
            "",
            *(f"- **{name}**: {says}" for name, says in CLIENTS.items()),
            "",
            *_table([each for each in workflows if any((each, name) in kept for name in CLIENTS)], list(CLIENTS), kept),
            "",
            "## The process in weather",
            "",
            *(f"- {workflow}, {trial}: {_cell(cell)}" for (workflow, trial), cell in sorted(kept.items()) if trial in special),
            "",
            "## What did not end right",
            "",
            *(wrong or ["Nothing."]),
            "",
        ]
    )


def _table(workflows: Sequence[str], trials: Sequence[str], kept: Mapping[tuple[str, str], Cell]) -> list[str]:
    rows = []
    for workflow in workflows:
        shown = " | ".join(_cell(kept[workflow, trial]) if (workflow, trial) in kept else "" for trial in trials)
        rows.append(f"| {workflow} | {shown} |")
    return [f"| workflow | {' | '.join(trials)} |", f"|---|{'---|' * len(trials)}", *rows]


def _cell(cell: Cell) -> str:
    return f"{'' if cell.right == cell.points else '**'}{cell.right}/{cell.points}{'' if cell.right == cell.points else '**'} {cell.on[5:]}"


def rows_of_builds() -> Iterator[Mapping[str, Any]]:
    """Every row that the runs wrote."""
    for kind in ("weather", "crash", "partial"):
        for path in sorted(report.folder(kind).glob("*.json")):
            yield from json.loads(path.read_text())


def main() -> None:
    """Take the builds' tables in, and draw the page."""
    from tests.weather.profiles import PROFILES
    from tests.weather.scenarios import SCENARIOS

    take_in(rows_of_builds(), [each.workflow for each in SCENARIOS])
    PAGE.write_text(page([(each.name, each.says) for each in PROFILES]))


if __name__ == "__main__":
    main()
