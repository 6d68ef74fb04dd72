"""Settings of a HyperPod cluster that belong to no instance group. UpdateCluster is sent the setting alone, so that no group loses a field.

Facts: aws-facts A1.5 (a group that is not listed is untouched), A17.
"""

from __future__ import annotations

from typing import Any

from instantstart.base import problems
from instantstart.base.outcome import Done, Outcome, Wait
from instantstart.ensure.capacity import hyperpod
from instantstart.ensure.sites import Site

_BUSY = frozenset({"Creating", "Updating", "SystemUpdating", "RollingBack"})
LEAST_PERCENT, MOST_PERCENT = 20, 100


def tiered_storage(where: Site, percent: int | None) -> Outcome:
    """One step towards tiered storage with this share of each node's memory; None: off."""
    have = hyperpod.find_cluster(where.aws, where.hyperpod_cluster)
    if have is None:
        if percent is None:
            return Done(already=True)
        raise problems.NotFound("hyperpod.not_found", f"There is no HyperPod cluster {where.hyperpod_cluster}.")
    if _is_so(have.get("TieredStorageConfig") or {}, percent):
        return Done({"memory_percent": percent})
    if have["ClusterStatus"] in _BUSY:
        return Wait(10, f"The HyperPod cluster is {have['ClusterStatus']}; it takes one change at a time")
    wanted: dict[str, Any] = {"Mode": "Disable"} if percent is None else {"Mode": "Enable", "InstanceMemoryAllocationPercentage": percent}
    try:
        where.aws.write("sagemaker", "update_cluster", ClusterName=where.hyperpod_cluster, TieredStorageConfig=wanted)
    except problems.Conflict as problem:
        return Wait(10, f"The HyperPod cluster takes no change now: {problem.detail}")
    return Wait(2, "Asked SageMaker for tiered storage" if percent else "Asked SageMaker to give the memory back")


def _is_so(config: dict[str, Any], percent: int | None) -> bool:
    if percent is None:
        return config.get("Mode") != "Enable"
    return config.get("Mode") == "Enable" and config.get("InstanceMemoryAllocationPercentage") == percent


def settled(where: Site) -> Wait | None:
    """A reason to wait while the cluster works on a change; None when it rests."""
    have = hyperpod.find_cluster(where.aws, where.hyperpod_cluster)
    if have is not None and have["ClusterStatus"] in _BUSY:
        return Wait(5, f"The HyperPod cluster is {have['ClusterStatus']}")
    return None
