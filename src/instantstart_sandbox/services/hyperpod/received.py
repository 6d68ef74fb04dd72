"""What clients asked of instance groups, field by field: the last requests as they came over the wire, also the refused ones."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from instantstart_sandbox.gateway.registry import Context
    from instantstart_sandbox.world.state import World

_KEPT = 200


def record(ctx: Context, operation: str, params: dict[str, Any]) -> None:
    """Keep one request."""
    kept: list[dict[str, Any]] = ctx.world.section("hyperpod").setdefault("received", [])
    kept.append({"operation": operation, "time": ctx.clock.now(), "params": copy.deepcopy(params)})
    del kept[:-_KEPT]


def listed(world: World) -> list[dict[str, Any]]:
    """Every request kept, oldest first: ``{operation, time, params}``."""
    return list(world.section("hyperpod").get("received", []))
