"""Stops and starts: what was in flight goes on, what is owned cannot be taken, what has changed is understood."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import sqlite3
import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from tests.operations import toys
from tests.operations.conftest import LONG, House, Program
from tests.operations.world import World

from instantstart.base import problems
from instantstart.operations.declare import Stage, Together, Workflow
from instantstart.operations.durable import Standing
from instantstart.store.lease import ReplicaLease
from instantstart.store.records import OperationFilter

LEASES = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 AND granted"
LOST = "The engine lost this operation and goes on where it stood"


def test_a_clean_restart_goes_on_where_it_was(house: House) -> None:
    operation = house.start("toy.gate", "a", seconds=600)
    waiting = house.until(operation, "waiting")
    engine = house.restart()
    house.world.mark("open/a")
    ended = house.until(operation, "succeeded")
    assert ended.stages[0].attempt == 1
    assert ended.stages[0].since != waiting.stages[0].since
    assert engine.get(operation.id).started_at == waiting.started_at


def test_the_deadline_counts_from_the_first_start_also_while_the_program_is_down(house: House) -> None:
    operation = house.start("toy.impatient", "a", seconds=0.3)
    started = house.until(operation, "waiting")
    house.engine.shutdown()
    time.sleep(0.7)
    house.restart()
    blocked = house.until(operation, "blocked")
    assert blocked.stages[0].elapsed_seconds > 0.6
    assert blocked.started_at == started.started_at


def test_a_look_in_flight_is_finished_before_a_clean_stop(house: House) -> None:
    operation = house.start("toy.slow_act", "a")
    house.engine.wait_until(operation.id, lambda _: bool(house.world.edges()), LONG)
    house.world.mark("open/a")
    house.restart()
    house.until(operation, "succeeded")
    assert house.world.edges() == [("a", "begin"), ("a", "end")]


def test_both_embedded_files_are_in_the_data_folder_and_in_wal_mode(database_url: str | None, house: House) -> None:
    if database_url is not None:
        pytest.skip("SQLite only")
    house.until(house.start("toy.already", "a"), "succeeded")
    for name in ("instantstart.sqlite", "engine.sqlite"):
        with contextlib.closing(sqlite3.connect(house.settings.data_dir / name)) as connection:
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_shutdown_twice_or_before_a_launch_changes_nothing(idle_house: House) -> None:
    idle_house.engine.shutdown()
    idle_house.engine.launch()
    idle_house.engine.shutdown()
    idle_house.engine.shutdown()


def test_the_queue_keeps_its_order_over_a_restart(house: House) -> None:
    started = [house.start("toy.crowd", "a", note=str(index), seconds=0.05) for index in range(8)]
    house.until(started[2], "succeeded")
    house.restart()
    for operation in started:
        house.until(operation, "succeeded")
    begun = [name for name, edge in house.world.edges() if edge == "begin"]
    assert begun == [f"a{index}" for index in range(8)]


def test_an_owned_data_folder_is_refused_by_name(database_url: str | None, house: House, program: Callable[..., Program]) -> None:
    status, lines, _ = program(replica="one").finish()
    assert status == 3
    refused = lines[0]["refused"]
    assert refused["code"] == ("engine.folder_in_use" if database_url is None else "engine.replica_in_use")
    assert refused["status"] == 409
    house.until(house.start("toy.build", "a"), "succeeded")


def test_the_folder_is_free_when_its_owner_was_killed(
    database_url: str | None, program: Callable[..., Program], world: World, idle_house: House
) -> None:
    victim = program(start=[["toy.gate", {"name": "a", "seconds": 600}]], linger=True)
    assert victim.line() == {"ready": True}
    operation_id = victim.line()["id"]
    idle_house.engine.wait_until(operation_id, lambda found: found.status == "waiting", LONG)
    victim.kill()
    world.mark("open/a")
    idle_house.engine.launch()
    idle_house.until(idle_house.engine.get(operation_id), "succeeded")
    assert world.acts() == ["a/behind"]


@pytest.mark.slow
def test_two_hundred_waiting_operations_all_go_on_after_a_kill(program: Callable[..., Program], world: World, idle_house: House) -> None:
    wishes = [["toy.gate", {"name": f"n{index}", "seconds": 2.0}] for index in range(200)]
    victim = program(start=wishes, linger=True)
    assert victim.line() == {"ready": True}
    for _ in wishes:
        assert victim.line()["created"]
    everything = OperationFilter(statuses=("waiting",))
    deadline = time.monotonic() + 120
    while len(idle_house.engine.list(everything, limit=500).items) < 200 and time.monotonic() < deadline:
        time.sleep(0.2)
    victim.kill()
    for index in range(200):
        world.mark(f"open/n{index}")
    idle_house.engine.launch()
    while idle_house.store.operations.list_active() and time.monotonic() < deadline:
        time.sleep(0.2)
    ended = idle_house.engine.list(limit=500).items
    assert {each.status for each in ended} == {"succeeded"}
    assert sorted(world.acts()) == sorted(f"n{index}/behind" for index in range(200))


def test_a_renamed_stage_is_the_same_stage_and_a_new_one_is_run(house: House) -> None:
    """The program is changed while an operation waits: ``ground`` is now ``soil``, ``survey`` is new and comes first."""
    old = Workflow("toy.moved", "Toy", toys.Build, toys.BUILD.subject, (*toys.BUILD.steps[:1], Stage("gate", toys.gate, "Wait")))
    survey, soil = Stage("survey", toys.already, "Survey"), Stage("soil", toys.build, "Lay the soil")
    new = dataclasses.replace(old, steps=(survey, soil, old.steps[1]), renamed={"ground": "soil"})
    house.restart(old)
    operation = house.start("toy.moved", "a", seconds=600)
    house.engine.wait_until(operation.id, lambda found: found.stages[1].because is not None, LONG)
    house.world.mark("open/a")
    house.restart(new)
    ended = house.until(operation, "succeeded")
    assert [(stage.name, stage.status) for stage in ended.stages] == [("survey", "skipped"), ("soil", "done"), ("gate", "done")]
    assert house.world.acts() == ["a/ground"], "what was done under the old name is not done again"


def test_a_stage_that_is_gone_stays_readable(house: House) -> None:
    house.restart(toys.BUILD)
    done = house.until(house.start("toy.build", "a"), "succeeded")
    house.restart(dataclasses.replace(toys.BUILD, steps=toys.BUILD.steps[:1]))
    seen = house.engine.get(done.id)
    assert [stage.name for stage in seen.stages] == [stage.name for stage in done.stages]
    assert seen.stages[-1].says == "roof"
    house.restart(toys.GATE)
    gone = house.engine.get(done.id)
    assert gone.title == "toy.build"
    assert gone.result == done.result


def test_an_operation_whose_workflow_is_gone_fails_and_says_so(house: House) -> None:
    operation = house.start("toy.gate", "a", seconds=600)
    house.until(operation, "waiting")
    house.restart(toys.BUILD)
    failed = house.until(operation, "failed")
    assert failed.problem is not None
    assert failed.problem["code"] == "operation.workflow_gone"
    with pytest.raises(problems.NotFound):
        house.engine.retry(operation.id, "id-person")


def test_a_spec_that_is_no_longer_understood_fails_and_says_so(house: House) -> None:
    operation = house.start("toy.gate", "a", seconds=600)
    house.until(operation, "waiting")

    class Narrow(toys.Build):
        seconds: float = dataclasses.field(default=0.1)
        looks: int
        must: str

    house.restart(dataclasses.replace(toys.GATE, spec=Narrow))
    failed = house.until(operation, "failed")
    assert failed.problem is not None
    assert failed.problem["code"] == "operation.spec_outdated"


def test_an_execution_that_broke_is_begun_anew(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record could not be written, so DBOS holds the execution for failed. Our tables say that the operation goes on: it does."""
    write = house.engine._journal.stage_waits
    broken: list[object] = []

    def fail_once(*given: Any) -> None:
        if not broken:
            broken.append(given)
            raise OSError("the disk is full")
        write(*given)

    monkeypatch.setattr(house.engine._journal, "stage_waits", fail_once)
    operation = house.start("toy.build", "a")
    house.until(operation, "succeeded")
    assert broken
    assert LOST in house.messages(operation)
    assert len(house.world.acts()) == 5
    assert house.store.operations.get(operation.id).execution == 2


