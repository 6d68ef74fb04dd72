"""What can be read of model pools: workers by whom they work for, bindings with what they have and should have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from instantstart.capabilities import paging
from instantstart.capabilities.inference.pools import objects
from instantstart.capabilities.room import Room
from instantstart.ensure import sites
from instantstart.ensure.inference import autoscalers, pool_guard, pools, serving
from instantstart.ensure.running import commands, pending
from instantstart.kube.client import KubeCluster

Resource = dict[str, Any]


@dataclass(frozen=True)
class PoolWorker:
    """One worker. ``business`` is unassigned, retiring, or whom it works for; ``why`` it is not ready."""

    name: str
    business: str | None
    ready: bool
    leaving: bool
    node: str | None
    why: str | None


@dataclass(frozen=True)
class PoolBinding:
    """A business: its Service, the workers it is to have, has, and that are ready."""

    business: str
    service: str
    port: int
    workers: int
    bound: int
    ready: int


@dataclass(frozen=True)
class PoolItem:
    """One pool. ``free``: ready workers that work for nobody. ``warnings``: what is not as it should be, in sentences."""

    namespace: str
    name: str
    engine: str
    model: str | None
    image: str
    size: int
    ready: int
    free: int
    workers: tuple[PoolWorker, ...]
    bindings: tuple[PoolBinding, ...]
    guarded: bool
    autoscaler: str | None
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class PoolPage:
    """One page of pools."""

    items: tuple[PoolItem, ...]
    cursor: str | None
    total: int


@dataclass(frozen=True)
class PoolDetail:
    """One pool with how it was asked."""

    item: PoolItem
    asked: Mapping[str, Any]
    argv: tuple[str, ...]
    line: str


@dataclass(frozen=True)
class Relabelled:
    """A worker after a change of whom it works for; ``changed`` False: it was already so."""

    worker: str
    business: str | None
    changed: bool


def list_pools(room: Room, tag: str, namespace: str, limit: int, cursor: str | None) -> PoolPage:
    """Every pool with its workers and bindings."""
    kube = sites.find(room, tag).kube(room)
    found = kube.list("Deployment", namespace or None, labels=serving.selector("model-pool"))
    paged = paging.page(sorted(found, key=_key), _key, limit, cursor)
    guarded = pool_guard.stands(kube) if found else False
    read = (pools.find(kube, d["metadata"]["namespace"], d["metadata"]["name"]) for d in paged.items)
    return PoolPage(tuple(_item(kube, pool, guarded) for pool in read if pool is not None), paged.cursor, paged.total)


def get_pool(room: Room, tag: str, namespace: str, name: str) -> PoolDetail:
    """One pool. Raises NotFound."""
    kube = sites.find(room, tag).kube(room)
    pool = pools.get(kube, namespace, name)
    container = pool.live["spec"]["template"]["spec"]["containers"][0]
    argv = (*container.get("command", ()), *container.get("args", ()))
    asked = objects.asked_of(pool.live)
    shown = asked.model_dump(mode="json") if asked else {}
    return PoolDetail(_item(kube, pool, pool_guard.stands(kube)), shown, argv, commands.shown(list(argv)))


def _key(deployment: Resource) -> str:
    return f"{deployment['metadata']['namespace']}/{deployment['metadata']['name']}"


def _item(kube: KubeCluster, pool: pools.Pool, guarded: bool) -> PoolItem:
    marks = serving.marks(pool.live)
    listed = {p["metadata"]["name"]: p for p in kube.list("Pod", pool.namespace, labels=serving.selector("model-pool", pool.name))}
    owner = autoscalers.owner(kube, pool.namespace, "Deployment", pool.name)
    return PoolItem(
        namespace=pool.namespace,
        name=pool.name,
        engine=marks.engine if marks else "custom",
        model=marks.model if marks else None,
        image=pool.live["spec"]["template"]["spec"]["containers"][0]["image"],
        size=pool.size,
        ready=len([w for w in pool.workers if w.ready and not w.leaving]),
        free=len(pool.free()),
        workers=tuple(_worker(w, listed.get(w.name)) for w in pools.ordered(pool.workers)),
        bindings=tuple(_binding(pool, b) for b in pool.bindings),
        guarded=guarded,
        autoscaler=owner,
        warnings=_warnings(pool, guarded, owner),
    )


def _worker(worker: pools.Worker, pod: Resource | None) -> PoolWorker:
    told = pending.explain([pod]) if pod is not None and not worker.ready else None
    return PoolWorker(worker.name, worker.business, worker.ready, worker.leaving, worker.node, told.text if told else None)


def _binding(pool: pools.Pool, each: pools.Binding) -> PoolBinding:
    bound = pool.bound(each.business)
    return PoolBinding(each.business, each.service, each.port, each.workers, len(bound), len([w for w in bound if w.ready]))


def _warnings(pool: pools.Pool, guarded: bool, owner: str | None) -> tuple[str, ...]:
    told = [
        f"{b.business} has {len(pool.bound(b.business))} of {b.workers} workers: lost ones are replaced as soon as a free worker is ready."
        for b in pool.bindings
        if len(pool.bound(b.business)) < b.workers
    ]
    held = len(pool.bound())
    if held > pool.size:
        told.append(f"{owner or 'Somebody'} wants {pool.size} workers, and {held} work for somebody: none of those is taken.")
    if not guarded:
        told.append("The API server does not keep bound workers: scale the pool once, or make it anew, to put the guard in place.")
    strangers = {str(w.business) for w in pool.bound()} - {b.business for b in pool.bindings}
    told += [f"Workers are labelled {s}, which has no binding: they will not be replaced when they die." for s in sorted(strangers)]
    return tuple(told)
