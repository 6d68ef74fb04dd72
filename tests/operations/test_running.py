"""What an operation does from its start to its end, and what is told about it on the way."""

from __future__ import annotations

from typing import Any

import pytest
from tests.operations.conftest import LONG, House

from instantstart.base import problems
from instantstart.operations.record import OperationStatus, StageStatus


def test_an_operation_runs_its_stages_and_keeps_what_they_learned(house: House) -> None:
    operation = house.start("toy.build", "a", looks=2, note="hello")
    ended = house.until(operation, "succeeded")
    assert [stage.status for stage in ended.stages] == [StageStatus.done] * 5
    acts = house.world.acts()
    assert sorted(acts) == sorted(f"a/{name}" for name in ("ground", "left", "right", "door", "roof"))
    assert (acts[0], set(acts[1:3]), acts[3:]) == ("a/ground", {"a/left", "a/right"}, ["a/door", "a/roof"])
    assert ended.result == {"name": "a/roof", "made_after": ["door", "ground", "left", "right"]}
    assert ended.spec["note"] == "hello"
    assert ended.subject == "toy/a"
    assert ended.typical_seconds == 1 + 3 + 1 + 1
    assert ended.elapsed_seconds > 0
    assert ended.next_check_in_seconds == 0
    assert ended.problem is None
    assert ended.next_step is None
    assert house.engine.get(operation.id) == ended


def test_every_change_is_an_event_in_order(house: House) -> None:
    operation = house.start("toy.build", "a", looks=1)
    ended = house.until(operation, "succeeded")
    events = house.engine.events(operation.id)
    assert [event.seq for event in events] == list(range(1, ended.seq + 1))
    told = house.messages(operation)
    assert told[0] == "Asked by id-toy: Toy toy.build"
    assert told[1] == "Lay the ground"
    assert told[-1] == "All done"
    assert "a/ground is not ready" in told
    assert house.engine.events(operation.id, after=ended.seq) == []


def test_a_stage_that_the_spec_does_not_need_is_skipped(house: House) -> None:
    ended = house.until(house.start("toy.build", "a", without="door"), "succeeded")
    assert {stage.name: stage.status for stage in ended.stages}["door"] is StageStatus.skipped
    assert "a/door" not in house.world.acts()
    assert ended.typical_seconds == 5


def test_a_wish_that_is_already_true_is_skipped_and_still_tells_what_it_learned(house: House) -> None:
    ended = house.until(house.start("toy.already", "a"), "succeeded")
    assert ended.stages[0].status is StageStatus.skipped
    assert ended.result == {"attempt": 1, "caller": "id-toy"}
    assert "It was there" in house.messages(ended)


def test_waiting_tells_why_since_when_and_how_far(house: House) -> None:
    operation = house.start("toy.gate", "a")
    waiting = house.until(operation, "waiting")
    stage = waiting.stages[0]
    assert stage.status is StageStatus.waiting
    assert stage.because == "the gate is shut"
    assert stage.since is not None
    assert 1 <= waiting.next_check_in_seconds <= 30
    looked = house.world.marked("looked/a")
    again = house.engine.wait_until(operation.id, lambda _: house.world.marked("looked/a") > looked + 3, LONG)
    assert again.stages[0].since == stage.since
    assert again.seq == waiting.seq, "an unchanged reason is not told again"
    house.world.mark("open/a")
    house.until(operation, "succeeded")


def test_waiting_for_a_change_returns_at_the_change_or_at_the_timeout(house: House) -> None:
    operation = house.start("toy.gate", "a")
    waiting = house.until(operation, "waiting")
    assert house.engine.wait_for_change(operation.id, waiting.seq, 0.1).seq == waiting.seq
    house.world.mark("open/a")
    assert house.engine.wait_for_change(operation.id, waiting.seq, LONG).seq > waiting.seq
    ended = house.until(operation, "succeeded")
    assert house.engine.wait_for_change(operation.id, ended.seq, LONG) == ended


def test_a_stage_past_twice_its_typical_time_is_slow(house: House) -> None:
    operation = house.start("toy.sluggish", "a", seconds=0.05)
    seen = house.engine.wait_until(operation.id, lambda found: found.stages[0].slow, LONG)
    assert seen.slow
    assert seen.stages[0].slow
    assert not house.until(house.engine.cancel(operation.id, "id-toy"), "cancelled").slow


FAILS = ["invalid", "conflict", "not_found", "broken"]
BLOCKS = ["denied", "unauthenticated", "out_of_quota", "blocked"]
PASSES = ["no_capacity", "busy", "unreachable"]


@pytest.mark.parametrize("kind", FAILS + BLOCKS)
def test_a_problem_stops_by_its_kind_and_a_retry_goes_on(house: House, kind: str) -> None:
    house.world.mark("weather/a")
    operation = house.start("toy.build", "a", fail_stage="door", fail_kind=kind)
    status = "failed" if kind in FAILS else "blocked"
    stopped = house.until(operation, status)
    assert stopped.problem is not None
    assert (stopped.problem["code"], stopped.problem["kind"]) == (f"toy.{kind}", kind)
    assert {stage.name: stage.status for stage in stopped.stages}["door"] == status
    assert stopped.next_step is not None
    assert "etry" in stopped.next_step
    assert (stopped.ended_at is None) == (status == "blocked")
    house.world.clear("weather/a")
    again = house.engine.retry(operation.id, "id-person")
    assert again.id == operation.id
    ended = house.until(operation, "succeeded")
    assert {stage.name: stage.attempt for stage in ended.stages} == {"ground": 1, "left": 1, "right": 1, "door": 2, "roof": 1}
    assert len(house.world.acts()) == 5
    assert "Retried by id-person" in house.messages(operation)


