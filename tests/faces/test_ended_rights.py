"""Whoever loses the right to be let in loses what is open: MCP's calls, streams of operations and of models, whichever way it was lost."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import APIRouter
from starlette.responses import StreamingResponse
from tests.faces import toys
from tests.faces.test_mcp import over_http, run
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from instantstart.capabilities.doors import Operator
from instantstart.capabilities.inference.calls import views as call_views
from instantstart.capabilities.training.logs import views as log_views
from instantstart.faces.api import model_streams
from instantstart.faces.mcp.mount import Mount
from instantstart.kube.proxying import Stream
from instantstart.store.records import Entrance

WAYS = ("revoke", "disable", "lower", "session")
talker = APIRouter()
#: set when the talker was made to stop
STOPPED = threading.Event()


@talker.post("/talk", operation_id="toy_talk")
async def talk(_caller: Operator) -> StreamingResponse:
    """Streams as a model does: without an end of its own."""
    import anyio

    async def words() -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"data: word\n\n"
                await anyio.sleep(0.05)
        finally:
            STOPPED.set()

    return StreamingResponse(words(), media_type="text/event-stream")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The toy house with a route that streams."""
    mount = Mount()
    folder: Path = tmp_path_factory.mktemp("ended")
    app, room = toys.house(folder, (toys.toys, talker), mounts={"/mcp": mount}, lifespans=[mount.lifespan])
    mount.connect(app, app.openapi)
    with toys.behind_a_socket(app, room) as running:
        yield running


def _entered(served: Any, way: str) -> tuple[str, Callable[[], Any]]:
    """The secret of somebody, and what ends his right."""
    identities = served.room.store.identities
    identity, token = identities.create_token(f"long {way}", "operator", "person")
    if way == "session":
        token, _ = identities.create_session(identity.id, entrance=Entrance("cli", "oidc"))
    ends: dict[str, Callable[[], Any]] = {
        "revoke": lambda: identities.revoke(identity.id),
        "disable": lambda: identities.disable(identity.id),
        "lower": lambda: identities.change(identity.id, {"role": "viewer"}),
        "session": lambda: identities.end_sessions(identity.id),
    }
    return token, ends[way]


def _begun(served: Any, name: str) -> str:
    return str(served.room.engine.start("cluster.create", {}, caller="x", cluster=name)[0].id)


@pytest.mark.parametrize("way", WAYS)
def test_a_socket_is_closed_with_the_reason(served: Any, way: str) -> None:
    token, end = _entered(served, way)
    operation = _begun(served, f"socket-{way}")
    address = f"{served.url.replace('http', 'ws')}/api/v1/operations/{operation}/stream"
    with connect(address, additional_headers={"Authorization": f"Bearer {token}"}) as socket:
        assert json.loads(socket.recv(timeout=30))["type"] == "operation"
        end()
        told = _last(socket)
        assert told["problem"]["code"] == "identity.ended"
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(timeout=60)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 4401


def _last(socket: Any) -> dict[str, Any]:
    """The problem that a socket ends with; snapshots may come before it."""
    while (told := json.loads(socket.recv(timeout=60)))["type"] != "problem":
        continue
    return dict(told)


@pytest.mark.parametrize("way", ["revoke", "session"])
def test_a_tool_that_waits_ends_with_the_right_of_its_caller(served: Any, way: str) -> None:
    token, end = _entered(served, way)
    operation = _begun(served, f"tool-{way}")
    seen: list[Any] = []

    async def body() -> None:
        async with over_http(served, token) as client:
            threading.Timer(1.0, end).start()
            try:
                answer = await client.call_tool("operation_wait", {"operation_id": operation, "seconds": 50})
                seen.append(answer.is_error)
            except Exception as error:  # noqa: BLE001 - how the client tells of a connection that was cut is the client's
                seen.append(error)

    try:
        run(body)
    except BaseException as error:  # noqa: BLE001 - the same, from the client's own tasks
        seen.append(error)
    assert seen
    assert seen[0], "it did not wait for the fifty seconds, and did not succeed"
    assert served.room.engine.get(operation).status == "queued"


@pytest.mark.parametrize("way", WAYS)
def test_a_stream_of_words_ends_and_whoever_speaks_is_stopped(served: Any, way: str) -> None:
    token, end = _entered(served, way)
    STOPPED.clear()
    heard: list[bytes] = []
    with pytest.raises(httpx2.RemoteProtocolError):
        _listen(served, token, heard, end)
    assert len(heard) >= 3
    assert STOPPED.wait(30)


def _listen(served: Any, token: str, heard: list[bytes], end: Callable[[], Any], path: str = "/api/v1/talk", body: Any = None) -> None:
    """Hear words until they stop; the right ends at the third."""
    headers = {"Authorization": f"Bearer {token}"}
    with httpx2.Client(base_url=served.url, headers=headers, timeout=60) as http, http.stream("POST", path, json=body) as answer:
        assert answer.status_code == 200
        for part in answer.iter_bytes():
            heard.append(part)
            if len(heard) == 3:
                end()


# --- the product's own streams, in front of a world that goes on without an end


class Writing:
    """A reader of logs whose pods go on writing."""

    def __init__(self) -> None:
        self.closed = threading.Event()

    def take(self, _most_bytes: int) -> list[Any]:
        """Nothing new: the bell does not ring again."""
        return []

    def close(self) -> None:
        """Nobody reads any more."""
        self.closed.set()


@pytest.mark.parametrize("way", WAYS)
def test_logs_that_are_followed_end_with_the_reason(served: Any, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Writing()
    monkeypatch.setattr(log_views, "follow", lambda *_: reader)
    token, end = _entered(served, way)
    address = f"{served.url.replace('http', 'ws')}/api/v1/clusters/demo/logs/stream?job=a"
    with connect(address, additional_headers={"Authorization": f"Bearer {token}"}) as socket:
        end()
        (told,) = json.loads(socket.recv(timeout=60))
        assert (told["type"], told["problem"]["code"]) == ("problem", "identity.ended")
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(timeout=60)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 4401
    assert reader.closed.wait(30), "the pods' logs are not followed for nobody"


@pytest.mark.parametrize("way", WAYS)
def test_a_model_that_answers_is_hung_up_on(served: Any, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    left = threading.Event()

    async def words() -> AsyncIterator[bytes]:
        import anyio

        while True:
            yield b'data: {"choices": []}\n\n'
            await anyio.sleep(0.05)

    async def opened(stack: AsyncExitStack, _call: Any) -> tuple[str, Stream]:
        stack.callback(left.set)
        return "replica", Stream(200, "text/event-stream", words())

    monkeypatch.setattr(model_streams, "_open", opened)
    monkeypatch.setattr(call_views, "prepare", lambda *_: None)
    token, end = _entered(served, way)
    heard: list[bytes] = []
    with pytest.raises(httpx2.RemoteProtocolError):
        _listen(served, token, heard, end, "/api/v1/clusters/demo/served-models/default/qwen/calls/stream", {"prompt": "Hi"})
    assert len(heard) >= 3
    assert left.wait(30), "the connection to the model is closed: it does not work for nobody"
