"""What can be read of routers: how they are, and whether the workers they know are the workers there are (case 67)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from instantstart.base import problems
from instantstart.capabilities import paging
from instantstart.capabilities.inference.routers import objects
from instantstart.capabilities.room import Room
from instantstart.ensure import sites
from instantstart.ensure.inference import serving, targets
from instantstart.ensure.running import job_pods, pending
from instantstart.kube.client import Door, KubeCluster

Resource = dict[str, Any]
_READ_SECONDS = 5.0


@dataclass(frozen=True)
class RouterItem:
    """One router. ``workers`` are ready pods of its target; ``knows`` those that it leads to; None: it does not tell."""

    namespace: str
    name: str
    target: str | None
    business: str | None
    policy: str | None
    replicas: int
    ready: int
    port: int | None
    workers: int
    knows: int | None
    #: ready pods that it does not lead to, and addresses it leads to that are no ready pods
    missing: tuple[str, ...]
    stale: tuple[str, ...]
    why: str | None


@dataclass(frozen=True)
class RouterPage:
    """One page of routers."""

    items: tuple[RouterItem, ...]
    cursor: str | None
    total: int


def list_routers(room: Room, tag: str, namespace: str, limit: int, cursor: str | None) -> RouterPage:
    """Every router."""
    kube = sites.find(room, tag).kube(room)
    found = kube.list("Deployment", namespace or None, labels=serving.selector("sglang-router"))
    paged = paging.page(sorted(found, key=_key), _key, limit, cursor)
    return RouterPage(tuple(_item(kube, live) for live in paged.items), paged.cursor, paged.total)


def get_router(room: Room, tag: str, namespace: str, name: str) -> RouterItem:
    """One router. Raises NotFound."""
    kube = sites.find(room, tag).kube(room)
    live = kube.find("Deployment", name, namespace)
    marks = serving.marks(live) if live else None
    if live is None or marks is None or marks.part != "sglang-router":
        raise problems.NotFound("sglang_router.unknown", f"There is no router {namespace}/{name}.", hint="List the routers.")
    return _item(kube, live)


def _key(live: Resource) -> str:
    return f"{live['metadata']['namespace']}/{live['metadata']['name']}"


def _item(kube: KubeCluster, live: Resource) -> RouterItem:
    metadata, status = live["metadata"], live.get("status") or {}
    asked = objects.asked_of(live)
    target = targets.find(kube, metadata["namespace"], asked.target) if asked else None
    chosen = job_pods.selector_text(target.selector(asked.business)) if target and asked else ""
    pods = (
        {_address(p): p["metadata"]["name"] for p in kube.list("Pod", metadata["namespace"], labels=chosen) if _ready(p)} if chosen else {}
    )
    ready = int(status.get("readyReplicas", 0))
    knows = _known(kube, live) if ready else None
    return RouterItem(
        namespace=metadata["namespace"],
        name=metadata["name"],
        target=serving.target_of(live),
        business=asked.business if asked else None,
        policy=asked.policy if asked else None,
        replicas=int(live["spec"].get("replicas", 1)),
        ready=ready,
        port=serving.container_port(live),
        workers=len(pods),
        knows=len(knows) if knows is not None else None,
        missing=tuple(sorted(name for address, name in pods.items() if knows is not None and address not in knows)),
        stale=tuple(sorted(knows - set(pods))) if knows is not None else (),
        why=_why(kube, live, target),
    )


def _known(kube: KubeCluster, live: Resource) -> set[str] | None:
    """Addresses of the workers that the router leads to; None when it does not tell."""
    door = Door(live["metadata"]["namespace"], live["metadata"]["name"], serving.container_port(live) or 0)
    try:
        answer = kube.proxy(door, "workers", read_seconds=_READ_SECONDS)
        told = json.loads(answer.body)
    except (problems.Problem, ValueError):
        return None
    listed: Sequence[Mapping[str, Any]] = told.get("workers") or () if isinstance(told, Mapping) else ()
    return {str(urlsplit(str(w.get("url"))).hostname) for w in listed if w.get("is_healthy", True)}


def _address(pod: Resource) -> str:
    return str((pod.get("status") or {}).get("podIP"))


def _ready(pod: Resource) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return not pod["metadata"].get("deletionTimestamp") and any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def _why(kube: KubeCluster, live: Resource, target: targets.Target | None) -> str | None:
    if target is None:
        return f"What it leads to, {serving.target_of(live)}, is not there."
    if int((live.get("status") or {}).get("readyReplicas", 0)) >= int(live["spec"].get("replicas", 1)):
        return None
    if not target.ready:
        return f"{target.name} has no ready worker."
    chosen = job_pods.selector_text(live["spec"]["selector"]["matchLabels"])
    told = pending.explain(kube.list("Pod", live["metadata"]["namespace"], labels=chosen))
    return told.text if told else "Its pods are being made."
