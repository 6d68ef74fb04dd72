"""Jobs: pods run to completion, retried up to backoffLimit, within activeDeadlineSeconds; removed after their TTL."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass, field

from .engine import Controller
from .failure_policy import judge
from .objects import (
    Object,
    annotations_of,
    controller_of,
    deleting,
    is_true,
    key_of,
    meta,
    name_of,
    namespace_of,
    pod_active,
    pod_finished,
    pod_ready,
    seconds_of,
    spec_of,
    stamp,
    status_of,
    uid_of,
    with_condition,
)
from .replicaset import pod_from

TRACKING = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
_FIRST_BACKOFF_SECONDS = 10
_LONGEST_BACKOFF_SECONDS = 600


def finished(job: Object) -> bool:
    """Whether the Job has come to its end."""
    return is_true(job, "Complete") or is_true(job, "Failed")


def indexed(job: Object) -> bool:
    """Whether each completion has its own index."""
    return bool(spec_of(job).get("completionMode") == "Indexed")


def index_of_pod(pod: Object) -> int | None:
    """The completion index of a pod of an Indexed Job."""
    value = annotations_of(pod).get(INDEX)
    return int(value) if value is not None else None


def spans(indexes: Iterable[int]) -> str:
    """``completedIndexes`` as the Job status writes it: ``0,2-4``."""
    parts: list[list[int]] = []
    for number in sorted(set(indexes)):
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    # two neighbours are written apart only when they are one number
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def numbers(text: str) -> set[int]:
    """The inverse of ``spans``."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


@dataclass
class Tally:
    """What a Job's pods have come to, counting each finished pod once (its tracking finalizer marks the uncounted)."""

    job: Object
    pods: list[Object]
    succeeded: int = 0
    failed: int = 0
    done: set[int] = field(default_factory=set)
    uncounted: list[Object] = field(default_factory=list)

    def __post_init__(self) -> None:
        status = status_of(self.job)
        self.succeeded, self.failed = int(status.get("succeeded") or 0), int(status.get("failed") or 0)
        self.done = numbers(status.get("completedIndexes") or "")
        for pod in self.pods:
            if TRACKING in (meta(pod).get("finalizers") or []) and (
                pod_finished(pod) or (deleting(pod) and not spec_of(pod).get("nodeName"))
            ):
                self._count(pod)

    def _count(self, pod: Object) -> None:
        self.uncounted.append(pod)
        number = index_of_pod(pod)
        if status_of(pod).get("phase") != "Succeeded":
            self.failed += judge(self.job, pod).action != "Ignore"
        elif number is None:
            self.succeeded += 1
        elif number not in self.done:
            self.done.add(number)
            self.succeeded += 1

    @property
    def active(self) -> list[Object]:
        """Pods at work."""
        return [p for p in self.pods if pod_active(p)]

    def target(self) -> int:
        """How many successes end the Job; without ``completions`` one is enough, once nothing runs any more."""
        return int(spec_of(self.job).get("completions") or 1)

    def complete(self) -> bool:
        """Whether the Job has what it wanted."""
        if spec_of(self.job).get("completions") is None:
            return self.succeeded > 0 and not self.active
        return self.succeeded >= self.target()

    def restarts(self) -> int:
        """Failures that count against backoffLimit: failed pods, and container restarts with OnFailure."""
        restarted = 0
        if spec_of(spec_of(self.job)["template"]).get("restartPolicy") == "OnFailure":
            for pod in self.active:
                restarted += sum(int(c.get("restartCount") or 0) for c in status_of(pod).get("containerStatuses") or [])
        return self.failed + restarted

    def verdict(self) -> str | None:
        """Why a failed pod ends the Job at once by its podFailurePolicy; None when none does."""
        failed = (p for p in self.pods if status_of(p).get("phase") == "Failed")
        return next((v.message for p in failed if (v := judge(self.job, p)).action == "FailJob"), None)

    def wanted_active(self) -> int:
        """How many pods should be at work now."""
        parallel = int(spec_of(self.job).get("parallelism", 1))
        if spec_of(self.job).get("completions") is None:
            return min(parallel, len(self.active)) if self.succeeded else parallel
        return min(parallel, self.target() - self.succeeded)

    def free_indexes(self) -> list[int]:
        """Indexes neither done nor at work."""
        taken = {index_of_pod(p) for p in self.active} | self.done
        return [n for n in range(self.target()) if n not in taken]


