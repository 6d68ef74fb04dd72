"""Bringing a group to its target: asking for nodes, placing them on capacity and addresses, taking them away."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from instantstart_sandbox.services import interfaces, lookups
from instantstart_sandbox.services.arns import Arn
from instantstart_sandbox.services.hyperpod import plan_state
from instantstart_sandbox.services.hyperpod.events import note, note_node
from instantstart_sandbox.services.hyperpod.instances import interfaces_needed
from instantstart_sandbox.services.hyperpod.state import (
    RELEASES,
    Cluster,
    Group,
    Node,
    clusters,
    continuous,
    network_of,
    new_instance_id,
    new_node,
    nodes_of,
    nudge,
    types_of,
)

if TYPE_CHECKING:
    from instantstart_sandbox.world.state import World

#: virtual seconds between two attempts at a node for which there is no capacity; doubled each time up to the second figure
_RETRY_SECONDS, _RETRY_MOST_SECONDS = 120.0, 900.0
#: how long the service takes before it asks for the first instance
ASK_SECONDS = 5.0
_NO_CAPACITY = (
    "We currently do not have sufficient capacity to fulfil the request for {type} in the Availability Zone(s) {zones}. "
    "Retry the request, use another Availability Zone or instance type, or use a training plan."
)


def reconcile(world: World, cluster: Cluster, group: Group, delay: float = ASK_SECONDS) -> None:
    """Ask for the nodes a group lacks; give up, at random, those it has too many of (facts A1.5)."""
    have = nodes_of(cluster, group["name"])
    for _ in range(group["target"] - len(have)):
        ask(world, cluster, group, delay)
    surplus = len(have) - group["target"]
    if surplus > 0:
        waiting = [n for n in have if not n["id"]]
        rest = [n for n in have if n["id"]]
        random.Random(f"{world.settings.seed}{cluster['arn']}{len(cluster['events'])}").shuffle(rest)
        for node in (waiting + rest)[:surplus]:
            retire(world, cluster, node)
    nudge(world, cluster)


def ask(world: World, cluster: Cluster, group: Group, delay: float = ASK_SECONDS) -> Node:
    """Note one more node and have its instance launched after ``delay`` virtual seconds."""
    node = new_node(world, group)
    cluster["nodes"][node["logical"]] = node
    world.clock.after(delay, "hyperpod.node.launch", arn=cluster["arn"], logical=node["logical"])
    return node


def launch(world: World, arn: str, logical: str) -> None:
    """Try to get an instance for a node: capacity first, then addresses. Tried again without end in Continuous mode."""
    cluster = clusters(world).get(arn)
    node = cluster["nodes"].get(logical) if cluster else None
    if cluster is None or node is None or node["id"] or node["status"] not in ("Pending", "Failure"):
        return
    group = cluster["groups"][node["group"]]
    if plan_is_waiting(world, group):
        world.clock.after(_RETRY_SECONDS, "hyperpod.node.launch", arn=arn, logical=logical)
        return
    problem = _place(world, cluster, group, node)
    if problem is None:
        _launched(world, cluster, group, node)
    elif continuous(cluster):
        _failed(world, cluster, node, problem)
    else:
        cluster["shortage"] = problem
    world.clock.after(0.0, "hyperpod.cluster.settle", arn=arn)
    nudge(world, cluster)


def plan_is_waiting(world: World, group: Group) -> bool:
    """Whether the group hangs on a training plan that has not begun: no nodes before StartTime (facts A2)."""
    plan = group["spec"].get("TrainingPlanArn")
    return plan is not None and plan_state.status_of(world, plan) in ("Pending", "Scheduled")


def _place(world: World, cluster: Cluster, group: Group, node: Node) -> str | None:
    """Put the node on the first type and subnet that have room; answers the reason when there is none."""
    problem, places = "", interfaces.places(cluster["arn"], network_of(cluster, group)["Subnets"])
    for instance_type in node["types"] or types_of(group):
        zones = _zones(world, cluster, group, node, instance_type)
        for place in (p for p in places if p.zone in zones):
            try:
                _take(world, cluster, group, node, instance_type, place)
                return None
            except interfaces.NoInterface as error:
                problem = str(error)
    named = ", ".join(sorted({p.zone for p in places})) or "none"
    return problem or _NO_CAPACITY.format(type=" or ".join(types_of(group)), zones=named)


def _zones(world: World, cluster: Cluster, group: Group, node: Node, instance_type: str) -> set[str]:
    """Where the type is to be had: in the plan's zones, else where EC2 offers it and has some left."""
    plan, region = group["spec"].get("TrainingPlanArn"), Arn.parse(cluster["arn"]).region
    if plan:
        zones = set(plan_state.zones_of(world, plan)) if plan_state.status_of(world, plan) == "Active" else set()
    else:
        zones = {z for z in lookups.offered_zones(world, region, instance_type) if world.capacity.left(instance_type, z) > 0}
    return zones & set(node["zones"]) if node["zones"] else zones


