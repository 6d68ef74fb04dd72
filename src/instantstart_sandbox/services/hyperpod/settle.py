"""The cluster as a whole: when it is created, updated, rolled back, failed or gone.

Continuous (facts A1.11): the cluster is InService when its own parts are there; nodes come when they come.
MinInstanceCount holds a group back, for three hours at most. Old mode: all nodes, or Failed (create), or rolled back (update).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from instantstart_sandbox.services.hyperpod import operations
from instantstart_sandbox.services.hyperpod.events import note
from instantstart_sandbox.services.hyperpod.provision import reconcile, retire
from instantstart_sandbox.services.hyperpod.state import Cluster, Group, clusters, continuous, current_count, nudge

if TYPE_CHECKING:
    from instantstart_sandbox.world.state import World

#: MinInstanceCount is given up after three hours [D]
GATE_SECONDS = 3 * 3600.0


def built(world: World, arn: str) -> None:
    """What is not nodes (service accounts, interfaces of the service) is there."""
    cluster = clusters(world).get(arn)
    if cluster is not None:
        cluster["built"] = True
        settle(world, arn)


def settle(world: World, arn: str) -> None:
    """Draw the conclusions of what has changed. Idempotent; runs after every change of a node."""
    cluster = clusters(world).get(arn)
    if cluster is None:
        return
    _drop_deleted_groups(cluster)
    if continuous(cluster):
        _settle_continuous(world, cluster)
    else:
        _settle_classic(world, cluster)
    operations.progress(cluster)
    nudge(world, cluster)


def _drop_deleted_groups(cluster: Cluster) -> None:
    for name in [n for n, g in cluster["groups"].items() if g["status"] == "Deleting"]:
        if not any(node["group"] == name for node in cluster["nodes"].values()):
            del cluster["groups"][name]


def _settle_continuous(world: World, cluster: Cluster) -> None:
    if not cluster["built"]:
        return
    for group in cluster["groups"].values():
        reached = group["min"] is None or not group["gated"] or current_count(cluster, group["name"]) >= group["min"]
        if group["status"] in ("Creating", "Updating") and reached and group["ready_at"] <= world.clock.now():
            group |= {"status": "InService", "gated": False}
            note(world, cluster, f"Instance group {group['name']} is in service.", InstanceGroupName=group["name"])
    if cluster["status"] == "Creating" and all(g["status"] != "Creating" for g in cluster["groups"].values()):
        _in_service(world, cluster)


def _in_service(world: World, cluster: Cluster) -> None:
    cluster |= {"status": "InService", "failure": ""}
    note(world, cluster, f"Cluster {cluster['name']} is in service.")


def _settle_classic(world: World, cluster: Cluster) -> None:
    status, shortage = cluster["status"], cluster["shortage"]
    if status == "Creating" and shortage:
        _fail(world, cluster, shortage)
    elif status == "Updating" and shortage:
        _roll_back(world, cluster, shortage)
    elif status in ("Creating", "Updating", "RollingBack") and cluster["built"] and _complete(cluster):
        for group in cluster["groups"].values():
            group["status"] = "InService"
        cluster |= {"status": "InService", "failure": cluster["failure"] if status == "RollingBack" else "", "before": None}


def _complete(cluster: Cluster) -> bool:
    groups = cluster["groups"].values()
    leaving = any(n["status"] == "ShuttingDown" for n in cluster["nodes"].values())
    return not leaving and all(current_count(cluster, g["name"]) == g["target"] for g in groups)


def _fail(world: World, cluster: Cluster, reason: str) -> None:
    cluster |= {"status": "Failed", "failure": reason, "shortage": ""}
    for group in cluster["groups"].values():
        group |= {"status": "Failed", "target": 0}
    for node in list(cluster["nodes"].values()):
        retire(world, cluster, node)


def _roll_back(world: World, cluster: Cluster, reason: str) -> None:
    """All-or-nothing: the groups as they were before the update."""
    before: dict[str, Group] = cluster["before"] or {}
    cluster |= {"status": "RollingBack", "failure": reason, "shortage": ""}
    for name, group in list(cluster["groups"].items()):
        old = before.get(name)
        group |= {"status": "Updating"} | (old or {"target": 0, "status": "Deleting"})
        reconcile(world, cluster, group)
    world.clock.after(0.0, "hyperpod.cluster.settle", arn=cluster["arn"])


def gate(world: World, arn: str, name: str, ready_at: float) -> None:
    """Three hours are over and MinInstanceCount was not met: the group goes back to what it was (new: 0/0)."""
    cluster = clusters(world).get(arn)
    group = cluster["groups"].get(name) if cluster else None
    if cluster is None or group is None or not group["gated"] or group["ready_at"] != ready_at:
        return
    reason = f"MinInstanceCount {group['min']} of instance group {name} was not reached within three hours."
    old = group.get("before") or {"target": 0, "min": 0}
    group |= {"gated": False, "status": "InService", "target": old["target"], "min": old["min"]}
    metadata = {"InstanceGroup": {"FailureMessage": reason}}
    note(world, cluster, f"Instance group {name} was rolled back.", "Error", metadata, InstanceGroupName=name)
    reconcile(world, cluster, group)
    settle(world, arn)


def finish_delete(world: World, arn: str) -> None:
    """The cluster is gone once its last node is; until then it stays in Deleting."""
    cluster = clusters(world).get(arn)
    if cluster is None or cluster["status"] != "Deleting":
        return
    if cluster["nodes"]:
        world.clock.after(30.0, "hyperpod.cluster.gone", arn=arn)
        return
    del clusters(world)[arn]
    nudge(world, cluster)


def labels_applied(world: World, arn: str, name: str) -> None:
    """KubernetesConfig has reached the group's nodes: Current becomes Desired."""
    cluster = clusters(world).get(arn)
    group = cluster["groups"].get(name) if cluster else None
    if cluster is None or group is None:
        return
    wanted = group["spec"].get("KubernetesConfig") or {}
    shown = {"labels": dict(wanted.get("Labels") or {}), "taints": list(wanted.get("Taints") or [])}
    group |= shown
    for node in cluster["nodes"].values():
        if node["group"] == name and node["id"]:
            node |= {"labels": dict(shown["labels"]), "taints": list(shown["taints"])}
    nudge(world, cluster)


TIMERS = {
    "hyperpod.cluster.built": built,
    "hyperpod.cluster.settle": settle,
    "hyperpod.cluster.gone": finish_delete,
    "hyperpod.group.gate": gate,
    "hyperpod.group.labels": labels_applied,
}
