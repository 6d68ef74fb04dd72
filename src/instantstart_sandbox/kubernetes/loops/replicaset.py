"""ReplicaSets: as many pods as asked, adopted and released by label."""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import ApiError
from .engine import Controller
from .objects import (
    Object,
    condition_of,
    controller_of,
    deleting,
    key_of,
    labels_of,
    meta,
    name_of,
    namespace_of,
    owner_reference,
    owners_of,
    pod_active,
    pod_ready,
    seconds_of,
    selects,
    spec_of,
    status_of,
    uid_of,
    with_condition,
)

_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
#: Pods made in one look; requests of the API get a turn in between.
_BURST = 20


def pod_from(template: Object, owner: Object, name: str = "") -> Object:
    """A pod of ``owner`` made of its template; without a name one is generated."""
    given = meta(template)
    metadata = {
        "namespace": namespace_of(owner),
        "labels": dict(given.get("labels") or {}),
        "annotations": dict(given.get("annotations") or {}),
        "ownerReferences": [owner_reference(owner)],
    }
    if given.get("finalizers"):
        metadata["finalizers"] = list(given["finalizers"])
    metadata.update({"name": name} if name else {"generateName": f"{name_of(owner)}-"})
    if not metadata["annotations"]:
        del metadata["annotations"]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": dict(spec_of(template))}


def ready_since(pod: Object) -> float:
    """When the pod became Ready; 0 when it is not."""
    found = condition_of(pod, "Ready") or {}
    return seconds_of(found.get("lastTransitionTime")) if found.get("status") == "True" else 0.0


def available(pod: Object, min_ready_seconds: int, now: float) -> bool:
    """Whether the pod has been Ready long enough."""
    return pod_ready(pod) and (not min_ready_seconds or ready_since(pod) + min_ready_seconds <= now)


def owning_keys(cache_all: Iterable[Object], kind: str, pod: Object) -> Iterable[str]:
    """The keys of the sets that a pod concerns: its controller, or those that might adopt it."""
    owner = controller_of(pod)
    if owner is not None:
        if owner["kind"] == kind:
            yield f"{namespace_of(pod)}/{owner['name']}"
        return
    for candidate in cache_all:
        if selects(spec_of(candidate).get("selector"), labels_of(pod)):
            yield key_of(candidate)


def deletion_order(pod: Object) -> tuple[int, int, int, int, float, int, float]:
    """Pods that sort first are removed first: not bound, not running, not ready, cheap to delete, lately ready, often restarted, young.

    Source: Kubernetes, "ReplicaSet: scaling" and pkg/controller's ranking; how many are on one node is not weighed.
    """
    running = status_of(pod).get("phase") == "Running"
    restarts = sum(int(c.get("restartCount", 0)) for c in status_of(pod).get("containerStatuses") or ())
    age = -seconds_of(meta(pod).get("creationTimestamp"))
    states = (int(bool(spec_of(pod).get("nodeName"))), int(running), int(pod_ready(pod)))
    return (*states, deletion_cost(pod), -ready_since(pod), -restarts, age)


def deletion_cost(pod: Object) -> int:
    """What a pod says of itself by annotation; 0 for nothing and for what is no number."""
    told = str((meta(pod).get("annotations") or {}).get(_DELETION_COST, "0"))
    return int(told) if told.lstrip("+-").isdigit() else 0


class ReplicaSetController(Controller):
    """Creates and deletes pods until the count is right."""

    name = "replicaset-controller"
    watched = ("replicasets.apps", "pods")

    def keys(self, resource: str, obj: Object) -> Iterable[str]:
        """The set itself, or the sets a pod concerns."""
        if resource == "pods":
            return owning_keys(self.cache.all("replicasets.apps", namespace_of(obj)), "ReplicaSet", obj)
        return [key_of(obj)]

    async def reconcile(self, key: str) -> None:
        """One look at one set."""
        owner = self.cache.get("replicasets.apps", key)
        if owner is None:
            return
        failure = None
        if not deleting(owner):
            await self._claim(owner)
            try:
                await self._balance(owner)
            except ApiError as error:
                failure = error
        await self._report(key, failure)
        if failure is not None:
            raise failure

    async def _claim(self, owner: Object) -> None:
        selector, space = spec_of(owner).get("selector"), namespace_of(owner)
        for pod in self.cache.owned("pods", uid_of(owner)):
            if not selects(selector, labels_of(pod)) and not deleting(pod):
                kept = [o for o in owners_of(pod) if o.get("uid") != uid_of(owner)]
                await self.client.patch("pods", name_of(pod), {"metadata": {"ownerReferences": kept}}, space)
        for pod in self.cache.all("pods", space):
            if controller_of(pod) is None and pod_active(pod) and selects(selector, labels_of(pod)):
                owners = [*owners_of(pod), owner_reference(owner)]
                await self.client.patch("pods", name_of(pod), {"metadata": {"ownerReferences": owners}}, space)

    async def _balance(self, owner: Object) -> None:
        active = [p for p in self.cache.owned("pods", uid_of(owner)) if pod_active(p)]
        missing = int(spec_of(owner).get("replicas", 1)) - len(active)
        if missing > _BURST:
            self.engine.enqueue(self, key_of(owner))
        for _ in range(min(missing, _BURST)):
            try:
                pod = await self.client.create("pods", pod_from(spec_of(owner)["template"], owner))
            except ApiError as error:
                await self.event(owner, "FailedCreate", f"Error creating: {error.message}", warning=True)
                raise
            await self.event(owner, "SuccessfulCreate", f"Created pod: {name_of(pod)}")
        surplus = sorted(active, key=deletion_order)[:-missing] if missing < 0 else []
        refused: ApiError | None = None
        for pod in surplus:
            try:
                await self.client.delete("pods", name_of(pod), namespace_of(pod))
            except ApiError as error:  # the others go all the same
                await self.event(owner, "FailedDelete", f"Error deleting: {error.message}", warning=True)
                refused = error
                continue
            await self.event(owner, "SuccessfulDelete", f"Deleted pod: {name_of(pod)}")
        if refused is not None:
            raise refused

    async def _report(self, key: str, failure: ApiError | None) -> None:
        owner = self.cache.get("replicasets.apps", key)
        if owner is None:
            return
        active = [p for p in self.cache.owned("pods", uid_of(owner)) if pod_active(p)]
        wait, now = int(spec_of(owner).get("minReadySeconds") or 0), self.now()
        ready = [p for p in active if pod_ready(p)]
        waits = [w for p in ready if wait and (w := ready_since(p) + wait - now) > 0]
        wanted_labels = meta(spec_of(owner)["template"]).get("labels") or {}
        conditions = [c for c in status_of(owner).get("conditions") or [] if c["type"] != "ReplicaFailure"]
        if failure is not None:
            reason = "FailedDelete" if len(active) > int(spec_of(owner).get("replicas", 1)) else "FailedCreate"
            broken = {"type": "ReplicaFailure", "status": "True", "reason": reason, "message": failure.message}
            conditions = with_condition(status_of(owner).get("conditions"), broken, now)
        counted = {
            "replicas": len(active),
            "fullyLabeledReplicas": sum(1 for p in active if wanted_labels.items() <= labels_of(p).items()) or None,
            "readyReplicas": len(ready) or None,
            "availableReplicas": len(ready) - len(waits) or None,
            "observedGeneration": meta(owner).get("generation"),
            "conditions": conditions or None,
        }
        await self.engine.write_status("replicasets.apps", owner, counted, self.client)
        if waits:
            self.later(min(waits), key)
