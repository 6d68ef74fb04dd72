"""Operations, their stages and events, the audit log, registered clusters: what goes in comes out, in order."""

from __future__ import annotations

import dataclasses
import datetime as dt
import threading

import pytest
import sqlalchemy as sa
from tests.store.conftest import Hands

from instantstart import store
from instantstart.base import problems
from instantstart.store.records import AuditFilter, AuditRow, ClusterRow, EventRow, OperationFilter, OperationRow, Repeat, StageRow

NOON = dt.datetime(2026, 11, 30, 12, 0, tzinfo=dt.UTC)


def operation(name: str, **changes: object) -> OperationRow:
    row = OperationRow(name, "toy", f"cluster/{name}", name, "queued", "id-a", {"n": 1, "deep": {"x": [1, None]}}, f"hash-{name}", NOON)
    return dataclasses.replace(row, **changes)  # type: ignore[arg-type]


def test_an_operation_comes_back_as_it_went_in(opened: store.Store) -> None:
    stored = opened.operations.insert(operation("a", problem={"code": "x"}), [StageRow("a", "one", 0, "pending")])
    assert stored.number > 0
    assert opened.operations.get("a") == stored
    assert opened.operations.stages("a") == [StageRow("a", "one", 0, "pending")]
    assert opened.operations.find("b") is None
    with pytest.raises(problems.NotFound):
        opened.operations.get("b")


def test_one_wish_cannot_be_active_twice_even_without_any_lock(opened: store.Store) -> None:
    opened.operations.insert(operation("a"), [StageRow("a", "one", 0, "pending")])
    again = operation("b", subject="cluster/a", spec_hash="hash-a")
    with pytest.raises(sa.exc.IntegrityError):
        opened.operations.insert(again, [StageRow("b", "one", 0, "pending")])
    assert opened.operations.find("b") is None
    opened.operations.update("a", status="succeeded", ended_at=NOON)
    opened.operations.insert(again, [StageRow("b", "one", 0, "pending")])


def test_pages_have_no_gaps_and_no_repeats_while_rows_come(opened: store.Store) -> None:
    for index in range(7):
        opened.operations.insert(operation(f"o{index}"), [StageRow(f"o{index}", "one", 0, "pending")])
    page = opened.operations.list(OperationFilter(), limit=3)
    opened.operations.insert(operation("late"), [StageRow("late", "one", 0, "pending")])
    seen = [row.id for row in page.items]
    while page.cursor:
        page = opened.operations.list(OperationFilter(), limit=3, cursor=page.cursor)
        seen += [row.id for row in page.items]
    assert seen == [f"o{index}" for index in range(6, -1, -1)]
    rising = opened.operations.list(OperationFilter(oldest_first=True), limit=2)
    rest = opened.operations.list(OperationFilter(oldest_first=True), limit=50, cursor=rising.cursor)
    assert [row.id for row in (*rising.items, *rest.items)] == [*(f"o{index}" for index in range(7)), "late"]
    assert rest.cursor is None


@pytest.mark.parametrize("cursor", ["", "%%%", "bm9wZQ", "eDEy", "ü"])
def test_a_foreign_cursor_is_refused(opened: store.Store, cursor: str) -> None:
    with pytest.raises(problems.Invalid) as caught:
        opened.operations.list(OperationFilter(), cursor=cursor)
    assert caught.value.code == "list.cursor"


def test_filters_narrow(opened: store.Store) -> None:
    opened.operations.insert(operation("a"), [StageRow("a", "one", 0, "pending")])
    opened.operations.insert(operation("b", workflow="other", caller="id-b", status="running"), [StageRow("b", "one", 0, "pending")])

    def found(**wanted: object) -> list[str]:
        return [row.id for row in opened.operations.list(OperationFilter(**wanted)).items]  # type: ignore[arg-type]

    assert found(statuses=("running", "waiting")) == ["b"]
    assert found(workflow="toy") == ["a"]
    assert found(caller="id-b", cluster="b") == ["b"]
    assert found(subject="cluster/a", caller="id-b") == []
    assert [row.id for row in opened.operations.list_active()] == ["a", "b"]
    assert [row.id for row in opened.operations.list_active(["running"])] == ["b"]
    assert [row.id for row in opened.operations.find_active("cluster/b")] == ["b"]


