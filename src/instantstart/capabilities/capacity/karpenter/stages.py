"""The stages of switching Karpenter on, and of node pools. Reusable: a feature toggle runs the same ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from instantstart.base import problems
from instantstart.base.outcome import Done, Outcome, Wait
from instantstart.capabilities.capacity.karpenter import rules
from instantstart.capabilities.room import Room
from instantstart.ensure.capacity import groups, karpenter, node_pools, scaling
from instantstart.ensure.capacity.karpenter import NODE_CLASS, NODE_POOL, autoscaling_status
from instantstart.ensure.iam import identity
from instantstart.ensure.sites import Site, site
from instantstart.kube.client import KubeCluster, Resource
from instantstart.operations.declare import Run

#: IAM's delay is seconds, two minutes at worst (case 13); what lasts longer is a wrong role
_ROLE_GRACE_SECONDS = 300.0
#: reads after a write may lag: so long "not there" means "not yet"
_LAG_SECONDS = 90.0
_AUTOSCALING = {"Mode": "Enable", "AutoScalerType": "Karpenter"}
_LOOK_SECONDS = 5.0


def make_role(room: Room, run: Run) -> Outcome:
    """The cluster role: the one that was named, else the one the cluster has, when it is fit, else ours. Learns ``role_arn``."""
    where = site(room, run.spec)
    cluster = scaling.get_cluster(where)
    if autoscaling_status(cluster) in ("Creating", "InService"):
        return Done({"role_arn": cluster.get("ClusterRole")}, already=True)
    chosen = rules.choose_role(where, cluster, run.spec.cluster_role_arn)
    if chosen.arn:
        return Done({"role_arn": chosen.arn}, already=True)
    outcome = identity.ensure_role(where.aws, karpenter.cluster_role(where.aws, where.names, where.boundary), where.tags)
    return Done({"role_arn": outcome.learned["role_arn"]}) if isinstance(outcome, Done) else outcome


def note_counts(room: Room, run: Run) -> Outcome:
    """Write down how many nodes every group has: what switching off puts back."""
    cluster = scaling.get_cluster(site(room, run.spec))
    counts = {g["InstanceGroupName"]: int(g["TargetCount"]) for g in cluster["InstanceGroups"]}
    return Done({"counts": counts, "status": autoscaling_status(cluster)})


def switch_on(room: Room, run: Run) -> Outcome:
    """UpdateCluster with AutoScaling and ClusterRole, and no group: groups that are not sent stay as they are."""
    where = site(room, run.spec)
    cluster = scaling.get_cluster(where)
    status = autoscaling_status(cluster)
    if status in ("Creating", "InService"):
        return Done(already=run.waited_seconds < 1)
    if status == "Deleting":
        return Wait(15, "AutoScaling is still being disabled; it is enabled after that")
    busy = scaling.await_free(cluster)
    if busy:
        return busy
    role = run.learned["role"]["role_arn"]
    if status == "Failed" and cluster.get("ClusterRole") != role:
        told = "AutoScaling had failed with another role, which SageMaker does not change: it is disabled first"
        return scaling.update(where.aws, cluster["ClusterName"], AutoScaling={"Mode": "Disable"}) or Wait(10, told)
    try:
        busy = scaling.update(where.aws, cluster["ClusterName"], AutoScaling=_AUTOSCALING, ClusterRole=role)
    except problems.Busy as problem:
        if problem.code != "aws.role_not_visible_yet" or run.waited_seconds < _ROLE_GRACE_SECONDS:
            raise
        raise _not_assumable(role, problem) from problem
    return busy or Done({"asked": True}, note="SageMaker took AutoScaling Enable")


def _not_assumable(role: str, problem: problems.Problem) -> problems.Blocked:
    return problems.Blocked(
        "karpenter.role_not_assumable",
        f"SageMaker still cannot assume the cluster role {role}: {problem.evidence.get('message', problem.detail)}",
        hint="Look at the role's trust and at organisation policies, then retry.",
        evidence=problem.evidence,
    )


def await_service(room: Room, run: Run) -> Outcome:
    """Until DescribeCluster itself says InService."""
    cluster = scaling.get_cluster(site(room, run.spec))
    status = autoscaling_status(cluster)
    if status == "InService":
        return Done({"status": status, "role_arn": cluster.get("ClusterRole")})
    lagging = run.waited_seconds < _LAG_SECONDS and status in ("Disabled", run.learned["counts"]["status"])
    if status == "Creating" or lagging:
        return Wait(10, f"AutoScaling is {status}; SageMaker sets Karpenter up")
    told = (cluster.get("AutoScaling") or {}).get("FailureMessage") or "no reason told"
    raise problems.Conflict(
        "karpenter.enable_failed",
        f"SageMaker could not set Karpenter up (AutoScaling is {status}): {told}",
        hint="Correct what it says, then enable Karpenter again.",
        evidence={"service": "sagemaker", "cluster": cluster["ClusterName"], "status": status, "message": told},
    )


def await_kinds(room: Room, run: Run) -> Outcome:
    """Until the cluster serves Karpenter's kinds: before that no pool can be made."""
    kube = site(room, run.spec).kube(room)
    missing = [kind for kind in (NODE_CLASS, NODE_POOL, karpenter.NODE_CLAIM) if not kube.serves(kind)]
    if missing:
        return Wait(_LOOK_SECONDS, f"The cluster does not serve {', '.join(missing)} yet")
    return Done({"status": "InService", "role_arn": run.learned["role"]["role_arn"]})


# ---------------------------------------------------------------------- pools


