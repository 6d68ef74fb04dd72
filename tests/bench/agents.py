"""What an agent's model has to read: the catalogue of tools, and the answers of one whole conversation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import anyio
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from tests import tokens
from tests.bench.rig import AT_REST, INSTANCE_TYPE, Rig


def catalogue() -> Iterator[str]:
    """Tokens of tools/list and of the transcript: list, create EKS, select, dependencies, HyperPod, storage, verify."""
    with Rig(60) as rig:
        tools, traffic = anyio.run(_conversation, rig)
    yield f"tools/list, default set: {tokens.count([tools])[0]} tokens ({tokens.how()}), {len(tools)} bytes"
    each = traffic.each()
    asked, answered = sum(call[1] for call in each), sum(call[2] for call in each)
    yield f"one conversation: {len(each)} calls, {asked} tokens asked, {answered} answered, the longest answer {max(c[2] for c in each)}"
    minutes = traffic.world_seconds / 60
    yield f"the same on an account where it takes {minutes:.0f} minutes: {traffic.at_the_worlds_pace()} (goal {tokens.CONVERSATION_TOKENS})"
    for name in dict.fromkeys(tool for tool, _, _ in each):
        mine = [count for tool, _, count in each if tool == name]
        yield f"  {name}: {len(mine)} x {sum(mine) // len(mine)} tokens"


async def _conversation(rig: Rig) -> tuple[str, tokens.Traffic]:
    headers = {"Authorization": f"Bearer {rig.product.token}"}
    traffic = tokens.Traffic()
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(f"{rig.product.url}/mcp", http_client=http)) as client,
    ):
        listed = await client.list_tools()
        tools = json.dumps([tool.model_dump(exclude_none=True, by_alias=True) for tool in listed.tools], separators=(",", ":"))

        async def ask(tool: str, **arguments: Any) -> dict[str, Any]:
            answer = await client.call_tool(tool, arguments)
            told = dict(answer.structured_content or {})
            if answer.is_error:
                raise RuntimeError(f"{tool}: {told}")
            traffic.add(tool, arguments, answer.content[0].text)  # type: ignore[union-attr]
            return told

        async def agreed(tool: str, **arguments: Any) -> dict[str, Any]:
            plan = await ask(tool, **arguments)
            return await ask(tool, **arguments, approval=plan["approval"])

        async def follow(operation: dict[str, Any]) -> dict[str, Any]:
            told = operation
            while told["status"] not in AT_REST:
                told = await ask("operation_wait", operation_id=operation["operation_id"], seconds=50)
            if told["status"] != "succeeded":
                raise RuntimeError(str(told))
            return told

        await ask("cluster_list")
        tag = (await follow(await agreed("eks_create")))["cluster"]
        await follow(await ask("cluster_select", cluster=tag))
        await follow(await ask("dependencies_configure"))
        zones = (await ask("zone_list", instance_type=INSTANCE_TYPE))["items"]
        await ask("instance_type_list", contains="g5")
        zone = next(each["zone_id"] for each in zones if each["offers_type"])
        await follow(await agreed("hyperpod_create", zone=zone, instance_type=INSTANCE_TYPE, instance_count=1))
        await follow(await ask("storage_configure"))
        await follow(await ask("cluster_verify"))
    return tools, traffic
