"""Many connections at once: nobody holds all of them, the idle make room, the health of the process can always be asked."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest
from tests.faces import toys
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from instantstart.base.settings import Settings
from instantstart.faces.api import crowd, wire

MOST, EACH = 6, 4
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
BEGUN = b"GET /api/v1/me HTTP/1.1\r\nHost: 127.0.0.1\r\n"


class Line:
    """A connection as the crowd sees it."""

    def __init__(self, waiting: bool = True) -> None:
        self.is_waiting, self.closed = waiting, False
        self.transport = SimpleNamespace(is_closing=lambda: self.closed)

    def give_up(self) -> None:
        """Noted."""
        self.closed = True


def test_who_waits_longest_makes_room() -> None:
    lines = [Line() for _ in range(MOST + 2)]
    kept = crowd.Crowd(MOST)
    assert all(kept.enter(line, f"10.0.0.{n}") for n, line in enumerate(lines))
    assert [line.closed for line in lines] == [True, True] + [False] * MOST
    assert len(kept) == MOST


def test_who_is_at_work_keeps_its_place_and_the_new_one_stands_aside() -> None:
    kept = crowd.Crowd(MOST)
    busy = [Line(waiting=False) for _ in range(MOST)]
    assert all(kept.enter(line, "10.0.0.1") for line in busy)
    aside = [Line() for _ in range(crowd.SPARE + 3)]
    assert not any(kept.enter(line, "10.0.0.2") for line in aside)
    assert [line.closed for line in aside] == [True] * 3 + [False] * crowd.SPARE
    assert not any(line.closed for line in busy)
    kept.leave(busy[0])
    kept.leave(busy[0])
    assert kept.enter(Line(), "10.0.0.2")


def test_an_address_has_its_share_and_makes_room_among_its_own() -> None:
    kept = crowd.Crowd(0, EACH, frozenset({"10.9.9.9"}))
    other, own = Line(), [Line() for _ in range(EACH + 1)]
    assert kept.enter(other, "10.0.0.2")
    assert all(kept.enter(line, f"2001:db8::{n}") for n, line in enumerate(own))
    assert [line.closed for line in own] == [True, False, False, False, False]
    assert not other.closed
    assert all(kept.enter(Line(waiting=False), "10.9.9.9") for _ in range(EACH * 3)), "a proxy stands for many"


def test_a_socket_that_has_ended_makes_room_without_a_word() -> None:
    kept = crowd.Crowd(1)
    ended = Line(waiting=False)
    assert kept.enter(ended, "10.0.0.1")
    ended.closed = True
    assert kept.enter(Line(waiting=False), "10.0.0.1")
    assert len(kept) == 1


def test_the_settings_say_how_many_and_which_proxies_stand_for_many(tmp_path: Path) -> None:
    kept = crowd.of_settings(
        Settings(data_dir=tmp_path, max_connections=3, max_connections_per_address=1, trusted_proxies="10.0.0.9, 10.0.0.8")
    )
    assert [kept.enter(Line(waiting=False), address) for address in ("10.0.0.1", "10.0.0.1", "10.0.0.9", "10.0.0.9", "10.0.0.8")] == [
        True, False, True, True, False,
    ]  # fmt: skip


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Any]:
    """A server that keeps few connections."""
    with toys.listening(tmp_path, crowd.Crowd(MOST)) as running:
        yield running


def opened(running: Any, said: bytes = b"") -> socket.socket:
    """A connection that has said something."""
    host, port = running.url.removeprefix("http://").split(":")
    line = socket.create_connection((host, int(port)), timeout=30)
    line.sendall(said)
    return line


def told(line: socket.socket) -> bytes:
    """All that is said until the end, or until the answer to one request is whole."""
    heard = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := line.recv(65536):
            heard += piece
            head, _, body = heard.partition(b"\r\n\r\n")
            if b"content-length: %d" % len(body) in head.lower():
                break
    return heard


def test_a_thousand_that_dawdle_keep_nobody_out(small: Any) -> None:
    """Each begins a request and never ends it."""
    with contextlib.ExitStack() as stack:
        for _ in range(50):
            for _ in range(20):
                stack.enter_context(opened(small, BEGUN))
            with opened(small, HEALTH) as line:
                assert told(line).startswith(b"HTTP/1.1 200 ")


def test_where_all_are_at_work_the_new_one_is_told_and_health_is_answered(small: Any) -> None:
    operation = small.room.engine.start("cluster.create", {}, caller="x", cluster="demo")[0].id
    token = small.token("viewer")
    address = f"{small.url.replace('http', 'ws')}/api/v1/operations/{operation}/stream"
    headers = {"Authorization": f"Bearer {token}"}
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(connect(address, additional_headers=headers)) for _ in range(MOST)]
        with opened(small, BEGUN + b"Authorization: Bearer " + token.encode() + b"\r\n\r\n") as line:
            head, _, body = told(line).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: 5" in head.lower()
        assert b"application/problem+json" in head
        assert json.loads(body)["code"] == "server.crowded"
        with opened(small, HEALTH) as line:
            assert told(line).startswith(b"HTTP/1.1 200 ")
        with pytest.raises(InvalidStatus) as refused, connect(address, additional_headers=headers):
            pass
        assert refused.value.response.status_code == 503
        sockets[0].close()
        with connect(address, additional_headers=headers) as again:
            assert json.loads(again.recv(timeout=30))["type"] == "operation"


def test_an_answer_that_nobody_takes_is_broken_off(small: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "TAKING_SECONDS", 0.2)
    line = opened(small)
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    with line, contextlib.suppress(ConnectionResetError, BrokenPipeError):
        for _ in range(100_000):  # it asks and asks, and never reads
            line.sendall(
                b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer " + small.token("viewer").encode() + b"\r\n\r\n"
            )
        pytest.fail("nobody hung up")


BODY = b'{"token": "nothing"}'
POSTED = b"POST /api/v1/session HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(BODY)


def test_a_body_that_does_not_come_is_told_so(small: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "BODY_SECONDS", 0.2)
    with opened(small, POSTED) as line:
        heard = told(line)
    assert heard.startswith(b"HTTP/1.1 408 ")
    assert b"application/problem+json" in heard


def test_a_body_may_take_its_time_as_long_as_it_comes(small: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "BODY_SECONDS", 0.05)
    monkeypatch.setattr(wire, "BODY_BYTES_A_SECOND", 0)
    looked, late = threading.Semaphore(0), wire.Bounded._late

    def look(line: wire.Bounded) -> None:
        late(line)
        looked.release()

    monkeypatch.setattr(wire.Bounded, "_late", look)
    with opened(small, POSTED + BODY[:5]) as line:
        for _ in range(3):
            looked.acquire()
        line.sendall(BODY[5:])
        assert told(line).startswith(b"HTTP/1.1 422 ")


def test_an_identity_has_only_so_many_streams_open(tmp_path: Path) -> None:
    app, room = toys.house(tmp_path, max_open_per_identity=3)
    operation = room.engine.start("cluster.create", {}, caller="x", cluster="demo")[0].id
    with toys.behind_a_socket(app, room) as running:
        address = f"{running.url.replace('http', 'ws')}/api/v1/operations/{operation}/stream"
        mine, other = ({"Authorization": f"Bearer {running.token('viewer')}"} for _ in range(2))
        with contextlib.ExitStack() as stack:
            first, *_ = [stack.enter_context(connect(address, additional_headers=mine)) for _ in range(3)]
            refused = httpx2.get(f"{running.url}/api/v1/me", headers=mine)
            assert (refused.status_code, refused.json()["code"], refused.headers["retry-after"]) == (429, "request.too_many", "5")
            with pytest.raises(InvalidStatus) as denied, connect(address, additional_headers=mine):
                pass
            assert denied.value.response.status_code == 429
            assert httpx2.get(f"{running.url}/api/v1/me", headers=other).status_code == 200
            first.close()
            for _ in range(600):  # until the server has noticed
                if httpx2.get(f"{running.url}/api/v1/me", headers=mine).status_code == 200:
                    break
                time.sleep(0.1)
            stack.enter_context(connect(address, additional_headers=mine))
