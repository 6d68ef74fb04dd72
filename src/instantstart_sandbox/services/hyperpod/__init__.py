"""SageMaker HyperPod: clusters, nodes, events, operations, training plans. All else of SageMaker is moto's or others'."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from instantstart_sandbox.services.hyperpod import (
    autoscaling,
    batch,
    create,
    events,
    health,
    listing,
    moves,
    node_life,
    operations,
    plans,
    provision,
    scenarios,
    settle,
    software,
    tags,
    update,
)
from instantstart_sandbox.services.hyperpod.seed import foreign_cluster
from instantstart_sandbox.world.admin import VERBS

if TYPE_CHECKING:
    from instantstart_sandbox.world.state import World

_MODULES = (autoscaling, batch, create, events, health, listing, moves, node_life, operations, plans, provision, settle, software, update)

__all__ = ["foreign_cluster", "install"]


def install(world: World) -> None:
    """Register every operation, guard, timer and scenario verb."""
    for module in _MODULES:
        for operation, handler in getattr(module, "OPERATIONS", {}).items():
            world.registry.op("sagemaker", operation)(handler)
        for event, timer in getattr(module, "TIMERS", {}).items():
            world.clock.on(event, functools.partial(timer, world))
    VERBS.update(scenarios.VERBS)
    for operation, guard in tags.GUARDS.items():
        world.registry.guard("sagemaker", operation)(guard)