def make_class(room: Room, run: Run) -> Outcome:
    """The node class, with the counts of its groups noted on it. Raises Conflict when they are not as they were agreed to go."""
    where = site(room, run.spec)
    kube, spec = where.kube(room), run.spec
    have = kube.find(NODE_CLASS, spec.name)
    if have is not None and have["metadata"].get("deletionTimestamp"):
        return Wait(_LOOK_SECONDS, f"The node class {spec.name} of before is still going")
    if have is not None:
        _check_class(have, spec.instance_groups)
        return Done({"node_class": spec.name}, already=run.waited_seconds < 1)
    cluster = scaling.get_cluster(where)
    _check_enabled(cluster)
    counts = _agreed(cluster, spec.instance_groups, spec.taken)
    kube.apply(node_pools.node_class(spec.name, spec.instance_groups, counts))
    return Done({"node_class": spec.name, "counts": counts})


def _check_enabled(cluster: Mapping[str, Any]) -> None:
    if autoscaling_status(dict(cluster)) != "InService":
        raise problems.Conflict(
            "karpenter.not_enabled", "Managed Karpenter is not in service any more.", hint="Switch managed Karpenter on first."
        )


def _check_class(have: Resource, wanted: list[str]) -> None:
    if not node_pools.is_ours(have) or list(karpenter.groups_of(have)) != list(wanted):
        name = have["metadata"]["name"]
        raise problems.Conflict(
            "node_pool.exists", f"There is a node class {name} already, and it is not as asked.", hint="Take another name."
        )


def _agreed(cluster: Mapping[str, Any], wanted: list[str], taken: Mapping[str, int]) -> dict[str, int]:
    """The counts now of groups to be taken over. Raises Conflict when more would go than was agreed (case 35)."""
    counts = {name: int(groups.get(cluster, name)["TargetCount"]) for name in wanted}
    grown = {name: n for name, n in counts.items() if n > taken.get(name, 0)}
    if grown:
        told = ", ".join(f"{name} has {n} nodes" for name, n in grown.items())
        raise problems.Conflict(
            "node_pool.group_not_empty",
            f"{told}, and Karpenter would remove them: that was not agreed to.",
            hint="Scale the group to 0 first, or ask again with dry_run=true and pass the approval of the plan.",
            evidence={"counts": grown, "agreed": dict(taken)},
        )
    return counts


def await_class(room: Room, run: Run) -> Outcome:
    """Until Karpenter calls the class Ready."""
    kube = site(room, run.spec).kube(room)
    name = _class_name(kube, run)
    why = node_pools.unready(kube.get(NODE_CLASS, name))
    return Wait(_LOOK_SECONDS, why) if why else Done({"node_class": name})


def _class_name(kube: KubeCluster, run: Run) -> str:
    pool = getattr(run.spec, "pool", None)
    return node_pools.class_of(kube.get(NODE_POOL, pool)) if pool else str(run.spec.name)


def make_pool(room: Room, run: Run) -> Outcome:
    """The node pool with every setting written out."""
    kube, spec = site(room, run.spec).kube(room), run.spec
    have = kube.find(NODE_POOL, spec.name)
    if have is not None and not node_pools.is_ours(have):
        raise problems.Conflict(
            "node_pool.exists", f"There is a node pool {spec.name} that InstantStart did not make.", hint="Take another name."
        )
    if have is not None and have["metadata"].get("deletionTimestamp"):
        return Wait(_LOOK_SECONDS, f"The node pool {spec.name} of before is still going")
    kube.apply(node_pools.node_pool(spec.name, spec.model_dump()))
    return Done({"pool": spec.name})


def await_pool(room: Room, run: Run) -> Outcome:
    """Until Karpenter calls the pool Ready for what it is now."""
    kube = site(room, run.spec).kube(room)
    name = getattr(run.spec, "pool", None) or run.spec.name
    found = kube.get(NODE_POOL, name)
    why = node_pools.unready(found)
    return Wait(_LOOK_SECONDS, why) if why else Done({"pool": name, **node_pools.read(found)})


def change_class(room: Room, run: Run) -> Outcome:
    """The groups of the pool's class, with the counts of those newly taken over."""
    where = site(room, run.spec)
    kube = where.kube(room)
    have = kube.get(NODE_CLASS, _class_name(kube, run))
    wanted = run.spec.instance_groups
    if list(karpenter.groups_of(have)) == list(wanted):
        return Done(already=run.waited_seconds < 1)
    fresh = [g for g in wanted if g not in karpenter.groups_of(have)]
    counts = {**node_pools.counts_before(have), **_agreed(scaling.get_cluster(where), fresh, run.spec.taken)}
    fields = node_pools.node_class(have["metadata"]["name"], wanted, {g: n for g, n in counts.items() if g in wanted})
    kube.patch(
        NODE_CLASS, have["metadata"]["name"], {"metadata": {"annotations": fields["metadata"]["annotations"]}, "spec": fields["spec"]}
    )
    return Done({"counts": counts})


def change_pool(room: Room, run: Run) -> Outcome:
    """The fields that were asked for; all others stay, whoever set them."""
    where: Site = site(room, run.spec)
    kube = where.kube(room)
    present = kube.get(NODE_POOL, run.spec.pool)
    asked = run.spec.model_dump(exclude={"tag", "region", "pool", "taken", "instance_groups"})
    patch = node_pools.pool_patch(asked, present)
    if patch["spec"]:
        kube.patch(NODE_POOL, run.spec.pool, patch)
    return Done({"fields": sorted(k for k, v in asked.items() if v is not None)})