class JobController(Controller):
    """Runs Jobs."""

    name = "job-controller"
    watched = ("jobs.batch", "pods")

    def keys(self, resource: str, obj: Object) -> Iterable[str]:
        """The Job, or the Job of a pod."""
        if resource == "jobs.batch":
            return [key_of(obj)]
        owner = controller_of(obj)
        return [f"{namespace_of(obj)}/{owner['name']}"] if owner and owner["kind"] == "Job" else []

    async def reconcile(self, key: str) -> None:
        """One look at one Job."""
        job = self.cache.get("jobs.batch", key)
        if job is None:
            await self._release(self._orphans(key))
            return
        tally = Tally(job, self.cache.owned("pods", uid_of(job)))
        if finished(job) or deleting(job):
            await self._release(tally.pods)
            await self._expire(key, job)
            return
        ending = self._ending(key, tally)
        if ending is not None:
            await self._end(tally, ending)
            return
        if spec_of(job).get("suspend"):
            await self._suspend(tally)
        else:
            await self._balance(key, tally)
        fresh = self.cache.get("jobs.batch", key)
        if fresh is not None:
            await self._report(fresh, tally, {"conditions": self._suspended(fresh), **self._started(fresh)})

    def _orphans(self, key: str) -> list[Object]:
        """The pods of a Job that is gone: nobody counts them any more, and nothing may keep them."""
        namespace, _, _ = key.partition("/")
        return [pod for pod in self.cache.all("pods", namespace) if key in self.keys("pods", pod)]

    def _ending(self, key: str, tally: Tally) -> tuple[str, str, str] | None:
        spec = spec_of(tally.job)
        if tally.complete():
            return "Complete", "CompletionsReached", "Reached expected number of succeeded pods"
        told = tally.verdict()
        if told:
            return "Failed", "PodFailurePolicy", told
        if tally.restarts() > int(spec.get("backoffLimit", 6)):
            return "Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        started, limit = status_of(tally.job).get("startTime"), spec.get("activeDeadlineSeconds")
        if started and limit is not None and not spec.get("suspend"):
            left = seconds_of(started) + int(limit) - self.now()
            if left <= 0:
                return "Failed", "DeadlineExceeded", "Job was active longer than specified deadline"
            self.later(left, key)
        return None

    async def _end(self, tally: Tally, ending: tuple[str, str, str]) -> None:
        kind, reason, message = ending
        for pod in tally.active:
            await self.client.delete("pods", name_of(pod), namespace_of(pod))
        gone = len(tally.active)
        early = "SuccessCriteriaMet" if kind == "Complete" else "FailureTarget"
        now, conditions = self.now(), status_of(tally.job).get("conditions")
        for each in (early, kind):
            wanted = {"type": each, "status": "True", "reason": reason, "message": message, "lastProbeTime": stamp(now)}
            conditions = with_condition(conditions, wanted, now)
        fields: Object = {"conditions": conditions}
        if kind == "Complete":
            fields["completionTime"] = stamp(now)
        else:
            tally.failed += gone
        tally.pods = [p for p in tally.pods if not pod_active(p)]
        await self._report(tally.job, tally, fields)
        await self._release(self.cache.owned("pods", uid_of(tally.job)))
        if kind == "Complete":
            await self.event(tally.job, "Completed", "Job completed")
        else:
            await self.event(tally.job, reason, message, warning=True)

    async def _drop(self, pods: list[Object]) -> None:
        """Delete pods that are no failures: without their tracking finalizer nobody counts them."""
        await self._release(pods)
        for pod in pods:
            await self.client.delete("pods", name_of(pod), namespace_of(pod))

    async def _suspend(self, tally: Tally) -> None:
        await self._drop(tally.active)
        if not is_true(tally.job, "Suspended"):
            await self.event(tally.job, "Suspended", "Job suspended")
        tally.pods = self.cache.owned("pods", uid_of(tally.job))

    def _suspended(self, job: Object) -> list[Object] | None:
        conditions = status_of(job).get("conditions")
        asked = bool(spec_of(job).get("suspend"))
        if not asked and not is_true(job, "Suspended"):
            return conditions
        reason, message = ("JobSuspended", "Job suspended") if asked else ("JobResumed", "Job resumed")
        wanted = {"type": "Suspended", "status": str(asked), "reason": reason, "message": message, "lastProbeTime": stamp(self.now())}
        if asked == is_true(job, "Suspended"):
            return conditions
        return with_condition(conditions, wanted, self.now())

    def _started(self, job: Object) -> Object:
        if spec_of(job).get("suspend"):
            return {"startTime": None}
        return {"startTime": status_of(job).get("startTime") or stamp(self.now())}

    async def _balance(self, key: str, tally: Tally) -> None:
        active, wanted = tally.active, tally.wanted_active()
        await self._drop(active[wanted:] if wanted < len(active) else [])
        missing = wanted - len(active)
        if missing <= 0 or self._backing_off(key, tally):
            return
        leaving = sum(1 for p in tally.pods if deleting(p) and not pod_finished(p))
        free = tally.free_indexes() if indexed(tally.job) else [None] * missing
        for number in free[: max(missing - leaving, 0)]:
            pod = await self.client.create("pods", self._pod(tally.job, number))
            await self.event(tally.job, "SuccessfulCreate", f"Created pod: {name_of(pod)}")
        tally.pods = self.cache.owned("pods", uid_of(tally.job))

    def _backing_off(self, key: str, tally: Tally) -> bool:
        failures = [p for p in tally.pods if status_of(p).get("phase") == "Failed"]
        if not failures:
            return False
        last = max(seconds_of(_ended(p)) or seconds_of(meta(p).get("creationTimestamp")) for p in failures)
        wait = min(_FIRST_BACKOFF_SECONDS * 2 ** (len(failures) - 1), _LONGEST_BACKOFF_SECONDS)
        left = last + wait - self.now()
        if left <= 0:
            return False
        self.later(left, key)
        return True

    def _pod(self, job: Object, number: int | None) -> Object:
        pod = pod_from(copy.deepcopy(spec_of(job)["template"]), job)
        pod["metadata"]["finalizers"] = [*(pod["metadata"].get("finalizers") or []), TRACKING]
        if number is None:
            return pod
        pod["metadata"]["generateName"] = f"{name_of(job)}-{number}-"
        pod["metadata"].setdefault("annotations", {})[INDEX] = str(number)
        pod["metadata"]["labels"][INDEX] = str(number)
        pod["spec"].setdefault("hostname", f"{name_of(job)}-{number}")
        for container in [*pod["spec"]["containers"], *(pod["spec"].get("initContainers") or [])]:
            container.setdefault("env", []).append({"name": "JOB_COMPLETION_INDEX", "value": str(number)})
        return pod

    async def _report(self, job: Object, tally: Tally, fields: Object) -> None:
        active = tally.active
        status = {
            "active": len(active) or None,
            "ready": sum(1 for p in active if pod_ready(p)),
            "terminating": sum(1 for p in tally.pods if deleting(p) and not pod_finished(p)),
            "succeeded": tally.succeeded or None,
            "failed": tally.failed or None,
            "uncountedTerminatedPods": {},
            **fields,
        }
        if indexed(job):
            status["completedIndexes"] = spans(tally.done) or None
        await self.engine.write_status("jobs.batch", job, status, self.client)
        await self._release(tally.uncounted)

    async def _release(self, pods: list[Object]) -> None:
        for pod in pods:
            kept = meta(pod).get("finalizers") or []
            if TRACKING in kept:
                left = [f for f in kept if f != TRACKING]
                await self.client.patch("pods", name_of(pod), {"metadata": {"finalizers": left}}, namespace_of(pod))

    async def _expire(self, key: str, job: Object) -> None:
        ttl = spec_of(job).get("ttlSecondsAfterFinished")
        if ttl is None or deleting(job):
            return
        ends = [c for c in status_of(job).get("conditions") or [] if c["type"] in ("Complete", "Failed") and c["status"] == "True"]
        left = seconds_of(ends[0].get("lastTransitionTime")) + int(ttl) - self.now()
        if left > 0:
            self.later(left, key)
            return
        await self.client.delete("jobs.batch", name_of(job), namespace_of(job), propagation="Foreground")


def _ended(pod: Object) -> str | None:
    for container in status_of(pod).get("containerStatuses") or []:
        ended = (container.get("state") or {}).get("terminated") or {}
        if ended.get("finishedAt"):
            return str(ended["finishedAt"])
    return None