def test_an_execution_that_is_nowhere_is_begun_anew(house: House) -> None:
    """DBOS believes that this process executes it; its coroutine is gone."""
    house.engine._keeper.orphan_seconds = 0.5
    operation = house.start("toy.gate", "a", seconds=600)
    house.until(operation, "waiting")
    durable = house.engine._durable
    durable._on_loop(durable._drop_tasks)
    house.world.mark("open/a")
    house.until(operation, "succeeded")
    assert LOST in house.messages(operation)
    assert durable.standings([(operation.id, 1)])[(operation.id, 1)].status == "CANCELLED"


def test_a_fault_that_stays_does_not_spin(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(house.engine._journal, "stage_waits", fail)
    operation = house.start("toy.gate", "a")
    house.engine.wait_until(operation.id, lambda _: house.store.operations.get(operation.id).execution > 2, LONG)
    looked = house.world.marked("looked/a")
    assert looked <= 4, "pauses of 1, 2, 4 seconds lie between"


def test_an_execution_that_was_never_begun_is_begun(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed after the turn was taken and before DBOS knew."""
    with monkeypatch.context() as patched:
        patched.setattr(house.engine._durable, "start", lambda *_: None)
        operation = house.start("toy.build", "a")
    assert operation.status == "running"
    house.until(operation, "succeeded")
    assert house.store.operations.get(operation.id).execution == 1


def test_a_bad_round_does_not_end_the_others(house: House, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    subjects = house.engine._desk.queued_subjects
    failed: list[bool] = []

    def fail_once() -> list[str]:
        if not failed:
            failed.append(True)
            raise OSError("the network is away")
        return subjects()

    monkeypatch.setattr(house.engine._desk, "queued_subjects", fail_once)
    house.engine._launched = False  # so that only the keeper takes turns
    operation = house.start("toy.already", "a")
    house.until(operation, "succeeded")
    house.engine._launched = True
    assert "keeper's round failed" in caplog.text


def test_what_was_restarted_too_often_is_blocked(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    operation = house.start("toy.gate", "a", seconds=600)
    house.until(operation, "waiting")
    exceeded = Standing("MAX_RECOVERY_ATTEMPTS_EXCEEDED", "one")
    monkeypatch.setattr(house.engine._durable, "is_live", lambda *_: False)
    monkeypatch.setattr(house.engine._durable, "standings", lambda asked: dict.fromkeys(asked, exceeded))
    blocked = house.until(operation, "blocked")
    assert blocked.problem is not None
    assert blocked.problem["code"] == "operation.restarted_too_often"


def test_a_dead_replicas_operations_are_adopted_and_a_living_ones_are_not(
    database_url: str | None, program: Callable[..., Program], world: World, house: House
) -> None:
    if database_url is None:
        pytest.skip("one process only on SQLite")
    victim = program(replica="two", start=[["toy.gate", {"name": "a", "seconds": 600}]], linger=True)
    living = program(replica="three", start=[["toy.crowd", {"name": "b", "seconds": 3.0}]], linger=True)
    lines = [each.line() for each in (victim, living, victim, living)]
    mine, theirs = lines[2]["id"], lines[3]["id"]
    house.engine.wait_until(mine, lambda found: found.status == "waiting", LONG)
    victim.kill()
    world.mark("open/a")
    house.until(house.engine.get(mine), "succeeded")
    house.until(house.engine.get(theirs), "succeeded")
    assert world.edges() == [("b", "begin"), ("b", "end")]
    assert world.acts() == ["a/behind"]


def test_a_cancel_from_another_replica_wakes_the_one_that_executes(
    database_url: str | None, program: Callable[..., Program], house: House
) -> None:
    if database_url is None:
        pytest.skip("one process only on SQLite")
    other = program(replica="two", start=[["toy.gate", {"name": "a", "seconds": 600}]], linger=True)
    assert other.line() == {"ready": True}
    operation_id = other.line()["id"]
    waiting = house.engine.wait_until(operation_id, lambda found: found.status == "waiting", LONG)
    house.engine.cancel(operation_id, "id-person")
    house.until(waiting, "cancelled")


def test_a_lease_is_taken_anew_when_the_server_dropped_the_session(database_url: str | None, house: House) -> None:
    if database_url is None:
        pytest.skip("leases are PostgreSQL's")
    lease = ReplicaLease(house.store.url, "nine")
    lease.hold()
    lease.renew()
    assert lease._session is not None
    lease._session.exec_driver_sql("SELECT set_config('idle_session_timeout', '50', false)")
    time.sleep(0.5)
    lease.renew()
    other = ReplicaLease(house.store.url, "nine")
    with pytest.raises(problems.Conflict):
        other.hold()
    assert not lease.is_free("one")
    assert lease.is_free("nobody")
    assert lease.is_free("nobody"), "looking does not take it"
    lease.release()
    lease.release()
    other.hold()
    other.release()


def test_dbos_forgets_what_is_old_and_our_record_stays(house: House) -> None:
    operation = house.until(house.start("toy.build", "a"), "succeeded")
    durable = house.engine._durable
    deadline = time.monotonic() + LONG
    while not durable.standings([(operation.id, 1)])[(operation.id, 1)].over and time.monotonic() < deadline:
        time.sleep(0.05)
    assert durable.forget(dt.datetime.now(dt.UTC) - dt.timedelta(days=7)) == 0
    assert durable.forget(dt.datetime.now(dt.UTC) + dt.timedelta(seconds=5)) == 1
    assert durable.standings([(operation.id, 1)]) == {}
    assert house.engine.get(operation.id).status == "succeeded"


def test_the_log_has_neither_adverts_nor_tracebacks(program: Callable[..., Program], world: World) -> None:
    world.mark("weather/a")
    started = [["toy.build", {"name": "a", "fail_stage": "roof", "fail_kind": "denied"}], ["toy.build", {"name": "b"}]]
    status, lines, errors = program(start=started).finish()
    assert status == 0
    assert lines[-1] == {"ended": True}
    assert errors == ""


def test_a_group_may_stand_anywhere() -> None:
    assert [stage.name for stage in toys.WALLS.stages()] == ["gate", "wall"]
    assert isinstance(toys.WALLS.steps[0], Together)


def test_operations_go_on_when_the_database_has_dropped_every_session(database_url: str | None, house: House) -> None:
    if database_url is None:
        pytest.skip("SQLite has no sessions to drop")
    house.engine._keeper.orphan_seconds = 2.0
    started = [house.start("toy.gate", f"n{index}", seconds=0.02) for index in range(5)]
    for operation in started:
        house.until(operation, "waiting")
    with psycopg.connect(database_url, autocommit=True) as session:
        mine = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        assert len(session.execute(mine).fetchall()) > 1
    for operation in started:
        house.world.mark(f"open/{operation.spec['name']}")
    for operation in started:
        house.until(operation, "succeeded")
    assert len(house.world.acts()) == 5
    with psycopg.connect(database_url, autocommit=True) as session:
        until = time.monotonic() + LONG
        while session.execute(LEASES).fetchone() is None:  # the keeper takes the name anew when it next looks
            assert time.monotonic() < until
            time.sleep(0.05)
    other = ReplicaLease(house.store.url, house.settings.replica_id)
    with pytest.raises(problems.Conflict):
        other.hold()
