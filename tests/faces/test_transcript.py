"""The agent's job by tools alone, on real processes: the sandbox, the control plane, and the official client over both transports.

The transports take turns at the long waits; each sees a cluster through from nothing to its verified summary.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from tests import tokens

from instantstart.faces.cli import demo
from instantstart.faces.cli import main as cli

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
RATE = 60.0
INSTANCE_TYPE = "ml.g5.8xlarge"
AT_REST = ("succeeded", "failed", "cancelled", "blocked")


@dataclass(frozen=True)
class Chosen:
    """What the person says when asked. Left empty, the server makes a tag up, and the agent takes the first zone with the type."""

    tag: str
    zone: str
    instance_type: str
    contains: str

    @property
    def tagged(self) -> dict[str, str]:
        """The tag as an argument, where one was given."""
        return {"tag": self.tag} if self.tag else {}


GENERATED = Chosen("", "", INSTANCE_TYPE, "g5")
#: what the person says in the published conversation with the predecessor's agent ("us-west-2c, one g6.4xl")
PUBLISHED = Chosen("hypd-0304b", "us-west-2c", "ml.g6.4xlarge", "g6.4xl")


@dataclass(frozen=True)
class Place:
    """A running sandbox and control plane."""

    url: str
    sign_in: str
    admin: str
    agent: str
    sandbox: str

    def weather(self, **fault: Any) -> None:
        """Bad weather on the sandbox; without a fault, fair weather."""
        verb = "fault" if fault else "faults/clear"
        httpx2.post(f"{self.sandbox}/_sandbox/{verb}", json=fault).raise_for_status()

    def as_admin(self, method: str, path: str, **query: Any) -> Any:
        """One call of the API as a person who is an administrator."""
        answer = httpx2.request(
            method, f"{self.url}/api/v1{path}", params=query, headers={"Authorization": f"Bearer {self.admin}"}, timeout=60
        )
        answer.raise_for_status()
        return answer.json()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Both processes, and the token of an agent with the role operator."""
    folder = tmp_path_factory.mktemp("transcript")
    with pytest.MonkeyPatch.context() as patch, contextlib.ExitStack() as stack:
        patch.setenv("CI", "true")  # the sandbox takes a free port
        aws = stack.enter_context(demo.sandbox(folder, RATE))
        url, sign_in = stack.enter_context(demo.control_plane(folder, 0, RATE, aws))
        admin = (folder / "control-plane" / "admin-token").read_text().strip()
        asked = {"name": "agent", "role": "operator", "kind": "agent"}
        made = httpx2.post(f"{url}/api/v1/tokens", json=asked, headers={"Authorization": f"Bearer {admin}"})
        yield Place(url, sign_in, admin, made.json()["token"], aws["AWS_ENDPOINT_URL"])


@contextlib.asynccontextmanager
async def connected(place: Place, transport: str) -> AsyncIterator[Client]:
    """A client over ``http`` or ``stdio``."""
    if transport == "http":
        headers = {"Authorization": f"Bearer {place.agent}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60) as http,
            Client(streamable_http_client(f"{place.url}/mcp?toolsets=all", http_client=http)) as client,
        ):
            yield client
        return
    environment = {**os.environ, "INSTANTSTART_URL": place.url, "INSTANTSTART_TOKEN": place.agent}
    async with Client(
        stdio_client(
            StdioServerParameters(command=sys.executable, args=["-m", "instantstart", "mcp", "--toolsets", "all"], env=environment)
        )
    ) as client:
        yield client


