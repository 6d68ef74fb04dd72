"""The controller of RayJob: a RayCluster of its own or a chosen one, a submitter, and what becomes of the entrypoint.

In K8sJobMode the submitter is a Job whose pod runs ``ray job submit``; the sandbox has no Ray, so that a stand-in runs the entrypoint
itself, with the volumes and environment of the head's pod (annotation ``sandbox.instantstart.dev/like``), where this machine can.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable

from ..errors import ApiError
from ..kubelet.behaviour import LIKE, PREFIX
from ..loops.objects import (
    Object,
    annotations_of,
    controller_of,
    deleting,
    is_true,
    labels_of,
    name_of,
    namespace_of,
    owner_reference,
    seconds_of,
    selects,
    short_hash,
    spec_of,
    stamp,
    status_of,
    uid_of,
)
from ..operating import OperatorLoop
from .checks import job_fault
from .clusters import CLUSTERS, JOBS, MANAGER
from .pods import PORTS, head_service

_OVER = ("Complete", "Failed", "ValidationFailed")
_SUBMITTER = "ray-job-submitter"
_BATCH = "jobs.batch"
_START_ERROR = 128


class RayJobs(OperatorLoop):
    """Keys are RayJobs."""

    name = "rayjob-controller"
    kinds = (JOBS, CLUSTERS, _BATCH)
    manager = MANAGER
    watched = (*OperatorLoop.watched, _BATCH)

    def concerned(self, resource: str, obj: Object) -> Iterable[str]:
        """The RayJob of a cluster, of a submitter, or of a submitter's pod."""
        owner = controller_of(obj) or {}
        if owner.get("kind") == "RayJob":
            return [f"{namespace_of(obj)}/{owner['name']}"]
        named = labels_of(obj).get("ray.io/originated-from-cr-name")
        return [f"{namespace_of(obj)}/{named}"] if named and resource == "pods" else []

    async def look(self, key: str) -> None:
        """One look at one job."""
        job = self.cache.get(JOBS, key)
        if job is None or deleting(job):
            return
        phase = status_of(job).get("jobDeploymentStatus") or ""
        told = job_fault(job) if phase in ("", "ValidationFailed") else None
        if told:
            await self._tell(job, jobDeploymentStatus="ValidationFailed", reason="ValidationFailed", message=told)
            await self.event(job, "ValidationFailed", told, warning=True)
        elif phase in _OVER:
            await self._after(key, job)
        elif spec_of(job).get("suspend"):
            await self._suspend(job)
        elif not await self._overdue(key, job):
            await self._advance(key, job, phase)

    async def _tell(self, job: Object, **fields: object) -> None:
        generation = job["metadata"].get("generation", 1)
        await self.engine.write_status(JOBS, job, {**fields, "observedGeneration": generation}, self.client)

    async def _advance(self, key: str, job: Object, phase: str) -> None:
        if phase in ("", "Suspended", "Retrying"):
            attempt = int(status_of(job).get("failed") or 0)
            suffix = short_hash([uid_of(job), attempt, status_of(job).get("startTime")], 5)
            chosen = spec_of(job).get("clusterSelector") or {}
            cluster = chosen.get("ray.io/cluster") or f"{name_of(job)}-{suffix}"
            begun = status_of(job).get("startTime") if phase == "Retrying" else None
            await self._tell(
                job,
                jobDeploymentStatus="Initializing",
                jobId=f"{name_of(job)}-{short_hash([suffix, 'id'], 5)}",
                rayClusterName=cluster,
                startTime=begun or stamp(self.now()),
                jobStatus="",
            )
            return
        cluster_key = f"{namespace_of(job)}/{status_of(job)['rayClusterName']}"
        ray = self.cache.get(CLUSTERS, cluster_key)
        if ray is None:
            await self._make_cluster(job, cluster_key)
        elif phase == "Initializing":
            await self._initialize(job, ray)
        elif phase == "Running":
            await self._follow_submitter(job)

    async def _make_cluster(self, job: Object, key: str) -> None:
        if spec_of(job).get("clusterSelector"):
            await self.event(job, "RayClusterNotFound", f"RayCluster {key} set by the clusterSelector does not exist", warning=True)
            return
        metadata = {
            "name": key.partition("/")[2],
            "namespace": namespace_of(job),
            "labels": {**labels_of(job), **_origin(job)},
            "annotations": {k: v for k, v in annotations_of(job).items() if k.startswith("ray.io/")},
            "ownerReferences": [owner_reference(job)],
        }
        await self.client.create(CLUSTERS, {"metadata": metadata, "spec": copy.deepcopy(spec_of(job)["rayClusterSpec"])})
        await self.event(job, "CreatedRayCluster", f"Created RayCluster {key}")

    async def _initialize(self, job: Object, ray: Object) -> None:
        if (status_of(ray).get("state") or "") != "ready":
            await self._tell(job, rayClusterStatus=_seen(ray))
            return
        if (spec_of(job).get("submissionMode") or "K8sJobMode") == "K8sJobMode":
            try:
                await self._submit(job, ray)
            except ApiError as error:
                await self.event(job, "FailedToCreateRayJobSubmitter", f"Failed to create the submitter: {error.message}", warning=True)
                raise
        waits = spec_of(job).get("submissionMode") == "InteractiveMode"
        await self._tell(
            job,
            jobDeploymentStatus="Waiting" if waits else "Running",
            dashboardURL=f"{head_service(name_of(ray))}.{namespace_of(ray)}.svc.cluster.local:{PORTS['dashboard']}",
            rayClusterStatus=_seen(ray),
        )

    # ------------------------------------------------------------------ the submitter

    async def _submit(self, job: Object, ray: Object) -> None:
        if self._submitter(job) is not None:
            return
        head = status_of(ray).get("head") or {}
        template = copy.deepcopy(spec_of(job).get("submitterPodTemplate") or {})
        spec = template.setdefault("spec", {})
        first = spec_of(spec_of(ray)["headGroupSpec"]["template"])["containers"][0]
        spec.setdefault("containers", [{"name": _SUBMITTER, "image": first["image"]}])
        spec.setdefault("restartPolicy", "Never")
        main = spec["containers"][0]
        if not main.get("command"):
            url = f"http://{status_of(job).get('dashboardURL') or head_service(name_of(ray))}:{PORTS['dashboard']}"
            words = ["ray", "job", "submit", "--address", url, "--submission-id", status_of(job)["jobId"]]
            main["command"], main["args"] = [*words, "--"], [spec_of(job)["entrypoint"]]
        main.setdefault("resources", {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "200Mi"}})
        main["env"] = [*(main.get("env") or []), {"name": "RAY_JOB_SUBMISSION_ID", "value": status_of(job)["jobId"]}]
        metadata = template.setdefault("metadata", {})
        metadata["labels"] = {**(metadata.get("labels") or {}), **_origin(job), "ray.io/job-submitter": "true"}
        told = {k: v for k, v in annotations_of(job).items() if k.startswith(PREFIX)}
        metadata["annotations"] = {**told, **(metadata.get("annotations") or {}), LIKE: head.get("podName", "")}
        wanted: Object = {"template": template, "backoffLimit": 0, "completions": 1, "parallelism": 1}
        body = {"metadata": {"name": name_of(job), "namespace": namespace_of(job), "labels": _origin(job)}, "spec": wanted}
        body["metadata"]["ownerReferences"] = [owner_reference(job)]
        await self.client.create(_BATCH, body)
        await self.event(job, "CreatedRayJobSubmitter", f"Created Kubernetes Job {namespace_of(job)}/{name_of(job)}")

    def _submitter(self, job: Object) -> Object | None:
        found = self.cache.get(_BATCH, f"{namespace_of(job)}/{name_of(job)}")
        return found if found is not None and (controller_of(found) or {}).get("uid") == uid_of(job) else None

    async def _follow_submitter(self, job: Object) -> None:
        submitter = self._submitter(job)
        if submitter is None:
            return
        pods = self.cache.owned("pods", uid_of(submitter))
        running = any(status_of(p).get("phase") == "Running" for p in pods)
        if is_true(submitter, "Complete"):
            await self._end(job, "Complete", "SUCCEEDED", "", "Job finished successfully.")
        elif is_true(submitter, "Failed"):
            code = _exit_code(pods)
            if code is None or code == _START_ERROR:
                await self._retry(job, "SubmissionFailed", "The submitter could not submit the job")
            else:
                await self._retry(job, "AppFailed", f"Job entrypoint command failed with exit code {code}")
        elif running and status_of(job).get("jobStatus") != "RUNNING":
            await self._tell(job, jobStatus="RUNNING")

    # ------------------------------------------------------------------ endings

    async def _end(self, job: Object, deployment: str, status: str, reason: str, message: str) -> None:
        counted = {"succeeded": 1} if deployment == "Complete" else {"failed": int(status_of(job).get("failed") or 0) + 1}
        fields: Object = {
            "jobDeploymentStatus": deployment,
            "jobStatus": status,
            "message": message,
            "endTime": stamp(self.now()),
            **counted,
        }
        await self._tell(job, **fields, **({"reason": reason} if reason else {}))
        if deployment == "Failed":
            await self.event(job, reason, message, warning=True)

    async def _retry(self, job: Object, reason: str, message: str) -> None:
        """Another cluster while backoffLimit allows, else the end."""
        failed = int(status_of(job).get("failed") or 0)
        if failed >= int(spec_of(job).get("backoffLimit") or 0):
            await self._end(job, "Failed", "FAILED", reason, message)
            return
        await self._remove(job)
        await self._tell(job, jobDeploymentStatus="Retrying", jobStatus="", reason=reason, message=message, failed=failed + 1)

    async def _overdue(self, key: str, job: Object) -> bool:
        limit, started = spec_of(job).get("activeDeadlineSeconds"), seconds_of(status_of(job).get("startTime"))
        if limit is None or not started:
            return False
        left = started + int(limit) - self.now()
        if left > 0:
            self.later(left, key)
            return False
        await self._remove_submitter(job)
        await self._end(
            job,
            "Failed",
            status_of(job).get("jobStatus") or "",
            "DeadlineExceeded",
            f"The RayJob has passed the activeDeadlineSeconds of {limit}",
        )
        return True

    async def _remove_submitter(self, job: Object) -> None:
        if self._submitter(job) is not None:
            await self.client.delete(_BATCH, name_of(job), namespace_of(job))

    async def _remove(self, job: Object) -> None:
        """The submitter and the job's own cluster."""
        await self._remove_submitter(job)
        name = status_of(job).get("rayClusterName")
        found = self.cache.get(CLUSTERS, f"{namespace_of(job)}/{name}") if name else None
        if found is not None and selects({"matchLabels": _origin(job)}, labels_of(found)) and not deleting(found):
            await self.client.delete(CLUSTERS, str(name), namespace_of(job))
            await self.event(job, "DeletedRayCluster", f"Deleted cluster {namespace_of(job)}/{name}")

    async def _after(self, key: str, job: Object) -> None:
        if not spec_of(job).get("shutdownAfterJobFinishes") or status_of(job).get("jobDeploymentStatus") == "ValidationFailed":
            return
        left = seconds_of(status_of(job).get("endTime")) + int(spec_of(job).get("ttlSecondsAfterFinished") or 0) - self.now()
        if left > 0:
            self.later(left, key)
            return
        name = status_of(job).get("rayClusterName")
        found = self.cache.get(CLUSTERS, f"{namespace_of(job)}/{name}") if name else None
        if found is not None and not deleting(found) and not spec_of(job).get("clusterSelector"):
            await self.client.delete(CLUSTERS, str(name), namespace_of(job))
            await self.event(job, "DeletedRayCluster", f"Deleted cluster {namespace_of(job)}/{name}")

    async def _suspend(self, job: Object) -> None:
        if status_of(job).get("jobDeploymentStatus") == "Suspended":
            return
        await self._remove(job)
        await self._tell(job, jobDeploymentStatus="Suspended", jobStatus="", rayClusterName="", jobId="", startTime=None)
        await self.event(job, "SuspendedRayJob", "Suspended")


def _origin(job: Object) -> dict[str, str]:
    return {"ray.io/originated-from-cr-name": name_of(job), "ray.io/originated-from-crd": "RayJob"}


def _seen(ray: Object) -> Object:
    return {k: v for k, v in status_of(ray).items() if k in ("state", "head", "desiredWorkerReplicas", "readyWorkerReplicas", "endpoints")}


def _exit_code(pods: list[Object]) -> int | None:
    """The exit code of the last container that ended, None when none began."""
    codes = [
        int(ended["exitCode"])
        for p in pods
        for c in status_of(p).get("containerStatuses") or []
        if (ended := (c.get("state") or {}).get("terminated"))
    ]
    return codes[-1] if codes else None
