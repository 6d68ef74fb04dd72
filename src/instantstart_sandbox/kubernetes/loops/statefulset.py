"""StatefulSets: numbered pods in order, each with its own claims."""

from __future__ import annotations

import copy
from collections.abc import Iterable

from .engine import Controller
from .objects import (
    Object,
    deleting,
    index_of,
    key_of,
    labels_of,
    meta,
    name_of,
    namespace_of,
    pod_finished,
    pod_ready,
    spec_of,
    uid_of,
)
from .replicaset import available, owning_keys, pod_from
from .revisions import HASH, keep_revisions, template_hash

POD_NAME = "statefulset.kubernetes.io/pod-name"
POD_INDEX = "apps.kubernetes.io/pod-index"


def revision_of(owner: Object) -> str:
    """The name of the revision of the present template."""
    return f"{name_of(owner)}-{template_hash(owner)}"


def claims_of(owner: Object, pod_name: str) -> list[Object]:
    """The claims a pod of the set needs: ``<template>-<pod>``."""
    found = []
    for template in spec_of(owner).get("volumeClaimTemplates") or []:
        metadata = {
            "name": f"{name_of(template)}-{pod_name}",
            "namespace": namespace_of(owner),
            "labels": {**labels_of(template), **(spec_of(owner)["selector"].get("matchLabels") or {})},
        }
        found.append({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec_of(template)})
    return found


def numbered_pod(owner: Object, number: int) -> Object:
    """Pod ``<set>-<number>`` with its identity labels and its claims as volumes."""
    name = f"{name_of(owner)}-{number}"
    pod = pod_from(copy.deepcopy(spec_of(owner)["template"]), owner, name)
    marks = {HASH: revision_of(owner), POD_NAME: name, POD_INDEX: str(number)}
    pod["metadata"]["labels"] = {**pod["metadata"]["labels"], **marks}
    pod["spec"]["hostname"] = name
    if spec_of(owner).get("serviceName"):
        pod["spec"]["subdomain"] = spec_of(owner)["serviceName"]
    own = {name_of(t) for t in spec_of(owner).get("volumeClaimTemplates") or []}
    volumes = [v for v in pod["spec"].get("volumes") or [] if v["name"] not in own]
    volumes += [{"name": t, "persistentVolumeClaim": {"claimName": f"{t}-{name}"}} for t in sorted(own)]
    if volumes:
        pod["spec"]["volumes"] = volumes
    return pod


class StatefulSetController(Controller):
    """One step at a time, unless podManagementPolicy is Parallel."""

    name = "statefulset-controller"
    watched = ("statefulsets.apps", "pods")

    def keys(self, resource: str, obj: Object) -> Iterable[str]:
        """The set, or the set of a pod."""
        if resource == "pods":
            return owning_keys((), "StatefulSet", obj)
        return [key_of(obj)]

    async def reconcile(self, key: str) -> None:
        """One look at one set."""
        owner = self.cache.get("statefulsets.apps", key)
        if owner is None:
            return
        if not deleting(owner):
            await keep_revisions(self, owner)
            await self._balance(owner)
        await self._report(key)

    def _pods(self, owner: Object) -> dict[int, Object]:
        return {index_of(name_of(p)): p for p in self.cache.owned("pods", uid_of(owner))}

    async def _balance(self, owner: Object) -> None:
        spec, pods = spec_of(owner), self._pods(owner)
        first = int((spec.get("ordinals") or {}).get("start", 0))
        wanted = range(first, first + int(spec.get("replicas", 1)))
        in_order = spec.get("podManagementPolicy", "OrderedReady") != "Parallel"
        for number in wanted:
            pod = pods.get(number)
            if pod is not None and pod_finished(pod) and not deleting(pod):
                await self._remove(owner, pod)
                return
            if pod is None:
                await self._make(owner, number)
            if in_order and (pod is None or not pod_ready(pod)):
                return
        for number in sorted((n for n in pods if n not in wanted), reverse=True):
            if not deleting(pods[number]):
                await self._remove(owner, pods[number])
            if in_order:
                return
        await self._roll(owner, [pods[n] for n in wanted if n in pods])

    async def _make(self, owner: Object, number: int) -> None:
        pod = numbered_pod(owner, number)
        for claim in claims_of(owner, name_of(pod)):
            if await self.client.find("persistentvolumeclaims", name_of(claim), namespace_of(claim)) is None:
                await self.client.create("persistentvolumeclaims", claim)
        await self.client.create("pods", pod)
        await self.event(owner, "SuccessfulCreate", f"create Pod {name_of(pod)} in StatefulSet {name_of(owner)} successful")

    async def _remove(self, owner: Object, pod: Object) -> None:
        await self.client.delete("pods", name_of(pod), namespace_of(pod))
        await self.event(owner, "SuccessfulDelete", f"delete Pod {name_of(pod)} in StatefulSet {name_of(owner)} successful")

    async def _roll(self, owner: Object, pods: list[Object]) -> None:
        strategy = spec_of(owner).get("updateStrategy") or {}
        if strategy.get("type", "RollingUpdate") == "OnDelete":
            return
        partition = int((strategy.get("rollingUpdate") or {}).get("partition") or 0)
        for pod in reversed(pods):
            if index_of(name_of(pod)) < partition:
                return
            if labels_of(pod).get(HASH) != revision_of(owner):
                if not deleting(pod):
                    await self._remove(owner, pod)
                return
            if not pod_ready(pod):
                return

    async def _report(self, key: str) -> None:
        owner = self.cache.get("statefulsets.apps", key)
        if owner is None:
            return
        pods = [p for p in self._pods(owner).values() if not deleting(p)]
        wait, revision = int(spec_of(owner).get("minReadySeconds") or 0), revision_of(owner)
        updated = sum(1 for p in pods if labels_of(p).get(HASH) == revision)
        old = next((labels_of(p).get(HASH) for p in pods if labels_of(p).get(HASH) != revision), None)
        status = {
            "observedGeneration": meta(owner).get("generation"),
            "replicas": len(pods),
            "readyReplicas": sum(1 for p in pods if pod_ready(p)) or None,
            "availableReplicas": sum(1 for p in pods if available(p, wait, self.now())),
            "currentReplicas": (len(pods) - updated if old else updated) or None,
            "updatedReplicas": updated or None,
            "currentRevision": old or revision,
            "updateRevision": revision,
            "collisionCount": 0,
        }
        await self.engine.write_status("statefulsets.apps", owner, status, self.client)
        if wait and any(pod_ready(p) for p in pods):
            self.later(wait, key)
