"""Warm workers and whom they work for: one label, changed only while it says what was believed, and never lost to a scale-in.

A worker is a pod of a pool; ``business`` says whose it is. A binding is a Service for one business: it selects by that label, and its
annotation keeps how many workers the business is to have, so that one that dies is replaced by another (docs/decisions/0014).

Order of the two writes. Assign: label, then count. Release: count, then label. Whatever is cut off in between leaves more workers bound
than counted, never fewer; ``settle`` then raises the count. Fewer bound than counted means only one thing: a worker was lost.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from instantstart.base import names, problems
from instantstart.ensure import eks
from instantstart.ensure.inference import serving
from instantstart.ensure.inference.serving import BUSINESS, COUNTED_BY, DELETION_COST, POOL, RETIRING, SERVED, UNASSIGNED, WORKERS
from instantstart.ensure.running import job_pods
from instantstart.ensure.sites import Site
from instantstart.kube.client import KubeCluster

Resource = dict[str, Any]
#: what the ReplicaSet controller weighs between pods that are equally ready (Kubernetes: pod deletion cost)
COST_BOUND, COST_FREE, COST_RETIRING = "10000", "0", "-10000"
FREE = frozenset({UNASSIGNED, RETIRING})
_TRIES = 8
#: how long the address of a cluster is believed
_KEPT_SECONDS = 60.0
_OVER = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True)
class Worker:
    """One pod of a pool. ``business`` None: it has lost its label (somebody took it off)."""

    name: str
    namespace: str
    uid: str
    pool: str
    business: str | None
    ready: bool
    leaving: bool
    node: str | None
    created_at: str
    version: str

    @property
    def bound(self) -> bool:
        """Whether it works for somebody."""
        return self.business is not None and self.business not in FREE


@dataclass(frozen=True)
class Binding:
    """A business of a pool: its Service, and how many workers it is to have."""

    business: str
    service: str
    namespace: str
    pool: str
    workers: int
    port: int
    version: str


@dataclass(frozen=True)
class Pool:
    """A pool at one look."""

    name: str
    namespace: str
    live: Resource
    workers: tuple[Worker, ...]
    bindings: tuple[Binding, ...]

    @property
    def size(self) -> int:
        """The pods that are asked for."""
        return int(self.live["spec"].get("replicas", 1))

    def bound(self, business: str | None = None) -> list[Worker]:
        """The workers of a business, or of any, that are not on their way out."""
        return [w for w in self.workers if w.bound and not w.leaving and business in (None, w.business)]

    def free(self) -> list[Worker]:
        """Ready workers that work for nobody, the longest warm first."""
        found = [w for w in self.workers if w.business == UNASSIGNED and w.ready and not w.leaving]
        return sorted(found, key=lambda w: (w.created_at, w.name))


def binding_name(pool: str, business: str) -> str:
    """The name of the Service of a business: no two share one."""
    return names.service_name(f"{pool}-{business}")


def find(kube: KubeCluster, namespace: str, name: str) -> Pool | None:
    """A pool of ours, or None."""
    live = kube.find("Deployment", name, namespace)
    if live is None or not is_pool(live):
        return None
    return Pool(name, namespace, live, tuple(workers(kube, namespace, name)), tuple(bindings(kube, namespace, name)))


def get(kube: KubeCluster, namespace: str, name: str) -> Pool:
    """The same. Raises NotFound."""
    found = find(kube, namespace, name)
    if found is None:
        raise problems.NotFound("model_pool.unknown", f"There is no model pool {namespace}/{name}.", hint="List the pools.")
    return found


def is_pool(resource: Resource) -> bool:
    """Whether a Deployment is a pool of ours."""
    marks = serving.marks(resource)
    return marks is not None and marks.part == "model-pool"


def workers(kube: KubeCluster, namespace: str, pool: str) -> list[Worker]:
    """The pods of a pool that have not ended, by name. An orphan that merely bears the labels is none."""
    listed = kube.list("Pod", namespace, labels=serving.selector("model-pool", pool))
    return sorted((worker(p) for p in listed if (p.get("status") or {}).get("phase") not in _OVER), key=lambda w: w.name)


def worker(pod: Resource) -> Worker:
    """One pod, read."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    labels = metadata.get("labels") or {}
    return Worker(
        name=metadata["name"],
        namespace=metadata["namespace"],
        uid=metadata["uid"],
        pool=labels.get(SERVED, ""),
        business=labels.get(BUSINESS),
        ready=any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions") or ()),
        leaving=bool(metadata.get("deletionTimestamp")),
        node=pod["spec"].get("nodeName"),
        created_at=metadata["creationTimestamp"],
        version=metadata["resourceVersion"],
    )


