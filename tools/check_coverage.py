"""Fail when less of the law's rooms is covered than the floors say (design 2: base, operations and rules 100 %, 95 % overall).

Reads the data that ``make test COVERAGE=1`` leaves. A floor may only rise: when more is covered than a floor says, that is told, and who
sees it writes the new figure into ``tests/coverage_floors.json``.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import coverage

ROOT = Path(__file__).parents[1]
FLOORS = ROOT / "tests" / "coverage_floors.json"
_PACKAGE = "src/instantstart/"
_SHOWN = 15
#: a floor is told to be too low from here on
_SLACK = 0.2


def group_of(path: str) -> str | None:
    """The room of a file that has a floor of its own."""
    inside = path.partition(_PACKAGE)[2]
    if inside.startswith(("base/", "operations/")):
        return inside.partition("/")[0]
    return "rules" if inside.startswith("capabilities/") and inside.endswith("/rules.py") else None


def percent(files: Mapping[str, Mapping[str, Any]]) -> float:
    """Lines and branches that were run, of all."""
    have = sum(each["summary"]["covered_lines"] + each["summary"].get("covered_branches", 0) for each in files.values())
    of = sum(each["summary"]["num_statements"] + each["summary"].get("num_branches", 0) for each in files.values())
    return 100.0 * have / of if of else 100.0


def measured(data_file: str) -> dict[str, dict[str, Any]]:
    """Every file of the report, by its path."""
    found = coverage.Coverage(data_file=data_file, config_file=str(ROOT / "pyproject.toml"))
    found.load()
    with tempfile.NamedTemporaryFile(suffix=".json") as target:
        found.json_report(outfile=target.name, ignore_errors=True)
        report: dict[str, dict[str, Any]] = json.loads(Path(target.name).read_text())["files"]
    return report


def lacking(files: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What was not run, the worst files first."""
    worst = sorted(files, key=lambda path: -len(files[path]["missing_lines"]))
    lines = (f"  {path}: lines {files[path]['missing_lines']} branches {files[path].get('missing_branches', [])}" for path in worst)
    return [line[:300] for line, path in zip(lines, worst, strict=True) if files[path]["summary"]["percent_covered"] < 100][:_SHOWN]


def main(data_file: str) -> int:
    """Print the figures; 1 when one is below its floor, 2 when there is nothing to measure."""
    if not Path(data_file).exists():
        sys.stderr.write(f"There is no coverage data at {data_file}: run `make test COVERAGE=1` first, then `make coverage`.\n")
        return 2
    files, floors, failed = measured(data_file), json.loads(FLOORS.read_text()), False
    for name, floor in floors.items():
        mine = files if name == "all" else {path: each for path, each in files.items() if group_of(path) == name}
        found = percent(mine)
        sys.stdout.write(f"{name}: {found:.2f} % of {len(mine)} files (floor {floor} %)\n")
        if found < floor:
            failed = True
            sys.stdout.write("\n".join(["  BELOW ITS FLOOR; not run:", *lacking(mine), ""]))
        elif found > floor + _SLACK and floor < 100:
            sys.stdout.write(f"  more than its floor: write {found:.1f} into {FLOORS.relative_to(ROOT)}\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else str(ROOT / ".coverage")))
