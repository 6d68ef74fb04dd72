"""MLflow on SageMaker: tracking servers and apps, each with a real ``mlflow server`` behind it (docs/sandbox-services.md)."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from instantstart_sandbox.services.mlflow import apps, life, servers, tags
from instantstart_sandbox.services.mlflow.plane import Plane

if TYPE_CHECKING:
    from instantstart_sandbox.world.state import World

__all__ = ["install"]


def install(world: World) -> None:
    """Register the operations, the timers, the tags and the data plane."""
    for module in (servers, apps):
        for operation, handler in module.OPERATIONS.items():
            world.registry.op("sagemaker", operation)(handler)
    for event, timer in life.TIMERS.items():
        world.clock.on(event, functools.partial(timer, world))
    for operation, guard in tags.GUARDS.items():
        world.registry.guard("sagemaker", operation)(guard)
    world.gateway.mlflow = Plane(world)