def bindings(kube: KubeCluster, namespace: str, pool: str) -> list[Binding]:
    """The bindings of a pool, by business."""
    listed = kube.list("Service", namespace, labels=f"{serving.selector('model-binding')},{POOL}={pool}")
    return sorted((binding(s) for s in listed if not s["metadata"].get("deletionTimestamp")), key=lambda b: b.business)


def binding(service: Resource) -> Binding:
    """One binding, read. A count that cannot be read is 0: what is bound then counts anew."""
    metadata = service["metadata"]
    told = str((metadata.get("annotations") or {}).get(WORKERS, "0"))
    ports = service["spec"].get("ports") or [{}]
    return Binding(
        business=metadata["labels"].get(BUSINESS, ""),
        service=metadata["name"],
        namespace=metadata["namespace"],
        pool=metadata["labels"].get(POOL, ""),
        workers=int(told) if told.isdigit() else 0,
        port=int(ports[0].get("port", 0)),
        version=metadata["resourceVersion"],
    )


def near(room: Any, where: Site) -> KubeCluster:
    """The cluster's Kubernetes, by what EKS said of it a moment ago: a worker is to be given at once, and a keeper looks often."""
    key = f"kubernetes/{where.eks_cluster}"
    ref = where.aws.cached(key, _KEPT_SECONDS, lambda: eks.ref(eks.get_cluster(where.aws, where.eks_cluster), where.aws.region))
    found: KubeCluster = room.kube.cluster(ref)
    return found


# --- acts


@dataclass(frozen=True)
class Relabel:
    """Which worker is to work for whom. ``expected``: whom it is believed to work for now; another's is a Conflict."""

    namespace: str
    pool: str
    worker: str
    business: str
    expected: str


def assign(kube: KubeCluster, wish: Relabel) -> tuple[Worker, bool]:
    """Give a ready worker to a business that has a binding. Answers the worker, and whether anything changed.

    Raises NotFound for pool, worker or binding; Conflict ``model_pool.worker_taken`` (it works for another than expected),
    ``model_pool.worker_not_ready``.
    """
    found = _worker(kube, wish)
    if found.business == wish.business:
        return found, False
    target = _binding(kube, wish.namespace, wish.pool, wish.business)
    _check_expected(found, wish)
    if not found.ready:
        raise _not_ready(found)
    before = _binding_or_none(kube, wish.namespace, wish.pool, found.business) if found.bound else None
    if before is not None:
        count(kube, before, -1)
    try:
        changed = relabel(kube, found, wish.business)
    except problems.Problem:
        if before is not None:
            count(kube, before, 1)
        raise
    count(kube, target, 1)
    return changed, True


def release(kube: KubeCluster, wish: Relabel) -> tuple[Worker, bool]:
    """Let a worker work for nobody again; ``wish.expected`` is whom it works for. The same Problems."""
    found = _worker(kube, wish)
    if found.business == UNASSIGNED:
        return found, False
    _check_expected(found, wish)
    before = _binding_or_none(kube, wish.namespace, wish.pool, found.business)
    if before is not None:
        count(kube, before, -1)
    try:
        return relabel(kube, found, UNASSIGNED), True
    except problems.Problem:
        if before is not None:
            count(kube, before, 1)
        raise


def relabel(kube: KubeCluster, found: Worker, business: str) -> Worker:
    """Change the one label, in the same write as the cost of deleting the pod, only while both pod and label are the ones that were seen.

    Raises Conflict ``model_pool.worker_taken``.
    """
    cost = {UNASSIGNED: COST_FREE, RETIRING: COST_RETIRING}.get(business, COST_BOUND)
    label = f"/metadata/labels/{BUSINESS}"
    patch: list[dict[str, Any]] = [{"op": "test", "path": "/metadata/uid", "value": found.uid}]
    patch += [{"op": "test", "path": label, "value": found.business}] if found.business is not None else []
    patch += [
        {"op": "add", "path": label, "value": business},
        {"op": "add", "path": f"/metadata/annotations/{DELETION_COST.replace('/', '~1')}", "value": cost},
    ]
    try:
        return worker(kube.patch("Pod", found.name, patch, namespace=found.namespace))
    except problems.Invalid as problem:  # the API server keeps to itself which test failed
        now = kube.find("Pod", found.name, found.namespace)
        if now is not None and now["metadata"]["uid"] == found.uid and worker(now).business == found.business:
            raise
        raise _taken(found, worker(now).business if now else None, found.business) from problem


