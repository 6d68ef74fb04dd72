"""How many instances of a type the account may have in HyperPod clusters."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from instantstart_sandbox.gateway.errors import AwsError
from instantstart_sandbox.services.hyperpod.state import Cluster, Group, in_region, spot, types_of

if TYPE_CHECKING:
    from instantstart_sandbox.gateway.registry import Context

Usage = Counter[tuple[str, bool]]


def usage(groups: list[Group]) -> Usage:
    """Instances asked for by (type, is Spot); a group on a training plan does not count here."""
    found: Usage = Counter()
    for group in groups:
        if "TrainingPlanArn" not in group["spec"]:
            found[types_of(group)[0], spot(group)] += group["target"]
    return found


def check_quota(ctx: Context, cluster: Cluster | None, desired: list[Group]) -> None:
    """Refuse with ResourceLimitExceeded when ``desired``, all groups of ``cluster`` after the change, exceed a quota."""
    now = usage([g for c in in_region(ctx.world, ctx.region) for g in c["groups"].values()])
    mine = usage(list(cluster["groups"].values())) if cluster else Counter()
    for (instance_type, is_spot), count in usage(desired).items():
        delta = count - mine[instance_type, is_spot]
        used = now[instance_type, is_spot]
        limit = int(ctx.world.quotas.cluster_instances(instance_type, ctx.region, is_spot))
        if delta > 0 and used + delta > limit:
            name = f"{instance_type} for {'spot ' if is_spot else ''}cluster usage"
            raise AwsError(
                "ResourceLimitExceeded",
                f"The account-level service limit '{name}' is {limit} Instances, with current utilization of {used} Instances and a "
                f"request delta of {delta} Instances. Please use AWS Service Quotas to request an increase for this quota. If AWS Service "
                "Quotas is not available, contact AWS support to request an increase for this quota.",
            )
