"""Who may begin what, and when: one operation a wish, one at a time a subject, in order; cancel and approval."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable

import pytest
from tests.operations import toys
from tests.operations.conftest import LONG, House, Program
from tests.operations.world import World

from instantstart.base import problems
from instantstart.operations.declare import check_declarations
from instantstart.operations.record import HOLDING, Operation, StageStatus
from instantstart.operations.ticking import left_behind
from instantstart.store.records import OperationFilter


def at_once(count: int, call: Callable[[int], object]) -> list[object]:
    """Call in ``count`` threads that start together; the answers, or the Problems raised."""
    barrier, answers = threading.Barrier(count), []

    def run(index: int) -> None:
        barrier.wait()
        try:
            answers.append(call(index))
        except problems.Problem as problem:
            answers.append(problem)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def test_the_same_wish_at_once_is_one_operation(house: House) -> None:
    answers = at_once(8, lambda _: house.engine.start("toy.gate", {"name": "a"}, caller="id-toy"))
    assert len({answer[0].id for answer in answers}) == 1  # type: ignore[index]
    assert sorted(answer[1] for answer in answers) == [False] * 7 + [True]  # type: ignore[index]
    assert len(house.engine.list().items) == 1


def test_a_wish_that_has_ended_may_be_wished_again(house: House) -> None:
    first = house.until(house.start("toy.build", "a"), "succeeded")
    second = house.until(house.start("toy.build", "a"), "succeeded")
    assert first.id != second.id
    assert len(house.world.acts()) == 5, "what is there already is not made again"
    assert [each.id for each in house.engine.list().items] == [second.id, first.id]


def test_another_wish_on_a_busy_subject_is_refused_by_name(house: House) -> None:
    holder = house.start("toy.gate", "a")
    for workflow, note in (("toy.gate", "other"), ("toy.build", "")):
        with pytest.raises(problems.Conflict) as caught:
            house.engine.start(workflow, {"name": "a", "note": note}, caller="id-toy")
        assert caught.value.code == "operation.subject_busy"
        assert holder.id in caught.value.detail
        assert caught.value.evidence["operation_id"] == holder.id
    house.until(house.start("toy.build", "b"), "succeeded")
    house.world.mark("open/a")
    house.until(holder, "succeeded")
    house.until(house.start("toy.build", "a"), "succeeded")


def test_a_blocked_operation_keeps_its_place(house: House) -> None:
    house.world.mark("weather/a")
    blocked = house.until(house.start("toy.build", "a", fail_stage="ground", fail_kind="blocked"), "blocked")
    behind = house.start("toy.crowd", "a")
    with pytest.raises(problems.Conflict):
        house.start("toy.gate", "a")
    assert house.engine.get(behind.id).status == "queued"
    assert house.until(house.engine.cancel(blocked.id, "id-person"), "cancelled").next_step is None
    house.until(behind, "succeeded")


def test_asked_again_a_blocked_operation_goes_on_instead_of_telling_what_was(house: House) -> None:
    house.world.mark("weather/a")
    asked = {"name": "a", "fail_stage": "ground", "fail_kind": "blocked"}
    blocked = house.until(house.start("toy.build", **asked), "blocked")
    house.world.clear("weather/a")
    again, created = house.engine.start("toy.build", asked, caller="id-person")
    assert (again.id, created, again.problem) == (blocked.id, False, None)
    assert house.until(again, "succeeded").stages[0].attempt == 2
    assert "Retried by id-person" in house.messages(blocked)


@pytest.mark.parametrize("stands", ["blocked", "waiting", "queued"])
def test_what_is_overtaken_is_cancelled_first(idle_house: House, stands: str) -> None:
    """A deletion is not held by the creation that does not come to its end."""
    house = idle_house
    if stands != "queued":
        house.engine.launch()
    house.world.mark("weather/a")
    first = house.start("toy.build", "a", fail_stage="ground", fail_kind="blocked") if stands == "blocked" else house.start("toy.gate", "a")
    house.until(first, stands)
    assert [each.id for each in house.engine.overtaken("toy.raze", {"name": "a"})] == [first.id]
    assert house.engine.overtaken("toy.raze", {"name": "b"}) == house.engine.overtaken("toy.crowd", {"name": "a"}) == []
    raze, created = house.engine.start("toy.raze", {"name": "a"}, caller="id-person")
    assert created
    if stands == "queued":
        assert house.engine.get(first.id).status == "cancelled"
        house.engine.launch()
    house.until(raze, "succeeded")
    ended, began = house.engine.get(first.id), house.engine.get(raze.id).started_at
    assert ended.status == "cancelled"
    assert ended.ended_at is not None
    assert began is not None
    assert ended.ended_at <= began


def test_what_waits_for_a_yes_overtakes_nothing_before_it(house: House) -> None:
    first = house.until(house.start("toy.gate", "a"), "waiting")
    raze = house.engine.start("toy.raze", {"name": "a"}, caller="id-agent", approval=True)[0]
    assert house.engine.get(first.id).status == "waiting"
    house.engine.approve(raze.id, "id-person")
    house.until(raze, "succeeded")
    assert house.engine.get(first.id).status == "cancelled"


def test_only_what_is_declared_is_overtaken(house: House) -> None:
    house.until(house.start("toy.sluggish", "a"), "waiting")
    with pytest.raises(problems.Conflict) as caught:
        house.start("toy.raze", "a")
    assert caught.value.code == "operation.subject_busy"
    with pytest.raises(ValueError, match="overtakes what is not declared"):
        check_declarations([dataclasses.replace(toys.RAZE, overtakes=frozenset({"toy.nothing"}))])


def test_what_may_queue_runs_one_at_a_time_and_in_order(house: House) -> None:
    started = [house.start("toy.crowd", "a", note=str(index), seconds=0.01) for index in range(12)]
    for operation in started:
        house.until(operation, "succeeded")
    edges = house.world.edges()
    assert edges == [(f"a{index}", edge) for index in range(12) for edge in ("begin", "end")]


def test_a_key_repeats_the_answer_and_refuses_another_body(house: House) -> None:
    def start(name: str, key: str, caller: str = "id-a", request_hash: str | None = None) -> tuple[Operation, bool]:
        return house.engine.start("toy.already", {"name": name}, caller=caller, key=key, request_hash=request_hash)

    first, created = start("a", "k1")
    assert created
    house.until(first, "succeeded")
    again, created = start("a", "k1")
    assert (again.id, created) == (first.id, False)
    other, created = start("a", "k1", caller="id-b")
    assert created, "another caller's key is another key"
    assert other.id != first.id
    with pytest.raises(problems.Conflict) as caught:
        start("b", "k1")
    assert caught.value.code == "operation.key_reused"
    assert first.id in caught.value.detail
    start("a", "k2", request_hash="x")
    with pytest.raises(problems.Conflict):
        start("a", "k2", request_hash="y")


def test_one_key_at_once_is_one_operation_whatever_the_body(house: House) -> None:
    answers = at_once(8, lambda index: house.engine.start("toy.gate", {"name": f"n{index % 2}"}, caller="id-a", key="k"))
    started = {answer[0].id for answer in answers if isinstance(answer, tuple)}
    refused = [answer for answer in answers if isinstance(answer, problems.Conflict)]
    assert len(started) == 1
    assert len(refused) == 4
    assert len(house.engine.list().items) == 1


def test_a_key_joins_the_operation_that_is_active_already(house: House) -> None:
    first = house.start("toy.gate", "a")
    joined, created = house.engine.start("toy.gate", {"name": "a"}, caller="id-a", key="k")
    assert (joined.id, created) == (first.id, False)
    house.world.mark("open/a")
    house.until(first, "succeeded")
    assert house.engine.start("toy.gate", {"name": "a"}, caller="id-a", key="k")[0].id == first.id


def test_a_refused_start_leaves_nothing(house: House) -> None:
    house.start("toy.gate", "a")
    with pytest.raises(problems.Conflict):
        house.engine.start("toy.build", {"name": "a"}, caller="id-a", key="k")
    assert len(house.engine.list().items) == 1
    assert house.store.operations.find_repeat("k", "id-a") is None


def test_a_cancel_takes_effect_although_the_wait_is_long(house: House) -> None:
    operation = house.start("toy.gate", "a", seconds=600)
    house.until(operation, "waiting")
    house.engine.cancel(operation.id, "id-person")
    ended = house.until(operation, "cancelled")
    assert ended.stages[0].status is StageStatus.pending
    assert ended.ended_at is not None
    assert not ended.cancelling
    assert "Cancelled by id-person" in house.messages(operation)
    assert house.engine.cancel(operation.id, "id-person").seq == ended.seq, "again: no change"
    house.world.mark("open/a")
    house.until(house.engine.retry(operation.id, "id-person"), "succeeded")


def test_a_cancel_says_what_it_leaves_behind_and_a_retry_forgets_it(house: House) -> None:
    operation = house.start("toy.leaving", "a", seconds=600)
    house.until(operation, "waiting")
    house.engine.cancel(operation.id, "id-person")
    ended = house.until(operation, "cancelled")
    assert ended.problem is not None
    assert ended.problem["code"] == "toy.left"
    assert ended.next_step == "Sweep up."
    house.world.mark("open/a")
    done = house.until(house.engine.retry(operation.id, "id-person"), "succeeded")
    assert (done.problem, done.next_step) == (None, None)


def test_a_spec_that_cannot_be_read_any_more_leaves_nothing_to_tell(house: House) -> None:
    operation = house.start("toy.leaving", "a", seconds=600)
    row = house.store.operations.get(operation.id)
    stages = house.store.operations.stages(operation.id)
    assert left_behind(toys.LEAVING, dataclasses.replace(row, spec={"nobody": 1}), stages) is None
    assert left_behind(toys.GATE, row, stages) is None


def test_what_never_began_leaves_nothing(house: House) -> None:
    holder = house.start("toy.gate", "a", seconds=600)
    house.until(holder, "waiting")
    behind = house.start("toy.queued_leaving", "a")
    assert house.until(house.engine.cancel(behind.id, "id-person"), "cancelled").problem is None


def test_an_act_in_flight_is_finished_and_recorded_when_cancelled(house: House) -> None:
    operation = house.start("toy.slow_act", "a")
    house.engine.wait_until(operation.id, lambda _: bool(house.world.edges()), LONG)
    cancelling = house.engine.cancel(operation.id, "id-person")
    assert cancelling.status == "running"
    assert cancelling.cancelling
    assert house.engine.cancel(operation.id, "id-person").cancelling
    house.world.mark("open/a")
    ended = house.until(operation, "cancelled")
    assert house.world.edges() == [("a", "begin"), ("a", "end")]
    assert ended.stages[0].status is StageStatus.done
    assert ended.stages[0].learned == {"acted": True}
    assert house.world.acts() == []
    house.until(house.engine.retry(operation.id, "id-person"), "succeeded")
    assert house.world.edges() == [("a", "begin"), ("a", "end")], "the act is not done again"


def test_what_is_queued_or_blocked_is_cancelled_at_once(house: House) -> None:
    holder = house.start("toy.gate", "a")
    queued = house.start("toy.crowd", "a")
    assert queued.status == "queued"
    assert house.engine.cancel(queued.id, "id-person").status == "cancelled"
    house.world.mark("open/a")
    ended = house.until(holder, "succeeded")
    with pytest.raises(problems.Conflict) as caught:
        house.engine.cancel(ended.id, "id-person")
    assert caught.value.code == "operation.ended"
    assert house.world.edges() == []


def test_only_what_stopped_may_be_retried_and_only_on_a_free_subject(house: House) -> None:
    house.world.mark("weather/a")
    failed = house.until(house.start("toy.build", "a", fail_stage="ground", fail_kind="broken"), "failed")
    holder = house.start("toy.gate", "a")
    for operation, code in ((failed, "operation.subject_busy"), (holder, "operation.not_retryable")):
        with pytest.raises(problems.Conflict) as caught:
            house.engine.retry(operation.id, "id-person")
        assert caught.value.code == code
    house.world.mark("open/a")
    house.until(holder, "succeeded")
    house.world.clear("weather/a")
    house.until(house.engine.retry(failed.id, "id-person"), "succeeded")


def test_retries_at_once_are_one(house: House) -> None:
    house.world.mark("weather/a")
    failed = house.until(house.start("toy.build", "a", fail_stage="ground", fail_kind="broken"), "failed")
    house.world.clear("weather/a")
    answers = at_once(5, lambda _: house.engine.retry(failed.id, "id-person"))
    assert sum(isinstance(answer, Operation) for answer in answers) == 1
    assert house.until(failed, "succeeded").stages[0].attempt == 2


def test_a_person_approves_before_anything_is_done(house: House) -> None:
    operation, created = house.engine.start("toy.build", {"name": "a"}, caller="id-agent", approval=True)
    assert created
    assert operation.status == "awaiting_approval"
    assert operation.status not in HOLDING
    assert operation.next_step == "A person approves or rejects it."
    assert house.engine.start("toy.build", {"name": "a"}, caller="id-agent", approval=True)[0].id == operation.id
    house.until(house.start("toy.crowd", "a"), "succeeded")
    assert house.world.acts() == []
    house.engine.approve(operation.id, "id-person")
    house.until(operation, "succeeded")
    assert "Approved by id-person" in house.messages(operation)
    with pytest.raises(problems.Conflict) as caught:
        house.engine.approve(operation.id, "id-person")
    assert caught.value.code == "operation.not_awaiting"


@pytest.mark.parametrize("how", ["reject", "cancel"])
def test_what_was_never_approved_cannot_be_retried_into_being(house: House, how: str) -> None:
    operation, _ = house.engine.start("toy.build", {"name": "a"}, caller="id-agent", approval=True)
    assert getattr(house.engine, how)(operation.id, "id-person").status == "cancelled"
    with pytest.raises(problems.Conflict) as caught:
        house.engine.retry(operation.id, "id-agent")
    assert caught.value.code == "operation.not_approved"
    assert house.world.acts() == []


def test_a_retry_does_not_double_a_wish_that_awaits_approval(house: House) -> None:
    house.world.mark("weather/a")
    spec = {"name": "a", "fail_stage": "ground", "fail_kind": "broken"}
    failed = house.until(house.engine.start("toy.build", spec, caller="id-a")[0], "failed")
    house.engine.start("toy.build", spec, caller="id-agent", approval=True)
    with pytest.raises(problems.Conflict):
        house.engine.retry(failed.id, "id-a")


def test_a_start_before_the_launch_runs_after_it(idle_house: House) -> None:
    operation = idle_house.start("toy.build", "a")
    assert operation.status == "queued"
    assert operation.next_check_in_seconds == 1
    idle_house.engine.launch()
    idle_house.until(operation, "succeeded")
    assert idle_house.engine.list(OperationFilter(statuses=("succeeded",), cluster=None)).items[0].id == operation.id


def test_two_processes_that_wish_the_same_at_once_make_one_operation(
    database_url: str | None, program: Callable[..., Program], world: World, house: House
) -> None:
    if database_url is None:
        pytest.skip("an embedded folder belongs to one process")
    go = world.path.with_name("go")
    wish = ["toy.gate", {"name": "a"}]
    programs = [program(replica=name, start=[wish] * 3, linger=True, go=str(go)) for name in ("two", "three", "four")]
    for each in programs:
        assert each.line() == {"ready": True}
    go.touch()
    lines = [each.line() for each in programs for _ in range(3)]
    assert len({line["id"] for line in lines}) == 1
    assert sum(line["created"] for line in lines) == 1
    world.mark("open/a")
    house.until(house.engine.get(lines[0]["id"]), "succeeded")
    assert world.acts() == ["a/behind"]
