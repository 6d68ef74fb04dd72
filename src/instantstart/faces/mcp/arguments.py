"""What a call names: the tool and its arguments. An unknown name is refused with those that are known, and the one it was meant to be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from instantstart.base import problems
from instantstart.faces.mcp.projections import plain
from instantstart.faces.mcp.schemas import Route
from instantstart.faces.mcp.tool import Tool
from instantstart.faces.mcp.words import nearest

_MOST_NAMES = 40
#: what a model calls the thing that a tool is about, and what the tools call it, the likeliest first
_THE_THING = frozenset({"name", "id", "tag", "cluster", "cluster_name", "cluster_id"})
_CALLED = ("tag", "cluster", "name")
#: what others call our ``get``
_GET = ("show", "describe", "read", "status", "info")


def check(tool: Tool, route: Route, given: Mapping[str, Any]) -> None:
    """Raise Invalid when a name of ``given`` is no argument of the tool, with those that are missing, before anything is asked."""
    unknown = sorted(set(given) - route.accepts)[:_MOST_NAMES]
    if not unknown:
        return
    free = [name for name in route.schema["properties"] if name not in given]
    meant = {name: _meant(name, free) for name in unknown}
    fields = [problems.Violation(f"/{plain(name, 80)}", _told(tool, plain(name, 80), meant[name])) for name in unknown]
    missing = [name for name in route.schema.get("required", ()) if given.get(name) is None and name not in meant.values()]
    fields += [problems.Violation(f"/{name}", f"{name} is required.") for name in missing]
    raise problems.Invalid(
        "request.invalid",
        " ".join(v.message for v in fields),
        title="The request is not valid",
        hint=f"The arguments of {tool.name}: {_names(route)}.",
        fields=fields,
    )


def _meant(name: str, free: Sequence[str]) -> str | None:
    """The argument like it; a word for the thing itself means what the tool calls it."""
    if name.lower() in _THE_THING and name.lower() not in free:
        own = [each for each in free if each in _CALLED] or [each for each in free if each.endswith(("_id", "_name"))]
        return min(own, key=lambda each: _CALLED.index(each) if each in _CALLED else 0) if own else None
    return nearest(name, free) or (free[0] if len(free) == 1 else None)


def _told(tool: Tool, name: str, meant: str | None) -> str:
    return f"{name} is not an argument of {tool.name}{f': did you mean {meant}?' if meant else '.'}"


def _names(route: Route) -> str:
    required = route.schema.get("required", ())
    names = [f"{name} (required)" if name in required else name for name in route.schema["properties"]]
    return ", ".join(names) or "it takes none"


def unknown_tool(name: str, tool: Tool | None, shown: Sequence[Tool]) -> problems.NotFound:
    """The refusal of a tool that this client is not shown: where it is, or which one was meant."""
    if tool is not None:
        words = tool.toolset if tool.area == "core" else f"{tool.toolset},{tool.area}"
        hint = f"It is in the toolset {words}: connect with toolsets={words}, if the person wants you to have it."
    else:
        noun, _, verb = name.rpartition("_")
        meant = nearest(f"{noun}_get" if verb in _GET else name, [each.name for each in shown])
        hint = f"Did you mean {meant}? tools/list shows them." if meant else "tools/list shows them."
    return problems.NotFound("tool.unknown", f"There is no tool {plain(name, 80)} in this set.", hint=hint)
