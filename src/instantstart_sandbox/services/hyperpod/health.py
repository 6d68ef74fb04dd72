"""StartClusterHealthCheck, faults of nodes, and what NodeRecovery does about them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from instantstart_sandbox.services.hyperpod import operations
from instantstart_sandbox.services.hyperpod.batch import replace
from instantstart_sandbox.services.hyperpod.events import note_node
from instantstart_sandbox.services.hyperpod.instances import facts
from instantstart_sandbox.services.hyperpod.node_life import reboot, start_deep_check
from instantstart_sandbox.services.hyperpod.state import Cluster, Node, all_nodes, clusters, find, invalid, nodes_of, nudge

if TYPE_CHECKING:
    from instantstart_sandbox.gateway.registry import Context
    from instantstart_sandbox.world.state import World

#: the health agent needs about this long from a fault to the recovery action
_RECOVERY_SECONDS = 60.0
#: AWS gives two minutes, best effort (facts A15)
_SPOT_NOTICE_SECONDS = 120.0


def start_cluster_health_check(ctx: Context, **params: Any) -> dict[str, Any]:
    """StartClusterHealthCheck: deep checks on demand, on the nodes named or on all of a group."""
    cluster = find(ctx, params["ClusterName"])
    if cluster["status"] != "InService":
        raise invalid(f"Cluster {cluster['name']} is in status {cluster['status']}; it must be InService.")
    chosen = [n for c in params["DeepHealthCheckConfigurations"] for n in _chosen(ctx, cluster, c)]
    operation = operations.start_health_check(ctx.world, cluster, params["DeepHealthCheckConfigurations"])
    for node in chosen:
        start_deep_check(ctx.world, cluster, node, operation)
    if not chosen:
        operations.finish(cluster, operation)
    return {"ClusterArn": cluster["arn"]}


def _chosen(ctx: Context, cluster: Cluster, wish: dict[str, Any]) -> list[Node]:
    name, wanted = wish["InstanceGroupName"], wish.get("InstanceIds")
    if name not in cluster["groups"]:
        raise invalid(f"Instance group {name} does not exist in cluster {cluster['name']}.")
    nodes = {n["id"]: n for n in nodes_of(cluster, name) if n["id"]}
    for instance in wanted or []:
        if instance not in nodes:
            raise invalid(f"Instance {instance} is not in instance group {name}.")
        if not facts(ctx.world, ctx.region, nodes[instance]["type"]).accelerated:
            raise invalid(f"Deep health checks are not supported for instance type {nodes[instance]['type']}.")
    ready = [n for i, n in nodes.items() if n["status"] == "Running" and (wanted is None or i in wanted)]
    return [n for n in ready if facts(ctx.world, ctx.region, n["type"]).accelerated]


def all_checked(world: World, arn: str, operation: str) -> None:
    """End the operation when no node is being checked any more."""
    cluster = clusters(world).get(arn)
    if cluster is not None and all(n["status"] != "DeepHealthCheckInProgress" for n in cluster["nodes"].values()):
        operations.finish(cluster, operation)
        world.changed()


def injure(world: World, instance: str, reason: str = "XidHardwareFailure", action: str = "replace") -> None:
    """Make an instance faulty (scenarios). ``action`` is what the fault calls for: ``replace`` or ``reboot``.

    With NodeRecovery Automatic an accelerated node is then recovered; a CPU node never is (facts A1.2).
    """
    for cluster, node in all_nodes(world):
        if node["id"] == instance:
            node |= {"health": "Unschedulable", "message": reason}
            note_node(world, cluster, node, f"Instance {instance} is unhealthy.", "Error", reason)
            data = {"arn": cluster["arn"], "logical": node["logical"], "instance": instance, "action": action}
            world.clock.after(_RECOVERY_SECONDS, "hyperpod.node.recover", **data)
            nudge(world, cluster)


def interrupt(world: World, instance: str) -> None:
    """Take a Spot instance back (scenarios): two minutes' notice, the node is tainted, then it goes and is asked for anew."""
    for cluster, node in all_nodes(world):
        if node["id"] == instance:
            node |= {"health": "Unschedulable", "message": "Spot interruption notice"}
            note_node(world, cluster, node, f"Instance {instance} received a Spot interruption notice.", "Warn", "Spot interruption")
            data = {"arn": cluster["arn"], "logical": node["logical"], "instance": instance}
            world.clock.after(_SPOT_NOTICE_SECONDS, "hyperpod.node.interrupted", **data)
            nudge(world, cluster)


def interrupted(world: World, arn: str, logical: str, instance: str) -> None:
    """The notice is over."""
    cluster = clusters(world).get(arn)
    node = cluster["nodes"].get(logical) if cluster else None
    if cluster is not None and node is not None and node["id"] == instance:
        replace(world, cluster, node)
        nudge(world, cluster)


def doom(world: World, instance: str) -> None:
    """Let the deep health check that an instance is in, or will be in, fail (scenarios)."""
    for _, node in all_nodes(world):
        if node["id"] == instance:
            node["doomed"] = "yes"
            world.changed()


def recover(world: World, arn: str, logical: str, instance: str, action: str) -> None:
    """Automatic node recovery of one faulty node."""
    cluster = clusters(world).get(arn)
    node = cluster["nodes"].get(logical) if cluster else None
    if cluster is None or node is None or node["id"] != instance or node["status"] not in ("Running", "Failure"):
        return
    accelerated = facts(world, arn.split(":")[3], node["type"]).accelerated
    if cluster["recovery"] == "Automatic" and accelerated and cluster["status"] == "InService":
        act(world, cluster, node, action)


def act(world: World, cluster: Cluster, node: Node, action: str) -> None:
    """Reboot or replace a node."""
    if action == "reboot":
        reboot(world, cluster, node)
    else:
        replace(world, cluster, node)
        nudge(world, cluster)


OPERATIONS = {"StartClusterHealthCheck": start_cluster_health_check}
TIMERS = {
    "hyperpod.operation.checked": all_checked,
    "hyperpod.node.recover": recover,
    "hyperpod.node.interrupted": interrupted,
}
