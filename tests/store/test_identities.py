"""Tokens, sessions, sign-in codes and approvals: each good for what it was given for, and no longer."""

from __future__ import annotations

import datetime as dt
import sqlite3
import threading
from pathlib import Path

import pytest
from tests.store.conftest import Hands

from instantstart import store
from instantstart.base import problems


def test_a_token_finds_its_identity_and_is_not_stored(data_dir: Path) -> None:
    opened = store.open(None, data_dir)
    identity, secret = opened.identities.create_token("ana", "operator", "person")
    assert secret.startswith("ist_")
    found = opened.identities.find_token(secret)
    assert found is not None
    assert (found.id, found.role, found.kind) == (identity.id, "operator", "person")
    assert opened.identities.find_token("ist_wrong") is None
    opened.close()
    dump = "\n".join(sqlite3.connect(data_dir / "instantstart.sqlite").iterdump())
    assert "ana" in dump
    assert secret not in dump


def test_an_expired_or_revoked_token_finds_nobody(opened: store.Store, hands: Hands) -> None:
    _, short = opened.identities.create_token("a", "viewer", "agent", hands.now + dt.timedelta(seconds=60))
    hands.pass_seconds(1)
    long, secret = opened.identities.create_token("b", "viewer", "agent")
    session, _ = opened.identities.create_session(long.id)
    code = opened.identities.create_code(long.id)
    hands.pass_seconds(60)
    assert opened.identities.find_token(short) is None
    revoked = opened.identities.revoke(long.id)
    assert revoked.revoked_at == hands.now
    hands.pass_seconds(5)
    assert opened.identities.revoke(long.id) == revoked
    assert opened.identities.find_token(secret) is None
    assert opened.identities.find_session(session) is None
    assert opened.identities.consume_code(code) is None
    assert [each.name for each in opened.identities.list()] == ["a", "b"]
    with pytest.raises(problems.NotFound):
        opened.identities.revoke("id-nobody")


def test_the_use_of_a_token_is_noted_at_most_once_a_minute(opened: store.Store, hands: Hands) -> None:
    identity, secret = opened.identities.create_token("a", "viewer", "person")
    seen = []
    for seconds in (0, 30, 61):
        hands.pass_seconds(seconds)
        opened.identities.find_token(secret)
        found = opened.identities.find(identity.id)
        assert found is not None
        seen.append(found.last_used_at)
    first = dt.datetime(2026, 11, 30, 12, 0, tzinfo=dt.UTC)
    assert seen == [first, first, first + dt.timedelta(seconds=91)]


def test_a_session_ends(opened: store.Store, hands: Hands) -> None:
    identity, _ = opened.identities.create_token("a", "viewer", "person")
    secret, ends = opened.identities.create_session(identity.id, lifetime_seconds=100)
    assert ends == hands.now + dt.timedelta(seconds=100)
    found = opened.identities.find_session(secret)
    assert found is not None
    assert found.identity.id == identity.id
    hands.pass_seconds(100)
    assert opened.identities.find_session(secret) is None
    other, _ = opened.identities.create_session(identity.id)
    opened.identities.revoke_session(other)
    assert opened.identities.find_session(other) is None


def test_a_sign_in_code_works_once_within_ten_minutes(opened: store.Store, hands: Hands) -> None:
    identity, _ = opened.identities.create_token("a", "viewer", "person")
    code, late = opened.identities.create_code(identity.id), opened.identities.create_code(identity.id)
    first = opened.identities.consume_code(code)
    assert first is not None
    assert first.id == identity.id
    assert opened.identities.consume_code(code) is None
    hands.pass_seconds(601)
    assert opened.identities.consume_code(late) is None


