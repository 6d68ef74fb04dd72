"""A process whose database was brought to another version: it takes no more work, records what it does, and gives its name back."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
import sqlalchemy as sa
from tests.operations.conftest import LONG, House

from instantstart.base import problems
from instantstart.store.lease import ReplicaLease


def _schema(house: House, version: str | None = None) -> str:
    """The version in the database; with ``version``, it is another program's from now on."""
    with house.store.operations._connector.transaction() as connection:
        found = str(connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar_one())
        if version is not None:
            connection.execute(sa.text("UPDATE alembic_version SET version_num = :version"), {"version": version})
    return found


def _until_retired(house: House) -> None:
    until = time.monotonic() + LONG
    while house.engine.holds_its_name:
        assert time.monotonic() < until, "it never stepped back"
        time.sleep(0.05)


def test_overtaken_by_a_newer_version_it_executes_nothing_more_and_others_go_on(house: House) -> None:
    waiting = house.until(house.start("toy.gate", "a", seconds=600), "waiting")
    acting = house.start("toy.slow_act", "b")
    while not house.world.edges():
        time.sleep(0.02)
    known = _schema(house, "r9999")
    house.world.mark("open/b")  # the act in flight ends, and what it did is recorded
    _until_retired(house)
    asks: tuple[Callable[[], object], ...] = (
        lambda: house.start("toy.already", "c"),
        lambda: house.engine.retry(waiting.id, "id-toy"),
        lambda: house.engine.cancel(waiting.id, "id-toy"),
        lambda: house.engine.approve(waiting.id, "id-toy"),
        lambda: house.engine.reject(waiting.id, "id-toy"),
    )
    for ask in asks:
        with pytest.raises(problems.Conflict) as told:
            ask()
        assert told.value.code == "store.newer_schema"
    assert house.engine.get(waiting.id).status == "waiting", "it can still be looked at"
    if house.settings.database_url is not None:
        other = ReplicaLease(house.settings.database_url, "two")
        other.hold()
        assert other.is_free("one"), "another replica may take over what ran here"
        other.release()
    _schema(house, known)
    house.world.mark("open/a")
    house.restart()  # stands for the newer program
    house.until(waiting, "succeeded")
    house.until(acting, "succeeded")
    assert house.world.edges() == [("b", "begin"), ("b", "end")], "once"


def test_a_database_that_does_not_answer_says_nothing_of_its_version(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    def away() -> None:
        raise problems.Unreachable("store.unreachable", "The database does not answer.")

    monkeypatch.setattr(house.store, "check", away)
    house.until(house.start("toy.already", "a"), "succeeded")
    assert not house.engine._keeper._is_overtaken()
    assert house.engine.holds_its_name
