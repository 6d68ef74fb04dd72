"""The real process is killed (SIGKILL) at every point of every workflow: the world equals the undisturbed run's.

Points: before each change, between each change and its record, when each stage begins and ends, and at random instants. The table of a
workflow is ``build/crash/<workflow>.md``. Sieve's first class, intermediate state; the second and third are in profiles.py.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.aws import ledgers
from tests.weather.ground import Station
from tests.weather.runs import Runs
from tests.weather.scenarios import SCENARIOS, Scenario, scenario
from tests.weather.selection import MAIN, SHORT

#: one workflow that is short: each day
DAILY = (SHORT, "hold")
#: INSTANTSTART_KILL_RUNS=20: that many runs of the main job under random kills; two of each workflow otherwise
_MORE = tuple(str(n) for n in range(2, int(os.environ.get("INSTANTSTART_KILL_RUNS", "3"))))
#: workflows that only look
NO_CHANGE = frozenset({"cluster.verify"})
pytestmark = pytest.mark.timeout(2400)


def _each(chosen: tuple[Scenario, ...], when: tuple[str, ...], daily: tuple[str, str] = ("", "")) -> list[object]:
    """Pairs of a workflow and a point's kind; all but the daily one run with the slow tests."""
    return [
        pytest.param(each, kind, id=f"{each.workflow}-{kind}", marks=[] if (each.workflow, kind) == daily else [pytest.mark.slow])
        for each in chosen
        for kind in when
    ]


@pytest.fixture(scope="module")
def undisturbed() -> dict[str, list[str]]:
    """The world after each workflow without a kill; filled by the first test that needs it."""
    return {}


@pytest.fixture
def runs(station: Station, tmp_path: Path, undisturbed: dict[str, list[str]]) -> Iterator[Runs]:
    """No run of a test may crash the sandbox, or call what it does not know."""
    made = Runs(station, tmp_path, undisturbed)
    yield made
    made.stop()
    ledgers.check(station.sandbox)


@pytest.mark.parametrize(("what", "when"), _each(SCENARIOS, ("hold", "halt"), DAILY))
def test_killed_before_each_change_and_between_each_change_and_its_record(runs: Runs, what: Scenario, when: str) -> None:
    runs.expected(what)
    house = runs.house(what)
    operation, struck = house.kill_at_every_change(what, when)
    told = {"halt": "before", "hold": "after, not recorded:"}[when]
    points = [(f"{told} {each.call} (stages going on: {each.stages})", 1) for each in struck]
    assert what.workflow in NO_CHANGE or points, "nothing was changed, so nothing was proven"
    runs.judge(what, house, operation, points)


@pytest.mark.parametrize(("what", "when"), _each(SCENARIOS, ("begun", "ended")))
def test_killed_as_each_stage_begins_and_as_it_ends(runs: Runs, what: Scenario, when: str) -> None:
    runs.expected(what)
    house, operation = runs.begin(what)
    points = []
    for stage in what.declared.stages():
        if not house.reaches(operation, stage.name, ended=when == "ended"):
            break
        house.plane.kill_and_start()
        points.append((f"stage {stage.name} {when}", 1))
    runs.judge(what, house, operation, points)


@pytest.mark.parametrize(("what", "seed"), _each(SCENARIOS, tuple(str(n) for n in range(2))) + _each((scenario(MAIN),), _MORE))
def test_killed_at_random_instants(runs: Runs, what: Scenario, seed: str) -> None:
    runs.expected(what)
    house, operation = runs.begin(what)
    chance = random.Random(f"{what.workflow} {seed}")
    for _ in range(chance.randint(2, 5)):
        time.sleep(
            chance.uniform(0.02, 6.0 if what.workflow == MAIN else 1.5)
        )  # the instants are the test: an outside killer knows nothing
        house.plane.kill_and_start()
    runs.judge(what, house, operation, [(f"random instants, seed {seed}", house.plane.kills)])