class Agent:
    """Calls tools and follows what they begin."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.traffic = tokens.Traffic()

    async def ask(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The answer of a tool that must not fail."""
        answer = await self._client.call_tool(tool, arguments)
        assert not answer.is_error, answer.content
        assert len(answer.content[0].text) <= 8000  # type: ignore[union-attr]
        self.traffic.add(tool, arguments, answer.content[0].text)  # type: ignore[union-attr]
        return dict(answer.structured_content)

    async def agreed(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """What costs: the plan is the answer first, and the same call with its approval begins it."""
        plan = await self.ask(tool, **arguments)
        assert plan["next_step"].startswith("Nothing was changed."), plan
        return await self.ask(tool, **arguments, approval=plan["approval"])

    async def refused(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The problem of a tool that must fail."""
        answer = await self._client.call_tool(tool, arguments)
        assert answer.is_error
        return dict(answer.structured_content)

    async def to_the_end(self, operation: dict[str, Any]) -> dict[str, Any]:
        """Poll the status tool that the answer names."""
        status = operation
        while status["status"] not in AT_REST:
            status = await self.ask(status["status_tool"], operation_id=operation["operation_id"], seconds=50)
        assert status["status"] == "succeeded", status
        return status


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_from_an_empty_account_to_a_verified_cluster_by_tools_alone(place: Place, transport: str) -> None:
    anyio.run(_transcript, place, transport, PUBLISHED if transport == "http" else GENERATED)


async def _transcript(place: Place, transport: str, chosen: Chosen) -> None:
    async with connected(place, transport) as client:
        agent = Agent(client)
        playbook = await client.get_prompt("create-cluster", {"wish": "Help me create a new HyperPod cluster"})
        assert "Help me create a new HyperPod cluster" in playbook.messages[0].content.text  # type: ignore[union-attr]
        before = await agent.ask("cluster_list")
        assert before["account"]
        begun = await agent.agreed("eks_create", **chosen.tagged)
        tag = begun["cluster"]
        assert re.fullmatch(chosen.tag or r"hypd-\d{4}-[a-z0-9]{4,}", tag)
        assert tag not in [c["tag"] for c in before["items"]]
        await _order_is_the_servers(agent, tag)
        await agent.to_the_end(begun)
        await agent.to_the_end(await agent.ask("cluster_select", cluster=tag))
        early = await agent.refused("hyperpod_create", zone="usw2-az2", instance_type=chosen.instance_type, instance_count=1)
        assert (early["code"], early["untrusted_evidence"]["tool"]) == ("cluster.stage_missing", "dependencies_configure")
        await agent.to_the_end(await agent.ask("dependencies_configure"))
        zones = await agent.ask("zone_list", instance_type=chosen.instance_type)
        types = {t["name"]: t for t in (await agent.ask("instance_type_list", contains=chosen.contains))["items"]}
        assert types[chosen.instance_type]["quota"] > 0
        zone = next(z for z in zones["items"] if z["offers_type"] and chosen.zone in ("", z["name"]))
        assert zone["zone_id"] in types[chosen.instance_type]["zones"]
        where = chosen.zone or zone["zone_id"]
        asked = {"zone": where, "instance_type": chosen.instance_type, "instance_count": 1, "capacity_type": "on_demand"}
        await agent.to_the_end(await agent.agreed("hyperpod_create", **asked))
        await agent.to_the_end(await agent.ask("storage_configure"))
        _check_summary(tag, (await agent.to_the_end(await agent.ask("cluster_verify")))["result"], chosen.instance_type)
        listed = {c["tag"]: c for c in (await agent.ask("cluster_list"))["items"]}
        assert (listed[tag]["state"], listed[tag]["selected"]) == ("ready", True)
        assert agent.traffic.at_the_worlds_pace() <= tokens.CONVERSATION_TOKENS, (tokens.how(), agent.traffic.each())


async def _order_is_the_servers(agent: Agent, tag: str) -> None:
    for tool, missing in (("cluster_select", "eks_create"), ("dependencies_configure", "eks_create"), ("storage_configure", "eks_create")):
        early = await agent.refused(tool, cluster=tag)
        assert early["code"] == "cluster.stage_missing", (tool, early)
        assert (early["untrusted_evidence"]["tool"], bool(early["hint"])) == (missing, True), (tool, early)


def _check_summary(tag: str, summary: dict[str, Any], instance_type: str = INSTANCE_TYPE) -> None:
    assert summary["verified"] is True
    assert (summary["eks"]["name"], summary["hyperpod"]["name"]) == (f"eks-{tag}", f"hp-{tag}")
    assert (summary["nodes"]["wanted"], summary["nodes"]["ready"]) == (1, 1)
    node = summary["nodes"]["items"][0]
    assert (node["instance_type"], node["capacity_type"], node["ready"], node["schedulable"]) == (instance_type, "on_demand", True, True)
    assert [claim["bound"] for claim in summary["storage"]] == [True]


def test_a_quota_that_cannot_be_read_is_unknown(place: Place) -> None:
    """In the account of a fresh control plane, or after what it keeps has gone stale; another region has its own."""

    async def body() -> None:
        async with connected(place, "http") as client:
            answer = await Agent(client).ask("instance_type_list", contains="g5.8", region="eu-west-1")
            assert [t["quota"] for t in answer["items"] if t["name"] == INSTANCE_TYPE] == ["unknown"]

    place.weather(match="service-quotas:.*", code="AccessDeniedException", message="not authorized")
    try:
        anyio.run(body)
    finally:
        place.weather()


def test_one_tool_for_all_and_a_delete_that_waits_for_a_person(place: Place) -> None:
    anyio.run(_whole_life, place)


async def _whole_life(place: Place) -> None:
    async with connected(place, "http") as client:
        agent = Agent(client)
        zones = (await agent.ask("zone_list", instance_type=INSTANCE_TYPE))["items"]
        zone = next(z["zone_id"] for z in zones if z["offers_type"])
        ask = {"tag": "whole", "zone": zone, "instance_type": INSTANCE_TYPE, "instance_count": 1}
        assert (await agent.ask("preflight_run", **ask))["ready"] is True
        begun = await agent.agreed("cluster_create", **ask)
        assert (await agent.ask("cluster_create", **ask))["operation_id"] == begun["operation_id"]
        _check_summary("whole", (await agent.to_the_end(begun))["result"])
        plan = await agent.ask("cluster_delete", cluster="whole")
        assert plan["next_step"].startswith("Nothing was changed."), plan
        assert any("eks-whole" in str(each) for each in plan.values())
        asked = await agent.ask("cluster_delete", cluster="whole", approval=plan["approval"])
        assert asked["status"] == "awaiting_approval"
        assert "person" in asked["next_step"]
        again = await agent.ask("cluster_delete", cluster="whole", approval=plan["approval"])
        assert again["operation_id"] == asked["operation_id"], "the approval is used up: the same call answers what it became"
        assert (await agent.ask("cluster_get", cluster="whole"))["cluster"]["state"] == "ready"
        place.as_admin("POST", f"/operations/{asked['operation_id']}:approve")
        await agent.to_the_end(await agent.ask("operation_get", operation_id=asked["operation_id"]))
        assert "whole" not in [c["tag"] for c in (await agent.ask("cluster_list"))["items"]]


def test_the_sign_in_link_opens_a_console_session_once(place: Place) -> None:
    code = place.sign_in.partition("#code=")[2]
    with httpx2.Client(base_url=place.url, headers={"Origin": place.url}) as browser:
        assert browser.post("/api/v1/session", json={"code": code}).status_code == 201
        assert browser.get("/api/v1/me").json()["face"] == "console"
        assert browser.post("/api/v1/session", json={"code": code}).status_code == 401


def test_the_command_line_deletes_what_the_agent_made(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("INSTANTSTART_URL", place.url)
    monkeypatch.setenv("INSTANTSTART_TOKEN", place.admin)
    tags = [c["tag"] for c in place.as_admin("GET", "/clusters")["items"]]
    assert tags
    assert cli.run(["cluster", "delete", tags[0], "--yes"]) == 0
    assert tags[0] not in [c["tag"] for c in place.as_admin("GET", "/clusters")["items"]]