def count(kube: KubeCluster, of: Binding, by: int) -> Binding:
    """Change how many workers a business is to have, against the newest count. A binding that is gone counts nothing more.

    The write is marked: one whose answer was lost is known again when it is tried once more, and counts once.
    """
    now, mark = of, uuid.uuid4().hex
    for _ in range(_TRIES):
        wanted = max(now.workers + by, 0)
        try:
            return now if wanted == now.workers else set_count(kube, now, wanted, mark)
        except problems.Busy as problem:
            if problem.code != "kubernetes.object_changed":
                raise
        except problems.NotFound:
            return of
        live = kube.find("Service", of.service, of.namespace)
        if live is None:
            return of
        now = binding(live)
        if (live["metadata"].get("annotations") or {}).get(COUNTED_BY) == mark:
            return now
    raise problems.Busy("model_pool.busy", f"The workers of {of.business} are being changed by others all the time: ask again.")


def set_count(kube: KubeCluster, of: Binding, wanted: int, mark: str | None = None) -> Binding:
    """Write a count while the Service is as it was read. Raises Busy ``kubernetes.object_changed`` otherwise."""
    marked = {COUNTED_BY: mark} if mark else {}
    metadata = {"resourceVersion": of.version, "annotations": {WORKERS: str(wanted), **marked}}
    return binding(kube.patch("Service", of.service, {"metadata": metadata}, namespace=of.namespace))


#: what a keeper saw of things that may be but half done: looked at again before anything follows
Seen = dict[str, tuple[str, int]]


def settle(kube: KubeCluster, namespace: str, name: str, seen: Seen) -> list[str]:
    """Put right what a pool has lost: workers of a business that died, what a cut-off request left half done. What was done, told.

    The bindings are read before and after the workers; one that changed in between is left for the next look. A binding is claimed
    (written against the version that was read) before a worker is given: of two keepers only one gives it. What could be a request in
    flight (more bound than counted, a worker that is to go) is acted on only when ``seen`` says that it was just so a look before.
    """
    before = {b.service: b.version for b in bindings(kube, namespace, name)}
    pool = find(kube, namespace, name)
    if pool is None:
        return []
    done = [text for each in pool.bindings if before.get(each.service) == each.version for text in _settle_binding(kube, pool, each, seen)]
    return done + _settle_marks(kube, pool, seen)


def _settle_binding(kube: KubeCluster, pool: Pool, each: Binding, seen: Seen) -> list[str]:
    have = len(pool.bound(each.business))
    if have > each.workers and _again(seen, f"{each.namespace}/{each.service}", (each.version, have)):
        return [f"{each.business} has {have} workers, and that is now its number"] if claim(kube, each, have) else []
    if have >= each.workers or not pool.free() or claim(kube, each, each.workers) is None:
        return []
    given = []
    for free in pool.free()[: each.workers - have]:
        try:
            relabel(kube, free, each.business)
        except problems.Conflict:
            continue  # somebody was faster: the next look finds another
        given.append(f"{free.name} takes the place of a lost worker of {each.business}")
    return given


def _settle_marks(kube: KubeCluster, pool: Pool, seen: Seen) -> list[str]:
    """Workers that a cut-off scale-in marked, or that lost their label: they are free again."""
    staying = len([w for w in pool.workers if not w.leaving])
    done = []
    for each in pool.workers:
        odd = each.business is None or (each.business == RETIRING and staying <= pool.size)
        if odd and not each.leaving and _again(seen, each.uid, (each.version, pool.size)):
            relabel(kube, each, UNASSIGNED)
            done.append(f"{each.name} is free again")
    return done


def _again(seen: Seen, key: str, now: tuple[str, int]) -> bool:
    """Whether the very same was seen a look before; else it is remembered."""
    if seen.pop(key, None) == now:
        return True
    seen[key] = now
    return False


