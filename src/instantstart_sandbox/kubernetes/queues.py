"""Kueue's gate, simply: what has a queue's label is suspended when it is made, and resumed when its requests fit the queue's quota.

One look goes through everything with the label ``kueue.x-k8s.io/queue-name``, oldest first. Workloads and their condition QuotaReserved
tell where each stands. No cohorts, no preemption, the first flavor only (docs/sandbox-services.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from .loops.objects import (
    Object,
    deleting,
    is_true,
    labels_of,
    meta,
    name_of,
    namespace_of,
    owner_reference,
    pod_ready,
    seconds_of,
    short_hash,
    spec_of,
    status_of,
    uid_of,
    with_condition,
)
from .loops.quantity import amount, requests_of
from .operating import OperatorLoop
from .ray.clusters import CLUSTERS, wanted_workers
from .ray.clusters import JOBS as RAY_JOBS
from .training.definition import JOBS as TRAINING_JOBS

LABEL = "kueue.x-k8s.io/queue-name"
WORKLOADS, LOCAL, CLUSTER = (f"{plural}.kueue.x-k8s.io" for plural in ("workloads", "localqueues", "clusterqueues"))
_BATCH = "jobs.batch"
_GATED = (TRAINING_JOBS, RAY_JOBS, CLUSTERS, _BATCH)
_LOOK = "queues"
#: (pod set's name, how many pods, a pod's spec)
PodSet = tuple[str, int, Object]


def pod_sets(resource: str, obj: Object) -> list[PodSet]:
    """What an object will ask for."""
    spec = spec_of(obj)
    if resource == TRAINING_JOBS:
        groups = spec.get("replicaSpecs") or []
        return [(g["name"], int(g.get("replicas") or 0) + int(g.get("spares") or 0), spec_of(g.get("template") or {})) for g in groups]
    if resource == _BATCH:
        return [("main", int(spec.get("parallelism") or 1), spec_of(spec["template"]))]
    ray = spec.get("rayClusterSpec") or {} if resource == RAY_JOBS else spec
    head = ray.get("headGroupSpec") or {}
    found: list[PodSet] = [("head", 1, spec_of(head["template"]))] if head else []
    return found + [(g["groupName"], wanted_workers(g), spec_of(g["template"])) for g in ray.get("workerGroupSpecs") or []]


def requests(sets: Iterable[PodSet]) -> dict[str, Decimal]:
    """The sum of the requests of all pods."""
    total: dict[str, Decimal] = {}
    for _, count, spec in sets:
        for resource, value in requests_of({"spec": spec}).items():
            total[resource] = total.get(resource, Decimal(0)) + value * count
    return {k: v for k, v in total.items() if v and k != "pods"}


def over(resource: str, obj: Object) -> bool:
    """Whether an object has ended and holds no quota any more."""
    if resource == RAY_JOBS:
        return status_of(obj).get("jobDeploymentStatus") in ("Complete", "Failed", "ValidationFailed")
    return any(is_true(obj, kind) for kind in ("Completed", "Complete", "Failed"))


class Queues(OperatorLoop):
    """One key for everything: what is admitted depends on all the others."""

    name = "kueue"
    kinds = (WORKLOADS, LOCAL, CLUSTER, *_GATED)
    manager = ("kueue-system", {"app.kubernetes.io/name": "kueue-controller-manager"})
    watched = (*OperatorLoop.watched, _BATCH)

    def all_keys(self) -> list[str]:
        """The one key."""
        return [_LOOK]

    def keys(self, resource: str, obj: Object) -> Iterable[str]:
        """The one key, for what has a queue, and for the queues themselves."""
        if resource in _GATED:
            return [_LOOK] if LABEL in labels_of(obj) else []
        return [_LOOK] if resource in (WORKLOADS, LOCAL, CLUSTER) else super().keys(resource, obj)

    def concerned(self, resource: str, obj: Object) -> Iterable[str]:
        """Nothing else."""
        return []

    async def look(self, key: str) -> None:
        """Admit what fits, in order."""
        if not all(self.cache.holds(kind) for kind in (WORKLOADS, LOCAL, CLUSTER)):
            return
        queued = [(r, o) for r in _GATED if self.cache.holds(r) for o in self.cache.all(r) if LABEL in labels_of(o) and not deleting(o)]
        # a RayJob's own cluster is counted with the job
        queued = [(r, o) for r, o in queued if not (r in (CLUSTERS, _BATCH) and "ray.io/originated-from-cr-name" in labels_of(o))]
        queued.sort(key=lambda found: (meta(found[1]).get("creationTimestamp", ""), name_of(found[1])))
        used: dict[str, dict[str, Decimal]] = {}
        waiting = []
        for resource, obj in queued:
            workload = await self._workload(resource, obj)
            if over(resource, obj):
                await self._tell(workload, [("Finished", True, "JobFinished", "Job finished")])
            elif is_true(workload, "QuotaReserved"):
                held = used.setdefault((status_of(workload).get("admission") or {}).get("clusterQueue", ""), {})
                for name, value in requests(pod_sets(resource, obj)).items():
                    held[name] = held.get(name, Decimal(0)) + value
            else:
                waiting.append((resource, obj, workload))
        for resource, obj, workload in waiting:
            await self._decide(resource, obj, workload, used)

    async def _workload(self, resource: str, obj: Object) -> Object:
        """The Workload of an object, made and the object suspended when there is none."""
        found = next(iter(self.cache.owned(WORKLOADS, uid_of(obj))), None)
        if found is not None:
            return found
        if not over(resource, obj):
            await self._suspend(resource, obj, True)
        sets = [{"name": n, "count": c, "template": {"spec": s}} for n, c, s in pod_sets(resource, obj)]
        name = f"{obj['kind'].lower()}-{name_of(obj)}"[:57] + f"-{short_hash(uid_of(obj), 5)}"
        metadata = {"name": name, "namespace": namespace_of(obj), "ownerReferences": [owner_reference(obj)]}
        made = await self.client.create(WORKLOADS, {"metadata": metadata, "spec": {"queueName": labels_of(obj)[LABEL], "podSets": sets}})
        await self.event(obj, "CreatedWorkload", f"Created Workload: {namespace_of(obj)}/{name}")
        return made

    async def _suspend(self, resource: str, obj: Object, held: bool) -> None:
        change: Object = {"suspend": held}
        if resource == TRAINING_JOBS:
            change = {"runPolicy": {"suspend": held}}
        await self.client.patch(resource, name_of(obj), {"spec": change}, namespace_of(obj))

    async def _decide(self, resource: str, obj: Object, workload: Object, used: dict[str, dict[str, Decimal]]) -> None:
        queue = labels_of(obj)[LABEL]
        local = self.cache.get(LOCAL, f"{namespace_of(obj)}/{queue}")
        named = str(spec_of(local or {}).get("clusterQueue") or "")
        whole = self.cache.get(CLUSTER, named)
        obstacle = _closed(queue, local, named, whole)
        if obstacle is not None or whole is None:
            await self._tell(workload, [("QuotaReserved", False, "Inadmissible", obstacle or "")])
            return
        sets = pod_sets(resource, obj)
        lack = _lack(sets, whole, used.setdefault(named, {}))
        if lack is not None:
            await self._tell(workload, [("QuotaReserved", False, "Pending", lack)])
            return
        for name, value in requests(sets).items():
            used[named][name] = used[named].get(name, Decimal(0)) + value
        told = f"Quota reserved in ClusterQueue {named}"
        waited = self.now() - seconds_of(meta(obj).get("creationTimestamp"))
        admission = {"clusterQueue": named, "podSetAssignments": [{"name": n, "count": c} for n, c, _ in sets]}
        reserved = [("QuotaReserved", True, "QuotaReserved", told), ("Admitted", True, "Admitted", "The workload is admitted")]
        await self._tell(workload, reserved, admission=admission)
        await self._suspend(resource, obj, False)
        await self.event(obj, "Started", f"Admitted by clusterQueue {named}")
        await self.event(workload, "Admitted", f"Admitted by ClusterQueue {named}, wait time since queued was {waited:.0f}s")

    async def _tell(self, workload: Object, conditions: list[tuple[str, bool, str, str]], **fields: object) -> None:
        wanted = status_of(workload).get("conditions")
        for kind, holds, reason, message in conditions:
            wanted = with_condition(wanted, {"type": kind, "status": str(holds), "reason": reason, "message": message}, self.now())
        await self.engine.write_status(WORKLOADS, workload, {"conditions": wanted or [], **fields}, self.client)

    def serving(self) -> bool:
        """Whether Kueue's controller runs, by whichever name its chart gave it."""
        pods = self.cache.all("pods", self.manager[0])
        return super().serving() or any(pod_ready(p) and labels_of(p).get("control-plane") == "controller-manager" for p in pods)


