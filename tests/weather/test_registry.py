"""Every workflow has its scenario, and what is asked in it can be derived: a new slice is covered by one line, or the build fails."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field
from tests.weather import derive, ledger, scenarios, selection
from tests.weather.profiles import PROFILES


def test_every_workflow_has_one_scenario_and_every_scenario_a_workflow() -> None:
    assert scenarios.faults_of_the_table() == []


@pytest.mark.parametrize("scenario", scenarios.SCENARIOS, ids=lambda each: each.workflow)
def test_what_is_asked_can_be_derived_without_a_world(scenario: scenarios.Scenario) -> None:
    if callable(scenario.asks):
        pytest.skip("what it asks is read from the world")
    place: Any = SimpleNamespace(place=lambda: {"tag": "demo", "region": "us-west-2", "zone": "usw2-az2", "instance_type": "ml.g5.8xlarge"})
    spec = scenario.spec(place)
    assert scenario.declared.subject(spec)


def test_the_page_is_drawn_from_the_ledger() -> None:
    drawn = ledger.page([(each.name, each.says) for each in PROFILES])
    assert ledger.PAGE.read_text() == drawn, "run make weather-report"


@pytest.mark.parametrize(
    ("point", "trial"),
    [
        ("throttle (journey)", "throttle"),
        ("storm (cluster.create)", "storm"),
        ("before eks:CreateAddon (stages going on: -)", "halt"),
        ("after, not recorded: eks:CreateAddon (stages going on: s3_csi)", "hold"),
        ("stage nodes begun", "begun"),
        ("random instants, seed 3", "random"),
        ("cut after 5 looks", "cut"),
        ("the same wish by two at once", "twice"),
        ("volume.remove at once", "contrary"),
        ("AWS itself killed four times", "AWS itself killed four times"),
    ],
)
def test_every_point_belongs_to_a_trial(point: str, trial: str) -> None:
    assert ledger.trial_of(point) == trial


def test_results_are_taken_together_by_workflow_and_trial() -> None:
    rows = [
        {
            "workflow": "a",
            "point": f"before x:{n}",
            "ended": "succeeded",
            "world": "equal" if n else "twice",
            "on": f"2026-11-3{n}",
            "commit": "c",
        }
        for n in range(2)
    ]
    (cell,) = ledger.cells(rows)
    assert (cell.points, cell.right, cell.on, cell.wrong) == (2, 1, "2026-11-31", ("before x:0: succeeded; twice",))


def test_the_journey_ends_with_the_deletion_and_begins_from_nothing() -> None:
    journey = scenarios.journey()
    assert journey[0].after == ()
    assert journey[-1].workflow == "cluster.delete"


class _Wanted(BaseModel):
    name: str = Field(examples=["a"])
    count: int = Field(ge=2)
    kind: Literal["one", "two"]
    loud: bool = False


def test_a_model_that_leaves_no_clue_is_named() -> None:
    class Bare(BaseModel):
        secret: str

    with pytest.raises(LookupError, match=r"Bare\.secret"):
        derive.minimal(Bare, {})
    assert derive.minimal(Bare, {"secret": "x"}) == Bare(secret="x")


def test_examples_bounds_and_choices_are_enough() -> None:
    assert derive.minimal(_Wanted, {}) == _Wanted(name="a", count=2, kind="one")


@given(st.data())
def test_drawn_specs_are_valid_and_keep_what_is_known(data: st.DataObject) -> None:
    spec = data.draw(derive.drawn(_Wanted, {"name": "b"}))
    assert isinstance(spec, _Wanted)
    assert spec.name == "b"


def test_each_slow_run_has_its_turn_and_a_turn_fits_its_minutes() -> None:
    tests = [f"tests/weather/test_crashes.py::test[{n}]" for n in range(40)]
    tests += [f"tests/weather/test_weather.py::test[journey-{n}]" for n in range(9)]
    for minutes in (1.0, 20.0, 10_000.0):
        parts = [selection.share(tests, turn, minutes) for turn in range(selection.turns(tests, minutes))]
        assert sorted(test for part in parts for test in part) == sorted(tests)
        assert all(parts)
        longest = max(selection.seconds(test) for test in tests)
        assert max(sum(map(selection.seconds, part)) for part in parts) <= minutes * 60 + longest
    assert selection.share(tests, 3, 20.0) == selection.share(tests, 3 + selection.turns(tests, 20.0), 20.0)


def test_of_the_courses_one_is_met_each_day() -> None:
    assert [selection.one(["b", "a"], turn) for turn in range(3)] == [{"a"}, {"b"}, {"a"}]
    assert selection.one([], 7) == set()
