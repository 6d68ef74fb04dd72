"""One node in full: what SageMaker, EC2 and Kubernetes say of it, its pods and whose work they are, events and operations."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from instantstart.base import problems
from instantstart.capabilities.capacity.nodes import rules
from instantstart.capabilities.capacity.nodes.told import HyperPodEvent, HyperPodOperation, list_operations, read_events
from instantstart.capabilities.capacity.nodes.views import NodeItem, _item, advice
from instantstart.capabilities.room import Room
from instantstart.ensure import sites
from instantstart.ensure.capacity import drains, hyperpod, instances, nodes
from instantstart.ensure.capacity.instances import Instance
from instantstart.ensure.installs import pods
from instantstart.ensure.sites import Site
from instantstart.kube import shapes

FAULT_DETAILS = nodes.PREFIX + "fault-details"
_EVENTS_SHOWN = 20


@dataclass(frozen=True)
class PodItem:
    """A pod on the node. ``accelerators`` it asks for; ``because``: why it is not ready."""

    namespace: str
    name: str
    phase: str
    owner: str | None
    accelerators: int
    because: str | None


@dataclass(frozen=True)
class NodeDetail:
    """One node in full: the list's facts, DescribeClusterNode's, its pods and work, events and operations that concern it."""

    node: NodeItem
    private_ip: str | None
    private_dns: str | None
    zone: str | None
    zone_id: str | None
    network_interface: str | None
    ultraserver: str | None
    image_id: str | None
    kubelet_version: str | None
    cpu: str | None
    memory: str | None
    taints: tuple[str, ...]
    conditions: tuple[dict[str, Any], ...]
    fault_details: tuple[dict[str, Any], ...]
    work: tuple[str, ...]
    pods: tuple[PodItem, ...]
    events: tuple[HyperPodEvent, ...]
    operations: tuple[HyperPodOperation, ...]
    advice: str | None
    unknown: str | None = None


def get_node(room: Room, tag: str, name: str) -> NodeDetail:
    """One node in full, by any of its names. Raises NotFound."""
    where = sites.find(room, tag)
    have = rules.described(where)
    told = _described(where, have, name.strip())
    if told is None:
        raise problems.NotFound("node.unknown", rules.unknown_name(name.strip()), hint="List the nodes.")
    return _detail(room, where, have, told)


def _described(where: Site, have: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    """What DescribeClusterNode tells of a node by any of its names, in one call; None for what it does not know or take."""
    bare = name.removeprefix(instances.NODE_PREFIX)
    try:
        if instances.INSTANCE_ID.fullmatch(bare):
            return instances.describe_id(where.aws, have, bare, None)
        return instances.describe_id(where.aws, have, None, name)
    except problems.Invalid:
        return None


def _detail(room: Room, where: Site, have: Mapping[str, Any], told: Mapping[str, Any]) -> NodeDetail:
    instance = instances.view(told)
    raw, found, work, unknown = _kubernetes(room, where, instance)
    node = nodes.view(shapes.node(raw)) if raw else None
    kinds = {g["InstanceGroupName"]: hyperpod.capacity_type(g) for g in have["InstanceGroups"]}
    item = _item(instance, node, _truth(told, kinds), unknown)
    place = told.get("Placement") or {}
    events = read_events(where, have, node=instance.instance_id, limit=_EVENTS_SHOWN).items if instance.instance_id else ()
    return NodeDetail(
        node=item,
        private_ip=told.get("PrivatePrimaryIp"),
        private_dns=told.get("PrivateDnsHostname"),
        zone=place.get("AvailabilityZone"),
        zone_id=place.get("AvailabilityZoneId"),
        network_interface=(told.get("NetworkInterface") or {}).get("InterfaceType"),
        ultraserver=(told.get("UltraServerInfo") or {}).get("Id"),
        image_id=told.get("CurrentImageId"),
        kubelet_version=node.kubelet_version if node else None,
        cpu=node.cpu if node else None,
        memory=node.memory if node else None,
        taints=node.taints if node else (),
        conditions=_conditions(raw),
        fault_details=_fault_details(raw),
        work=work,
        pods=found,
        events=events,
        operations=tuple(o for o in list_operations(where, have, 20).items if _concerns(o, instance)),
        advice=advice(item, have.get("NodeRecovery") == "Automatic"),
        unknown=unknown,
    )


def _truth(told: Mapping[str, Any], kinds: Mapping[str, str]) -> Mapping[str, str]:
    """How this very node is paid for: DescribeClusterNode tells Spot from on-demand; only the group tells a training plan."""
    group, kind = told["InstanceGroupName"], told.get("CapacityType")
    if kind is None or kinds.get(group) == "training_plan":
        return kinds
    return {**kinds, group: "spot" if kind == "Spot" else "on_demand"}


def _kubernetes(
    room: Room, where: Site, instance: Instance
) -> tuple[dict[str, Any] | None, tuple[PodItem, ...], tuple[str, ...], str | None]:
    """The Node object, its pods, the work on it; or why Kubernetes could not be asked."""
    name = instance.node_name
    if name is None:
        return None, (), (), None
    try:
        kube = where.kube(room)
        raw = kube.find("Node", name)
        found = kube.list("Pod", fields=f"spec.nodeName={name}") if raw else []
        work = drains.busy(kube, [name]) if raw else ()
    except problems.Problem as problem:
        return None, (), (), f"Kubernetes could not be asked: {problem.detail}"
    return raw, tuple(_pod(shapes.pod(each)) for each in found), tuple(str(each) for each in work), None


def _pod(pod: shapes.Pod) -> PodItem:
    owner, reason = drains.controller(pod.metadata), pods.why(pod)
    told = f"{owner.kind} {owner.name}" if owner else None
    space = pod.metadata.namespace or ""
    return PodItem(space, pod.metadata.name, pod.status.phase, told, drains.accelerators(pod), reason.text if reason else None)


def _conditions(raw: Mapping[str, Any] | None) -> tuple[dict[str, Any], ...]:
    told = ((raw or {}).get("status") or {}).get("conditions") or ()
    return tuple({key: each.get(key) for key in ("type", "status", "reason", "message", "lastTransitionTime")} for each in told)


def _fault_details(raw: Mapping[str, Any] | None) -> tuple[dict[str, Any], ...]:
    """HyperPod's annotation: a JSON array of faults (aws-facts A10). What cannot be read is shown as text."""
    text = ((raw or {}).get("metadata") or {}).get("annotations", {}).get(FAULT_DETAILS)
    if not text:
        return ()
    try:
        told = json.loads(text)
    except ValueError:
        return ({"text": text[:1000]},)
    return tuple(each if isinstance(each, dict) else {"text": str(each)} for each in (told if isinstance(told, list) else [told]))


def _concerns(operation: HyperPodOperation, instance: Instance) -> bool:
    return instance.group in operation.groups and (not operation.instances or instance.instance_id in operation.instances)
