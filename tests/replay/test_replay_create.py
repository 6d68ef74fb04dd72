"""create-cluster, followed to the letter: a wrong zone, a lost answer, a stage that is refused, a server killed meanwhile; then its reading
playbook, by a viewer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anyio
import httpx2
import pytest
from mcp import MCPError
from tests.replay.follower import Follower
from tests.replay.place import TYPE, ZONE, Place, standing

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
WISH: dict[str, Any] = {"tag": "made", "instance_type": TYPE, "instance_count": 1, "zone": ZONE}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """An empty account that does not let us make HyperPod clusters yet."""
    with standing(tmp_path_factory.mktemp("replay")) as made:
        made.sandbox.fault("sagemaker:CreateCluster", code="AccessDeniedException", message="no sagemaker:CreateCluster for you")
        yield made


def test_create_cluster_with_a_refused_stage_and_a_server_killed_meanwhile(place: Place) -> None:
    anyio.run(_created, place)
    tags = [each["tag"] for each in place.plane.call("GET", "/clusters")["items"]]
    assert tags == ["made"]
    assert len(place.plane.call("GET", "/operations", workflow="cluster.create")["items"]) == 1


async def _created(place: Place) -> None:
    async with place.client("create-cluster") as client:
        agent = Follower("create-cluster", client)
        async with agent.step(1):
            assert (await agent.ask("cluster_list"))["account"]
            assert (await agent.ask("operation_list"))["items"] == []
        async with agent.step(2):
            zones = (await agent.ask("zone_list", instance_type=TYPE))["items"]
            assert ZONE in [each["zone_id"] for each in zones if each["offers_type"]]
            assert (await agent.ask("instance_type_list", contains="g5.8x"))["items"][0]["quota"] > 0
        async with agent.step(3):
            wrong = await agent.refused("preflight_run", **{**WISH, "instance_count": "two"})
            assert [each["pointer"] for each in wrong["fields"]] == ["/instance_count"]
            nowhere = await agent.ask("preflight_run", **{**WISH, "zone": "usw2-az9"})
            assert nowhere["ready"] is False
            assert any(each["level"] == "fail" and each.get("hint") for each in nowhere["findings"])
            assert (await agent.ask("preflight_run", **WISH))["ready"] is True
        async with agent.step(4):
            plan = await agent.ask("cluster_create", **WISH)
            assert plan["next_step"].startswith("Nothing was changed."), plan
            agreed = {**WISH, "approval": plan["approval"]}
            await _lose_the_answer(place, "create-cluster", "cluster_create", agreed)
            begun = await agent.ask("cluster_create", **agreed)
        async with agent.step(5):
            stopped = await _killed_meanwhile(place, agent, begun)
            assert stopped["status"] in ("blocked", "failed"), stopped
            assert "no sagemaker:CreateCluster for you" in str(stopped["problem"])
    async with place.client("create-cluster") as client:  # another day, another session
        agent.client = client
        async with agent.beside("operation_get"):
            told = await agent.ask("operation_get", operation_id=begun["operation_id"])
            assert told["problem"]["hint"]
            place.sandbox.clear()
            again = await agent.ask("operation_retry", operation_id=begun["operation_id"])
        async with agent.step(5):
            await agent.succeeds(again)
        async with agent.step(6):
            seen = (await agent.ask("cluster_get", cluster="made"))["cluster"]
            assert seen["state"] == "ready"
        agent.done()


async def _lose_the_answer(place: Place, skill: str, tool: str, arguments: dict[str, Any]) -> None:
    """The connection breaks as soon as the call is sent: nobody reads what became of it."""
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {place.token()}"}) as http:
        asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
        with pytest.raises(httpx2.ReadTimeout):
            await http.post(
                f"{place.plane.url}/mcp", json=asked, timeout=httpx2.Timeout(30, read=0.02),
                headers={"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"},
            )  # fmt: skip


async def _killed_meanwhile(place: Place, agent: Follower, begun: dict[str, Any]) -> dict[str, Any]:
    """kill -9 while a wait is open, and a start: the wait fails, and the same wait afterwards goes on."""
    broken: list[BaseException] = []

    async def wait() -> None:
        # a client of its own: what dies with the server may take the whole client with it, as an agent's program would see it
        try:
            async with place.client("create-cluster") as doomed:
                await doomed.call_tool("operation_wait", {"operation_id": begun["operation_id"], "seconds": 50})
        except (MCPError, httpx2.HTTPError, anyio.ClosedResourceError, ExceptionGroup) as error:
            broken.append(error)

    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        await anyio.sleep(1)
        await anyio.to_thread.run_sync(place.plane.kill)
    assert broken, "a dead server answers nothing"
    await anyio.to_thread.run_sync(place.plane.start)
    async with place.client("create-cluster") as client:
        agent.client = client
        return await agent.follow(begun)


def test_creation_failure_reads_what_happened_and_changes_nothing(place: Place) -> None:
    """A second cluster that has failed is looked into by a viewer."""
    place.sandbox.fault("cloudformation:CreateStack", code="AccessDeniedException", message="no stacks here")
    failed = place.plane.call("POST", "/clusters", {**WISH, "tag": "broken"})
    place.plane.follow(failed["id"])
    before = place.sandbox.last_call()
    anyio.run(_looked_into, place, failed["id"])
    writing = [each for each in place.sandbox.calls(before) if not _reads(str(each.get("operation")))]
    assert writing == []
    place.sandbox.clear()


def _reads(operation: str) -> bool:
    return operation.startswith(("Describe", "List", "Get", "Lookup", "Search", "Head", "Batch"))


async def _looked_into(place: Place, failed: str) -> None:
    async with place.client("creation-failure", role="viewer") as client:
        agent = Follower("creation-failure", client)
        async with agent.step(1):
            assert "no stacks here" in str(await agent.ask("diagnosis_get", cluster="broken"))
        async with agent.step(2):
            assert (await agent.ask("cluster_get", cluster="broken"))["cluster"]["tag"] == "broken"
            listed = (await agent.ask("operation_list", cluster="broken"))["items"]
            assert [each["id"] for each in listed] == [failed]
        async with agent.step(3):
            told = await agent.ask("operation_get", operation_id=failed)
            assert "no stacks here" in str(told["problem"])
            assert (await agent.ask("operation_events", operation_id=failed))["items"]
            await agent.ask("cluster_events", cluster="broken")
            await agent.ask("hyperpod_events", cluster="made")
        async with agent.step(4, "zone_list", "instance_type_list", because="it is not capacity"):
            pass
        async with agent.step(5):
            pass
        agent.done()
