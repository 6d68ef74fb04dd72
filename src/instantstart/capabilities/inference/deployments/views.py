"""What can be read of model deployments: how each is, in one sentence why it is not ready, and how it was asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from instantstart.capabilities import paging
from instantstart.capabilities.inference.deployments import objects, removal
from instantstart.capabilities.room import Room
from instantstart.ensure import sites
from instantstart.ensure.inference import autoscalers, servers, serving, serving_trouble, workload_rollouts
from instantstart.ensure.running import commands, pending
from instantstart.ensure.running.pending_words import Why
from instantstart.ensure.sites import Site
from instantstart.kube.client import KubeCluster

Resource = dict[str, Any]


@dataclass(frozen=True)
class DeploymentItem:
    """One deployment. ``state``: ready, rolling_out, stopped (no replicas) or failing; ``why`` it is not ready."""

    namespace: str
    name: str
    engine: str
    model: str | None
    image: str
    state: str
    ready: int
    replicas: int
    why: str | None
    exposure: str
    #: the load balancer's (None while it has none), or where it is asked inside the cluster
    address: str | None
    autoscaler: str | None
    created_at: str


@dataclass(frozen=True)
class DeploymentPage:
    """One page of deployments, by namespace and name."""

    items: tuple[DeploymentItem, ...]
    cursor: str | None
    total: int


@dataclass(frozen=True)
class ServerPod:
    """One pod of a deployment."""

    name: str
    node: str | None
    phase: str
    ready: bool
    restarts: int
    why: str | None


@dataclass(frozen=True)
class DeploymentDetail:
    """One deployment in full. ``argv`` is what the container gets; ``asked`` is what a form is filled with."""

    item: DeploymentItem
    asked: Mapping[str, Any]
    argv: tuple[str, ...]
    line: str
    port: int | None
    resources: Mapping[str, str]
    pods: tuple[ServerPod, ...]
    next_step: str | None
    evidence: Mapping[str, Any]
    warnings: tuple[str, ...]
    dependents: tuple[str, ...]


def list_deployments(room: Room, tag: str, namespace: str, contains: str, limit: int, cursor: str | None) -> DeploymentPage:
    """Deployments of ours."""
    where = sites.find(room, tag)
    kube = where.kube(room)
    found = kube.list("Deployment", namespace or None, labels=serving.selector("model-server"))
    chosen = [d for d in found if contains in d["metadata"]["name"] or contains in str(serving.marks(d))]
    paged = paging.page(sorted(chosen, key=_key), _key, limit, cursor)
    return DeploymentPage(_items(room, where, paged.items), paged.cursor, paged.total)


def get_deployment(room: Room, tag: str, namespace: str, name: str) -> DeploymentDetail:
    """One deployment. Raises NotFound."""
    where = sites.find(room, tag)
    kube = where.kube(room)
    live = removal.get(kube, namespace, name)
    pods = workload_rollouts.pods_of(kube, live)
    why = _why(room, where, live, pods)
    container = live["spec"]["template"]["spec"]["containers"][0]
    argv = (*container.get("command", ()), *container.get("args", ()))
    asked = objects.asked_of(live)
    item = _item(live, pods, _balancers(kube, [live]), autoscalers.owners(kube, namespace, "Deployment", name), why.text if why else None)
    return DeploymentDetail(
        item=item,
        asked=asked.model_dump(mode="json") if asked else {},
        argv=argv,
        line=commands.shown(list(argv)),
        port=serving.container_port(live),
        resources=container.get("resources", {}).get("limits", {}),
        pods=tuple(_pod(p) for p in pods),
        next_step=(why.next_step or None) if why else None,
        evidence=dict(why.evidence) if why else {},
        warnings=_warnings(asked),
        dependents=tuple(removal.dependents(kube, namespace, name)),
    )


def _key(deployment: Resource) -> str:
    return f"{deployment['metadata']['namespace']}/{deployment['metadata']['name']}"


def _why(room: Room, where: Site, live: Resource, pods: Sequence[Resource]) -> Why | None:
    """Why it is not all as it is wanted; None when it is. The same sentence in the list, alone, and among what is served."""
    if not _open(live):
        return None
    return serving_trouble.explain(room, where, workload_rollouts.newest_set(where.kube(room), live) or live, pods)


def _items(room: Room, where: Site, shown: Sequence[Resource]) -> tuple[DeploymentItem, ...]:
    """Pods, addresses and autoscalers are read once for each namespace on the page."""
    kube = where.kube(room)
    balancers = _balancers(kube, shown)
    pods = {ns: kube.list("Pod", ns, labels=serving.selector("model-server")) for ns in {d["metadata"]["namespace"] for d in shown}}
    found = []
    for each in shown:
        metadata = each["metadata"]
        mine = [p for p in pods[metadata["namespace"]] if p["metadata"]["labels"].get(serving.SERVED) == metadata["name"]]
        owners = autoscalers.owners(kube, metadata["namespace"], "Deployment", metadata["name"])
        why = _why(room, where, each, mine)
        found.append(_item(each, mine, balancers, owners, why.text if why else None))
    return tuple(found)


def _balancers(kube: KubeCluster, shown: Sequence[Resource]) -> dict[tuple[str, str], Resource]:
    spaces = {d["metadata"]["namespace"] for d in shown}
    found = [s for ns in spaces for s in kube.list("Service", ns, labels=serving.selector("model-server"))]
    return {(s["metadata"]["namespace"], s["metadata"]["name"]): s for s in found if s["spec"].get("type") == "LoadBalancer"}


def _item(
    live: Resource, pods: Sequence[Resource], balancers: Mapping[tuple[str, str], Resource], owners: Sequence[str], why: str | None
) -> DeploymentItem:
    metadata, status = live["metadata"], live.get("status") or {}
    marks = serving.marks(live)
    balancer = balancers.get((metadata["namespace"], metadata["name"] + servers.EXTERNAL))
    state, told = _state(live, pods)
    return DeploymentItem(
        namespace=metadata["namespace"],
        name=metadata["name"],
        engine=marks.engine if marks else "custom",
        model=marks.model if marks else None,
        image=live["spec"]["template"]["spec"]["containers"][0]["image"],
        state=state,
        ready=int(status.get("readyReplicas", 0)),
        replicas=int(live["spec"].get("replicas", 1)),
        why=why or told,
        exposure="load_balancer" if balancer else "internal",
        address=servers.address_of(balancer) if balancer else servers.inner_address(live),
        autoscaler=owners[0] if owners else None,
        created_at=metadata["creationTimestamp"],
    )


def _open(live: Resource) -> bool:
    """Whether it is not all as it is wanted."""
    status, wanted = live.get("status") or {}, int(live["spec"].get("replicas", 1))
    seen = int(status.get("observedGeneration", 0)) >= int(live["metadata"].get("generation", 0))
    return not (seen and all(int(status.get(k, 0)) == wanted for k in ("updatedReplicas", "readyReplicas", "replicas")))


def _state(live: Resource, pods: Sequence[Resource]) -> tuple[str, str | None]:
    if not _open(live):
        return ("ready", None) if int(live["spec"].get("replicas", 1)) else ("stopped", "It is scaled to no pods.")
    told = pending.explain(list(pods)) if pods else None
    failing = told is not None and (told.kind == "failing" or told.code.startswith("image."))
    return "failing" if failing else "rolling_out", told.text if told else "Its pods are being made."


def _pod(pod: Resource) -> ServerPod:
    status = pod.get("status") or {}
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions") or ())
    told = pending.explain([pod])
    restarts = sum(int(c.get("restartCount", 0)) for c in status.get("containerStatuses") or ())
    name = str(pod["metadata"]["name"])
    return ServerPod(name, pod["spec"].get("nodeName"), str(status.get("phase")), ready, restarts, told.text if told else None)


def _warnings(asked: Any) -> tuple[str, ...]:
    if asked is None or asked.exposure != "load_balancer" or asked.scheme != "internet-facing":
        return ()
    whom = "everyone on the internet" if asked.open_to_everyone else ", ".join(asked.source_ranges)
    return (f"It is open to {whom}{'' if asked.api_key_secret else ', without a password'}.",)
