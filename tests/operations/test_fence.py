"""An execution that was overtaken may not act; declarations that contradict themselves are refused; weather is waited out politely."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.operations import toys
from tests.operations.conftest import House

from instantstart.base import problems
from instantstart.base.clock import Clock
from instantstart.operations.declare import Stage, Workflow, check_declarations
from instantstart.operations.durable import Standing
from instantstart.operations.engine import Engine
from instantstart.operations.reactions import LONGEST_PAUSE_SECONDS, next_step, pause_seconds
from instantstart.operations.ticking import Tick, settle, succeed


def test_an_overtaken_execution_neither_looks_nor_writes(house: House) -> None:
    operation = house.start("toy.gate", "a", seconds=600)
    waiting = house.until(operation, "waiting")
    looked = house.world.marked("looked/a")
    store, journal = house.store, house.engine._journal
    assert house.engine._ticker.tick(operation.id, 0, "gate", 0) == Tick()
    assert not settle(store, journal, operation.id, 0, ("gate",))
    succeed(store, journal, operation.id, 0)
    assert house.world.marked("looked/a") == looked
    assert house.engine.get(operation.id).seq == waiting.seq


def test_what_has_come_to_rest_is_not_mended(house: House) -> None:
    ended = house.until(house.start("toy.already", "a"), "succeeded")
    row = house.store.operations.get(ended.id)
    keeper = house.engine._keeper
    keeper._begin_anew(row, Standing("ERROR", "one"))
    keeper._give_up(row)
    keeper._mend(row, Standing("SUCCESS", "one"))
    house.engine._durable._script.begin(ended.id, row.execution)
    assert house.engine.get(ended.id) == ended
    assert not house.engine._journal.begin(row, row.created_at), "another replica took the turn"


def test_a_workflow_that_is_gone_does_not_end_what_another_execution_runs(house: House) -> None:
    operation = house.start("toy.gate", "a", seconds=600)
    house.until(operation, "waiting")
    workflow = house.engine._workflows.pop("toy.gate")
    assert house.engine._durable._script.begin(operation.id, 0) == ()
    house.engine._workflows["toy.gate"] = workflow
    assert house.engine.get(operation.id).status == "waiting"


def test_a_turn_that_somebody_else_took_is_not_taken_again(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(house.engine._journal, "begin", lambda *_: False)
    operation = house.start("toy.already", "a")
    assert operation.status == "queued"
    assert house.engine._desk.next_turn("toy/a") is None
    assert house.engine._desk.next_turn("toy/none") is None
    monkeypatch.undo()
    house.until(operation, "succeeded")


def test_a_launch_that_fails_gives_the_folder_back(idle_house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("no thread left")

    monkeypatch.setattr(idle_house.engine._durable, "launch", fail)
    with pytest.raises(OSError, match="no thread"):
        idle_house.engine.launch()
    monkeypatch.undo()
    idle_house.restart()
    idle_house.until(idle_house.start("toy.already", "a"), "succeeded")


def test_two_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two workflows"):
        check_declarations([toys.BUILD, toys.BUILD])
    twice = Stage("one", toys.build, "One")
    for steps in ((), (twice, twice)):
        with pytest.raises(ValueError, match="no stage, or two"):
            check_declarations([Workflow("toy.twice", "Toy", toys.Build, lambda _: "toy", steps)])


def test_an_engine_refuses_bad_declarations(idle_house: House) -> None:
    with pytest.raises(ValueError, match="two workflows"):
        Engine(idle_house.store, Clock(), idle_house.settings, [toys.BUILD, toys.BUILD])


@given(st.integers(min_value=1, max_value=10_000))
def test_pauses_grow_and_never_pass_a_minute(misses: int) -> None:
    problem = problems.Unreachable("toy.x", "No answer.")
    assert 5 <= pause_seconds(misses, problem) <= pause_seconds(misses + 1, problem) <= LONGEST_PAUSE_SECONDS


def test_the_first_pauses() -> None:
    problem = problems.Unreachable("toy.x", "No answer.")
    assert [pause_seconds(misses, problem) for misses in range(1, 7)] == [5, 10, 20, 40, 60, 60]
    later = problems.Busy("toy.x", "Come back.")
    later.retry_after_seconds = 90
    assert pause_seconds(1, later) == 90


def test_the_next_step_is_a_sentence_with_a_verb() -> None:
    assert next_step("running", None) is None
    assert next_step("failed", None) == "Mend the cause. Then retry the operation; it goes on where it stopped."
    advised = problems.Denied("toy.x", "No.", hint="Grant it.")
    assert next_step("blocked", advised) == "Grant it. Then retry the operation; it goes on where it stopped."
    asked = problems.Invalid("job.too_large", "x", hint="Ask for fewer.")
    assert next_step("failed", asked) == "Ask for fewer. Then retry the operation, or ask anew with other values."
    told = problems.Denied("toy.x", "No.", hint="Look, then retry the operation.")
    assert next_step("blocked", told) == "Look, then retry the operation."


def test_what_was_mended_a_moment_ago_is_left_alone_for_a_while(house: House) -> None:
    keeper = house.engine._keeper
    assert keeper._may_mend("one")
    assert not keeper._may_mend("one")
    assert keeper._may_mend("another")


def test_a_cancel_that_another_replica_wrote_takes_effect_here(house: House) -> None:
    operation = house.start("toy.gate", "a", seconds=600)
    house.until(operation, "waiting")
    house.store.operations.update(operation.id, cancel_by="id-elsewhere")
    house.engine._keeper.pass_cancels()
    assert "Cancelled by id-elsewhere" in house.messages(house.until(operation, "cancelled"))


def test_a_loop_that_has_ended_is_not_woken(house: House) -> None:
    house.engine.shutdown()
    house.engine._durable.wake("anything")


def test_a_spec_may_be_given_as_its_model(house: House) -> None:
    given = house.engine.start("toy.already", toys.Build(name="a"), caller="id-toy")[0]
    assert house.until(given, "succeeded").spec["name"] == "a"
