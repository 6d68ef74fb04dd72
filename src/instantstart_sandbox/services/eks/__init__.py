"""Amazon EKS: clusters, updates, add-ons, access entries, pod identity associations, node groups, tags."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from instantstart_sandbox.services.eks import (
    access,
    addon_create,
    addon_health,
    addon_views,
    clusters,
    creation,
    nodegroups,
    pod_identity,
    policies,
    tags,
    updates,
    versions,
)

if TYPE_CHECKING:
    from instantstart_sandbox.gateway.registry import Context, OwnedHandler
    from instantstart_sandbox.world.state import World

_ADDONS = (addon_create, addon_health, addon_views)
_MODULES = (*_ADDONS, access, clusters, creation, nodegroups, pod_identity, policies, tags, updates, versions)


def install(world: World) -> None:
    """Register every operation and timer; no EKS call goes to moto."""
    world.registry.close("eks")
    for module in _MODULES:
        for operation, handler in getattr(module, "OPERATIONS", {}).items():
            world.registry.op("eks", operation)(_without_empty_tags(handler))
        for event, timer in getattr(module, "TIMERS", {}).items():
            world.clock.on(event, functools.partial(timer, world))


def _without_empty_tags(handler: OwnedHandler) -> OwnedHandler:
    """Leave out ``tags`` where there are none: the service model wants a tag map to have a member."""

    @functools.wraps(handler)
    def answer(ctx: Context, **params: Any) -> dict[str, Any]:
        given = handler(ctx, **params) or {}
        return {name: _cleared(value) for name, value in given.items() if name != "tags" or value}

    return answer


def _cleared(value: Any) -> Any:
    if not isinstance(value, dict) or value.get("tags") != {}:
        return value
    return {k: v for k, v in value.items() if k != "tags"}
