"""Training plans as HyperPod groups see them: status, zones, how many instances are left.

``world.section("hyperpod")["plans"]`` by ARN; a plan is ``{"view", "tags"}``, ``view`` as DescribeTrainingPlan answers
it, without the counts that are computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from instantstart_sandbox.services.hyperpod.state import clusters, nodes_of

if TYPE_CHECKING:
    from instantstart_sandbox.world.state import World


def plans(world: World) -> dict[str, dict[str, Any]]:
    """Every training plan, by ARN."""
    found: dict[str, dict[str, Any]] = world.section("hyperpod").setdefault("plans", {})
    return found


def status_of(world: World, arn: str) -> str:
    """Scheduled, Active, Expired, Pending or Failed; Expired for a plan that is not there."""
    plan = plans(world).get(arn)
    return str(plan["view"]["Status"]) if plan else "Expired"


def zones_of(world: World, arn: str) -> list[str]:
    """The zones of a plan's reserved capacity."""
    plan = plans(world).get(arn)
    return [c["AvailabilityZone"] for c in plan["view"]["ReservedCapacitySummaries"]] if plan else []


def in_use(world: World, arn: str, except_group: tuple[str, str] = ("", "")) -> int:
    """How many instances the groups of all clusters hold or ask of a plan; ``except_group`` is (cluster ARN, group name)."""
    return sum(
        max(group["target"], len(nodes_of(cluster, group["name"])))
        for cluster in clusters(world).values()
        for group in cluster["groups"].values()
        if group["spec"].get("TrainingPlanArn") == arn and (cluster["arn"], group["name"]) != except_group
    )
