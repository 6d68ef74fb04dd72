"""MCP with the official client: over streamable HTTP in both protocol eras, and over stdio through a real child process."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

MODES = ["auto", "legacy"]


@contextlib.asynccontextmanager
async def over_http(served: Any, token: str, mode: str = "auto", query: str = "") -> AsyncIterator[Client]:
    """A connected client."""
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=60) as http,
        Client(streamable_http_client(f"{served.url}/mcp{query}", http_client=http), mode=mode) as client,
    ):
        yield client


@contextlib.asynccontextmanager
async def over_stdio(served: Any, token: str, folder: Path, *arguments: str) -> AsyncIterator[Client]:
    """A client of the stdio entry, started as an agent starts it."""
    environment = {**os.environ, "INSTANTSTART_URL": served.url, "INSTANTSTART_TOKEN": token, "XDG_CONFIG_HOME": str(folder)}
    parameters = StdioServerParameters(command=sys.executable, args=["-m", "instantstart", "mcp", *arguments], env=environment)
    async with Client(stdio_client(parameters)) as client:
        yield client


def run(do: Callable[[], Awaitable[None]]) -> None:
    """Run one asynchronous test body."""
    anyio.run(do)


@pytest.mark.parametrize("mode", MODES)
def test_an_agent_creates_waits_and_reads_over_http(served: Any, mode: str) -> None:
    async def body() -> None:
        async with over_http(served, served.token("operator", "agent"), mode) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            assert {"cluster_list", "cluster_create", "operation_wait"} <= set(names)
            made = (await client.call_tool("cluster_create", {"tag": f"http-{mode}", "zone": "use1-az1"})).structured_content
            assert made["status_tool"] == "operation_wait"
            operation = made["operation_id"]
            threading.Timer(0.5, served.room.engine.move, (operation, "running", "began")).start()
            threading.Timer(1.0, served.room.engine.move, (operation, "succeeded", "ended")).start()
            told: list[str | None] = []

            async def progress(progress: float, total: float | None, message: str | None) -> None:
                told.append(message)

            ended = await client.call_tool("operation_wait", {"operation_id": operation, "seconds": 30}, progress_callback=progress)
            assert ended.structured_content["status"] == "succeeded"
            assert "status_tool" not in ended.structured_content
            assert told[0] == "queued"
            assert told[-1] == "succeeded"
            events = (await client.call_tool("operation_events", {"operation_id": operation})).structured_content
            assert [e["untrusted_message"] for e in events["items"]] == ["began", "ended"]

    run(body)
    assert served.room.store.audit.list(_all()).items[0].face == "mcp"


def _all() -> Any:
    from instantstart.store.records import AuditFilter

    return AuditFilter()


def test_the_same_tools_and_answers_over_stdio(served: Any, tmp_path: Path) -> None:
    token = served.token("operator", "agent")
    seen: dict[str, Any] = {}

    async def body() -> None:
        async with over_http(served, token) as client:
            seen["http"] = [tool.model_dump() for tool in (await client.list_tools()).tools]
        async with over_stdio(served, token, tmp_path) as client:
            seen["stdio"] = [tool.model_dump() for tool in (await client.list_tools()).tools]
            seen["made"] = (await client.call_tool("cluster_create", {"tag": "two", "zone": "use1-az1"})).structured_content
            seen["wrong"] = await client.call_tool("cluster_create", {"count": -1})

    run(body)
    assert seen["http"] == seen["stdio"]
    assert seen["made"]["cluster"] == "two"
    assert seen["wrong"].is_error
    assert [f["pointer"] for f in seen["wrong"].structured_content["fields"]] == ["/zone", "/count"]


def test_stdio_starts_without_a_server_and_says_so_when_asked(tmp_path: Path) -> None:
    """Case 93."""

    class Nowhere:
        url = "http://127.0.0.1:9"

    async def body() -> None:
        async with over_stdio(Nowhere, "ist_none", tmp_path) as client:
            answer = await client.call_tool("cluster_list", {})
            assert answer.is_error
            assert answer.structured_content["code"] == "server.unreachable"
            assert "instantstart serve" in answer.structured_content["hint"]
            with pytest.raises(MCPError, match=r"127\.0\.0\.1:9 does not answer.*instantstart serve"):
                await client.list_tools()

    run(body)


def test_stdio_with_a_token_that_is_not_known_says_so_in_the_list(served: Any, tmp_path: Path) -> None:
    async def body() -> None:
        async with over_stdio(served, "ist_none", tmp_path) as client:
            with pytest.raises(MCPError, match="The token is not known here"):
                await client.list_tools()

    run(body)


def test_a_viewer_is_refused_by_the_door_whatever_was_listed(served: Any) -> None:
    async def body() -> None:
        async with over_http(served, served.token("viewer", "agent")) as client:
            refused = await client.call_tool("cluster_create", {"tag": "one", "zone": "use1-az1"})
            assert refused.is_error
            assert refused.structured_content["code"] == "identity.role_too_low"

    run(body)


@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("operation_get", {"operation_id": "../tokens"}, "route.unknown"),
        ("operation_get", {"operation_id": ".."}, "request.invalid"),
        ("operation_get", {"operation_id": "--server=http://evil.example"}, "route.unknown"),
        ("operation_get", {"operation_id": "a\nb"}, "request.invalid"),
        ("operation_get", {"operation_id": "x" * 10_000}, "request.invalid"),
        ("operation_get", {}, "request.invalid"),
        ("operation_get", {"operation_id": "none", "extra": 1}, "request.invalid"),
        ("operation_wait", {"operation_id": "none", "seconds": 3600}, "request.invalid"),
        ("operation_wait", {"operation_id": "none", "seconds": -1}, "request.invalid"),
        ("operation_wait", {"operation_id": "none", "seconds": 0.5}, "request.invalid"),
        ("operation_wait", {"operation_id": "none", "seconds": "60"}, "request.invalid"),
        ("operation_list", {"status": ["odd"]}, "request.invalid"),
        ("cluster_create", {"zone": 1, "tag": "$(id)"}, "request.invalid"),
        ("CLUSTER_CREATE", {}, "tool.unknown"),
        ("cluster_delete", {"cluster": "x"}, "tool.unknown"),
        ("token_create", {"name": "x", "role": "admin"}, "tool.unknown"),
    ],
)
def test_a_bad_call_is_a_problem_with_what_to_do(served: Any, tool: str, arguments: dict[str, Any], code: str) -> None:
    async def body() -> None:
        async with over_http(served, served.token("operator", "agent")) as client:
            answer = await client.call_tool(tool, arguments)
            assert answer.is_error
            assert answer.structured_content["code"] == code
            assert "Traceback" not in answer.content[0].text  # type: ignore[union-attr]

    run(body)


def test_waiting_comes_back_within_its_time(served: Any) -> None:
    """Case 92."""

    async def body() -> None:
        async with over_http(served, served.token("operator")) as client:
            made = (await client.call_tool("cluster_create", {"tag": "wait", "zone": "use1-az1"})).structured_content
            waited = (await client.call_tool("operation_wait", {"operation_id": made["operation_id"], "seconds": 2})).structured_content
            assert waited["status"] == "queued"
            assert waited["status_tool"] == "operation_wait"
            assert waited["check_again_in_seconds"] >= 1

    run(body)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer ist_wrong"}, 401),
        ({"Authorization": "right", "Host": "evil.example"}, 421),
        ({"Authorization": "right", "Origin": "http://evil.example"}, 403),
    ],
)
def test_the_transport_stands_behind_the_gate(served: Any, headers: dict[str, str], status: int) -> None:
    sent = {k: v.replace("right", f"Bearer {served.token('viewer')}") for k, v in headers.items()}
    answer = httpx2.post(f"{served.url}/mcp", headers=sent, json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    assert answer.status_code == status
    assert answer.json()["status"] == status


def test_toolsets_narrow_and_widen_what_is_listed(served: Any) -> None:
    token = served.token("admin")
    seen: dict[str, set[str]] = {}

    async def body() -> None:
        for query in ("", "?toolsets=read", "?toolsets=all", "?toolsets=read,operate,"):
            async with over_http(served, token, query=query) as client:
                seen[query] = {tool.name for tool in (await client.list_tools()).tools}

    run(body)
    assert "cluster_create" in seen[""]
    assert "cluster_create" not in seen["?toolsets=read"]
    assert seen["?toolsets=read"] < seen[""] <= seen["?toolsets=all"]
    assert seen["?toolsets=read,operate,"] == seen[""]


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("?toolsets=nonsense", "no toolset nonsense. Toolsets are read, operate, admin, core, .*, or all"),
        ("?toolsets=read,trainig", "no toolset trainig.*Did you mean training"),
        ("?toolsets=all,read", "no toolset all"),
        ("?toolset=all", "the name is toolsets. Write .toolsets=all"),
    ],
)
def test_a_toolset_that_is_none_is_refused_and_not_taken_for_the_default(served: Any, query: str, says: str) -> None:
    async def body() -> None:
        async with over_http(served, served.token("admin"), query=query) as client:
            with pytest.raises(MCPError, match=says) as told:
                await client.list_tools()
            assert told.value.error.data["code"] == "tool.toolsets"
            called = await client.call_tool("cluster_list", {})
            assert called.is_error
            assert called.structured_content["code"] == "tool.toolsets"

    run(body)


@pytest.mark.parametrize(
    ("tool", "arguments", "meant", "missing"),
    [
        ("operation_get", {"id": "op_1"}, {"/id": "operation_id"}, []),
        ("cluster_create", {"name": "x", "Zone": "use1-az1"}, {"/Zone": "zone", "/name": "tag"}, []),
        ("cluster_create", {"nodes": 2}, {"/nodes": None}, ["/zone"]),
        ("operation_wait", {"operationId": "op_1", "timeout": 5}, {"/operationId": "operation_id", "/timeout": None}, []),
    ],
)
def test_a_wrong_name_is_told_with_the_right_ones(
    served: Any, tool: str, arguments: dict[str, Any], meant: dict[str, str | None], missing: list[str]
) -> None:
    async def body() -> None:
        async with over_http(served, served.token("operator", "agent")) as client:
            answer = (await client.call_tool(tool, arguments)).structured_content
            told = {each["pointer"]: each["message"] for each in answer["fields"]}
            assert list(told) == [*meant, *missing]
            for pointer, name in meant.items():
                assert (f"did you mean {name}?" in told[pointer]) if name else ("did you mean" not in told[pointer])
            assert answer["hint"].startswith(f"The arguments of {tool}: ")

    run(body)


def test_a_tool_that_is_not_shown_is_told_with_its_toolset(served: Any) -> None:
    async def body() -> None:
        async with over_http(served, served.token("operator", "agent")) as client:
            elsewhere = (await client.call_tool("training_job_submit", {})).structured_content
            assert "toolsets=operate,training" in elsewhere["hint"]
            mistyped = (await client.call_tool("cluster_lst", {})).structured_content
            assert "Did you mean cluster_list?" in mistyped["hint"]

    run(body)


def test_the_playbooks_are_prompts_and_resources(served: Any) -> None:
    async def body() -> None:
        async with over_http(served, served.token("viewer", "agent")) as client:
            names = {each.name for each in (await client.list_prompts()).prompts}
            assert {"create-cluster", "nccl"} <= names
            told = await client.get_prompt("create-cluster", {"wish": "two big ones\x1b[2J"})
            text = told.messages[0].content.text  # type: ignore[union-attr]
            assert "`cluster_create`" in text
            assert "two big ones" in text
            assert "\x1b" not in text
            listed = (await client.list_resources()).resources
            assert {str(each.uri) for each in listed} >= {"skill://create-cluster"}
            read = await client.read_resource("skill://node-health")
            assert "Change nothing." in read.contents[0].text  # type: ignore[union-attr]
            with pytest.raises(MCPError, match="There is no skill"):
                await client.get_prompt("../../etc/passwd")

    run(body)
