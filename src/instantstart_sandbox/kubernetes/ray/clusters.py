"""The controller of RayCluster: one head, workers by group, a Service; failed pods are made anew."""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import ApiError
from ..loops.engine import Engine
from ..loops.objects import (
    Object,
    deleting,
    is_true,
    labels_of,
    name_of,
    namespace_of,
    pod_active,
    pod_finished,
    pod_ready,
    spec_of,
    stamp,
    status_of,
    uid_of,
    with_condition,
)
from ..operating import OperatorLoop
from .checks import cluster_fault
from .pods import CLUSTER, GROUP, PORTS, TYPE, build, head_service, service

CLUSTERS, JOBS = "rayclusters.ray.io", "rayjobs.ray.io"
MANAGER = ("kuberay-operator", {"app.kubernetes.io/name": "kuberay-operator"})
_RETRY_SECONDS = 15.0


def wanted_workers(group: Object) -> int:
    """Pods of a worker group: replicas within its bounds, times hosts."""
    least, most = int(group.get("minReplicas") or 0), int(group.get("maxReplicas") or 2147483647)
    asked = group.get("replicas")
    count = 0 if group.get("suspend") else max(least, min(int(asked if asked is not None else least), most))
    return count * int(group.get("numOfHosts") or 1)


class RayClusters(OperatorLoop):
    """Keys are RayClusters."""

    name = "raycluster-controller"
    kinds = (CLUSTERS,)
    manager = MANAGER

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        #: by key: until when nothing is tried again, and what the API server said
        self._refused: dict[str, tuple[float, str]] = {}

    def concerned(self, resource: str, obj: Object) -> Iterable[str]:
        """The cluster of a pod."""
        name = labels_of(obj).get(CLUSTER) if resource == "pods" else None
        return [f"{namespace_of(obj)}/{name}"] if name else []

    async def look(self, key: str) -> None:
        """One look at one cluster."""
        cluster = self.cache.get(CLUSTERS, key)
        if cluster is None or deleting(cluster):
            return
        fault = cluster_fault(cluster)
        if fault is not None:
            await self.event(cluster, *fault, warning=True)
            return
        pods = self.cache.owned("pods", uid_of(cluster))
        if spec_of(cluster).get("suspend"):
            for pod in pods:
                if not deleting(pod):
                    await self.client.delete("pods", name_of(pod), namespace_of(pod))
            await self._report(cluster, [], None)
            return
        if self.cluster.read("services", head_service(name_of(cluster)), namespace_of(cluster)) is None:
            await self.client.create("services", service(cluster))
            await self.event(cluster, "CreatedService", f"Created service {namespace_of(cluster)}/{head_service(name_of(cluster))}")
        refused = await self._fill(key, cluster, pods)
        fresh = self.cache.get(CLUSTERS, key) or cluster
        await self._report(fresh, self.cache.owned("pods", uid_of(cluster)), refused)

    async def _fill(self, key: str, cluster: Object, pods: list[Object]) -> str | None:
        """Make what is missing, remove what is too much; what the API server refused."""
        for pod in pods:
            if pod_finished(pod) and not deleting(pod):
                await self.event(cluster, "DeletedPod", f"Deleted pod {name_of(pod)}: it was {status_of(pod).get('phase')}")
                await self.client.delete("pods", name_of(pod), namespace_of(pod))
        until, told = self._refused.get(key, (0.0, ""))
        if self.now() < until:
            return told
        heads = [p for p in pods if labels_of(p).get(TYPE) == "head" and pod_active(p)]
        try:
            if not heads:
                await self._make(cluster, spec_of(cluster)["headGroupSpec"], "head")
            for group in spec_of(cluster).get("workerGroupSpecs") or []:
                await self._group(cluster, group, [p for p in pods if labels_of(p).get(GROUP) == group["groupName"] and pod_active(p)])
        except ApiError as error:
            kind = "Worker" if heads else "Head"
            await self.event(cluster, f"FailedToCreate{kind}Pod", f"Failed to create {kind.lower()} pod: {error.message}", warning=True)
            self._refused[key] = (self.now() + _RETRY_SECONDS, error.message)
            self.later(_RETRY_SECONDS, key)
            return error.message
        self._refused.pop(key, None)
        return None

    async def _group(self, cluster: Object, group: Object, present: list[Object]) -> None:
        wanted = wanted_workers(group)
        for pod in sorted(present, key=name_of)[wanted:]:
            await self.client.delete("pods", name_of(pod), namespace_of(pod))
        for _ in range(wanted - len(present)):
            await self._make(cluster, group, "worker")

    async def _make(self, cluster: Object, group: Object, kind: str) -> None:
        pod = await self.client.create("pods", build(cluster, group, kind))
        reason = "CreatedHeadPod" if kind == "head" else "CreatedWorkerPod"
        await self.event(cluster, reason, f"Created {kind} Pod {namespace_of(pod)}/{name_of(pod)}")

    async def _report(self, cluster: Object, pods: list[Object], refused: str | None) -> None:
        groups, suspended = spec_of(cluster).get("workerGroupSpecs") or [], bool(spec_of(cluster).get("suspend"))
        head = next((p for p in pods if labels_of(p).get(TYPE) == "head" and pod_active(p)), None)
        workers = [p for p in pods if labels_of(p).get(TYPE) == "worker" and pod_active(p)]
        desired = 0 if suspended else sum(wanted_workers(g) for g in groups)
        ready = sum(1 for p in workers if pod_ready(p))
        up = head is not None and pod_ready(head)
        complete = up and ready >= desired
        state = "suspended" if suspended else "ready" if complete else status_of(cluster).get("state")
        fields: Object = {
            "desiredWorkerReplicas": desired,
            "minWorkerReplicas": sum(int(g.get("minReplicas") or 0) for g in groups),
            "maxWorkerReplicas": min(sum(int(g.get("maxReplicas") or 2147483647) for g in groups), 2147483647),
            "availableWorkerReplicas": sum(1 for p in workers if status_of(p).get("phase") == "Running"),
            "readyWorkerReplicas": ready,
            "endpoints": {name: str(port) for name, port in PORTS.items()},
            "observedGeneration": cluster["metadata"].get("generation", 1),
            "state": state,
            "conditions": self._conditions(cluster, (up, complete, suspended), refused),
        }
        if head is not None and status_of(head).get("podIP"):
            fields["head"] = {
                "podIP": status_of(head)["podIP"],
                "podName": name_of(head),
                "serviceIP": status_of(head)["podIP"],
                "serviceName": head_service(name_of(cluster)),
            }
        if state != status_of(cluster).get("state"):
            fields["stateTransitionTimes"] = {**(status_of(cluster).get("stateTransitionTimes") or {}), str(state): stamp(self.now())}
        await self.engine.write_status(CLUSTERS, cluster, fields, self.client)

    def _conditions(self, cluster: Object, found: tuple[bool, bool, bool], refused: str | None) -> list[Object]:
        up, complete, suspended = found
        provisioned = complete or is_true(cluster, "RayClusterProvisioned")
        told: list[tuple[str, bool, str, str]] = [
            ("HeadPodReady", up, "HeadPodRunningAndReady" if up else "HeadPodNotFound", "" if up else "Head Pod is not ready"),
            ("RayClusterProvisioned", provisioned and not suspended, *_provisioning(provisioned)),
        ]
        if refused is not None or is_true(cluster, "ReplicaFailure"):
            told.append(("ReplicaFailure", refused is not None, "FailedCreatePod" if refused else "PodsCreated", refused or ""))
        if suspended or is_true(cluster, "RayClusterSuspended"):
            told.append(("RayClusterSuspended", suspended, "RayClusterSuspended" if suspended else "RayClusterResumed", ""))
        wanted = status_of(cluster).get("conditions")
        for kind, holds, reason, message in told:
            condition = {"type": kind, "status": str(holds), "reason": reason, "message": message}
            wanted = with_condition(wanted, condition, self.now())
        return wanted or []


def _provisioning(done: bool) -> tuple[str, str]:
    if done:
        return "AllPodRunningAndReadyFirstTime", "All Ray Pods are ready for the first time"
    return "RayClusterPodsProvisioning", "RayCluster Pods are being provisioned for first time"