def _take(world: World, cluster: Cluster, group: Group, node: Node, instance_type: str, place: interfaces.Place) -> None:
    region = Arn.parse(cluster["arn"]).region
    interface = (group["spec"].get("NetworkInterface") or {}).get("InterfaceType")
    wanted = interfaces_needed(world, region, instance_type, interface)
    text = f"[DO NOT DELETE] ENI managed by SageMaker for HyperPod cluster {Arn.parse(cluster['arn']).name}"
    made = interfaces.create(world, cluster["arn"], place.subnet, network_of(cluster, group)["SecurityGroupIds"], [text] * wanted)
    planned = "TrainingPlanArn" in group["spec"]
    if not planned:
        world.capacity.take(instance_type, place.zone)
    node |= {
        "type": instance_type,
        "subnet": place.subnet,
        "zone": place.zone,
        "zone_id": place.zone_id,
        "ip": made[0]["ip"],
        "interfaces": [m["id"] for m in made],
        "borrowed": not planned,
    }


def _launched(world: World, cluster: Cluster, group: Group, node: Node) -> None:
    spec = group["spec"]
    kubernetes = spec.get("KubernetesConfig") or {}
    node |= {
        "id": new_instance_id(),
        "status": "Pending",
        "launched": world.clock.utc(),
        "tries": 0,
        "image": spec.get("ImageReleaseVersion") or RELEASES[-1],
        "updated": world.clock.utc(),
        "labels": dict(kubernetes.get("Labels") or {}),
        "taints": list(kubernetes.get("Taints") or []),
    }
    note_node(world, cluster, node, f"EC2 instance {node['id']} has been provisioned; its lifecycle scripts run.")
    settings = world.settings
    spread = random.Random(f"{settings.seed}{node['logical']}{node['id']}").uniform(-1.0, 1.0)
    seconds = settings.node_running_seconds * (1.0 + settings.node_jitter * spread)
    world.clock.after(seconds, "hyperpod.node.boot", arn=cluster["arn"], logical=node["logical"], instance=node["id"])


def _failed(world: World, cluster: Cluster, node: Node, problem: str) -> None:
    """Two Error events a second apart for one failure (facts A1.8); the message stays on the node while it is tried again."""
    node |= {"message": problem, "tries": node["tries"] + 1}
    about = {"InstanceGroupName": node["group"]}
    detail = {"InstanceGroup": {"FailureMessage": problem}}
    note(world, cluster, f"Failed to provision EC2 Instance in instance group {node['group']}.", "Error", detail, **about)
    text = f"Instance creation in instance group {node['group']} failed."
    note(world, cluster, text, "Error", {"Instance": {"FailureMessage": problem, "NodeLogicalId": node["logical"]}}, **about)
    if node["tries"] == 1:
        group = cluster["groups"][node["group"]]
        scaling = {"InstanceCount": len(nodes_of(cluster, node["group"])), "TargetCount": group["target"], "FailureMessage": problem}
        text = f"Instance group {node['group']} has not reached its target count and is tried further."
        note(world, cluster, text, "Warn", {"InstanceGroupScaling": scaling}, **about)
    seconds = min(_RETRY_SECONDS * 2 ** min(node["tries"] - 1, 10), _RETRY_MOST_SECONDS)
    world.clock.after(seconds, "hyperpod.node.launch", arn=cluster["arn"], logical=node["logical"])


def retire(world: World, cluster: Cluster, node: Node, replace: bool = False) -> None:
    """Shut a node down; with ``replace`` its logical id gets a new instance afterwards."""
    if not node["id"] and not replace:
        cluster["nodes"].pop(node["logical"], None)
        world.clock.after(0.0, "hyperpod.cluster.settle", arn=cluster["arn"])
        return
    already = node["status"] == "ShuttingDown"
    node |= {"status": "ShuttingDown", "replacing": replace, "joined": node["joined"]}
    if not already:
        note_node(world, cluster, node, f"Instance {node['id']} is being shut down.")
        later = world.settings.node_delete_seconds
        world.clock.after(later, "hyperpod.node.gone", arn=cluster["arn"], logical=node["logical"], instance=node["id"])


TIMERS = {"hyperpod.node.launch": launch}
