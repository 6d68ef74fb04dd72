"""Who may enter, on each kind of database: pages in every order, sessions, sign-ins under way, people that a provider vouches for."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from instantstart import store
from instantstart.base import problems
from instantstart.store import sessions
from instantstart.store.records import Entrance, IdentityFilter, IdentityRow, SignInRow


@pytest.mark.parametrize("sort", ["created_at", "name", "role", "kind", "last_used_at"])
@pytest.mark.parametrize("falling", [False, True])
def test_pages_in_any_order_show_everybody_once(opened: store.Store, hands: Any, sort: str, falling: bool) -> None:
    for number in range(7):
        _, token = opened.identities.create_token(f"Name {number % 3}", ("viewer", "admin")[number % 2], "person")
        hands.pass_seconds(1 if number % 2 else 0)
        if number > 3:
            opened.identities.find_token(token)
    found: list[IdentityRow] = []
    cursor: str | None = None
    while True:
        page = opened.identities.page(IdentityFilter(sort=sort, falling=falling), 3, cursor)
        found += page.items
        cursor = page.cursor
        if cursor is None:
            break
    assert len({each.id for each in found}) == len(found) == 7
    keys = [str(getattr(each, sort) or "") for each in found]
    assert keys == sorted(keys, reverse=falling)


def test_sessions_are_listed_in_pages_and_ended(opened: store.Store, hands: Any) -> None:
    identities = opened.identities
    ada, bob = (identities.create_token(name, "viewer", "person")[0] for name in ("ada", "bob"))
    secrets = [identities.create_session(who.id, 100, Entrance("cli", "oidc", "10.0.0.1", "x"))[0] for who in (ada, ada, bob)]
    first = identities.list_sessions(None, 2)
    rest = identities.list_sessions(None, 2, first.cursor)
    assert sorted(each.identity.name for each in (*first.items, *rest.items)) == ["ada", "ada", "bob"]
    assert rest.cursor is None
    hands.pass_seconds(70)
    assert identities.find_session(secrets[0])
    seen = [each.last_seen_at == hands.now for each in identities.list_sessions(ada.id).items]
    assert sorted(seen) == [False, True]
    keep = identities.list_sessions(ada.id).items[0].id
    assert identities.end_sessions(ada.id, keep) == 1
    assert [each.id for each in identities.list_sessions(ada.id).items] == [keep]
    hands.pass_seconds(31)
    assert identities.list_sessions(None).items == ()


def test_a_sign_in_under_way_is_finished_once_and_in_time(opened: store.Store, hands: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    row = SignInRow("/clusters", "proof", 4000, "state")
    opened.identities.begin_sign_in("a", row, 100)
    opened.identities.begin_sign_in("b", row, 100)
    assert opened.identities.finish_sign_in("a") == row
    assert opened.identities.finish_sign_in("a") is None
    monkeypatch.setattr(sessions, "MOST_SIGN_INS", 1)
    with pytest.raises(problems.Busy):
        opened.identities.begin_sign_in("c", row, 100)
    hands.pass_seconds(101)
    assert opened.identities.finish_sign_in("b") is None
    opened.identities.begin_sign_in("c", row, 100)


def test_a_code_is_for_whom_has_its_proof(opened: store.Store) -> None:
    identity, _ = opened.identities.create_token("ada", "viewer", "person")
    for proof, entered in (("right", True), ("wrong", False), (None, False)):
        code = opened.identities.create_code(identity.id, proof_hash=sessions.hash_of("right"))
        assert (opened.identities.consume_code(code, proof) is not None) is entered
        assert opened.identities.consume_code(code, "right") is None, "used up by any try"


def test_a_person_who_comes_twice_at_once_is_one(opened: store.Store) -> None:
    came: list[IdentityRow | None] = []
    threads = [threading.Thread(target=lambda: came.append(opened.identities.vouched("https://i", "s", "ada", "viewer"))) for _ in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len({each.id for each in came if each}) == 1
    assert len(opened.identities.list()) == 1
    assert not opened.identities.has_administrator()
    assert opened.identities.vouched("https://i", "s", "ada", "admin") is not None
    assert not opened.identities.has_administrator(), "by a provider's word only"
    opened.identities.create_token("root", "admin", "person")
    assert opened.identities.has_administrator()
