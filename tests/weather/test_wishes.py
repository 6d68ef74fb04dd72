"""Two clients at once on one thing, for every workflow: the same wish is one change; of contrary wishes one goes first, and none is mixed.

Contrary are a change and what ends its thing, and two changes that say something else. The other waits, is refused with a reason (and
the holder, where one holds), or overtakes; the world is one that the two, one after another, leave.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.aws import ledgers
from tests.weather import report
from tests.weather.ground import Station
from tests.weather.house import House, Wish, operation_of
from tests.weather.runs import Runs
from tests.weather.scenarios import SCENARIOS, Scenario

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
_ENDS = frozenset({"delete", "remove", "disable"})
#: what else a change may say: fields of a body, each with another value
_OTHERWISE: tuple[tuple[str, Any], ...] = (
    ("instance_count", 3),
    ("replicas", 3),
    ("workers", 3),
    ("labels", {"team": "rain"}),
    ("env", {"LEVEL": "warning"}),
)


@dataclass(frozen=True)
class Ended:
    """What became of a client's wish: the operation at its end, or the refusal."""

    status: int
    document: dict[str, Any]

    @property
    def accepted(self) -> bool:
        """Whether it was not refused at the door."""
        return self.status < 300

    def told(self) -> str:
        """In some words."""
        problem = self.document.get("problem") if self.accepted else self.document
        return " ".join(str(part) for part in (self.status, self.document.get("status"), problem["code"] if problem else "") if part)

    def faults(self, holders: set[str]) -> list[str]:
        """What is wrong with it: a failure that is none of the caller's, a refusal or a halt without reason, holder or next step."""
        problem = self.document.get("problem") if self.accepted else self.document
        if not problem:
            return []
        found = [f"{self.told()} says not why"] if not problem.get("detail") else []
        if not 400 <= problem["status"] < 500:
            found.append(f"{self.told()} is no refusal: {problem.get('detail')}")
        if problem["code"] == "operation.subject_busy" and not any(each in problem["detail"] for each in holders):
            found.append(f"{self.told()} names none of {sorted(holders)}: {problem['detail']}")
        if self.accepted and self.document["status"] == "blocked" and not problem.get("hint"):
            found.append(f"{self.told()} says no next step")
        return found


@pytest.fixture(scope="module")
def undisturbed() -> dict[str, list[str]]:
    """The world after each workflow, met alone; filled by the first test that needs it."""
    return {}


@pytest.fixture
def runs(station: Station, tmp_path: Path, undisturbed: dict[str, list[str]]) -> Iterator[Runs]:
    """No run of a test may crash the sandbox, or call what it does not know."""
    made = Runs(station, tmp_path, undisturbed)
    yield made
    made.stop()
    ledgers.check(station.sandbox)


def _at_once(house: House, *wishes: Wish) -> list[Ended]:
    """All sent at the same moment, and what became of each."""
    with ThreadPoolExecutor(len(wishes)) as pool:
        return _ended(house, list(pool.map(house.send, wishes)))


def _ended(house: House, answers: list[tuple[int, Any]]) -> list[Ended]:
    found = []
    for status, document in answers:
        operation = operation_of(document) if status < 300 else ""
        found.append(Ended(status, house.follow(operation) if operation else dict(document)))
    return found


def _judge(what: Scenario, point: str, ended: list[Ended], world: list[str], right: list[list[str]]) -> None:
    holders = {str(each.document.get("id")) for each in ended if each.accepted}
    faults = [fault for each in ended for fault in each.faults(holders)]
    verdict = "equal" if world in right else report.difference(world, right[0])
    told = ", ".join(each.told() for each in ended)
    report.add("crash", what.workflow, [report.Row(what.workflow, point, told, "; ".join(faults) or verdict)])
    assert not faults, faults
    assert verdict == "equal", (told, verdict)
    assert any(each.accepted for each in ended), told


@pytest.mark.parametrize("what", [pytest.param(each, id=each.workflow) for each in SCENARIOS])
def test_the_same_wish_of_two_clients_at_once_is_one_change(runs: Runs, what: Scenario) -> None:
    expected = runs.expected(what)
    house = runs.house(what)
    wish = house.wish(what)
    ended = _at_once(house, wish, wish)
    _judge(what, "the same wish by two at once", ended, house.ground.world_after(what), [expected])


def _contrary() -> list[tuple[Scenario, Scenario]]:
    """Each change with what ends its thing, where the one may follow the other."""
    found = []
    for each in SCENARIOS:
        for end in SCENARIOS:
            noun, verb = end.workflow.split(".")
            same = each.workflow.startswith(noun) and each.after[: len(end.after)] == end.after
            makes = bool(end.after) and end.after[-1] == each.workflow
            if verb in _ENDS and end is not each and not each.beside and (same or makes):
                found.append((each, end))
    return found


@pytest.mark.parametrize(("what", "end"), [pytest.param(a, b, id=f"{a.workflow}-{b.workflow}") for a, b in _contrary()])
def test_a_change_and_what_ends_its_thing_at_once_are_not_mixed(runs: Runs, what: Scenario, end: Scenario) -> None:
    """What makes the thing has begun its last stage before the end is asked for: earlier there is nothing to end."""
    house, operation = runs.begin(what)
    assert house.follow(operation)["status"] == "succeeded"
    alone = house.ground.world_after(what)
    after = house.follow(house.ask(end))
    assert after["status"] == "succeeded", after["problem"]
    gone = house.ground.world_after(what)
    house = runs.house(what)
    if end.after and end.after[-1] == what.workflow:
        first = house.send(house.wish(what))
        house.reaches(operation_of(first[1]), what.declared.stages()[-1].name, ended=False)
        ended = _ended(house, [first, house.send(house.wish(end))])
    else:
        ended = _at_once(house, house.wish(what), house.wish(end))
    _judge(what, f"{end.workflow} at once", ended, house.ground.world_after(what), [gone, alone])


def _changes() -> list[tuple[Scenario, str, Any]]:
    """Each change whose body may say something else, with what."""
    found = []
    for each in SCENARIOS:
        if each.workflow.rpartition(".")[2] in ("update", "scale"):
            fields = each.declared.spec.model_fields
            said = {name: value for name, value in _OTHERWISE if name in fields and (callable(each.asks) or name in each.asks)}
            found += [(each, name, value) for name, value in list(said.items())[:1]]
    return found


@pytest.mark.parametrize(("what", "name", "value"), [pytest.param(w, n, v, id=f"{w.workflow}-{n}") for w, n, v in _changes()])
def test_two_changes_that_say_something_else_at_once_are_not_mixed(runs: Runs, what: Scenario, name: str, value: Any) -> None:
    house, operation = runs.begin(what)
    assert house.follow(operation)["status"] == "succeeded"
    one = house.ground.world_after(what)
    (other,) = _ended(house, [house.send(house.wish(what, **{name: value}))])
    assert other.document.get("status", "succeeded") == "succeeded", other
    another = house.ground.world_after(what)
    assert one != another, "the other wish changes nothing, so nothing is proven"
    house = runs.house(what)
    ended = _at_once(house, house.wish(what), house.wish(what, **{name: value}))
    _judge(what, f"another {name} at once", ended, house.ground.world_after(what), [one, another])