@pytest.mark.parametrize("kind", PASSES)
def test_passing_weather_is_waited_out(house: House, kind: str) -> None:
    house.clock.rate = 200.0  # the pauses of 5, 10, 20 ... seconds pass quickly
    house.world.mark("weather/a")
    operation = house.start("toy.build", "a", fail_stage="ground", fail_kind=kind)
    waiting = house.until(operation, "waiting")
    assert waiting.problem is None
    assert waiting.stages[0].problem is not None
    assert waiting.stages[0].problem["code"] == f"toy.{kind}"
    house.world.clear("weather/a")
    ended = house.until(operation, "succeeded")
    assert ended.stages[0].problem is None


def test_weather_that_outlasts_the_deadline_blocks_with_its_own_problem(house: House) -> None:
    house.clock.rate = 200.0
    house.world.mark("weather/a")
    operation = house.start("toy.build", "a", fail_stage="ground", fail_kind="no_capacity")
    blocked = house.until(operation, "blocked")
    assert blocked.problem is not None
    assert blocked.problem["code"] == "toy.no_capacity"


def test_a_passed_deadline_blocks_and_a_retry_gives_a_fresh_one(house: House) -> None:
    operation = house.start("toy.impatient", "a", seconds=0.05)
    blocked = house.until(operation, "blocked")
    assert blocked.problem is not None
    assert blocked.problem["code"] == "operation.stage_overdue"
    assert "the gate is shut" in blocked.problem["detail"]
    house.engine.retry(operation.id, "id-person")
    house.until(operation, "running", "waiting")
    house.world.mark("open/a")
    ended = house.until(operation, "succeeded")
    assert ended.stages[0].attempt == 2


def test_a_crash_of_a_stage_is_our_fault_and_says_so(house: House) -> None:
    house.world.mark("weather/a")
    failed = house.until(house.start("toy.build", "a", fail_stage="roof", fail_kind="crash"), "failed")
    assert failed.problem is not None
    assert failed.problem["code"] == "operation.stage_crashed"
    assert failed.problem["evidence"]["exception"] == "RuntimeError"
    assert "out of cheese" in failed.problem["evidence"]["text"]
    assert "Traceback" not in str(failed.problem)


@pytest.mark.parametrize("workflow", ["toy.object", "toy.secret"])
def test_what_cannot_be_kept_is_refused_loudly(house: House, workflow: str) -> None:
    failed = house.until(house.start(workflow, "a"), "failed")
    assert failed.problem is not None
    assert failed.problem["code"] == "operation.stage_crashed"
    assert failed.stages[0].learned == {}


def test_one_wall_falls_and_the_other_comes_to_rest(house: House) -> None:
    """The gate waits ten minutes between looks; it is woken, and its place is kept for the retry."""
    house.world.mark("weather/a")
    operation = house.start("toy.walls", "a", seconds=600, fail_stage="wall", fail_kind="blocked")
    blocked = house.until(operation, "blocked")
    assert {stage.name: stage.status for stage in blocked.stages} == {"gate": "pending", "wall": "blocked"}
    house.world.clear("weather/a")
    house.world.mark("open/a")
    ended = house.until(house.engine.retry(operation.id, "id-person"), "succeeded", "blocked")
    assert {stage.name: stage.attempt for stage in ended.stages} == {"gate": 1, "wall": 2}


@pytest.mark.parametrize("given", [{}, {"name": 3}, {"name": "a", "extra": 1}, {"name": "a", "looks": "2"}])
def test_what_does_not_fit_is_refused_with_every_field(house: House, given: dict[str, Any]) -> None:
    with pytest.raises(problems.Invalid) as caught:
        house.engine.start("toy.build", given, caller="id-toy")
    assert caught.value.fields
    assert house.engine.list().items == ()


def test_what_is_not_there_is_not_found(house: House) -> None:
    with pytest.raises(problems.NotFound):
        house.engine.start("toy.none", {}, caller="id-toy")
    for ask in (house.engine.get, house.engine.events):
        with pytest.raises(problems.NotFound):
            ask("op-none")
    for move in (house.engine.retry, house.engine.cancel, house.engine.approve, house.engine.reject):
        with pytest.raises(problems.NotFound):
            move("op-none", "id-toy")


def test_the_list_pages_newest_first(house: House) -> None:
    started = [house.start("toy.already", f"n{index}") for index in range(5)]
    page = house.engine.list(limit=3)
    rest = house.engine.list(limit=3, cursor=page.cursor)
    assert [each.id for each in (*page.items, *rest.items)] == [each.id for each in reversed(started)]
    assert house.engine.declared()["toy.already"].title == "Toy toy.already"
    assert OperationStatus.succeeded in {house.until(each, "succeeded").status for each in started}
