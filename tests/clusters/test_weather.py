"""Bad weather over every AWS call: the pipeline ends right, and the account is the same, resource by resource, as without it."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.clusters.crank import Crank
from tests.clusters.worlds import SandboxProcess, inventory

from instantstart.base.outcome import Outcome

CHANGING = r"(?!.*:(Describe|List|Get|Head|Simulate)).*"


@pytest.fixture(scope="module")
def undisturbed() -> list[list[str]]:
    """The account after a run in fair weather; filled by the first test that needs it."""
    return []


@pytest.fixture
def same_world(undisturbed: list[list[str]], job: Any, sandbox: SandboxProcess) -> Any:
    """Compare the account with the undisturbed run's."""
    if not undisturbed:
        assert job.create().status == "succeeded"
        undisturbed.append(inventory(sandbox))
        sandbox.admin("reset")
        job.crank.room.store.clusters.delete(job.tag)

    def compare() -> None:
        sandbox.clear()
        sandbox.admin("stale_reads", seconds=0)
        assert inventory(sandbox) == undisturbed[0]

    return compare


def test_replies_lost_after_the_act_make_nothing_twice(job: Any, sandbox: SandboxProcess, same_world: Any) -> None:
    sandbox.fault(CHANGING, when="after", probability=0.5, count=None)
    made = job.create()
    assert made.status == "succeeded", (made.stopped_at, made.problem)
    same_world()


def test_throttling_errors_and_lost_replies_over_all_calls_end_in_the_same_account(
    job: Any, sandbox: SandboxProcess, same_world: Any
) -> None:
    sandbox.fault(".*", code="throttle", probability=0.2, count=None)
    sandbox.fault(".*", code="unavailable", probability=0.1, count=None)
    sandbox.fault(".*", when="after", probability=0.1, count=None)
    made = job.create()
    assert made.status == "succeeded", (made.stopped_at, made.problem)
    same_world()


def test_a_process_killed_between_act_and_record_at_every_tick_does_nothing_twice(
    job: Any, crank: Crank, sandbox: SandboxProcess, same_world: Any
) -> None:
    seen: set[str] = set()

    def lose_each_once(stage: str, outcome: Outcome) -> bool:
        key = f"{stage}/{outcome}"
        fresh = key not in seen
        seen.add(key)
        return fresh

    crank.discard = lose_each_once
    made = job.create()
    assert made.status == "succeeded", (made.stopped_at, made.problem)
    same_world()


@pytest.mark.slow
def test_reads_that_lag_twenty_seconds_behind_writes_make_nothing_twice(job: Any, sandbox: SandboxProcess, same_world: Any) -> None:
    sandbox.admin("stale_reads", seconds=20)
    made = job.create()
    assert made.status == "succeeded", (made.stopped_at, made.problem)
    same_world()


@pytest.mark.slow
def test_roles_that_are_visible_after_a_minute_are_waited_for(job: Any, sandbox: SandboxProcess, same_world: Any) -> None:
    sandbox.admin("settings", iam_delay=60.0)
    made = job.create()
    assert made.status == "succeeded", (made.stopped_at, made.problem)
    same_world()


@pytest.mark.slow
def test_deletion_in_the_same_weather_leaves_nothing(job: Any, sandbox: SandboxProcess) -> None:
    empty = inventory(sandbox)
    assert job.create().status == "succeeded"
    sandbox.fault(".*", code="throttle", probability=0.15, count=None)
    sandbox.fault(CHANGING, when="after", probability=0.3, count=None)
    gone = job.delete()
    assert gone.status == "succeeded", (gone.stopped_at, gone.problem)
    sandbox.clear()
    assert inventory(sandbox) == empty


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_weather_crashes_and_lagging_reads_together_end_in_the_same_account_and_in_an_empty_one(
    job: Any, crank: Crank, sandbox: SandboxProcess, same_world: Any, seed: int
) -> None:
    """Sieve's three: a crash between two writes, reads that lag, and what changes unseen between two looks."""
    chance = random.Random(seed)
    crank.discard = lambda stage, outcome: chance.random() < 0.25
    sandbox.admin("settings", seed=seed + 1, stale_reads=float(chance.choice([0, 5, 20])), iam_delay=float(chance.choice([5, 60])))
    sandbox.fault(".*", code="throttle", probability=0.1, count=None)
    sandbox.fault(".*", code="unavailable", probability=0.05, count=None)
    sandbox.fault(".*", when="after", probability=0.15, count=None)
    made = job.create()
    assert made.status == "succeeded", (made.stopped_at, made.problem)
    same_world()
    sandbox.fault(".*", code="throttle", probability=0.1, count=None)
    sandbox.fault(".*", when="after", probability=0.15, count=None)
    gone = job.delete()
    assert gone.status == "succeeded", (gone.stopped_at, gone.problem)
    sandbox.clear()
    left = [line for line in inventory(sandbox) if not line.startswith("role ") or "instantstart" in line]
    assert not left
