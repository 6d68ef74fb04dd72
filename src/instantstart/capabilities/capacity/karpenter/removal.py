"""The stages of taking away: pools with their nodes, then classes, then AutoScaling, then what was there before.

The order matters: without the controller nothing removes the finalizers of its objects, and they would hang for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from instantstart.base import problems
from instantstart.base.outcome import Done, Outcome, Progress, Wait
from instantstart.capabilities.room import Room
from instantstart.ensure.capacity import budgets, drains, groups, karpenter, node_pools, scaling
from instantstart.ensure.capacity.karpenter import NODE_CLAIM, NODE_CLASS, NODE_CLASS_GROUP, NODE_POOL, autoscaling_status
from instantstart.ensure.iam import identity
from instantstart.ensure.sites import site
from instantstart.kube.client import KubeCluster, Resource
from instantstart.operations.declare import Run
from instantstart.operations.record import OperationStatus
from instantstart.store.records import OperationFilter

_LOOK_SECONDS = 5.0


def survey(room: Room, run: Run) -> Outcome:
    """Write down the pools, the classes, and the counts to put back, before any of it goes."""
    where = site(room, run.spec)
    kube, cluster = where.kube(room), scaling.get_cluster(where)
    classes = karpenter.list_served(kube, NODE_CLASS)
    owned = {g for c in classes for g in karpenter.groups_of(c)}
    noted = {g: n for c in classes for g, n in node_pools.counts_before(c).items()}
    earlier = {g: n for g, n in _enabled_counts(room, run).items() if g in owned}
    ours = where.aws.arn("iam", f"role/{where.names.karpenter_role}", regional=False)
    return Done(
        {
            "pools": [p["metadata"]["name"] for p in karpenter.list_served(kube, NODE_POOL) if node_pools.class_of(p)],
            "classes": [c["metadata"]["name"] for c in classes],
            "counts": {**earlier, **noted},
            "role_ours": cluster.get("ClusterRole") in (None, ours),
        }
    )


def _enabled_counts(room: Room, run: Run) -> dict[str, int]:
    """The counts that the latest enabling of this cluster wrote down; empty when it was switched on by others."""
    wanted = OperationFilter(workflow="karpenter.enable", cluster=run.spec.tag, statuses=(OperationStatus.succeeded,))
    found = room.engine.list(wanted, limit=1).items
    learned = next((s.learned for o in found for s in o.stages if s.name == "counts"), {})
    return {str(g): int(n) for g, n in learned.get("counts", {}).items()}


def remove_pools(room: Room, run: Run) -> Outcome:
    """Every pool of HyperPod's Karpenter; its nodes are drained and go first."""
    kube = site(room, run.spec).kube(room)
    return _remove(kube, [p for p in karpenter.list_served(kube, NODE_POOL) if node_pools.class_of(p)], _claims(kube))


def remove_pool(room: Room, run: Run) -> Outcome:
    """One pool; its nodes are drained and go first. Learns its class."""
    kube = site(room, run.spec).kube(room)
    found = [p for p in karpenter.list_served(kube, NODE_POOL) if p["metadata"]["name"] == run.spec.pool]
    mine = [c for c in _claims(kube) if (c["metadata"].get("labels") or {}).get(karpenter.POOL_LABEL) == run.spec.pool]
    return _remove(kube, found, mine)


def _remove(kube: KubeCluster, pools: Sequence[Resource], claims: Sequence[Resource]) -> Outcome:
    for each in (*pools, *claims):
        if not each["metadata"].get("deletionTimestamp"):
            kube.delete(_kind(each), each["metadata"]["name"], uid=each["metadata"]["uid"])
    if claims:
        many = "1 node is" if len(claims) == 1 else f"{len(claims)} nodes are"
        told = f"{many} leaving: {_leaving(claims[0])}{_held(kube, claims)}"
        return Wait(_LOOK_SECONDS, told, Progress(0, len(claims), "nodes"))
    if pools:
        return Wait(_LOOK_SECONDS, f"The node pool {pools[0]['metadata']['name']} is going")
    return Done()


def _kind(found: Resource) -> str:
    return f"{found['apiVersion']}/{found['kind']}"


def _claims(kube: KubeCluster) -> list[Resource]:
    """The claims of HyperPod's Karpenter."""
    found = karpenter.list_served(kube, NODE_CLAIM)
    return [c for c in found if c["spec"]["nodeClassRef"]["group"] == NODE_CLASS_GROUP]


def _leaving(claim: Resource) -> str:
    known = node_pools.conditions(claim)
    if known.get("InstanceTerminating", {}).get("status") == "True":
        return f"{claim['metadata']['name']} is being terminated"
    return f"{claim['metadata']['name']} is being drained"


