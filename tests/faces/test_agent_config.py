"""What ``instantstart agent config`` prints, used as an agent uses it: the command started, the address and header called."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from instantstart.faces.cli import main as cli
from instantstart.faces.mcp.catalog import TOOLS
from instantstart.faces.mcp.tool import Effect

#: stands for docker: drops ``exec -i --env INSTANTSTART_TOKEN instantstart`` and runs the rest, which knows where its server is
_DOCKER = """#!/bin/sh
[ "$1 $2 $3 $4 $5" = "exec -i --env INSTANTSTART_TOKEN instantstart" ] || exit 64
shift 5
exec "$@"
"""


def printed(capsys: pytest.CaptureFixture[str], served: Any, *arguments: str) -> dict[str, Any]:
    """The configuration, and that no token is in it."""
    assert cli.run(["agent", "config", "--url", served.url, *arguments]) == 0
    text = capsys.readouterr().out
    assert "ist_" not in text
    return dict(json.loads(text))


def filled_in(value: Any, variables: dict[str, str]) -> Any:
    """``${NAME}`` put in from the environment, as Claude Code, Kiro CLI and most clients do."""
    text = json.dumps(value)
    for name, given in variables.items():
        text = text.replace("${" + name + "}", given)
    assert "${" not in text, text
    return json.loads(text)


@contextlib.asynccontextmanager
async def started(entry: dict[str, Any], path: str) -> AsyncIterator[Client]:
    """A client on one entry of mcpServers."""
    if entry.get("type") == "http":
        async with (
            httpx2.AsyncClient(headers=entry["headers"], timeout=60) as http,
            Client(streamable_http_client(entry["url"], http_client=http)) as client,
        ):
            yield client
        return
    environment = {**{k: v for k, v in os.environ.items() if not k.startswith("INSTANTSTART_")}, **entry["env"], "PATH": path}
    async with Client(stdio_client(StdioServerParameters(command=entry["command"], args=entry["args"], env=environment))) as client:
        yield client


@pytest.fixture
def path(tmp_path: Path, served: Any) -> str:
    """A PATH with this installation's program and a stand-in for docker."""
    docker = tmp_path / "docker"
    docker.write_text(_DOCKER.replace('exec "$@"', f'INSTANTSTART_URL={served.url} exec "$@"'))
    docker.chmod(docker.stat().st_mode | stat.S_IXUSR)
    program = tmp_path / "instantstart"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m instantstart "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return f"{tmp_path}:{os.environ['PATH']}"


@pytest.mark.parametrize(
    ("agent", "way"), [("kiro", "http"), ("claude", "http"), ("generic", "http"), ("claude", "stdio"), ("kiro", "container")]
)
def test_what_is_printed_works(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, served: Any, path: str, agent: str, way: str
) -> None:
    monkeypatch.setenv("PATH", path)
    made = printed(capsys, served, "--for", agent, "--through", way)
    entry = filled_in(made["mcpServers"]["instantstart"], {"INSTANTSTART_TOKEN": served.token("operator", "agent")})

    async def body() -> None:
        async with started(entry, path) as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            assert {"cluster_list", "cluster_create", "operation_wait"} <= names
            assert not (await client.call_tool("cluster_list", {})).is_error
            reading = {tool.name for tool in TOOLS if tool.effect is Effect.reads}
            allowed = {each.removeprefix("@instantstart/") for each in made.get("allowedTools", ())}
            assert allowed <= reading, "nothing that changes is allowed without asking"

    anyio.run(body)


def test_toolsets_go_into_what_is_printed(capsys: pytest.CaptureFixture[str], served: Any) -> None:
    made = printed(capsys, served, "--for", "generic", "--toolsets", "read")
    entry = filled_in(made["mcpServers"]["instantstart"], {"INSTANTSTART_TOKEN": served.token("viewer", "agent")})

    async def body() -> None:
        async with started(entry, "") as client:
            assert "cluster_create" not in {tool.name for tool in (await client.list_tools()).tools}

    anyio.run(body)


def test_a_toolset_that_there_is_none_of_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["agent", "config", "--for", "generic", "--url", "http://127.0.0.1:3099", "--toolsets", "read,nonsense"]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert "Toolsets are read, operate, admin, core" in told.err


def test_without_a_token_it_is_told_how_to_get_one(capsys: pytest.CaptureFixture[str], served: Any) -> None:
    entry = printed(capsys, served, "--for", "claude")["mcpServers"]["instantstart"]
    answer = httpx2.post(entry["url"], json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, headers=entry["headers"])
    assert answer.status_code == 401
    assert answer.json()["hint"]
