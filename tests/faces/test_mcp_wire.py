"""What no good client sends: JSON of wrong types, no session or a strange one, too much of it. Refused in words, and nothing falls over."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

HEADERS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


def send(served: Any, body: str | bytes, version: str | None = "2025-11-25", **headers: str) -> httpx2.Response:
    """One POST to /mcp as an operator's agent."""
    sent = {**HEADERS, "Authorization": f"Bearer {served.token('operator', 'agent')}", **headers}
    return httpx2.post(f"{served.url}/mcp", content=body, headers=sent | ({"MCP-Protocol-Version": version} if version else {}), timeout=60)


def call(name: Any, arguments: Any) -> str:
    """A tools/call."""
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}})


def answered(response: httpx2.Response) -> dict[str, Any]:
    """The JSON-RPC message of an answer, in a stream or not."""
    text = response.text
    lines = [line.removeprefix("data:").strip() for line in text.splitlines() if line.startswith("data:")]
    return dict(json.loads(next((line for line in lines if line), text)))


@pytest.mark.parametrize(
    "body",
    [
        "",
        "{",
        "null",
        "[]",
        '"tools/call"',
        "{}",
        '{"jsonrpc": "2.0"}',
        '{"jsonrpc": "1.0", "id": 1, "method": "tools/list"}',
        '{"jsonrpc": "2.0", "id": {}, "method": "tools/list"}',
        '{"jsonrpc": "2.0", "id": 1, "method": 5}',
        '{"jsonrpc": "2.0", "id": 1, "method": "tools/steal"}',
        '{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": []}',
        '{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {}}',
        call(5, {}),
        call("cluster_list", []),
        call("cluster_list", "all"),
        call(None, None),
        "[" * 20_000,
        b"\xff\xfe",
    ],
)
def test_what_is_no_call_is_an_error_of_the_protocol(served: Any, body: str | bytes) -> None:
    response = send(served, body)
    assert response.status_code < 500, response.text
    assert "Traceback" not in response.text
    nothing_done = response.status_code == 202 and not response.text  # taken as a notice: nobody waits for an answer
    assert response.status_code >= 400 or nothing_done or "error" in answered(response), response.text


@pytest.mark.parametrize(
    "arguments", [{"tag": {"a": 1}}, {"tag": ["x"]}, {"zone": None}, {"count": True}, {"count": 1e400}, {"capacity": 7}]
)
def test_arguments_of_wrong_types_are_a_problem_with_places(served: Any, arguments: dict[str, Any]) -> None:
    asked = call("cluster_create", {"zone": "use1-az1", **arguments}).replace("Infinity", "1e400")
    message = answered(send(served, asked))
    result = message.get("result")
    assert result is None or result["isError"], message
    assert result is not None or message["error"]["code"] == -32602, message
    assert "Traceback" not in json.dumps(message)


def test_an_argument_too_large_is_refused_in_words(served: Any) -> None:
    """One that the gate lets through is a problem that does not repeat it; one beyond a megabyte does not come in."""
    message = answered(send(served, call("cluster_create", {"tag": "z" * 500_000, "zone": "use1-az1"})))
    assert message["result"]["isError"]
    assert message["result"]["structuredContent"]["fields"][0]["pointer"] == "/tag"
    assert len(json.dumps(message)) < 3000
    response = send(served, call("cluster_create", {"tag": "z" * 2_000_000, "zone": "use1-az1"}))
    assert response.status_code == 413
    assert response.json()["code"]


@pytest.mark.parametrize("version", ["2025-11-25", "2025-06-18", None])
def test_no_session_or_a_forgotten_one_is_as_good_as_any(served: Any, version: str | None) -> None:
    """The transport keeps none: a restart or another replica loses nothing."""
    for headers in ({}, {"Mcp-Session-Id": "of-another-life"}):
        message = answered(send(served, call("cluster_list", {}), version, **headers))
        assert message["result"]["structuredContent"] == {"shown": 0, "items": []}, message


def test_a_strange_version_of_the_protocol_is_refused_in_words(served: Any) -> None:
    response = send(served, call("cluster_list", {}), "1999-01-01")
    assert 400 <= response.status_code < 500
    assert "version" in response.text.lower()
