"""Who may enter: tokens, roles, console sessions, one-time codes, failed sign-ins, and the audit log."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest
from starlette.testclient import TestClient

from instantstart.faces.api.auth import ANONYMOUS, COOKIE, Attempts
from instantstart.faces.api.openapi import api_routes, role_of

Sign = Callable[..., dict[str, str]]
OURS = {"Origin": "http://127.0.0.1:3099"}


def test_every_route_asks_for_a_role_or_is_a_known_anonymous_one(built: tuple[Any, Any]) -> None:
    app = built[0]
    described = {op["operationId"]: (method.upper(), path) for path, ops in app.openapi()["paths"].items() for method, op in ops.items()}
    without = {described[r.operation_id] for r in api_routes(app) if r.operation_id and role_of(r) is None}
    assert len(api_routes(app)) > 15
    assert without == set(ANONYMOUS)


@pytest.mark.parametrize(
    "path", ["/api/v1/me", "/api/v1/clusters", "/api/v1/nowhere", "/api", "/mcp", "/openapi.json", "/metrics", "/api/v1/session/"]
)
def test_nothing_but_health_and_the_console_answers_without_an_identity(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert answer.json()["code"] == "identity.missing"


@pytest.mark.parametrize("header", ["Bearer ist_wrong", "Bearer ", "Basic YTpi", "ist_abc", "Bearer " + "ist_" + "x" * 5000])
def test_a_wrong_token_is_refused(client: TestClient, header: str) -> None:
    assert client.get("/api/v1/me", headers={"Authorization": header}).status_code in (401, 431)


def test_an_ended_token_is_refused(client: TestClient, room: Any) -> None:
    soon = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=1)
    _, token = room.store.identities.create_token("old", "admin", "person", soon)
    assert client.get("/api/v1/me", headers={"Authorization": f"Bearer {token}"}).status_code == 401


@pytest.mark.parametrize(
    ("role", "method", "path", "status"),
    [
        ("viewer", "GET", "/api/v1/operations", 200),
        ("viewer", "POST", "/api/v1/clusters", 403),
        ("viewer", "GET", "/api/v1/tokens", 403),
        ("operator", "POST", "/api/v1/clusters", 422),
        ("operator", "POST", "/api/v1/tokens", 403),
        ("operator", "GET", "/api/v1/audit", 403),
        ("admin", "GET", "/api/v1/audit", 200),
    ],
)
def test_a_role_opens_its_floor_and_those_below(client: TestClient, sign: Sign, role: str, method: str, path: str, status: int) -> None:
    answer = client.request(method, path, headers=sign(role), json={} if method == "POST" else None)
    assert answer.status_code == status


def test_an_agent_is_never_an_administrator_and_never_approves(client: TestClient, sign: Sign, room: Any) -> None:
    made = client.post("/api/v1/tokens", headers=sign("admin"), json={"name": "bot", "role": "admin", "kind": "agent"})
    assert made.status_code == 422
    operation, _ = room.engine.start("cluster.create", {}, caller="x", cluster="a")
    refused = client.post(f"/api/v1/operations/{operation.id}:approve", headers=sign("operator", "agent"))
    assert (refused.status_code, refused.json()["code"]) == (403, "approval.needs_person")


def test_a_token_is_shown_once_and_ends_at_once(client: TestClient, sign: Sign) -> None:
    admin = sign("admin")
    made = client.post("/api/v1/tokens", headers=admin, json={"name": "ci", "role": "operator", "expires_in_days": 1})
    assert made.status_code == 201
    token, identity = made.json()["token"], made.json()["identity"]["id"]
    assert token not in client.get("/api/v1/tokens", headers=admin).text
    bearer = {"Authorization": f"Bearer {token}"}
    assert client.get("/api/v1/me", headers=bearer).json()["role"] == "operator"
    assert client.delete(f"/api/v1/tokens/{identity}", headers=admin).status_code == 200
    assert client.get("/api/v1/me", headers=bearer).status_code == 401
    assert client.delete("/api/v1/tokens/none", headers=admin).status_code == 404


def test_the_last_administrator_stays(client: TestClient, sign: Sign) -> None:
    admin = sign("admin")
    me = client.get("/api/v1/me", headers=admin).json()["id"]
    refused = client.delete(f"/api/v1/tokens/{me}", headers=admin)
    assert (refused.status_code, refused.json()["code"]) == (409, "identity.last_admin")


def test_a_sign_in_link_works_once_and_its_session_is_a_strict_cookie(client: TestClient, room: Any) -> None:
    identity, _ = room.store.identities.create_token("ada", "operator", "person")
    code = room.store.identities.create_code(identity.id)
    first = client.post("/api/v1/session", json={"code": code}, headers=OURS)
    assert first.status_code == 201
    cookie = first.headers["set-cookie"]
    assert cookie.startswith(COOKIE + "=")
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "Path=/" in cookie
    me = client.get("/api/v1/me").json()
    assert (me["name"], me["face"]) == ("ada", "console")
    again = client.post("/api/v1/session", json={"code": code}, headers=OURS)
    assert (again.status_code, again.json()["code"]) == (401, "identity.sign_in_failed")


def test_signing_out_ends_the_session_on_the_server(client: TestClient, token: Callable[..., str]) -> None:
    client.post("/api/v1/session", json={"token": token("viewer")}, headers=OURS)
    secret = client.cookies[COOKIE]
    assert client.delete("/api/v1/session", headers=OURS).status_code == 204
    client.cookies.clear()
    assert client.get("/api/v1/me", headers={"Cookie": f"{COOKIE}={secret}"}).status_code == 401


def test_revoking_an_identity_ends_its_sessions(client: TestClient, room: Any) -> None:
    identity, token = room.store.identities.create_token("bob", "operator", "person")
    client.post("/api/v1/session", json={"token": token}, headers=OURS)
    assert client.get("/api/v1/me").status_code == 200
    room.store.identities.revoke(identity.id)
    assert client.get("/api/v1/me").status_code == 401


@pytest.mark.parametrize("body", [{}, {"code": "abcdefgh", "token": "ist_abcdefgh"}, {"code": 1}, {"password": "x"}])
def test_a_sign_in_says_one_thing(client: TestClient, body: dict[str, Any]) -> None:
    assert client.post("/api/v1/session", json=body, headers=OURS).status_code == 422


def test_a_cookie_alone_changes_nothing(client: TestClient, token: Callable[..., str]) -> None:
    client.post("/api/v1/session", json={"token": token("operator")}, headers=OURS)
    body = {"zone": "use1-az1"}
    for headers in (
        {},
        {"Origin": "http://evil.example"},
        {"Origin": "http://127.0.0.1:4000"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "same-site"},
    ):
        refused = client.post("/api/v1/clusters", json=body, headers=headers)
        assert refused.status_code == 403, headers
    assert client.post("/api/v1/clusters", json=body, headers=OURS).status_code == 202
    assert client.post("/api/v1/clusters", json=body, headers={"Sec-Fetch-Site": "same-origin"}).status_code == 202


def test_a_cookie_is_no_key_to_mcp(client: TestClient, token: Callable[..., str]) -> None:
    client.post("/api/v1/session", json={"token": token("operator")}, headers=OURS)
    assert client.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, headers=OURS).status_code == 401


def test_failed_sign_ins_are_slowed_and_a_right_token_is_not(client: TestClient, sign: Sign, token: Callable[..., str]) -> None:
    answers = [client.post("/api/v1/session", json={"token": f"ist_wrong{n:04}"}, headers=OURS).status_code for n in range(12)]
    assert answers == [401] * 10 + [429] * 2
    limited = client.post("/api/v1/session", json={"token": token("viewer")}, headers=OURS)
    assert (limited.status_code, limited.json()["code"]) == (429, "request.too_many")
    assert limited.headers["retry-after"] == "60"
    assert client.get("/api/v1/me", headers=sign("viewer")).status_code == 200
    wrong = [client.get("/api/v1/me", headers={"Authorization": "Bearer ist_nope"}).status_code for _ in range(12)]
    assert 429 in wrong
    assert client.get("/api/v1/me", headers=sign("viewer")).status_code == 200


def test_failures_are_forgotten_after_the_window_and_never_grow_without_bound() -> None:
    now = 0.0
    attempts = Attempts(limit=2, window_seconds=10, addresses=3)
    attempts.now = lambda: now
    for address in ("a", "a", "b", "c", "d"):
        attempts.failed(address)
    assert not attempts.exhausted("a"), "the oldest address made room"
    attempts.failed("d")
    assert attempts.exhausted("d")
    now = 11.0
    assert not attempts.exhausted("d")


def test_every_mutating_call_leaves_a_line(client: TestClient, sign: Sign) -> None:
    admin, operator = sign("admin"), sign("operator", "agent")
    made = client.post(
        "/api/v1/clusters?dry_run=true", headers={**operator, "X-InstantStart-Face": "cli"}, json={"tag": "one", "zone": "use1-az1"}
    )
    client.post("/api/v1/clusters", headers=operator, json={"zone": 1})
    client.get("/api/v1/clusters", headers=operator)
    client.post("/api/v1/session", json={"token": "ist_wrong_one"}, headers=OURS)
    lines = client.get("/api/v1/audit", headers=admin).json()["items"]
    told = [(x["method"], x["path"], x["face"], x["status"], x["kind"], x["summary"].split()[0], x["operation_id"]) for x in lines]
    assert told == [
        ("POST", "/api/v1/session", "console", 401, "", "session_create", None),
        ("POST", "/api/v1/clusters", "api", 422, "agent", "cluster_create", None),
        ("POST", "/api/v1/clusters", "cli", 202, "agent", "cluster_create", made.json()["id"]),
    ]
    assert "dry_run=true" in lines[2]["summary"]
    filtered = client.get("/api/v1/audit", params={"face": "cli"}, headers=admin).json()["items"]
    assert len(filtered) == 1


def test_a_made_up_face_is_not_believed(client: TestClient, sign: Sign) -> None:
    assert client.get("/api/v1/me", headers={**sign("viewer"), "X-InstantStart-Face": "root"}).json()["face"] == "api"
