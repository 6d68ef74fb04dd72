"""The wall of coverage: which files it is about, how it counts, and that its floors are percentages."""

from __future__ import annotations

import json

import pytest
from tools import check_coverage


@pytest.mark.parametrize(
    ("path", "room"),
    [
        ("src/instantstart/base/names.py", "base"),
        ("/x/src/instantstart/operations/desk.py", "operations"),
        ("src/instantstart/capabilities/clusters/rules.py", "rules"),
        ("src/instantstart/capabilities/capacity/nodes/rules.py", "rules"),
        ("src/instantstart/capabilities/capacity/nodes/stages.py", None),
        ("src/instantstart/ensure/rules.py", None),
    ],
)
def test_a_file_belongs_to_its_room(path: str, room: str | None) -> None:
    assert check_coverage.group_of(path) == room


def test_lines_and_branches_count_alike() -> None:
    summary = {"covered_lines": 8, "num_statements": 10, "covered_branches": 1, "num_branches": 2}
    assert check_coverage.percent({"a": {"summary": summary}}) == 75.0
    assert check_coverage.percent({}) == 100.0


def test_floors_are_percentages_of_rooms_that_exist() -> None:
    floors = json.loads(check_coverage.FLOORS.read_text())
    assert set(floors) <= {"base", "operations", "rules", "all"}
    assert all(0 < floor <= 100 for floor in floors.values())
