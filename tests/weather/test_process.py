"""The real process in weather: AWS killed under it, everything at once with a kill on top, watches cut while the console looks on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.aws import ledgers
from tests.weather import profiles, report
from tests.weather.ground import Station
from tests.weather.house import House
from tests.weather.scenarios import scenario

RATE = 60.0
WHAT = scenario("cluster.create")
#: on a slow machine AWS comes back later than a stage may wait (virtual minutes are seconds of the wall): then a person retries
AWAY = frozenset({"aws.endpoint_unreachable"})
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def undisturbed() -> list[list[str]]:
    """The world of the undisturbed run; filled by the first test that needs it."""
    return []


@pytest.fixture
def houses(station: Station, tmp_path: Path, undisturbed: list[list[str]]) -> Iterator[Callable[[], House]]:
    """Fresh control planes on an empty account each."""
    made: list[House] = []

    def build() -> House:
        for each in made:
            each.plane.stop()
        made.append(House(tmp_path / f"house{len(made)}", station.ground((), RATE)))
        made[-1].start()
        return made[-1]

    if not undisturbed:
        house = build()
        assert house.follow(house.ask(WHAT))["status"] == "succeeded"
        undisturbed.append(house.ground.world())
    yield build
    for each in made:
        each.plane.stop()
    ledgers.check(station.sandbox)


def _judge(house: House, operation: str, point: str, undisturbed: list[list[str]]) -> None:
    seen = house.follow(operation, AWAY)
    house.ground.sandbox.clear()
    verdict = report.difference(house.ground.world(), undisturbed[0])
    ended = seen["status"] if seen["status"] == "succeeded" else f"{seen['status']}: {seen['problem']}"
    report.add("crash", "weather of the process", [report.Row(WHAT.workflow, point, ended, verdict, house.plane.kills)])
    assert seen["status"] == "succeeded", seen["problem"]
    assert verdict == "equal"


def test_aws_itself_is_killed_four_times_and_the_operation_goes_on(houses: Callable[[], House], undisturbed: list[list[str]]) -> None:
    house = houses()
    operation = house.ask(WHAT)
    for stage in ("stack", "bundles", "hyperpod", "nodes"):
        house.reaches(operation, stage, ended=False)
        house.ground.sandbox.lose_machine()
        house.ground.sandbox.start()
    _judge(house, operation, "AWS itself killed four times", undisturbed)


def test_everything_at_once_and_a_kill_on_top(houses: Callable[[], House], undisturbed: list[list[str]]) -> None:
    house = houses()
    next(each for each in profiles.PROFILES if each.name == "storm").begin(house.ground)
    operation = house.ask(WHAT)
    house.reaches(operation, "subnet", ended=False)
    house.plane.kill_and_start()
    _judge(house, operation, "storm, killed as subnet begins", undisturbed)


def test_watches_cut_each_five_seconds_while_somebody_looks_at_the_nodes(houses: Callable[[], House], undisturbed: list[list[str]]) -> None:
    house = houses()
    house.ground.sandbox.admin("settings", watch_cut_seconds=5.0)
    operation = house.ask(WHAT)
    house.reaches(operation, "join", ended=True)
    house.until(operation, lambda seen: bool(house.plane.call("GET", "/clusters/demo/nodes")["items"]) or seen["status"] == "succeeded")
    _judge(house, operation, "watches cut each five seconds", undisturbed)
    assert [node["ready"] for node in house.plane.call("GET", "/clusters/demo/nodes")["items"]] == [True]
