"""UpdateClusterSoftware: groups get another AMI, in batches if a rolling policy asks for it (facts A1.7)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from instantstart_sandbox.services.hyperpod.events import note
from instantstart_sandbox.services.hyperpod.state import RELEASES, Cluster, Group, clusters, conflict, find, invalid, nodes_of, nudge

if TYPE_CHECKING:
    from instantstart_sandbox.gateway.registry import Context
    from instantstart_sandbox.world.state import World


def update_cluster_software(ctx: Context, **params: Any) -> dict[str, Any]:
    """UpdateClusterSoftware. Without InstanceGroups every group is patched."""
    cluster = find(ctx, params["ClusterName"])
    if cluster["status"] != "InService" or any(g["gated"] for g in cluster["groups"].values()):
        raise conflict(f"Cluster {cluster['name']} is in status {cluster['status']} or scales to a MinInstanceCount.")
    asked = params.get("InstanceGroups") or [{"InstanceGroupName": n} for n in cluster["groups"]]
    for one in asked:
        _check(cluster, one, params.get("ImageId"))
    cluster["status"] = "SystemUpdating"
    for one in asked:
        group = cluster["groups"][one["InstanceGroupName"]]
        group["rolling"] = params.get("DeploymentConfig") or {}
        group |= {"status": "SystemUpdating", "software": "InProgress", "next_image": one.get("ImageReleaseVersion") or RELEASES[-1]}
        group["next_image_id"] = params.get("ImageId") or group["image_id"]
        text = f"Software update of instance group {group['name']} has started."
        note(ctx.world, cluster, text, InstanceGroupName=group["name"])
        _next_batch(ctx.world, cluster, group)
    nudge(ctx.world, cluster)
    return {"ClusterArn": cluster["arn"]}


def _check(cluster: Cluster, one: dict[str, Any], image_id: str | None) -> None:
    name, release = one["InstanceGroupName"], one.get("ImageReleaseVersion")
    group = cluster["groups"].get(name)
    if group is None:
        raise invalid(f"Instance group {name} does not exist in cluster {cluster['name']}.")
    if group["image_id"] != "default" and not image_id:
        raise invalid(f"Instance group {name} runs a custom AMI: ImageId is required.")
    if release is not None and release not in RELEASES:
        raise invalid(f"Image release version {release} does not exist.")


def _batch_size(group: Group, total: int) -> int:
    policy = group["rolling"].get("RollingUpdatePolicy", {}).get("MaximumBatchSize")
    if not policy:
        return max(total, 1)
    share = policy["Value"] if policy["Type"] == "INSTANCE_COUNT" else math.ceil(total * policy["Value"] / 100)
    return max(1, int(share))


def _next_batch(world: World, cluster: Cluster, group: Group) -> None:
    """Start the next batch, or end the update when no node is left."""
    nodes = [n for n in nodes_of(cluster, group["name"]) if n["status"] == "Running" and not n.get("patched")]
    if not nodes:
        _finish(world, cluster, group)
        return
    total = len(nodes_of(cluster, group["name"]))
    for node in nodes[: _batch_size(group, total)]:
        node["status"] = "SystemUpdating"
    world.clock.after(world.settings.cluster_software_update_seconds, "hyperpod.software.batch", arn=cluster["arn"], name=group["name"])


def batch_done(world: World, arn: str, name: str) -> None:
    """A batch of a group has the new image; the next one follows after the wait of the deployment configuration."""
    cluster = clusters(world).get(arn)
    group = cluster["groups"].get(name) if cluster else None
    if cluster is None or group is None or group["software"] != "InProgress":
        return
    for node in cluster["nodes"].values():
        if node["group"] == name and node["status"] == "SystemUpdating":
            node |= {
                "status": "Running",
                "image": group["next_image"],
                "updated": world.clock.utc(),
                "patched": True,
                "boots": node.get("boots", 0) + 1,
            }
    wait = group["rolling"].get("WaitIntervalInSeconds", 0)
    world.clock.after(float(wait), "hyperpod.software.next", arn=arn, name=name)
    nudge(world, cluster)


def next_batch(world: World, arn: str, name: str) -> None:
    """The wait between two batches is over."""
    cluster = clusters(world).get(arn)
    group = cluster["groups"].get(name) if cluster else None
    if cluster is not None and group is not None and group["software"] == "InProgress":
        _next_batch(world, cluster, group)


def _finish(world: World, cluster: Cluster, group: Group) -> None:
    group |= {"image": group["next_image"], "image_id": group["next_image_id"], "software": "Succeeded"}
    group |= {"status": "InService", "rolling": {}}
    for node in cluster["nodes"].values():
        if node["group"] == group["name"]:
            node.pop("patched", None)
    note(world, cluster, f"Software update of instance group {group['name']} has succeeded.", InstanceGroupName=group["name"])
    if all(g["status"] != "SystemUpdating" for g in cluster["groups"].values()):
        cluster["status"] = "InService"
    nudge(world, cluster)


TIMERS = {"hyperpod.software.batch": batch_done, "hyperpod.software.next": next_batch}
OPERATIONS = {"UpdateClusterSoftware": update_cluster_software}
