"""Gathers what tells why nodes do not talk: security groups' rules, EFA of type, node and pod, settings, places, the ends of logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from instantstart.base import problems
from instantstart.ensure.capacity import accelerators, hyperpod, nodes
from instantstart.ensure.capacity.nodes import NodeView
from instantstart.ensure.diagnosis import work
from instantstart.ensure.diagnosis.nccl_causes import SHOWN_PREFIXES, NcclFacts, Worker
from instantstart.ensure.diagnosis.reading import Reader
from instantstart.ensure.networking import network
from instantstart.ensure.running import job_pods, pending_places
from instantstart.ensure.sites import Site
from instantstart.ensure.training import job_states
from instantstart.kube.client import KubeCluster

Resource = Mapping[str, Any]
_SYSTEM = "kube-system"
_PLUGIN = "efa"
_SHM = "/dev/shm"  # noqa: S108 - the container's own
_MOST_TYPES, _MOST_GROUPS = 6, 5


def gather(room: Any, where: Site, key: tuple[str, str, str] | None, reader: Reader) -> NcclFacts:
    """Everything in one go; ``key``: ``(kind, namespace, name)`` of the job, or None for the cluster alone. Raises NotFound."""
    cluster_part = reader.begin("HyperPod cluster", lambda: hyperpod.find_cluster(where.aws, where.hyperpod_cluster))
    kube = reader.read("Kubernetes' address", lambda: where.kube(room))
    live = work.find_job(kube, *key, reader) if kube and key else None
    plugin_part = reader.begin("EFA device plugin", lambda: _plugin(kube)) if kube else None
    pods = (reader.read("pods of the job", lambda: job_pods.pods_of(kube, live)) or []) if kube and live else []
    workers = [_worker(p) for p in pods if job_pods.role_of(p) != "submitter"]
    logs_part = reader.begin("ends of logs", lambda: work.logs_of(kube, pods)) if kube and pods else None
    found = _nodes(kube, pods, key is None, reader) if kube else []
    cluster = cluster_part.get()
    groups = _groups_of(cluster, found, live)
    rules = reader.read("security group rules", lambda: _missing(where, groups)) if groups else None
    kinds = sorted({n.instance_type for n in found if n.instance_type} | _types(cluster, live, found))[:_MOST_TYPES]
    parts = {kind: reader.begin(f"EC2's facts of {kind}", lambda k=kind: _efa(where, k)) for kind in kinds}  # type: ignore[misc]
    return NcclFacts(
        job=key[2] if key else None,
        state=job_states.read(live).status if live else "unknown",
        workers=workers,
        nodes=found,
        efa_of_type={kind: count for kind, part in parts.items() if (count := part.get()) is not None},
        missing_rules=rules,
        plugin=plugin_part.get() if plugin_part else None,
        logs=(logs_part.get() or {}) if logs_part else {},
    )


def _nodes(kube: KubeCluster, pods: Sequence[Resource], all_of_them: bool, reader: Reader) -> list[NodeView]:
    if all_of_them:
        return reader.read("nodes of Kubernetes", lambda: list(nodes.read(kube))) or []
    return list((reader.read("nodes under the pods", lambda: work.nodes_under(kube, pods)) or {}).values())


def _worker(pod: Mapping[str, Any]) -> Worker:
    spec = pod["spec"]
    container = (spec.get("containers") or [{}])[0]
    asked = pending_places.devices(dict(pod))
    env = {e["name"]: str(e.get("value", "")) for e in container.get("env") or () if "value" in e and e["name"].startswith(SHOWN_PREFIXES)}
    return Worker(
        name=pod["metadata"]["name"],
        node=spec.get("nodeName"),
        accelerators=sum(count for name, count in asked.items() if name != nodes.EFA),
        efa=asked.get(nodes.EFA, 0),
        env=env,
        host_network=bool(spec.get("hostNetwork")),
        shared_memory=any(m.get("mountPath") == _SHM for m in container.get("volumeMounts") or ()),
        image=str(container.get("image") or ""),
    )


def _groups_of(cluster: Resource | None, found: Sequence[NodeView], live: Resource | None) -> list[list[str]]:
    """The security groups of each instance group that is concerned: those under the pods, else all."""
    if cluster is None:
        return []
    under = {n.group for n in found} if live is not None and found else None
    chosen = [g for g in cluster.get("InstanceGroups") or () if under is None or g["InstanceGroupName"] in under]
    places = [g.get("OverrideVpcConfig") or cluster.get("VpcConfig") or {} for g in chosen] or [cluster.get("VpcConfig") or {}]
    unique = {tuple(p.get("SecurityGroupIds") or ()) for p in places}
    return [list(ids) for ids in sorted(unique) if ids][:_MOST_GROUPS]


def _missing(where: Site, groups: Sequence[Sequence[str]]) -> dict[str, list[str]]:
    """What lacks: of each set of groups that nodes share, the one that lacks least speaks for it."""
    found: dict[str, list[str]] = {}
    for ids in groups:
        told = {each: network.missing_efa_rules(where.aws, each) for each in ids}
        best = min(told, key=lambda each: len(told[each]))
        found[best] = told[best]
    return {group: words for group, words in found.items() if words} or found


def _types(cluster: Resource | None, live: Resource | None, found: Sequence[NodeView]) -> set[str]:
    """Types of groups, where no node tells: of the whole cluster when no job is asked about."""
    if found or cluster is None or live is not None:
        return set()
    return {str(g["InstanceType"]) for g in cluster.get("InstanceGroups") or () if g.get("InstanceType")}


def _efa(where: Site, kind: str) -> int | None:
    """How many EFA cards EC2 says that a type has; None for one that it does not describe."""
    try:
        return accelerators.from_ec2(where.aws, kind).efa
    except problems.NotFound:
        return None


def _plugin(kube: KubeCluster) -> tuple[int, int] | None:
    """The EFA device plugin's DaemonSets: (pods ready, pods wanted); None where there is none."""
    mine = [d for d in kube.list("DaemonSet", _SYSTEM) if _PLUGIN in d["metadata"]["name"]]
    told = [d.get("status") or {} for d in mine]
    return (
        (sum(int(s.get("numberReady") or 0) for s in told), sum(int(s.get("desiredNumberScheduled") or 0) for s in told)) if mine else None
    )