def test_an_execution_is_claimed_once(opened: store.Store) -> None:
    opened.operations.insert(operation("a", status="running"), [StageRow("a", "one", 0, "pending")])
    claims: list[bool] = []
    threads = [threading.Thread(target=lambda: claims.append(opened.operations.claim_execution("a", 0, ["running"]))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(claims) == [False] * 5 + [True]
    assert not opened.operations.claim_execution("a", 1, ["queued"])


def test_stages_are_written_renamed_and_read_in_order(opened: store.Store) -> None:
    opened.operations.insert(operation("a"), [StageRow("a", "two", 1, "pending"), StageRow("a", "one", 0, "pending")])
    done = StageRow("a", "one", 0, "done", 2, "because", NOON, NOON, NOON, {"done": 1}, {"vpc": "x"}, {"code": "y"})
    opened.operations.put_stage(done)
    opened.operations.put_stage(StageRow("a", "three", 2, "pending"))
    opened.operations.rename_stage("a", "two", "second")
    assert [row.name for row in opened.operations.stages("a")] == ["one", "second", "three"]
    assert opened.operations.stages("a")[0] == done
    assert opened.operations.stages_of(["a", "none"])["none"] == []


def test_events_are_numbered_without_gaps_by_many_writers(opened: store.Store) -> None:
    opened.operations.insert(operation("a"), [StageRow("a", "one", 0, "pending")])

    def write() -> None:
        for _ in range(10):
            opened.operations.add_event(EventRow("a", 0, NOON, "info", "one", "hello", {"n": 1}))

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [event.seq for event in opened.operations.events("a")] == list(range(1, 41))
    assert [event.seq for event in opened.operations.events("a", after=5, limit=2)] == [6, 7]
    assert opened.operations.get("a").seq == 40


def test_a_repeat_belongs_to_its_caller(opened: store.Store) -> None:
    opened.operations.add_repeat("k", "id-a", Repeat("hash", {"operation_id": "a"}))
    assert opened.operations.find_repeat("k", "id-a") == Repeat("hash", {"operation_id": "a"})
    assert opened.operations.find_repeat("k", "id-b") is None
    with pytest.raises(sa.exc.IntegrityError):
        opened.operations.add_repeat("k", "id-a", Repeat("other", {"operation_id": "b"}))


def test_the_audit_log_pages_and_filters(opened: store.Store, hands: Hands) -> None:
    for index in range(5):
        line = AuditRow(
            0, hands.now, f"id-{index % 2}", "person", "admin", "cli", "POST", f"/api/v1/clusters/c{index}", "x", 202, f"op-{index}"
        )
        assert opened.audit.append(line).number > 0
        hands.pass_seconds(60)
    page = opened.audit.list(AuditFilter(), limit=2)
    rest = opened.audit.list(AuditFilter(), limit=9, cursor=page.cursor)
    assert [row.operation_id for row in (*page.items, *rest.items)] == [f"op-{index}" for index in range(4, -1, -1)]
    assert len(opened.audit.list(AuditFilter(caller="id-0", face="cli")).items) == 3
    assert len(opened.audit.list(AuditFilter(operation_id="op-1")).items) == 1
    assert len(opened.audit.list(AuditFilter(path_prefix="/api/v1/clusters/c1")).items) == 1
    assert len(opened.audit.list(AuditFilter(path_prefix="/api/v1/clusters/c_")).items) == 0
    early = AuditFilter(after=NOON + dt.timedelta(seconds=60), before=NOON + dt.timedelta(seconds=180))
    assert [row.operation_id for row in opened.audit.list(early).items] == ["op-2", "op-1"]


def test_a_cluster_is_registered_once_and_updated(opened: store.Store, hands: Hands) -> None:
    first = opened.clusters.upsert(ClusterRow("red", "us-west-2", eks_name="e", state={"a": 1}))
    hands.pass_seconds(10)
    second = opened.clusters.upsert(dataclasses.replace(first, hyperpod_name="h", state={"a": 2}))
    assert second.created_at == NOON
    assert second.updated_at == hands.now
    assert opened.clusters.get("red") == second
    assert [row.tag for row in opened.clusters.list()] == ["red"]
    assert opened.clusters.delete("red")
    assert not opened.clusters.delete("red")
    assert opened.clusters.find("red") is None
    with pytest.raises(problems.NotFound):
        opened.clusters.get("red")
