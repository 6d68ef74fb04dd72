"""Deletion after each partial state: whatever was cut short, the account is empty afterwards, or what is in the way is named.

A cut is a cancel between two looks: after each stage of every workflow, and at looks in between.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.aws import ledgers
from tests.clusters import holdings
from tests.clusters.crank import Turned
from tests.weather import report
from tests.weather.ground import Ground, Station
from tests.weather.scenarios import SCENARIOS, Scenario, scenario

#: workflows that delete, and those whose work is not the cluster's (a purchase stays; an imported cluster is another's)
_APART = frozenset({"cluster.delete", "training_plan.buy", "cluster.import"})


#: each day; the rest runs with the slow ones
DAILY = {("cluster.create", "hyperpod")}
CUT: list[tuple[Scenario, str]] = [
    (each, stage.name) for each in SCENARIOS if each.workflow not in _APART for stage in each.declared.stages() if stage.when is None
]


@pytest.fixture
def known_calls(station: Station) -> Iterator[None]:
    """No call of a test may crash the sandbox, or be one that it does not know."""
    yield
    ledgers.check(station.sandbox)


@pytest.fixture(scope="module")
def emptiness() -> list[list[str]]:
    """An empty account; filled by the first test that needs it."""
    return []


def _delete(ground: Ground, empty: list[str], what: Scenario, point: str) -> None:
    if what.tidy is not None:
        what.tidy(ground)
    gone: Turned = ground.run(scenario("cluster.delete"))
    verdict = report.difference([line for line in ground.world() if not line.startswith(holdings.OUTLIVES)], empty)
    report.add("partial", what.workflow, [report.Row(what.workflow, point, gone.status, verdict)])
    assert gone.status == "succeeded", (gone.stopped_at, gone.problem and gone.problem.document())
    assert verdict == "equal"


def _empty(station: Station, emptiness: list[list[str]]) -> list[str]:
    if not emptiness:
        emptiness.append(station.empty().world())
    return emptiness[0]


def _laid_out(station: Station, what: Scenario) -> Ground:
    if reason := what.lacks():
        pytest.skip(reason)
    return station.ground(what.after) if what.after else station.empty()


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("what", "stage"),
    [pytest.param(w, s, id=f"{w.workflow}-{s}", marks=[] if (w.workflow, s) in DAILY else pytest.mark.slow) for w, s in CUT],
)
def test_cut_after_a_stage(known_calls: None, station: Station, emptiness: list[list[str]], what: Scenario, stage: str) -> None:
    empty = _empty(station, emptiness)
    ground = _laid_out(station, what)
    cut = ground.run(what, until=stage)
    assert cut.stages[stage].done, (cut.stopped_at, cut.problem)
    _delete(ground, empty, what, f"cut after {stage}")


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("looks", range(5, 105, 9))
def test_a_creation_cut_between_any_two_looks(known_calls: None, station: Station, emptiness: list[list[str]], looks: int) -> None:
    empty, what = _empty(station, emptiness), scenario("cluster.create")
    ground = _laid_out(station, what)
    begun = ground.run(what, until="account")
    ground.crank.turn(begun, ticks=looks)
    _delete(ground, empty, what, f"cut after {looks} looks")
