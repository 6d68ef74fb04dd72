"""Runs of one workflow by the real process, each on its own world, held against the undisturbed one."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.weather import report
from tests.weather.ground import Station
from tests.weather.house import House
from tests.weather.scenarios import Scenario

#: one of each, however often the process died
SINGLE = ("vpc ", "eks ", "hyperpod ", "stack ", "nat-gateway ", "oidc ", "internet-gateway ")


class Runs:
    """Runs of one workflow, each by a fresh control plane on the world that it needs."""

    def __init__(self, station: Station, folder: Path, undisturbed: dict[str, list[str]]) -> None:
        self.station, self.folder, self.undisturbed = station, folder, undisturbed
        self.houses: list[House] = []

    def house(self, what: Scenario) -> House:
        """The world laid out, and a control plane on it."""
        if reason := what.lacks():
            pytest.skip(reason)
        self.stop()
        self.houses.append(House(self.folder / f"house{len(self.houses)}", self.station.ground(what.after, what.rate)))
        if what.before is not None:
            what.before(self.houses[-1].ground)
        self.houses[-1].start()
        return self.houses[-1]

    def stop(self) -> None:
        """End every control plane."""
        for each in self.houses:
            each.plane.stop()

    def begin(self, what: Scenario) -> tuple[House, str]:
        """The same, and the workflow is asked for."""
        house = self.house(what)
        return house, house.ask(what)

    def expected(self, what: Scenario) -> list[str]:
        """The undisturbed world."""
        if what.workflow not in self.undisturbed:
            house, operation = self.begin(what)
            seen = house.follow(operation)
            assert seen["status"] == "succeeded", seen["problem"]
            self.undisturbed[what.workflow] = house.ground.world_after(what)
        return self.undisturbed[what.workflow]

    def judge(self, what: Scenario, house: House, operation: str, points: list[tuple[str, int]]) -> None:
        """Follow to the end, compare, write the rows, one for each point at which it was killed."""
        seen = house.follow(operation)
        if seen["problem"] and seen["problem"]["code"] in what.anew:  # its hint: cancel and ask anew
            house.plane.call("POST", f"/operations/{operation}:cancel")
            house.until(operation, lambda now: now["status"] == "cancelled")
            seen = house.follow(house.ask(what))
        world = house.ground.world_after(what)
        verdict = report.difference(world, self.expected(what))
        ended = seen["status"] if seen["status"] == "succeeded" else f"{seen['status']}: {seen['problem']}"
        report.add("crash", what.workflow, [report.Row(what.workflow, point, ended, verdict, kills) for point, kills in points])
        assert seen["status"] == "succeeded", seen["problem"]
        assert verdict == "equal", verdict
        for kind in SINGLE:
            assert sum(line.startswith(kind) for line in world) <= sum(line.startswith(kind) for line in self.expected(what)), kind