def _held(kube: KubeCluster, claims: Sequence[Resource]) -> str:
    """The pods that a disruption budget keeps on these nodes, with the budget: Karpenter waits for them without a deadline."""
    names = {str(name) for c in claims if (name := (c.get("status") or {}).get("nodeName"))}
    found = [str(each) for each in budgets.held(kube, names)] if names else []
    return f"; held by a disruption budget: {drains.shown(found)}; loosen it, or move or stop the pod" if found else ""


def remove_class(room: Room, run: Run) -> Outcome:
    """The class of a pool that went, when it was ours and no other pool names it."""
    kube, name = site(room, run.spec).kube(room), run.learned["survey"]["node_class"]
    have = kube.find(NODE_CLASS, name) if name else None
    if have is None or not node_pools.is_ours(have):
        return Done(already=have is not None)
    using = [p["metadata"]["name"] for p in kube.list(NODE_POOL) if node_pools.class_of(p) == name]
    if using:
        return Done(already=True, note=f"The node class {name} is kept: {', '.join(using)} names it.")
    return _remove_classes(kube, [have])


def find_class(room: Room, run: Run) -> Outcome:
    """Write down which class the pool has, before it goes."""
    kube = site(room, run.spec).kube(room)
    have = kube.find(NODE_POOL, run.spec.pool)
    return Done({"node_class": node_pools.class_of(have) if have else run.spec.pool})


def remove_classes(room: Room, run: Run) -> Outcome:
    """Every node class; a class goes when its last node has gone."""
    kube = site(room, run.spec).kube(room)
    return _remove_classes(kube, karpenter.list_served(kube, NODE_CLASS))


def _remove_classes(kube: KubeCluster, classes: Sequence[Resource]) -> Outcome:
    for each in classes:
        if not each["metadata"].get("deletionTimestamp"):
            kube.delete(NODE_CLASS, each["metadata"]["name"], uid=each["metadata"]["uid"])
    if classes:
        return Wait(_LOOK_SECONDS, f"The node class {classes[0]['metadata']['name']} is going")
    return Done()


def switch_off(room: Room, run: Run) -> Outcome:
    """UpdateCluster with AutoScaling Disable, and no group; until DescribeCluster says that it is off."""
    where = site(room, run.spec)
    cluster = scaling.get_cluster(where)
    status = autoscaling_status(cluster)
    if status == "Disabled":
        return Done(already=run.waited_seconds < 1)
    if status == "Deleting":
        return Wait(10, "SageMaker takes Karpenter down")
    busy = scaling.await_free(cluster)
    if busy:
        return busy
    return scaling.update(where.aws, cluster["ClusterName"], AutoScaling={"Mode": "Disable"}) or Wait(
        10, "SageMaker took AutoScaling Disable"
    )


def note_baseline(room: Room, run: Run) -> Outcome:
    """Write down the counts that Karpenter leaves, so that nodes are added once and somebody else's change is noticed."""
    cluster = scaling.get_cluster(site(room, run.spec))
    have = {g["InstanceGroupName"]: int(g["TargetCount"]) for g in cluster["InstanceGroups"]}
    return Done({"counts": {g: have[g] for g in run.learned["survey"]["counts"] if g in have}})


def restore_counts(room: Room, run: Run) -> Outcome:
    """The groups as they were before Karpenter took them over. A group that is gone stays gone; none is made smaller."""
    where = site(room, run.spec)
    cluster = scaling.get_cluster(where)
    wanted, left = run.learned["survey"]["counts"], run.learned["baseline"]["counts"]
    restored, kept = {}, []
    for name, baseline in left.items():
        group, count = groups.find(cluster, name), int(wanted[name])
        if group is None or count <= baseline:
            continue
        if int(group["TargetCount"]) not in scaling.ladder(baseline, count):
            kept.append(f"{name} has another count by now, and is left as it is.")
            continue
        _add(where, cluster, group, (baseline, count), run)
        restored[name] = count
    return Done({"restored": restored}, already=not restored, note=" ".join(kept) or None)


def _add(where: Any, cluster: dict[str, Any], group: dict[str, Any], span: tuple[int, int], run: Run) -> None:
    name = group["InstanceGroupName"]
    try:
        scaling.add_nodes(where.aws, cluster["ClusterName"], group, scaling.ladder(*span), lambda n: run.token(f"{name}-{n}"))
    except problems.OutOfQuota as problem:
        raise problems.Blocked(
            "karpenter.not_restored",
            f"The group {name} cannot be put back to {span[1]} nodes: {problem.detail}",
            hint="Ask for the quota and retry; or scale the group by hand and cancel.",
            evidence=problem.evidence,
        ) from problem


def remove_role(room: Room, run: Run) -> Outcome:
    """The cluster role, when it is ours."""
    where = site(room, run.spec)
    step = identity.remove_role(where.aws, where.names.karpenter_role, where.tag)
    return step or Done({"restored": run.learned["restore"]["restored"], "status": "Disabled"})