def _closed(queue: str, local: Object | None, named: str, whole: Object | None) -> str | None:
    """Why a queue admits nothing at all."""
    if local is None:
        return f"LocalQueue {queue} doesn't exist"
    if whole is None:
        return f"ClusterQueue {named} doesn't exist"
    if (spec_of(local).get("stopPolicy") or "None") != "None":
        return f"LocalQueue {queue} is stopped"
    if (spec_of(whole).get("stopPolicy") or "None") != "None":
        return f"ClusterQueue {named} is stopped"
    return None


def _lack(sets: list[PodSet], whole: Object, used: dict[str, Decimal]) -> str | None:
    """What the quota has not, in Kueue's words; None when all fits."""
    quotas: dict[str, tuple[str, Decimal]] = {}
    for group in spec_of(whole).get("resourceGroups") or []:
        for flavor in (group.get("flavors") or [])[:1]:
            quotas |= {r["name"]: (flavor["name"], amount(r["nominalQuota"])) for r in flavor.get("resources") or []}
    where = f"couldn't assign flavors to pod set {sets[0][0] if sets else 'main'}:"
    for name, value in sorted(requests(sets).items()):
        if name not in quotas:
            return f"{where} resource {name} unavailable in ClusterQueue"
        flavor, nominal = quotas[name]
        if value > nominal:
            both = f"({_shown(value)} > {_shown(nominal)})"
            return f"{where} insufficient quota for {name} in flavor {flavor}, request > maximum capacity {both}"
        left = nominal - used.get(name, Decimal(0))
        if value > left:
            return f"{where} insufficient unused quota for {name} in flavor {flavor}, {_shown(value - left)} more needed"
    return None


def _shown(value: Decimal) -> str:
    """An amount as a quantity: whole, or in thousandths."""
    return str(int(value)) if value == value.to_integral_value() else f"{int(value * 1000)}m"
