"""Where HyperPod keeps its clusters: ``world.section("hyperpod")["clusters"]``, by ARN.

A cluster is ``{"arn", "name", "created", "status", "failure", "vpc", "orchestrator", "recovery", "tiered", "mode", "role",
"autoscaling", "rig_config", "tags", "groups", "nodes", "events", "operations", "adds"}``; ``groups`` by name, ``nodes`` by
NodeLogicalId. A group is ``{"name", "spec", "target", "min", "status", "restricted", "labels", "taints", "image",
"software"}``: ``spec`` is the request's, without counts. A node is made by ``new_node``.
"""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from instantstart_sandbox.gateway.errors import AwsError
from instantstart_sandbox.services.arns import Arn

if TYPE_CHECKING:
    from instantstart_sandbox.gateway.registry import Context
    from instantstart_sandbox.world.state import World

Cluster = dict[str, Any]
Group = dict[str, Any]
Node = dict[str, Any]

#: node statuses that count as capacity the cluster has
COUNTED = frozenset({"Running", "SystemUpdating"})
#: HyperPod AMI releases, oldest first; a new node gets the newest unless its group pins one
RELEASES = ("1.0.0", "1.1.0", "1.2.0")


def clusters(world: World) -> dict[str, Cluster]:
    """Every cluster of every region, by ARN."""
    found: dict[str, Cluster] = world.section("hyperpod").setdefault("clusters", {})
    return found


def in_region(world: World, region: str) -> list[Cluster]:
    """The clusters of a region, oldest first."""
    return [c for c in clusters(world).values() if Arn.parse(c["arn"]).region == region]


def find(ctx: Context, name: str) -> Cluster:
    """A cluster by name or ARN; ResourceNotFound (without "Exception": facts A1.4)."""
    for cluster in in_region(ctx.world, ctx.region):
        if name in (cluster["name"], cluster["arn"]):
            return cluster
    raise AwsError("ResourceNotFound", f"Cluster with name {name} not found. The cluster does not exist or has been deleted.")


def invalid(message: str) -> AwsError:
    """ValidationException."""
    return AwsError("ValidationException", message)


def conflict(message: str) -> AwsError:
    """ConflictException."""
    return AwsError("ConflictException", message)


def continuous(cluster: Cluster) -> bool:
    """Whether the cluster provisions continuously; else it is the old all-or-nothing mode."""
    return bool(cluster["mode"] == "Continuous")


def need_continuous(cluster: Cluster, operation: str) -> None:
    """Refuse an operation that the old mode does not have (facts A1.8, trap C13)."""
    if not continuous(cluster):
        raise invalid(f"{operation} is only supported for clusters with NodeProvisioningMode Continuous.")


def eks_arn(cluster: Cluster) -> str | None:
    """The ARN of the EKS cluster that orchestrates, or None for Slurm."""
    found: str | None = ((cluster["orchestrator"] or {}).get("Eks") or {}).get("ClusterArn")
    return found


def nudge(world: World, cluster: Cluster) -> None:
    """Say to Kubernetes and to the snapshot that something changed."""
    arn = eks_arn(cluster)
    if arn:
        world.kubernetes.nudge(arn)
    world.changed()


def new_node(world: World, group: Group) -> Node:
    """A node that has been asked for: it has a logical id, no instance yet."""
    return {
        "logical": f"{secrets.token_hex(4)}-{secrets.token_hex(6)}",
        "group": group["name"],
        "id": "",
        "type": types_of(group)[0],
        "status": "Pending",
        "message": "",
        "requested": world.clock.utc(),
        "launched": world.clock.utc(),
        "subnet": "",
        "zone": "",
        "zone_id": "",
        "ip": "",
        "interfaces": [],
        "joined": False,
        "health": "Schedulable",
        "deep": None,
        "image": "",
        "updated": None,
        "labels": {},
        "taints": [],
        "zones": [],
        "types": [],
        "tries": 0,
        "replacing": False,
    }


def types_of(group: Group) -> list[str]:
    """The instance types a group may use, in order of preference."""
    requirements = group["spec"].get("InstanceRequirements")
    return list(requirements["InstanceTypes"]) if requirements else [group["spec"]["InstanceType"]]


def spot(group: Group) -> bool:
    """Whether the group asks for Spot capacity."""
    return "Spot" in (group["spec"].get("CapacityRequirements") or {})


def nodes_of(cluster: Cluster, group: str) -> list[Node]:
    """The nodes of a group that are not on their way out."""
    return [n for n in cluster["nodes"].values() if n["group"] == group and (n["status"] != "ShuttingDown" or n["replacing"])]


def current_count(cluster: Cluster, group: str) -> int:
    """CurrentCount: the nodes of a group that are there."""
    return sum(1 for n in cluster["nodes"].values() if n["group"] == group and n["status"] in COUNTED)


def network_of(cluster: Cluster, group: Group) -> dict[str, Any]:
    """The VpcConfig that holds for a group: its own, else the cluster's."""
    found: dict[str, Any] = group["spec"].get("OverrideVpcConfig") or cluster["vpc"] or {"Subnets": [], "SecurityGroupIds": []}
    return found


def all_nodes(world: World) -> Iterator[tuple[Cluster, Node]]:
    """Every node of every cluster."""
    for cluster in clusters(world).values():
        for node in cluster["nodes"].values():
            yield cluster, node


def new_uuid() -> str:
    """An id of an event or operation."""
    return str(uuid.uuid4())


def new_cluster_id() -> str:
    """The last part of a cluster's ARN: 12 characters, unrelated to the name."""
    return secrets.token_hex(6)


def new_instance_id() -> str:
    """``i-`` and 17 hexadecimal digits."""
    return "i-" + secrets.token_hex(9)[:17]
