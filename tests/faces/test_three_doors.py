"""One table of bad requests: the same problem through REST, MCP and the command line, on the real routes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from tests.faces import toys

from instantstart import main
from instantstart.base.settings import Settings
from instantstart.capabilities.routes import ROUTERS
from instantstart.faces.api.app import build
from instantstart.faces.cli import main as cli
from instantstart.faces.mcp.mount import Mount


@dataclass(frozen=True)
class Bad:
    """One bad request, said in three ways."""

    code: str
    method: str
    path: str
    tool: str
    arguments: dict[str, Any]
    command: str
    body: dict[str, Any] | None = None
    role: str | None = "admin"
    query: dict[str, Any] = field(default_factory=dict)


_WRONG = {"tag": "-no-", "region": "Mars", "instance_count": -1, "zone": "USE1"}
TABLE = {
    "fields": Bad(
        "request.invalid", "POST", "/clusters", "cluster_create", _WRONG,
        "cluster create --tag=-no- --region Mars --count -1 --zone USE1", _WRONG,
    ),
    "enum": Bad(
        "request.invalid", "POST", "/clusters", "cluster_create",
        {"zone": "use1-az1", "instance_type": "ml.g5.8xlarge", "capacity_type": "free"},
        "cluster create --zone use1-az1 --type ml.g5.8xlarge --capacity free",
        {"zone": "use1-az1", "instance_type": "ml.g5.8xlarge", "capacity_type": "free"},
    ),
    "preflight": Bad("request.invalid", "POST", "/preflight", "preflight_run", {"zone": "x"}, "preflight --zone x", {"zone": "x"}),
    "range": Bad(
        "request.invalid", "POST", "/eks-clusters", "eks_create", {"vpc_cidr": "10/8"}, "cluster eks --vpc-cidr 10/8", {"vpc_cidr": "10/8"}
    ),
    "import of nothing": Bad("import.nothing_named", "POST", "/cluster-imports", "cluster_import", {}, "cluster import", {}),
    "unknown operation": Bad(
        "operation.unknown", "GET", "/operations/op-none", "operation_get", {"operation_id": "op-none"}, "operation get op-none"
    ),
    "retry of nothing": Bad(
        "operation.unknown", "POST", "/operations/op-none:retry", "operation_retry", {"operation_id": "op-none"}, "operation retry op-none"
    ),
    "odd id": Bad("request.invalid", "GET", "/operations/a%20b", "operation_get", {"operation_id": "a b"}, "operation get a%20b"),
    "region of a list": Bad(
        "request.invalid", "GET", "/zones", "zone_list", {"region": "mars"}, "cluster zones --region mars", query={"region": "mars"}
    ),
    "role": Bad(
        "identity.role_too_low", "POST", "/clusters", "cluster_create", {"zone": "use1-az1", "instance_type": "ml.g5.8xlarge"},
        "cluster create --zone use1-az1 --type ml.g5.8xlarge", {"zone": "use1-az1", "instance_type": "ml.g5.8xlarge"}, role="viewer",
    ),
    "admin's": Bad(
        "identity.role_too_low", "POST", "/clusters/x/forget", "cluster_forget", {"cluster": "x"}, "cluster forget x --yes", role="operator"
    ),
    "nodes": Bad(
        "request.invalid", "POST", "/clusters/x/node-reboots", "node_reboot", {"cluster": "x", "nodes": ["i-1"], "drain_minutes": -1},
        "node reboot i-1 --cluster x --drain-minutes -1", {"nodes": ["i-1"], "drain_minutes": -1},
    ),
    "not on the list": Bad("cluster.unknown", "POST", "/clusters/x/forget", "cluster_forget", {"cluster": "x"}, "cluster forget x --yes"),
}  # fmt: skip


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The real routes behind a socket. The engine is not launched: nothing here gets that far."""
    room = main.compose(Settings(data_dir=tmp_path_factory.mktemp("real"), region="us-east-1"))
    mount = Mount()
    app = build(room, ROUTERS, mounts={"/mcp": mount}, lifespans=[mount.lifespan])
    mount.connect(app, app.openapi)
    with toys.behind_a_socket(app, room) as running:
        yield running


def by_rest(url: str, token: str, bad: Bad) -> dict[str, Any]:
    """The problem as REST tells it."""
    headers = {"Authorization": f"Bearer {token}"}
    answer = httpx2.request(bad.method, f"{url}/api/v1{bad.path}", json=bad.body, params=bad.query, headers=headers)
    assert answer.headers["content-type"] == "application/problem+json"
    return dict(answer.json())


def by_mcp(url: str, token: str, bad: Bad) -> dict[str, Any]:
    """The problem as a tool tells it."""
    told: dict[str, Any] = {}

    async def body() -> None:
        async with (
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=60) as http,
            Client(streamable_http_client(f"{url}/mcp?toolsets=all", http_client=http)) as client,
        ):
            answer = await client.call_tool(bad.tool, bad.arguments)
            assert answer.is_error
            told.update(answer.structured_content)

    anyio.run(body)
    return told


@pytest.mark.parametrize("name", TABLE)
def test_the_same_problem_through_three_doors(
    real: Any, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = TABLE[name]
    token = real.token(bad.role)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("INSTANTSTART_URL", real.url)
    monkeypatch.setenv("INSTANTSTART_TOKEN", token)
    rest = by_rest(real.url, token, bad)
    assert rest["code"] == bad.code
    assert _told(by_mcp(real.url, token, bad)) == _told(rest)
    status = cli.run([*bad.command.split(), "-o", "json"])
    captured = capsys.readouterr()
    assert status == (3 if rest["kind"] in ("denied", "unauthenticated") else 2)
    assert captured.out == ""
    assert _told(json.loads(captured.err)) == _told(rest)


def _told(document: dict[str, Any]) -> dict[str, Any]:
    """What decides: the rest differs by door (a model is not shown the title)."""
    return {key: document.get(key) for key in ("code", "kind", "detail", "hint", "fields", "retryable")}
