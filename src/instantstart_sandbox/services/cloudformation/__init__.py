"""AWS CloudFormation as an engine of its own over the sandbox's other services.

Every resource is made through the gateway, in process, on behalf of the stack's creator, so that the limits and checks of the other
services apply. A stack's whole state is JSON under ``world.state["cloudformation"]``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from instantstart_sandbox.services.cloudformation.change_sets import ChangeSets
from instantstart_sandbox.services.cloudformation.engine import Engine
from instantstart_sandbox.services.cloudformation.stacks import Stacks

if TYPE_CHECKING:
    from instantstart_sandbox.world.state import World

SERVICE = "cloudformation"


def install(world: World) -> None:
    """Register the operations and the timers. moto's CloudFormation is never asked: it runs YAML tags and creates nothing for EKS."""
    engine = Engine(world)
    stacks = Stacks(engine)
    change_sets = ChangeSets(engine, stacks)

    operations: dict[str, Callable[..., dict[str, Any] | None]] = {
        "CreateStack": stacks.create,
        "UpdateStack": stacks.update,
        "DeleteStack": stacks.delete,
        "RollbackStack": stacks.rollback,
        "CancelUpdateStack": stacks.cancel_update,
        "ContinueUpdateRollback": stacks.continue_rollback,
        "UpdateTerminationProtection": stacks.protect,
        "DescribeStacks": stacks.describe,
        "ListStacks": stacks.list,
        "DescribeStackEvents": stacks.events,
        "DescribeStackResources": stacks.resources,
        "DescribeStackResource": stacks.resource,
        "ListStackResources": stacks.list_resources,
        "GetTemplate": change_sets.template,
        "ValidateTemplate": stacks.validate,
        "GetTemplateSummary": stacks.summary,
        "ListExports": stacks.exports,
        "ListImports": stacks.imports,
        "CreateChangeSet": change_sets.create,
        "DescribeChangeSet": change_sets.describe,
        "ListChangeSets": change_sets.list,
        "DeleteChangeSet": change_sets.delete,
        "ExecuteChangeSet": change_sets.execute,
    }
    for operation, handler in operations.items():
        world.registry.op(SERVICE, operation)(handler)
    world.registry.close(SERVICE)
