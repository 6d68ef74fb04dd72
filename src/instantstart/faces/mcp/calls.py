"""One call of a tool: its route, as whoever calls; what a lost answer must not repeat, what a person is asked, what is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from mcp_types import InputRequiredResult

from instantstart.base import problems
from instantstart.faces.mcp import arguments as names
from instantstart.faces.mcp import asking, projections
from instantstart.faces.mcp.rest import API, Rest
from instantstart.faces.mcp.schemas import Json, Route
from instantstart.faces.mcp.tool import Tool

MAX_WAIT_SECONDS = 50
_LOOK_SECONDS = 5
#: arguments that say how something is asked for, not what
_NOT_OF_THE_SPEC = frozenset({"approval", "dry_run"})
_ACTIVE = ["queued", "running", "waiting", "blocked", "awaiting_approval"]
#: between looks at what waits for a person, which the route answers at once
_PERSON_SECONDS = 2.0
_AT_REST = frozenset({"succeeded", "failed", "cancelled", "blocked"})


async def call(tool: Tool, route: Route, rest: Rest, context: Any, params: Any) -> Json | InputRequiredResult:
    """What the tool answers; where it takes an approval that was not given: its plan, or the question for the client's user.

    Raises the Problem that the route tells.
    """
    arguments = dict(params.arguments or {})
    names.check(tool, route, arguments)
    if tool.name == "operation_wait":
        return projections.shaped(tool.shape, await _wait(rest, context, route, arguments))
    answer, approval = asking.answered(params)
    if answer is not None:
        asking.check(answer)
        arguments["approval"] = approval
    under_way = await _under_way(rest, tool, arguments)
    if under_way is not None:
        return projections.shaped(tool.shape, under_way)
    try:
        return _told(tool, await rest.call(route, arguments))
    except problems.Conflict as problem:
        if problem.code != "approval.missing" or "approval" in arguments:
            raise
        plan = await rest.call(route, {**arguments, "dry_run": True})
        if not isinstance(plan, Mapping) or not plan.get("approval"):
            raise
    if not asking.can(context):
        return _told(tool, plan)
    asked = await asking.ask(context, tool, arguments, plan)
    if isinstance(asked, InputRequiredResult):
        return asked
    asking.check(asked)
    return projections.shaped(tool.shape, await rest.call(route, {**arguments, "approval": plan["approval"]}))


def _told(tool: Tool, document: Any) -> Json:
    """The answer, cut down; a plan with an approval says what may follow."""
    told = projections.shaped(tool.shape, document)
    return {**told, "next_step": asking.PLAN_FIRST} if isinstance(document, Mapping) and document.get("approval") else told


async def _under_way(rest: Rest, tool: Tool, arguments: Json) -> Any:
    """The caller's own operation that the same call began under a tag of its making, while it has not ended: its answer was lost."""
    if tool.makes_up_tag_for is None or arguments.get("tag") or arguments.get("dry_run"):
        return None
    given = {name: value for name, value in arguments.items() if value is not None and name not in _NOT_OF_THE_SPEC}
    found = await rest.send("GET", f"{API}/operations", query={"mine": "true", "status": _ACTIVE, "workflow": tool.makes_up_tag_for})
    return next((each for each in found["items"] if all(each["spec"].get(name) == value for name, value in given.items())), None)


async def _wait(rest: Rest, context: Any, route: Route, arguments: Mapping[str, Any]) -> Any:
    """Looks in short requests until the operation rests or the time is over, and reports each change as progress."""
    wanted = arguments.get("seconds", MAX_WAIT_SECONDS)
    if not isinstance(wanted, int) or isinstance(wanted, bool) or not 0 <= wanted <= MAX_WAIT_SECONDS:
        return await rest.call(route, arguments)  # refused by the route, in its words
    operation = await rest.call(route, {**arguments, "seconds": 0})
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wanted
    await _report(context, operation)
    while operation["status"] not in _AT_REST and (left := deadline - loop.time()) > 0:
        if operation["status"] == "awaiting_approval":
            await asyncio.sleep(min(_PERSON_SECONDS, left))
        query = {"seconds": max(1, min(_LOOK_SECONDS, int(left))), "after": operation["seq"]}
        operation = await rest.send("GET", f"{API}/operations/{operation['id']}/wait", query=query)
        await _report(context, operation)
    return operation


async def _report(context: Any, operation: Json) -> None:
    stages = operation["stages"]
    done = sum(1 for stage in stages if stage["status"] in ("done", "skipped"))
    now = next((stage for stage in stages if stage["status"] in ("running", "waiting")), None)
    message = f"{now['says']}: {now['because'] or now['status']}" if now else str(operation["status"])
    await context.session.report_progress(done, len(stages), projections.plain(message))
