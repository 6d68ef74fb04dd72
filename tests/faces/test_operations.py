"""Operations through the door: list, look, wait, act, and the stream that survives a cut."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from starlette.testclient import TestClient, WebSocketDenialResponse
from starlette.websockets import WebSocketDisconnect

Sign = Callable[..., dict[str, str]]
HOST = {"Host": "127.0.0.1:3099"}


@pytest.fixture
def begun(client: TestClient, sign: Sign) -> str:
    """The id of an operation that has just been asked for."""
    answer = client.post("/api/v1/clusters", headers=sign("operator"), json={"tag": "one", "zone": "use1-az1"})
    assert answer.status_code == 202
    assert answer.headers["location"] == f"/api/v1/operations/{answer.json()['id']}"
    return str(answer.json()["id"])


def test_an_operation_is_listed_filtered_and_shown(client: TestClient, sign: Sign, room: Any, begun: str) -> None:
    viewer = sign("viewer")
    room.engine.move(begun, "running", "network: began")
    assert [o["id"] for o in client.get("/api/v1/operations", headers=viewer).json()["items"]] == [begun]
    assert client.get("/api/v1/operations?status=failed&status=queued", headers=viewer).json()["items"] == []
    shown = client.get(f"/api/v1/operations/{begun}", headers=viewer).json()
    assert (shown["status"], [s["name"] for s in shown["stages"]]) == ("running", ["network", "nodes"])
    events = client.get(f"/api/v1/operations/{begun}/events", headers=viewer).json()
    assert ([e["message"] for e in events["items"]], events["last_seq"]) == (["network: began"], 1)
    assert client.get(f"/api/v1/operations/{begun}/events?after=1", headers=viewer).json() == {"items": [], "last_seq": 1}


@pytest.mark.parametrize("query", ["limit=0", "limit=201", "sort=sideways", "status=odd", "limit=x", "nonsense=1", "limit=1&limit=2"])
def test_a_wrong_query_points_at_what_is_wrong(client: TestClient, sign: Sign, query: str) -> None:
    answer = client.get(f"/api/v1/operations?{query}", headers=sign("viewer"))
    assert answer.status_code == 422
    assert answer.json()["fields"][0]["pointer"].startswith("/query/" + query.partition("=")[0])


def test_acting_on_an_operation_answers_its_address(client: TestClient, sign: Sign, room: Any, begun: str) -> None:
    operator = sign("operator")
    refused = client.post(f"/api/v1/operations/{begun}:retry", headers=operator)
    assert (refused.status_code, refused.json()["code"]) == (409, "operation.not_retryable")
    room.engine.move(begun, "failed", "it broke")
    for verb in ("retry", "cancel"):
        answer = client.post(f"/api/v1/operations/{begun}:{verb}", headers=operator)
        assert answer.status_code == 202
        assert answer.headers["location"] == f"/api/v1/operations/{begun}"
    assert client.post(f"/api/v1/operations/{begun}:explode", headers=operator).status_code in (404, 405)


def test_waiting_ends_with_the_operation_or_with_the_time(client: TestClient, sign: Sign, room: Any, begun: str) -> None:
    viewer = sign("viewer")
    room.engine.move(begun, "running", "began")
    assert client.get(f"/api/v1/operations/{begun}/wait?seconds=0", headers=viewer).json()["status"] == "running"
    assert client.get(f"/api/v1/operations/{begun}/wait?seconds=50&after=0", headers=viewer).json()["seq"] == 1
    threading.Timer(0.5, room.engine.move, (begun, "succeeded", "ended")).start()
    assert client.get(f"/api/v1/operations/{begun}/wait?seconds=50", headers=viewer).json()["status"] == "succeeded"
    assert client.get(f"/api/v1/operations/{begun}/wait?seconds=51", headers=viewer).status_code == 422


def test_waiting_requests_hold_no_thread(client: TestClient, sign: Sign, room: Any, begun: str) -> None:
    viewer = sign("viewer")
    room.engine.move(begun, "running", "began")
    answers: list[int] = []
    waiting = [
        threading.Thread(
            target=lambda: answers.append(client.get(f"/api/v1/operations/{begun}/wait?seconds=50", headers=viewer).status_code)
        )
        for _ in range(60)  # more than the pool of threads has
    ]
    for each in waiting:
        each.start()
    time.sleep(0.5)
    assert client.get("/api/v1/operations", headers=viewer).status_code == 200
    room.engine.move(begun, "cancelled", "stopped")
    for each in waiting:
        each.join(timeout=30)
    assert answers == [200] * 60


def test_the_stream_tells_snapshots_and_events_and_resumes_behind_a_sequence(client: TestClient, sign: Sign, room: Any, begun: str) -> None:
    address = f"/api/v1/operations/{begun}/stream"
    headers = sign("viewer") | HOST
    room.engine.move(begun, "running", "one")
    with client.websocket_connect(address, headers=headers) as socket:
        first, second = socket.receive_json(), socket.receive_json()
        assert (first["type"], first["operation"]["status"]) == ("operation", "running")
        assert (second["type"], second["event"]["message"], second["event"]["seq"]) == ("event", "one", 1)
    room.engine.move(begun, "running", "two while nobody listened")
    with client.websocket_connect(f"{address}?after=1", headers=headers) as socket:
        told = [socket.receive_json() for _ in range(2)]
        assert [m["event"]["message"] for m in told if m["type"] == "event"] == ["two while nobody listened"]
        room.engine.move(begun, "succeeded", "three")
        rest = [socket.receive_json(), socket.receive_json()]
        with pytest.raises(WebSocketDisconnect) as ended:
            socket.receive_json()
    assert [m["event"]["message"] for m in rest if m["type"] == "event"] == ["three"]
    assert rest[0]["operation"]["status"] == "succeeded"
    assert ended.value.code == 4000


def _ended(socket: Any) -> tuple[str, int]:
    """The problem that a socket ends with, and its code; whatever came before is passed over."""
    told = socket.receive_json()
    while told["type"] != "problem":
        told = socket.receive_json()
    with pytest.raises(WebSocketDisconnect) as ended:
        socket.receive_json()
    return str(told["problem"]["code"]), int(ended.value.code)


def test_a_stream_ends_when_its_token_is_revoked(client: TestClient, room: Any, begun: str) -> None:
    identity, secret = room.store.identities.create_token("watcher", "viewer", "person")
    headers = {"Authorization": f"Bearer {secret}"} | HOST
    with client.websocket_connect(f"/api/v1/operations/{begun}/stream", headers=headers) as socket:
        assert socket.receive_json()["type"] == "operation"
        room.store.identities.revoke(identity.id)
        assert _ended(socket) == ("identity.ended", 4401)


def test_a_stream_ends_when_its_session_does(client: TestClient, token: Callable[..., str], begun: str) -> None:
    ours = {"Origin": "http://127.0.0.1:3099"}
    client.post("/api/v1/session", json={"token": token("viewer")}, headers=ours)
    cookie = {"Cookie": "; ".join(f"{c.name}={c.value}" for c in client.cookies.jar)}
    with client.websocket_connect(f"/api/v1/operations/{begun}/stream", headers=HOST | ours | cookie) as socket:
        assert socket.receive_json()["type"] == "operation"
        client.delete("/api/v1/session", headers=ours)
        assert _ended(socket) == ("identity.ended", 4401)


def test_the_stream_of_an_unknown_operation_tells_a_problem(client: TestClient, sign: Sign) -> None:
    with client.websocket_connect("/api/v1/operations/none/stream", headers=sign("viewer") | HOST) as socket:
        told = socket.receive_json()
        assert (told["type"], told["problem"]["code"]) == ("problem", "operation.unknown")
        with pytest.raises(WebSocketDisconnect):
            socket.receive_json()


def test_a_console_session_opens_the_stream_only_from_its_own_page(client: TestClient, token: Callable[..., str], begun: str) -> None:
    ours = {"Origin": "http://127.0.0.1:3099"}
    client.post("/api/v1/session", json={"token": token("viewer")}, headers=ours)
    cookie = {"Cookie": "; ".join(f"{c.name}={c.value}" for c in client.cookies.jar)}
    with client.websocket_connect(f"/api/v1/operations/{begun}/stream", headers=HOST | ours | cookie) as socket:
        assert socket.receive_json()["type"] == "operation"
    with (
        pytest.raises(WebSocketDenialResponse) as refused,
        client.websocket_connect(f"/api/v1/operations/{begun}/stream", headers=HOST | cookie),
    ):
        pass
    assert refused.value.status_code == 403


@pytest.mark.parametrize("query", ["dryrun=true", "dry_run=true&dry_run=false", "dry_run=true&x=1"])
def test_a_misspelt_or_doubled_parameter_starts_nothing(client: TestClient, sign: Sign, room: Any, query: str) -> None:
    answer = client.post(f"/api/v1/clusters?{query}", headers=sign("operator"), json={"tag": "typo", "zone": "use1-az1"})
    assert answer.status_code == 422
    assert answer.json()["fields"][0]["pointer"].startswith("/query/")
    assert client.get("/api/v1/operations", headers=sign("viewer")).json()["items"] == []
