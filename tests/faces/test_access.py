"""People and tokens are listed, changed, disabled and rotated; sessions are listed and ended; what was let in is cut off at once."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from starlette.testclient import TestClient
from tests.faces import toys

from instantstart.faces.api.auth import COOKIE
from instantstart.store.records import Entrance

Sign = Callable[..., dict[str, str]]
OURS = {"Origin": toys.HOST}
#: what no agent and nobody below an administrator may ask
ADMINS = [
    ("GET", "/api/v1/tokens", None),
    ("POST", "/api/v1/tokens", {"name": "x", "role": "viewer"}),
    ("GET", "/api/v1/tokens/{other}", None),
    ("PATCH", "/api/v1/tokens/{other}", {"role": "admin"}),
    ("POST", "/api/v1/tokens/{other}:rotate", {}),
    ("DELETE", "/api/v1/tokens/{other}", None),
    ("DELETE", "/api/v1/tokens/{other}/sessions", None),
    ("GET", "/api/v1/sessions?whose=all", None),
    ("GET", "/api/v1/sessions?identity={other}", None),
    ("GET", "/api/v1/audit", None),
    ("GET", "/api/v1/audit/export", None),
]


@pytest.fixture
def admin(client: TestClient, sign: Sign) -> Callable[..., Any]:
    """Asks as an administrator."""
    headers = sign("admin")
    return lambda method, path, **more: client.request(method, f"/api/v1{path}", headers=headers, **more)


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.mark.parametrize(("role", "kind"), [("viewer", "person"), ("operator", "person"), ("viewer", "agent"), ("operator", "agent")])
def test_nobody_below_an_administrator_gets_a_credential_or_sees_others(
    client: TestClient, sign: Sign, room: Any, role: str, kind: str
) -> None:
    headers = sign(role, kind)
    other, _ = room.store.identities.create_token("other", "viewer", "person")
    before = room.store.identities.list()
    for method, path, body in ADMINS:
        answer = client.request(method, path.format(other=other.id), headers=headers, json=body)
        assert (answer.status_code, answer.json()["code"]) == (403, "identity.role_too_low"), (method, path)
    assert [each.id for each in room.store.identities.list()] == [each.id for each in before]
    assert room.store.identities.find(other.id).role == "viewer"


def test_an_agents_token_begins_no_session(client: TestClient, token: Callable[..., str]) -> None:
    refused = client.post("/api/v1/session", json={"token": token("operator", "agent")}, headers=OURS)
    assert (refused.status_code, refused.json()["code"]) == (403, "identity.agent_has_no_session")
    assert "set-cookie" not in refused.headers


def test_a_list_is_filtered_sorted_and_paged(admin: Any, room: Any) -> None:
    identities = room.store.identities
    for number in range(7):
        identities.create_token(f"user {number}", "operator" if number % 2 else "viewer", "person", note=f"desk {number}")
    ended, _ = identities.create_token("Zoe", "viewer", "agent", dt.datetime.now(dt.UTC) - dt.timedelta(seconds=1))
    identities.disable(identities.create_token("Ann", "viewer", "agent")[0].id)
    gone, _ = identities.create_token("Bob", "viewer", "agent")
    identities.revoke(gone.id)

    def names(**query: Any) -> list[str]:
        found, cursor = [], None
        while True:
            page = admin("GET", "/tokens", params={"limit": 3, **query, **({"cursor": cursor} if cursor else {})}).json()
            found += [each["name"] for each in page["items"]]
            cursor = page["cursor"]
            if cursor is None:
                return found

    assert names(role="operator") == ["user 1", "user 3", "user 5"]
    assert names(sort="name")[:3] == ["admin person", "Ann", "Bob"], "letters of both sizes are one"
    assert names(sort="name", descending=True)[0] == "Zoe"
    assert len(names(sort="last_used_at")) == len(set(names(sort="created_at"))) == 11
    assert names(sort="last_used_at", descending=True)[0] == "admin person"
    assert [names(kind="agent", state=state) for state in ("expired", "disabled", "revoked", "active")] == [["Zoe"], ["Ann"], ["Bob"], []]
    assert names(text="DESK 4") == ["user 4"]
    assert names(text="100%") == []
    assert names(text=ended.id) == ["Zoe"]
    for cursor in ("x", "bnVsbA", "WzEsMl0", "WyJcdWQ4MDAiLCAiYSJd"):
        assert admin("GET", "/tokens", params={"cursor": cursor}).json()["code"] == "list.cursor"


def test_a_change_holds_at_once_and_leaves_the_rest(client: TestClient, admin: Any) -> None:
    made = admin("POST", "/tokens", json={"name": "eve", "role": "operator", "note": "the night shift"}).json()
    bearer, one = _bearer(made["token"]), f"/tokens/{made['identity']['id']}"
    assert client.post("/api/v1/clusters", json={"zone": "use1-az1"}, headers=bearer).status_code == 202
    changed = admin("PATCH", one, json={"role": "viewer"}).json()
    assert (changed["role"], changed["name"], changed["note"]) == ("viewer", "eve", "the night shift")
    assert client.post("/api/v1/clusters", json={"zone": "use1-az1"}, headers=bearer).status_code == 403
    assert admin("PATCH", one, json={"name": "Eve", "note": ""}).json()["note"] is None
    for nothing in ({}, {"name": None, "disabled": None}):
        told = admin("PATCH", one, json=nothing)
        assert (told.status_code, told.json()["code"]) == (422, "request.invalid")
        assert told.json()["detail"] == "The body names nothing to change; it may name: name, role, note, disabled."
    assert admin("PATCH", one, json={"disabled": True}).json()["disabled_at"]
    assert client.get("/api/v1/me", headers=bearer).status_code == 401
    assert admin("PATCH", one, json={"disabled": False}).json()["disabled_at"] is None
    assert client.get("/api/v1/me", headers=bearer).json()["name"] == "Eve"
    admin("DELETE", one)
    assert admin("PATCH", one, json={"disabled": False}).json()["code"] == "identity.revoked"
    assert admin("PATCH", "/tokens/none", json={"name": "x"}).status_code == 404


def test_an_agent_is_not_raised_to_an_administrator(admin: Any) -> None:
    made = admin("POST", "/tokens", json={"name": "bot", "role": "operator", "kind": "agent"}).json()
    refused = admin("PATCH", f"/tokens/{made['identity']['id']}", json={"role": "admin"})
    assert (refused.status_code, refused.json()["fields"][0]["pointer"]) == (422, "/role")


def test_a_rotated_token_ends_with_its_sessions(client: TestClient, admin: Any, room: Any) -> None:
    made = admin("POST", "/tokens", json={"name": "ci", "role": "operator", "expires_in_days": 1}).json()
    who = made["identity"]["id"]
    secret, _ = room.store.identities.create_session(who)
    fresh = admin("POST", f"/tokens/{who}:rotate", json={}).json()
    assert fresh["identity"]["expires_at"] >= made["identity"]["expires_at"], "as long as before, from now"
    assert client.get("/api/v1/me", headers=_bearer(made["token"])).status_code == 401
    assert client.get("/api/v1/me", headers=_bearer(fresh["token"])).json()["id"] == who
    assert room.store.identities.find_session(secret) is None
    assert fresh["token"] not in admin("GET", f"/tokens/{who}").text
    admin("DELETE", f"/tokens/{who}")
    assert admin("POST", f"/tokens/{who}:rotate", json={}).json()["code"] == "identity.no_token"


@pytest.mark.parametrize("change", [{"role": "operator"}, {"role": "viewer"}, {"disabled": True}, None])
def test_the_last_administrator_cannot_be_removed_lowered_or_disabled(admin: Any, room: Any, change: dict[str, Any] | None) -> None:
    room.store.identities.create_token("ended", "admin", "person", dt.datetime.now(dt.UTC) - dt.timedelta(seconds=1))
    room.store.identities.vouched("https://issuer.example", "s", "by word", "admin")
    me = admin("GET", "/me").json()["id"]

    def ask() -> Any:
        return admin("PATCH", f"/tokens/{me}", json=change) if change else admin("DELETE", f"/tokens/{me}")

    assert (ask().status_code, ask().json()["code"]) == (409, "identity.last_admin")
    room.store.identities.create_token("second", "admin", "person")
    assert ask().status_code == 200


def test_one_sees_and_ends_ones_own_sessions_and_an_administrator_everybodys(client: TestClient, admin: Any, room: Any) -> None:
    identities = room.store.identities
    ada, token = identities.create_token("ada", "viewer", "person")
    bob, _ = identities.create_token("bob", "viewer", "person")
    identities.create_session(bob.id, entrance=Entrance("cli", "oidc", "10.0.0.9", "instantstart"))
    client.post("/api/v1/session", json={"token": token}, headers={**OURS, "User-Agent": "a browser ist_0123456789abcdefghij"})
    mine = client.get("/api/v1/sessions").json()["items"]
    assert [(s["name"], s["client"], s["via"], s["address"], s["current"]) for s in mine] == [
        ("ada", "console", "token", "testclient", True)
    ]
    assert mine[0]["agent"] == "a browser [redacted]"
    everybody = admin("GET", "/sessions?whose=all&limit=1").json()
    assert len(everybody["items"]) == 1
    rest = admin("GET", "/sessions", params={"whose": "all", "cursor": everybody["cursor"]}).json()
    assert {each["name"] for each in (*everybody["items"], *rest["items"])} == {"ada", "bob"}
    other = admin("GET", f"/sessions?identity={bob.id}").json()["items"][0]["id"]
    assert client.delete(f"/api/v1/sessions/{other}", headers=OURS).json()["code"] == "session.unknown"
    assert admin("DELETE", f"/sessions/{other}").status_code == 204
    assert admin("GET", f"/sessions?identity={bob.id}").json()["items"] == []
    second, _ = identities.create_session(ada.id)
    assert client.delete(f"/api/v1/tokens/{ada.id}/sessions", headers=OURS).json() == {"ended": 1}
    assert identities.find_session(second) is None
    assert client.get("/api/v1/me").status_code == 200, "the one that asks stays"
    assert admin("DELETE", f"/tokens/{ada.id}/sessions").json() == {"ended": 1}
    assert client.get("/api/v1/me").status_code == 401


def test_a_sessions_secret_is_good_for_what_it_was_made_for(client: TestClient, room: Any) -> None:
    ada, _ = room.store.identities.create_token("ada", "viewer", "person")
    browser, _ = room.store.identities.create_session(ada.id)
    program, _ = room.store.identities.create_session(ada.id, entrance=Entrance("cli", "oidc"))
    assert client.get("/api/v1/me", headers=_bearer(program)).json()["name"] == "ada"
    assert client.get("/api/v1/me", headers={"Cookie": f"{COOKIE}={browser}"}).json()["name"] == "ada"
    assert client.get("/api/v1/me", headers=_bearer(browser)).status_code == 401
    assert client.get("/api/v1/me", headers={"Cookie": f"{COOKIE}={program}"}).status_code == 401


@pytest.mark.parametrize("end", ["revoke", "disable", "lower", "session"])
def test_a_long_answer_is_cut_off_when_its_right_ends(served: Any, end: str) -> None:
    identities = served.room.store.identities
    identity, token = identities.create_token("long", "operator", "person")
    operation, _ = served.room.engine.start("cluster.create", {}, caller="x", cluster=f"cut-{end}")
    if end == "session":
        token, _ = identities.create_session(identity.id, entrance=Entrance("cli", "oidc"))
    ends: dict[str, Callable[[], Any]] = {
        "revoke": lambda: identities.revoke(identity.id),
        "disable": lambda: identities.disable(identity.id),
        "lower": lambda: identities.change(identity.id, {"role": "viewer"}),
        "session": lambda: identities.end_sessions(identity.id),
    }
    with httpx2.Client(base_url=served.url, headers=_bearer(token), timeout=60) as http:
        assert http.get("/api/v1/me").status_code == 200
        threading.Timer(1.0, ends[end]).start()
        answer = http.get(f"/api/v1/operations/{operation.id}/wait?seconds=50")
    assert (answer.status_code, answer.json()["code"]) == (401, "identity.ended"), "it did not wait for the fifty seconds"
