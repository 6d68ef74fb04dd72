"""Elastic jobs: when a lost pod finds no place in time, the job goes on with fewer. It is not made larger again while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..loops.objects import Object, deleting, is_true, name_of, namespace_of, spec_of, stamp, status_of
from .definition import JOBS

if TYPE_CHECKING:
    from .jobs import TrainingJobs

#: ``faultyScaleDownTimeoutInSeconds`` where it is not given (an assumption).
_TIMEOUT_SECONDS = 600.0


def sizes(policy: Object, most: int) -> list[int]:
    """The numbers of pods that an elastic job may have, the largest first."""
    least, top = int(policy.get("minReplicas") or 1), int(policy.get("maxReplicas") or most)
    listed = policy.get("replicaDiscreteValues")
    step = max(int(policy.get("replicaIncrementStep") or 1), 1)
    found = [int(v) for v in listed] if listed else range(least, top + 1, step)
    return sorted((v for v in found if least <= v <= top), reverse=True)


async def shrink(loop: TrainingJobs, key: str, job: Object, pods: list[Object], since: float) -> bool:
    """Whether the job was given a smaller target now; ``since`` is the moment of the fault."""
    policy, replicas = spec_of(job).get("elasticPolicy"), spec_of(job).get("replicaSpecs") or []
    running = sum(1 for p in pods if status_of(p).get("phase") == "Running" and not deleting(p))
    if not policy or len(replicas) != 1 or not is_true(job, "Faulted"):
        return False
    name, have = replicas[0]["name"], (status_of(job).get("elasticScalingStatus") or {}).get("targetReplicas") or {}
    wanted = int(have.get(name, replicas[0].get("replicas") or 0))
    if running >= wanted:
        return False
    due = since + float(policy.get("faultyScaleDownTimeoutInSeconds") or _TIMEOUT_SECONDS)
    if loop.now() < due:
        loop.later(due - loop.now(), key)
        return False
    target = next((size for size in sizes(policy, wanted) if size <= running), None)
    if target is None:
        return False
    moment = stamp(loop.now())
    told = {
        "targetReplicas": {name: target},
        "isFaultyPodScaleDown": True,
        "podsScaled": True,
        "lastUpdated": moment,
        "lastScalingTime": moment,
    }
    await loop.client.status(JOBS, name_of(job), {"elasticScalingStatus": told}, namespace_of(job))
    await loop.event(job, "ElasticScaleDown", f"Scaled from {wanted} to {target} pods, since the faulty pods could not be replaced in time")
    return True
