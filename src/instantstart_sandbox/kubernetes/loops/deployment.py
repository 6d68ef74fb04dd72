"""Deployments: one ReplicaSet for each template, rolled over within maxSurge and maxUnavailable."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .engine import Controller
from .objects import (
    Object,
    annotations_of,
    condition_of,
    controller_of,
    deleting,
    int_or_percent,
    key_of,
    labels_of,
    meta,
    name_of,
    namespace_of,
    owner_reference,
    seconds_of,
    short_hash,
    spec_of,
    stamp,
    status_of,
    uid_of,
)

REVISION = "deployment.kubernetes.io/revision"
_DESIRED, _MOST = "deployment.kubernetes.io/desired-replicas", "deployment.kubernetes.io/max-replicas"
HASH = "pod-template-hash"


def replicas_of(obj: Object) -> int:
    """``spec.replicas``, 1 by default."""
    return int(spec_of(obj).get("replicas", 1))


def _count(replica_set: Object, field: str) -> int:
    return int(status_of(replica_set).get(field) or 0)


@dataclass
class Rollout:
    """The ReplicaSets of one Deployment: the one of the present template, and the older ones (newest first)."""

    deployment: Object
    current: Object
    older: list[Object]

    @property
    def every(self) -> list[Object]:
        """All sets."""
        return [self.current, *self.older]

    def limits(self) -> tuple[int, int]:
        """(most pods, fewest available pods) while rolling."""
        wanted = replicas_of(self.deployment)
        rule = (spec_of(self.deployment).get("strategy") or {}).get("rollingUpdate") or {}
        surge = int_or_percent(rule.get("maxSurge", "25%"), wanted, round_up=True)
        missing = int_or_percent(rule.get("maxUnavailable", "25%"), wanted, round_up=False)
        if not surge and not missing:
            missing = 1
        return wanted + surge, max(wanted - missing, 0)

    def notes(self) -> dict[str, str]:
        """The annotations of a set that say what the Deployment wanted when it was scaled."""
        return {_DESIRED: str(replicas_of(self.deployment)), _MOST: str(self.limits()[0])}

    def next_scale(self) -> tuple[Object, int] | None:
        """The next set to scale, and to what; None when everything is as it should be."""
        wanted = replicas_of(self.deployment)
        if (spec_of(self.deployment).get("strategy") or {}).get("type") == "Recreate":
            return self._recreate(wanted)
        most, fewest = self.limits()
        have = replicas_of(self.current)
        if have > wanted:
            return self.current, wanted
        room = most - sum(replicas_of(s) for s in self.every)
        if have < wanted and room > 0:
            return self.current, min(have + room, wanted)
        return self._shrink_older(fewest)

    def _recreate(self, wanted: int) -> tuple[Object, int] | None:
        for old in self.older:
            if replicas_of(old):
                return old, 0
        if any(_count(old, "replicas") for old in self.older) or replicas_of(self.current) == wanted:
            return None
        return self.current, wanted

    def _shrink_older(self, fewest: int) -> tuple[Object, int] | None:
        """Take from the older sets, the pods that do not serve first; pods that are still to come up count as missing."""
        missing = max(replicas_of(self.current) - _count(self.current, "availableReplicas"), 0)
        room = sum(replicas_of(s) for s in self.every) - fewest - missing
        if room <= 0:
            return None
        for old in reversed(self.older):
            broken = replicas_of(old) - _count(old, "availableReplicas")
            if broken > 0:
                return old, replicas_of(old) - min(broken, room)
        spare = sum(_count(s, "availableReplicas") for s in self.every) - fewest
        for old in reversed(self.older):
            if replicas_of(old) and spare > 0:
                return old, replicas_of(old) - min(replicas_of(old), spare, room)
        return None


class DeploymentController(Controller):
    """Makes the ReplicaSets, scales them step by step, tells the progress."""

    name = "deployment-controller"
    watched = ("deployments.apps", "replicasets.apps")

    def keys(self, resource: str, obj: Object) -> Iterable[str]:
        """The Deployment, or the one that controls a ReplicaSet."""
        if resource == "deployments.apps":
            return [key_of(obj)]
        owner = controller_of(obj)
        return [f"{namespace_of(obj)}/{owner['name']}"] if owner and owner["kind"] == "Deployment" else []

    async def reconcile(self, key: str) -> None:
        """One look at one Deployment."""
        deployment = self.cache.get("deployments.apps", key)
        if deployment is None:
            return
        if deleting(deployment):
            await self._report(key, self._found(deployment))
            return
        rollout = await self._sets(deployment)
        if not spec_of(deployment).get("paused"):
            while (step := rollout.next_scale()) is not None:
                await self._scale(deployment, *step)
                rollout = await self._sets(deployment)
        await self._forget_old(rollout)
        await self._report(key, rollout)

    def _found(self, deployment: Object) -> Rollout:
        """The sets that are there; where the present template has none yet, an empty one stands for it."""
        mark = short_hash(spec_of(deployment)["template"])
        owned = [s for s in self.cache.owned("replicasets.apps", uid_of(deployment)) if not deleting(s)]
        owned.sort(key=lambda s: -int(annotations_of(s).get(REVISION, 0)))
        current = next((s for s in owned if labels_of(s).get(HASH) == mark), None)
        nothing: Object = {"metadata": {"name": ""}, "spec": {"replicas": 0}}
        return Rollout(deployment, current or nothing, [s for s in owned if s is not current])

    async def _sets(self, deployment: Object) -> Rollout:
        """The sets, the one of the present template made if need be; a paused Deployment makes none."""
        rollout = self._found(deployment)
        current, older = rollout.current, rollout.older
        newest = max((int(annotations_of(s).get(REVISION, 0)) for s in older), default=0)
        if not name_of(current):
            if spec_of(deployment).get("paused"):
                return rollout
            current = await self._make(deployment, short_hash(spec_of(deployment)["template"]), newest + 1, older)
        elif int(annotations_of(current).get(REVISION, 0)) <= newest:
            note = {"metadata": {"annotations": {REVISION: str(newest + 1)}}}
            current = await self.client.patch("replicasets.apps", name_of(current), note, namespace_of(current))
        revision = annotations_of(current).get(REVISION, "1")
        if annotations_of(deployment).get(REVISION) != revision:
            note = {"metadata": {"annotations": {REVISION: revision}}}
            # through the status, as the real controller does: the note itself is no new generation
            await self.client.patch("deployments.apps", name_of(deployment), note, namespace_of(deployment), subresource="status")
        return Rollout(deployment, current, older)

    async def _make(self, deployment: Object, mark: str, revision: int, older: list[Object]) -> Object:
        spec = spec_of(deployment)
        template = {**spec["template"], "metadata": {**meta(spec["template"])}}
        template["metadata"]["labels"] = {**(template["metadata"].get("labels") or {}), HASH: mark}
        selector = {**spec["selector"], "matchLabels": {**(spec["selector"].get("matchLabels") or {}), HASH: mark}}
        built: Object = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": f"{name_of(deployment)}-{mark}",
                "namespace": namespace_of(deployment),
                "labels": template["metadata"]["labels"],
                "annotations": {REVISION: str(revision)},
                "ownerReferences": [owner_reference(deployment)],
            },
            "spec": {"replicas": 0, "selector": selector, "template": template},
        }
        if spec.get("minReadySeconds"):
            built["spec"]["minReadySeconds"] = spec["minReadySeconds"]
        rollout = Rollout(deployment, built, older)
        built["metadata"]["annotations"].update(rollout.notes())
        step = None if spec.get("paused") else rollout.next_scale()
        if step is not None and step[0] is built:
            built["spec"]["replicas"] = step[1]
        made = await self.client.create("replicasets.apps", built)
        if replicas_of(made):
            await self._told(deployment, made, 0, replicas_of(made))
        return made

    async def _scale(self, deployment: Object, replica_set: Object, to: int) -> None:
        before = replicas_of(replica_set)
        notes = Rollout(deployment, replica_set, []).notes()
        change = {"spec": {"replicas": to}, "metadata": {"annotations": notes}}
        await self.client.patch("replicasets.apps", name_of(replica_set), change, namespace_of(replica_set))
        await self._told(deployment, replica_set, before, to)

    async def _told(self, deployment: Object, replica_set: Object, before: int, to: int) -> None:
        way = "up" if to > before else "down"
        message = f"Scaled {way} replica set {name_of(replica_set)} from {before} to {to}"
        await self.event(deployment, "ScalingReplicaSet", message)

    async def _forget_old(self, rollout: Rollout) -> None:
        limit = int(spec_of(rollout.deployment).get("revisionHistoryLimit", 10))
        idle = [s for s in rollout.older if not replicas_of(s) and not _count(s, "replicas")]
        for old in idle[limit:]:
            await self.client.delete("replicasets.apps", name_of(old), namespace_of(old))

    async def _report(self, key: str, rollout: Rollout) -> None:
        deployment = self.cache.get("deployments.apps", key)
        if deployment is None:
            return
        sets, now = rollout.every, self.now()
        fresh = [self.cache.get("replicasets.apps", key_of(s)) or s for s in sets]
        counts = {f: sum(_count(s, f) for s in fresh) for f in ("replicas", "readyReplicas", "availableReplicas")}
        wanted = replicas_of(deployment)
        updated = _count(fresh[0], "replicas")
        _, fewest = rollout.limits()
        enough = counts["availableReplicas"] >= fewest
        done = updated == counts["replicas"] == counts["availableReplicas"] == wanted
        conditions = [self._available(deployment, enough), self._progressing(key, deployment, fresh[0], (done, counts, updated))]
        conditions += [c for s in fresh for c in status_of(s).get("conditions") or [] if c["type"] == "ReplicaFailure"]
        status = {
            "observedGeneration": meta(deployment).get("generation"),
            "replicas": counts["replicas"] or None,
            "updatedReplicas": updated or None,
            "readyReplicas": counts["readyReplicas"] or None,
            "availableReplicas": counts["availableReplicas"] or None,
            "unavailableReplicas": max(sum(map(replicas_of, fresh)) - counts["availableReplicas"], 0) or None,
            "conditions": [c if "lastTransitionTime" in c else {**c, "lastTransitionTime": stamp(now)} for c in conditions],
        }
        await self.engine.write_status("deployments.apps", deployment, status, self.client)

    def _available(self, deployment: Object, enough: bool) -> Object:
        if enough:
            wanted = ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
        else:
            wanted = ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
        return self._condition(deployment, "Available", wanted, moved=False)

    def _progressing(self, key: str, deployment: Object, current: Object, seen: tuple[bool, dict[str, int], int]) -> Object:
        done, counts, updated = seen
        title, before = f'ReplicaSet "{name_of(current)}"', status_of(deployment)
        old = condition_of(deployment, "Progressing")
        if spec_of(deployment).get("paused") and (old or {}).get("reason") != "ProgressDeadlineExceeded":
            return self._condition(deployment, "Progressing", ("Unknown", "DeploymentPaused", "Deployment is paused"), moved=False)
        if done:
            return self._condition(
                deployment, "Progressing", ("True", "NewReplicaSetAvailable", f"{title} has successfully progressed."), moved=False
            )
        figures = (updated, counts["readyReplicas"], counts["availableReplicas"])
        earlier = tuple(int(before.get(f) or 0) for f in ("updatedReplicas", "readyReplicas", "availableReplicas"))
        moved = old is None or old.get("reason") == "NewReplicaSetAvailable" or figures != earlier
        limit = int(spec_of(deployment).get("progressDeadlineSeconds") or 600)
        left = seconds_of((old or {}).get("lastUpdateTime")) + limit - self.now()
        if not moved and (left <= 0 or (old or {}).get("reason") == "ProgressDeadlineExceeded"):
            late = ("False", "ProgressDeadlineExceeded", f"{title} has timed out progressing.")
            return self._condition(deployment, "Progressing", late, moved=False)
        self.later(limit if moved else left, key)
        return self._condition(deployment, "Progressing", ("True", "ReplicaSetUpdated", f"{title} is progressing."), moved)

    def _condition(self, deployment: Object, kind: str, wanted: tuple[str, str, str], moved: bool) -> Object:
        status, reason, message = wanted
        old, now = condition_of(deployment, kind) or {}, stamp(self.now())
        same = old.get("status") == status
        moved = moved or old.get("reason") != reason or not same
        return {
            "type": kind,
            "status": status,
            "lastUpdateTime": now if moved else old["lastUpdateTime"],
            "lastTransitionTime": old["lastTransitionTime"] if same else now,
            "reason": reason,
            "message": message,
        }