def test_of_many_who_use_a_code_at_once_one_gets_in(opened: store.Store) -> None:
    identity, _ = opened.identities.create_token("a", "viewer", "person")
    code = opened.identities.create_code(identity.id)
    entered: list[object] = []
    threads = [threading.Thread(target=lambda: entered.append(opened.identities.consume_code(code))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(each is not None for each in entered) == 1


def test_a_selection_is_the_identitys_own_and_goes_with_the_cluster(opened: store.Store) -> None:
    one, _ = opened.identities.create_token("a", "viewer", "person")
    two, _ = opened.identities.create_token("b", "viewer", "person")
    opened.identities.select_cluster(one.id, "red")

    def selected(identity_id: str) -> str | None:
        found = opened.identities.find(identity_id)
        assert found is not None
        return found.selected_cluster

    assert (selected(one.id), selected(two.id)) == ("red", None)
    opened.identities.unselect_cluster("red")
    assert selected(one.id) is None
    opened.identities.select_cluster(two.id, "red")
    opened.clusters.delete("red")
    assert selected(two.id) is None


def test_an_approval_is_for_one_caller_one_request_and_one_use(opened: store.Store, hands: Hands) -> None:
    ends = hands.now + dt.timedelta(seconds=300)
    row, secret = opened.approvals.create("id-a", "hash", "delete red", ends)
    assert not opened.approvals.consume(secret, "id-b", "hash")
    assert not opened.approvals.consume(secret, "id-a", "another")
    assert opened.approvals.consume(secret, "id-a", "hash")
    assert not opened.approvals.consume(secret, "id-a", "hash")
    used = opened.approvals.find(row.id)
    assert used is not None
    assert used.state == "used"
    _, late = opened.approvals.create("id-a", "hash", "delete red", ends)
    hands.pass_seconds(300)
    assert not opened.approvals.consume(late, "id-a", "hash")


def test_a_person_decides_a_pending_approval_once(opened: store.Store, hands: Hands) -> None:
    ends = hands.now + dt.timedelta(seconds=300)
    yes, secret = opened.approvals.create("id-a", "hash", "delete red", ends, granted=False)
    no, refused = opened.approvals.create("id-a", "hash", "delete blue", ends, granted=False)
    late, _ = opened.approvals.create("id-a", "hash", "delete late", hands.now + dt.timedelta(seconds=10), granted=False)
    assert {row.id for row in opened.approvals.list_pending()} == {yes.id, no.id, late.id}
    assert not opened.approvals.consume(secret, "id-a", "hash")
    assert opened.approvals.decide(yes.id, "id-person", grant=True).state == "granted"
    assert opened.approvals.decide(no.id, "id-person", grant=False).state == "rejected"
    assert opened.approvals.consume(secret, "id-a", "hash")
    assert not opened.approvals.consume(refused, "id-a", "hash")
    hands.pass_seconds(11)
    for decided in (yes.id, no.id, late.id):
        with pytest.raises(problems.Conflict):
            opened.approvals.decide(decided, "id-person", grant=True)
    with pytest.raises(problems.NotFound):
        opened.approvals.decide("ap-none", "id-person", grant=True)
    assert opened.approvals.list_pending() == []


def test_the_administrator_of_the_settings_enters_with_what_they_say_now(opened: store.Store) -> None:
    first, second = "ist_" + "a" * 40, "ist_" + "b" * 40
    admin = opened.identities.given(first)
    assert admin is not None
    assert admin.role == "admin"
    assert opened.identities.given(first) == opened.identities.find(admin.id), "a restart changes nothing"
    session, _ = opened.identities.create_session(admin.id)
    rotated = opened.identities.given(second)
    assert rotated is not None
    assert rotated.id == admin.id
    assert opened.identities.find_token(first) is None
    assert opened.identities.find_session(session) is None
    assert opened.identities.find_token(second) is not None
    _, viewer = opened.identities.create_token("v", "viewer", "person")
    assert opened.identities.given(viewer) is None, "who has a token already keeps its role"
    opened.identities.revoke(admin.id)
    assert opened.identities.given(second) is None
    assert opened.identities.given(first) is None, "revoked is for good"
