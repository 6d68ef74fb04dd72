"""What serves is found and asked, whoever made it; the model's own refusals and those of the way to it are two things."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.capacity.doors import Door
from tests.clusters.conftest import shared_room, shared_sandbox  # noqa: F401 - fixtures
from tests.clusters.worlds import SandboxProcess
from tests.inference import stands
from tests.inference.stands import BASE, SMALL, Stand

from instantstart import main
from instantstart.capabilities.room import Room
from instantstart.faces.cli import main as cli
from instantstart.faces.cli import session

SERVED = f"{BASE}/served-models"
THEIRS = f"{SERVED}/default/theirs"


@pytest.fixture(scope="module")
def stand(shared_room: Room, shared_sandbox: SandboxProcess) -> Stand:  # noqa: F811
    """A cluster in which a stranger runs vLLM, and a container that is no server of models."""
    made = stands.stand(shared_room, shared_sandbox, nodes=2)
    made.kube.apply(stands.stranger())
    made.kube.apply(stands.stranger("web", image="nginx:1", args=["nginx"], resources={}))
    made.ready("theirs")
    return made


@pytest.fixture(scope="module")
def door(shared_room: Room, stand: Stand) -> Iterator[Door]:  # noqa: F811
    """Its door."""
    with TestClient(main.application(shared_room), base_url="http://127.0.0.1:3099", raise_server_exceptions=False) as client:
        yield stands.door(client, shared_room)


def test_what_others_serve_is_listed_and_marked_and_other_work_is_not(door: Door) -> None:
    told = door.get(SERVED)
    assert [(s["name"], s["path"], s["engine"], s["model"], s["state"]) for s in told["items"]] == [
        ("theirs", "foreign", "vllm", SMALL, "answering")
    ]
    managed = door.client.get(f"/api/v1{SERVED}?path=managed", headers=door.headers)
    assert managed.json()["items"] == []
    detail = door.get(THEIRS)
    assert detail["replicas"][0]["ready"]
    assert any(e["reason"] == "Scheduled" for e in detail["events"])
    told = door.refusal(404, "GET", f"{SERVED}/default/nobody")
    assert "theirs" in told["hint"]


def test_a_chat_is_answered_with_its_figures_and_its_curl(door: Door) -> None:
    told = door.well(200, "POST", f"{THEIRS}/calls", {"prompt": "Hello there", "max_tokens": 12})
    assert told["ok"]
    assert told["text"]
    assert told["completion_tokens"] == 12
    assert told["finish_reason"] == "length"
    assert 0 <= told["first_token_ms"] <= told["latency_ms"]
    assert told["curl"].startswith("kubectl port-forward -n default deployment/theirs")


def test_completions_and_any_json_are_asked_too(door: Door) -> None:
    told = door.well(200, "POST", f"{THEIRS}/calls", {"api": "completions", "prompt": "Once", "max_tokens": 3})
    assert told["ok"]
    listed = door.well(200, "POST", f"{THEIRS}/calls", {"api": "json", "path": "v1/models", "method": "GET"})
    assert listed["answer"]["data"][0]["id"] == SMALL


def test_what_the_model_refuses_is_an_answer_and_no_problem(door: Door) -> None:
    told = door.well(200, "POST", f"{THEIRS}/calls", {"api": "embeddings", "prompt": "x"})
    assert (told["ok"], told["status"]) == (False, 400)
    assert "Embeddings" in told["error"]
    told = door.well(200, "POST", f"{THEIRS}/calls", {"prompt": "x", "model": "another"})
    assert not told["ok"]
    assert told["status"] == 404


@pytest.mark.parametrize(
    "path",
    [
        "http://169.254.169.254/latest", "//evil/x", "../../api/v1/secrets", "v1/../../x", "v1/%2e%2e/x", "a?b", "a#b", "", "/v1/models",
        "v1 x",
    ],
)  # fmt: skip
def test_no_path_leads_anywhere_but_to_the_server(door: Door, path: str) -> None:
    assert "/path" in door.pointers("POST", f"{THEIRS}/calls", {"api": "json", "path": path, "method": "GET"})


def test_no_address_of_a_callers_is_taken(door: Door) -> None:
    for name in ("url", "host", "headers", "port"):
        assert f"/{name}" in door.pointers("POST", f"{THEIRS}/calls", {"prompt": "x", name: "http://10.0.0.1"})
    assert door.call("POST", f"{SERVED}/kube-system/coredns/calls", {"prompt": "x"}).status_code == 404
    assert door.call("POST", f"{SERVED}/default/web/calls", {"prompt": "x"}).status_code == 404


def test_a_stream_is_relayed_as_it_comes_and_ends_with_its_figures(door: Door) -> None:
    url = f"/api/v1{THEIRS}/calls/stream"
    with door.client.stream("POST", url, json={"prompt": "Tell", "max_tokens": 8}, headers=door.headers) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = [line for line in answer.iter_lines() if line]
    assert "data: [DONE]" in lines
    figures = json.loads(lines[-1].removeprefix("data: "))
    assert lines[-2] == "event: figures"
    assert figures["completion_tokens"] == 8
    assert figures["replica"].startswith("theirs-")
    pieces = [json.loads(line[6:]) for line in lines if line.startswith("data: {") and '"delta"' in line]
    assert len([p for p in pieces if p["choices"] and p["choices"][0]["delta"].get("content")]) == 8


def test_a_refused_stream_is_one_answer(door: Door) -> None:
    url = f"/api/v1{THEIRS}/calls/stream"
    with door.client.stream("POST", url, json={"prompt": "x", "model": "another"}, headers=door.headers) as answer:
        lines = [line for line in answer.iter_lines() if line]
    assert lines[0] == "event: answer"
    assert json.loads(lines[1][6:])["status"] == 404
    assert door.refusal(422, "POST", f"{THEIRS}/calls/stream", {})["code"] == "model_call.refused"


def test_metrics_come_from_the_servers_themselves(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("instantstart.ensure.inference.meters.FRESH_SECONDS", 0.0)
    door.get(f"{THEIRS}/metrics")
    door.well(200, "POST", f"{THEIRS}/calls", {"prompt": "Count", "max_tokens": 20})
    told = door.get(f"{THEIRS}/metrics")
    newest = told["samples"][-1]
    assert told["trouble"] is None
    assert newest["replicas"] == 1
    assert newest["generated_tokens_per_second"] > 0
    assert newest["first_token_ms"] is not None
    assert door.get(SERVED)["items"][0]["running"] is not None


def test_callers_beyond_the_bound_are_asked_to_come_back(door: Door, shared_room: Room) -> None:  # noqa: F811
    free = threading.BoundedSemaphore(1)
    free.acquire()
    before, shared_room.meters.calls = shared_room.meters.calls, free
    try:
        assert door.refusal(503, "POST", f"{THEIRS}/calls", {"prompt": "x"})["code"] == "model_call.too_many"
    finally:
        shared_room.meters.calls = before


def test_nobody_to_ask_is_told_with_the_reason(door: Door, stand: Stand) -> None:
    broken = stands.stranger("broken", args=["--model", "does-not-exist/model"])
    stand.kube.apply(broken)

    def why() -> Any:
        found = next((s for s in door.get(SERVED)["items"] if s["name"] == "broken"), None)
        return found if found and found["why_code"] == "model.missing" else None

    found = stand.await_fact(why)
    assert found["state"] == "failing"
    told = door.refusal(503, "POST", f"{SERVED}/default/broken/calls", {"prompt": "x"})
    assert told["code"] == "model.no_replica"
    assert found["why"] in told["detail"]
    stand.kube.delete("Deployment", "broken", "default")


def test_the_command_line_prints_words_and_figures(door: Door, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("INSTANTSTART_URL", "http://127.0.0.1:3099")
    monkeypatch.setenv("INSTANTSTART_TOKEN", door.headers["Authorization"].removeprefix("Bearer "))
    monkeypatch.setattr(session, "transport", door.client._transport)
    assert cli.run(["model", "call", "theirs", "Hello", "--cluster", stands.TAG, "--max-tokens", "5"]) == 0
    told = capsys.readouterr()
    assert told.out.strip()
    assert "5 tokens" in told.err
    assert cli.run(["model", "call", "theirs", "Hello", "--cluster", stands.TAG, "--model", "another"]) == 1
    assert "The model says" in capsys.readouterr().err
    assert cli.run(["served", "list", "--cluster", stands.TAG]) == 0
    assert "foreign" in capsys.readouterr().out
    assert cli.run(["served", "get", "theirs", "--cluster", stands.TAG, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["served"]["name"] == "theirs"
