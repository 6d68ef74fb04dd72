"""Managed node groups: listed and described, so that a cluster that has some can be represented; made only by a scenario.

The sandbox runs no EC2 worker nodes. CreateNodegroup is therefore not offered (the gateway says so), and a node group
enters by ``seed``. It holds back DeleteCluster as on AWS.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from instantstart_sandbox.services.eks.state import clusters, find, listing, not_found, short_uuid

if TYPE_CHECKING:
    from instantstart_sandbox.gateway.registry import Context
    from instantstart_sandbox.world.state import World


def list_nodegroups(ctx: Context, **params: Any) -> dict[str, Any]:
    """ListNodegroups."""
    return listing("nodegroups", sorted(find(ctx, params["clusterName"])["nodegroups"]), params)


def describe_nodegroup(ctx: Context, **params: Any) -> dict[str, Any]:
    """DescribeNodegroup."""
    return {"nodegroup": _one(ctx, params)}


def _one(ctx: Context, params: dict[str, Any]) -> dict[str, Any]:
    name, cluster = params["nodegroupName"], params["clusterName"]
    found: dict[str, Any] | None = find(ctx, cluster)["nodegroups"].get(name)
    if found is None:
        raise not_found(f"No node group found for name: {name}.", clusterName=cluster, nodegroupName=name)
    return found


def delete_nodegroup(ctx: Context, **params: Any) -> dict[str, Any]:
    """DeleteNodegroup; gone after ``nodegroup_create_seconds``."""
    group = _one(ctx, params)
    group["status"] = "DELETING"
    arn = find(ctx, params["clusterName"])["view"]["arn"]
    ctx.clock.after(ctx.world.settings.nodegroup_create_seconds, "eks.nodegroup.gone", arn=arn, name=params["nodegroupName"])
    return {"nodegroup": group}


def _gone(world: World, arn: str, name: str) -> None:
    record = clusters(world).get(arn)
    if record is not None:
        record["nodegroups"].pop(name, None)
        world.changed()


def seed(world: World, arn: str, name: str, role_arn: str) -> dict[str, Any]:
    """Put an ACTIVE node group of two m5.large into a cluster (scenarios)."""
    view, now = clusters(world)[arn]["view"], world.clock.utc()
    group = {
        "nodegroupName": name,
        "nodegroupArn": arn.replace(":cluster/", ":nodegroup/") + f"/{name}/{short_uuid()}",
        "clusterName": view["name"],
        "version": view["version"],
        "createdAt": now,
        "modifiedAt": now,
        "status": "ACTIVE",
        "capacityType": "ON_DEMAND",
        "scalingConfig": {"minSize": 2, "maxSize": 2, "desiredSize": 2},
        "instanceTypes": ["m5.large"],
        "subnets": list(view["resourcesVpcConfig"]["subnetIds"]),
        "amiType": "AL2023_x86_64_STANDARD",
        "nodeRole": role_arn,
        "health": {"issues": []},
    }
    clusters(world)[arn]["nodegroups"][name] = group
    world.changed()
    return group


OPERATIONS = {"ListNodegroups": list_nodegroups, "DescribeNodegroup": describe_nodegroup, "DeleteNodegroup": delete_nodegroup}
TIMERS = {"eks.nodegroup.gone": _gone}
