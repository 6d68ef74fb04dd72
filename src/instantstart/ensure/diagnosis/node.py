"""Gathers what tells how a node is: SageMaker's instance, HyperPod's events, the Node with labels and conditions, its pods, its group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from instantstart.base import problems
from instantstart.ensure.capacity import accelerators, hyperpod, hyperpod_events, instances, lifecycle_logs, nodes
from instantstart.ensure.capacity.instances import Instance
from instantstart.ensure.diagnosis.node_causes import NodeFacts
from instantstart.ensure.diagnosis.reading import Reader
from instantstart.ensure.running import pending
from instantstart.ensure.running.pending_words import Why
from instantstart.ensure.sites import Site
from instantstart.kube import shapes

_HOPELESS = frozenset({"failing", "blocked"})


def gather(room: Any, where: Site, name: str, reader: Reader) -> NodeFacts:
    """Everything in one go, by any name of the node. Raises NotFound for a node that nobody knows."""
    cluster_part = reader.begin("HyperPod cluster", lambda: hyperpod.find_cluster(where.aws, where.hyperpod_cluster))
    kube = reader.read("Kubernetes' address", lambda: where.kube(room))
    cluster = cluster_part.get()
    instance = reader.read("instance", lambda: _instance(where, cluster, name)) if cluster else None
    kube_name = (instance.node_name if instance else None) or _kube_name(name)
    raw_part = reader.begin("Node object", lambda: kube.find("Node", kube_name)) if kube else None
    pods_part = reader.begin("pods on the node", lambda: kube.list("Pod", fields=f"spec.nodeName={kube_name}")) if kube else None
    siblings_part = reader.begin("nodes of Kubernetes", lambda: list(nodes.read(kube))) if kube else None
    asked = instance.instance_id if instance else None
    events_part = (
        reader.begin("HyperPod events", lambda: hyperpod_events.read(where.aws, cluster, node=asked)) if cluster and asked else None
    )
    raw = raw_part.get() if raw_part else None
    kubernetes_read = raw_part is not None and not reader.has_missed("Node object")
    _check_known(instance, raw, name, reader)
    node = nodes.view(shapes.node(raw)) if raw else None
    kind = instance.instance_type if instance else node.instance_type if node else None
    offer = reader.read("type of the instance", lambda: accelerators.from_ec2(where.aws, kind)) if kind else None
    troubled = instance is not None and (instance.status == "Failure" or (raw is None and kubernetes_read))
    logs = reader.read("log streams of the nodes", lambda: hyperpod.node_logs(where.aws, cluster)) if troubled and cluster else None
    script = None
    if troubled and cluster and instance and instance.instance_id:
        group, one = instance.group, instance.instance_id
        script = reader.read("log of its lifecycle script", lambda: lifecycle_logs.read(where.aws, cluster, group, one))
    siblings = (siblings_part.get() or []) if siblings_part else []
    return NodeFacts(
        name=name,
        instance=instance,
        raw=raw,
        node=node,
        kubernetes_read=kubernetes_read,
        automatic=(cluster or {}).get("NodeRecovery") == "Automatic",
        events=(events_part.get() or []) if events_part else (),
        offer=offer,
        siblings=[n for n in siblings if node is not None and n.group == node.group and n.name != node.name],
        broken=_broken(pods_part.get() or []) if pods_part else (),
        node_logs=logs,
        script=script,
    )


def _kube_name(name: str) -> str:
    """What Kubernetes calls a node by its instance id; another name is its own."""
    return instances.NODE_PREFIX + name if instances.INSTANCE_ID.fullmatch(name) else name


def _check_known(instance: Instance | None, raw: Mapping[str, Any] | None, name: str, reader: Reader) -> None:
    """Raise NotFound when everything was read and nobody knows the node."""
    blind = reader.has_missed("HyperPod cluster", "instance", "Node object", "Kubernetes' address")
    if instance is None and raw is None and not blind:
        raise problems.NotFound("node.unknown", f"There is no node {name} in this cluster.", hint="List the nodes.")


def _instance(where: Site, cluster: Mapping[str, Any], name: str) -> Instance | None:
    """The instance by its instance id, Kubernetes name or logical id."""
    bare = name.removeprefix(instances.NODE_PREFIX)
    is_id = instances.INSTANCE_ID.fullmatch(bare) is not None
    try:
        told = instances.describe_id(where.aws, cluster, bare if is_id else None, None if is_id else name)
    except problems.Invalid:  # not a name that SageMaker takes
        return None
    return instances.view(told) if told else None


def _broken(pods: list[dict[str, Any]]) -> list[tuple[str, Why]]:
    found = []
    for pod in pods:
        why = pending.why_pod(pod, pending.Known())
        if why is not None and why.kind in _HOPELESS:
            found.append((f"{pod['metadata']['namespace']}/{pod['metadata']['name']}", why))
    return found