def claim(kube: KubeCluster, each: Binding, wanted: int) -> Binding | None:
    """The binding, when nobody changed it since it was read; the write also moves its version on, so that nobody else has it."""
    mark = {"resourceVersion": each.version, "annotations": {WORKERS: str(wanted), "instantstart.dev/settled-from": each.version}}
    try:
        return binding(kube.patch("Service", each.service, {"metadata": mark}, namespace=each.namespace))
    except problems.Busy as problem:
        if problem.code != "kubernetes.object_changed":
            raise
        return None


def uncounted(pool: Pool, business: str) -> tuple[Binding, int] | None:
    """A binding that counts fewer workers than it has, and how many it has."""
    have = len(pool.bound(business))
    return next(((each, have) for each in pool.bindings if each.business == business and each.workers < have), None)


def victims(pool: Pool, surplus: int) -> list[Worker]:
    """Whom a scale-in takes: only who works for nobody; those that are not ready first, then the youngest. Pure.

    Raises Conflict ``model_pool.too_small`` when there are fewer of them than must go.
    """
    marked = [w for w in pool.workers if w.business == RETIRING and not w.leaving]
    others = [w for w in pool.workers if not w.bound and w.business != RETIRING and not w.leaving]
    others.sort(key=lambda w: (w.ready, _backwards(w.created_at), w.name))
    chosen = [*marked, *others][: max(surplus, 0)]
    if len(chosen) < surplus:
        raise too_small(pool, pool.size - surplus)
    return chosen


def too_small(pool: Pool, wanted: int) -> problems.Conflict:
    """Why a pool cannot be made as small as that."""
    held = len(pool.bound())
    whose = ", ".join(f"{b.business} {len(pool.bound(b.business))}" for b in pool.bindings if pool.bound(b.business))
    return problems.Conflict(
        "model_pool.too_small",
        f"{held} workers of {pool.name} work for somebody ({whose or 'businesses without a binding'}); it cannot have {wanted}.",
        hint="Release workers first, or ask for more.",
        evidence={"bound": held, "wanted": wanted},
    )


def _backwards(moment: str) -> tuple[int, ...]:
    return tuple(-ord(c) for c in moment)


def _worker(kube: KubeCluster, wish: Relabel) -> Worker:
    pod = kube.find("Pod", wish.worker, wish.namespace)
    labels = (pod or {}).get("metadata", {}).get("labels") or {}
    if pod is None or labels.get(SERVED) != wish.pool or job_pods.controller(pod) is None:
        detail = f"There is no worker {wish.worker} in the pool {wish.namespace}/{wish.pool}."
        raise problems.NotFound("model_pool.worker_unknown", detail, hint="Look at the pool: a worker that died has a successor.")
    found = worker(pod)
    if found.leaving:
        raise problems.Conflict("model_pool.worker_leaving", f"The worker {found.name} is ending.", hint="Choose another.")
    return found


def _binding(kube: KubeCluster, namespace: str, pool: str, business: str) -> Binding:
    found = _binding_or_none(kube, namespace, pool, business)
    if found is None:
        raise problems.NotFound(
            "model_pool.binding_unknown",
            f"The business {business} has no binding in the pool {namespace}/{pool}.",
            hint="Make its binding first.",
        )
    return found


def _binding_or_none(kube: KubeCluster, namespace: str, pool: str, business: str | None) -> Binding | None:
    service = kube.find("Service", binding_name(pool, business), namespace) if business else None
    labels = (service or {}).get("metadata", {}).get("labels") or {}
    ours = service is not None and serving.is_ours(service) and labels.get(POOL) == pool and labels.get(BUSINESS) == business
    return binding(service) if ours and service is not None else None


def _check_expected(found: Worker, wish: Relabel) -> None:
    if found.business != wish.expected:
        raise _taken(found, found.business, wish.expected)


def _taken(found: Worker, now: str | None, expected: str | None) -> problems.Conflict:
    shown = now or "nobody (it has no label)"
    return problems.Conflict(
        "model_pool.worker_taken",
        f"The worker {found.name} works for {shown}, not for {expected}: it was changed meanwhile.",
        hint="Look at the pool, and ask again with what it says now as expected.",
        evidence={"worker": found.name, "business": now, "expected": expected},
    )


def _not_ready(found: Worker) -> problems.Conflict:
    return problems.Conflict(
        "model_pool.worker_not_ready", f"The worker {found.name} is not ready: it cannot answer yet.", hint="Choose a ready worker."
    )


def ordered(found: Sequence[Worker]) -> tuple[Worker, ...]:
    """For a board: by business, then by name."""
    return tuple(sorted(found, key=lambda w: (w.business or "", w.name)))
