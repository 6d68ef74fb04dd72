"""``instantstart logs -f``: over a cut it says how far it was, and goes on; a refusal ends it with its words."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator

import pytest
from websockets.sync.server import Server, ServerConnection, serve

from instantstart.base import problems
from instantstart.faces.cli import logs
from instantstart.faces.cli.contexts import Context

GONE = {"code": "job.unknown", "title": "Job unknown", "detail": "There is no job.", "kind": "not_found", "status": 404}


class Story:
    """Answers the first connection, tears it, and answers the second."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.resumed: list[str] = []

    def __call__(self, socket: ServerConnection) -> None:
        assert socket.request is not None
        self.asked.append(socket.request.path)
        if len(self.asked) == 1:
            first = {"type": "lines", "source": "n/a/main", "position": "T1#1", "lines": 1, "text": "T1 one\n"}
            socket.send(json.dumps([first, {"type": "settled", "sources": 1}]))
            socket.socket.close()  # as when the server is killed
            return
        self.resumed.append(str(socket.recv()))
        socket.send(json.dumps([{"type": "settled", "sources": 1}]))
        socket.send(json.dumps([{"type": "lines", "source": "n/a/main", "position": "T2#1", "lines": 1, "text": "T2 two\n"}]))
        socket.send(json.dumps([{"type": "problem", "problem": GONE}]))
        socket.close(4404)


@pytest.fixture
def story() -> Story:
    return Story()


@pytest.fixture
def server(story: Story) -> Iterator[Server]:
    with serve(story, "127.0.0.1", 0) as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield made


def test_a_cut_is_gone_over_and_a_refusal_ends_it(
    server: Server, story: Story, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "AGAIN_SECONDS", 0.01)
    where = Context(f"http://127.0.0.1:{server.socket.getsockname()[1]}", "ist_x", "test")
    with pytest.raises(problems.NotFound, match="There is no job"):
        logs._follow(where, "/clusters/c/logs/stream", {"job": "a"}, logs.Printer(colours=False))
    assert capsys.readouterr().out == "one\ntwo\n"
    assert story.asked == ["/api/v1/clusters/c/logs/stream?job=a", "/api/v1/clusters/c/logs/stream?job=a&resume=true"]
    assert json.loads(story.resumed[0]) == {"after": {"n/a/main": "T1#1"}}


def test_a_server_that_never_answered_is_told_at_once() -> None:
    with pytest.raises(problems.Unreachable, match="No InstantStart server answers"):
        logs._follow(Context("http://127.0.0.1:9", None, "test"), "/x", {}, logs.Printer(colours=False))
