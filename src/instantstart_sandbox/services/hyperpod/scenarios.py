"""Verbs of the admin door that make things happen which no AWS call makes: foreign clusters, faults, Spot interruptions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from instantstart_sandbox.services.eks import nodegroups
from instantstart_sandbox.services.eks.state import clusters as eks_clusters
from instantstart_sandbox.services.hyperpod import health, received, seed
from instantstart_sandbox.services.hyperpod.state import all_nodes, clusters

if TYPE_CHECKING:
    from instantstart_sandbox.world.state import World

Body = dict[str, Any]


def _foreign_cluster(world: World, body: Body) -> Any:
    """``{name, region?, status?, failure?}``: a cluster without Orchestrator. Answers its ARN."""
    return {"ClusterArn": seed.foreign_cluster(world, **body)["arn"]}


def _nodegroup(world: World, body: Body) -> Any:
    """``{cluster_arn, name, role_arn}``: a managed node group in an EKS cluster."""
    arn = str(body.get("cluster_arn"))
    if arn not in eks_clusters(world):
        raise ValueError(f"no EKS cluster has the ARN {arn!r}")
    return nodegroups.seed(world, arn, str(body["name"]), str(body.get("role_arn", "")))


def _instance(world: World, body: Body) -> str:
    wanted = str(body.get("instance"))
    if not any(node["id"] == wanted for _, node in all_nodes(world)):
        raise ValueError(f"no HyperPod instance has the id {wanted!r}")
    return wanted


def _injure(world: World, body: Body) -> Any:
    """``{instance, reason?, action?: replace|reboot}``: a hardware fault."""
    more = {k: str(body[k]) for k in ("reason", "action") if k in body}
    health.injure(world, _instance(world, body), **more)
    return {}


def _doom(world: World, body: Body) -> Any:
    """``{instance}``: its deep health check will fail."""
    health.doom(world, _instance(world, body))
    return {}


def _interrupt(world: World, body: Body) -> Any:
    """``{instance}``: a Spot interruption notice."""
    health.interrupt(world, _instance(world, body))
    return {}


def _lifecycle_failure(world: World, body: Body) -> Any:
    """``{cluster, group, on?: true}``: the group's lifecycle script fails on every new instance until ``on`` is false."""
    for cluster in clusters(world).values():
        if body.get("cluster") in (cluster["name"], cluster["arn"]) and body.get("group") in cluster["groups"]:
            cluster["groups"][str(body["group"])]["broken_script"] = bool(body.get("on", True))
            world.changed()
            return {}
    raise ValueError(f"no HyperPod cluster {body.get('cluster')!r} has a group {body.get('group')!r}")


VERBS = {
    ("GET", "received"): lambda world, body: received.listed(world),
    ("POST", "scenario/foreign-cluster"): _foreign_cluster,
    ("POST", "scenario/nodegroup"): _nodegroup,
    ("POST", "scenario/injure"): _injure,
    ("POST", "scenario/doom"): _doom,
    ("POST", "scenario/interrupt"): _interrupt,
    ("POST", "scenario/lifecycle-failure"): _lifecycle_failure,
}
