"""The controller of HyperPodPyTorchJob: makes the pods, watches over them, spends the recovery budget, ends the job.

A job goes Created, PodsRunning, Running; a fault makes it Faulted until all pods run again and their processes are started anew; then it
is Running with "The fault of reason X was remediated in N milliseconds.". It ends Completed or Failed, or rests Suspended.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import ApiError
from ..kubelet.behaviour import STARTS
from ..loops.engine import Engine
from ..loops.objects import (
    Object,
    condition_of,
    controller_of,
    deleting,
    is_true,
    labels_of,
    name_of,
    namespace_of,
    pod_finished,
    seconds_of,
    spec_of,
    stamp,
    status_of,
    uid_of,
    with_condition,
)
from ..operating import OperatorLoop
from . import elastic, faults, rules
from .budget import END, FULL, judge, run_policy
from .definition import JOBS, KIND
from .monitoring import Monitor
from .pods import LABEL, Place, build, master_port, places

#: From the fault to the restart of the processes: what the operator needs to stop and start them.
_REMEDY_SECONDS = 5.0
#: From the last pod that runs to a job that is Running: the agents' handshake.
_HANDSHAKE_SECONDS = 2.0
_POLL_SECONDS = 10.0
_RETRY_SECONDS = 15.0


class TrainingJobs(OperatorLoop):
    """Keys are jobs."""

    name = "hyperpod-pytorch-job-controller"
    kinds = (JOBS,)
    manager = ("aws-hyperpod", {"hp-training-control-plane": "hp-training-operator-controller"})

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._agents = engine.cluster.agents
        self._agents.listener = lambda key: engine.enqueue(self, key)
        self._monitors: dict[str, Monitor] = {}

    def concerned(self, resource: str, obj: Object) -> Iterable[str]:
        """The job of a pod, the jobs with pods on a node."""
        pods = [obj] if resource == "pods" else self.cache.pods_on(name_of(obj))
        owners = ((p, controller_of(p)) for p in pods if LABEL in labels_of(p))
        return [f"{namespace_of(p)}/{o['name']}" for p, o in owners if o and o["kind"] == KIND]

    async def look(self, key: str) -> None:
        """One look at one job."""
        job = self.cache.get(JOBS, key)
        if job is None or deleting(job):
            self._monitors.pop(key, None)
            return
        pods = sorted(self.cache.owned("pods", uid_of(job)), key=name_of)
        if is_true(job, "Completed") or is_true(job, "Failed"):
            await self._after(key, job, pods)
        elif run_policy(job).get("suspend"):
            await self._suspend(job, pods)
        elif not await self._overdue(key, job, pods):
            await self._advance(key, await self._begin(job), pods)

    # ------------------------------------------------------------------ states

    async def _tell(self, job: Object, conditions: list[Object], **fields: object) -> None:
        wanted = list(status_of(job).get("conditions") or [])
        for condition in conditions:
            if condition["status"] == "True" and not is_true({"status": {"conditions": wanted}}, condition["type"]):
                # what has become true goes last: that is the job's phase
                wanted = [c for c in wanted if c["type"] != condition["type"]]
            wanted = with_condition(wanted, {**condition, "lastProbeTime": stamp(self.now())}, self.now())
        await self.engine.write_status(JOBS, job, {"conditions": wanted, **fields}, self.client)

    async def _begin(self, job: Object) -> Object:
        if status_of(job).get("startTime"):
            return job
        told = rules.faults(run_policy(job).get("logMonitoringConfiguration") or [])
        resumed = [{"type": "Suspended", "status": "False"}] if is_true(job, "Suspended") else []
        await self._tell(job, [{"type": "Created", "status": "True"}, *resumed], startTime=stamp(self.now()), restartCount=0)
        await self.event(job, "Created", "Created by HyperPod Training Operator controller")
        fresh = self.cache.get(JOBS, f"{namespace_of(job)}/{name_of(job)}") or job
        if not told:
            return fresh
        await self._fail(fresh, [], "InvalidSpec", "; ".join(told))
        return self.cache.get(JOBS, f"{namespace_of(job)}/{name_of(job)}") or fresh

    async def _advance(self, key: str, job: Object, pods: list[Object]) -> None:
        if is_true(job, "Failed"):
            return
        wanted = places(job)
        if is_true(job, "Faulted"):
            await self._remedy(key, job, pods, wanted)
            return
        if wanted and len(pods) >= len(wanted) and all(status_of(p).get("phase") == "Succeeded" for p in pods):
            await self._complete(job, pods)
            return
        begun = is_true(job, "Running")
        present = {name_of(p) for p in pods}
        gone = [n for p in wanted if (n := p.name(job)) not in present] if begun else []
        fault = faults.find(pods, gone, self._node, self._agents) or self._silent(key, job, pods, begun)
        if fault is not None:
            await self._fault(job, pods, fault)
        elif await self._fill(key, job, pods, wanted) and not begun:
            await self._run(key, job, pods)

    def _node(self, name: str) -> Object | None:
        return self.cache.get("nodes", name)

    async def _run(self, key: str, job: Object, pods: list[Object]) -> None:
        """PodsRunning, then Running."""
        if any(status_of(p).get("phase") not in ("Running", "Succeeded") for p in pods):
            return
        running = condition_of(job, "PodsRunning") or {}
        if running.get("status") != "True":
            await self._tell(job, [{"type": "PodsRunning", "status": "True"}])
            self.later(_HANDSHAKE_SECONDS, key)
            return
        left = seconds_of(running["lastTransitionTime"]) + _HANDSHAKE_SECONDS - self.now()
        if left > 0:
            self.later(left, key)
            return
        await self._tell(job, [{"type": "Running", "status": "True", "reason": "Running", "message": ""}])
        await self.event(job, "Running", "The job is running")

    # ------------------------------------------------------------------ pods

    async def _fill(self, key: str, job: Object, pods: list[Object], wanted: list[Place]) -> bool:
        """Make what is missing; whether all is there."""
        present = {name_of(p): p for p in pods}
        surplus = [p for n, p in present.items() if n not in {w.name(job) for w in wanted} and not deleting(p)]
        await self._delete(surplus, force=False)
        missing = [p for p in wanted if p.name(job) not in present]
        if any(self.cache.get("pods", f"{namespace_of(job)}/{p.name(job)}") for p in missing):
            self.later(_POLL_SECONDS, key)  # a pod of that name, of somebody else or on its way out
            return False
        for place in missing:
            try:
                await self.client.create("pods", build(job, place, self._master(job, wanted), len(wanted)))
            except ApiError as error:
                await self.event(job, "FailedCreate", f"Error creating pod {place.name(job)}: {error.message}", warning=True)
                self.later(_RETRY_SECONDS, key)
                return False
        if wanted and (missing or not status_of(job).get("masterAddr")):
            fresh = sorted(self.cache.owned("pods", uid_of(job)), key=name_of)
            listed = [
                {"apiVersion": "v1", "kind": "Pod", "name": name_of(p), "namespace": namespace_of(p), "uid": uid_of(p)} for p in fresh
            ]
            await self._tell(job, [], masterAddr=self._master(job, wanted), masterPort=master_port(job), jobPods=listed)
        return not missing and not surplus

    def _master(self, job: Object, wanted: list[Place]) -> str:
        """The address of rank 0's pod, "" before it is made. It is the pod's for life, so that it is known before the pod runs."""
        first = self.cache.get("pods", f"{namespace_of(job)}/{wanted[0].name(job)}")
        return self.cluster.pod_address(uid_of(first)) if first is not None else ""

    async def _delete(self, pods: list[Object], *, force: bool) -> None:
        for pod in pods:
            if force or not deleting(pod):
                await self.client.delete("pods", name_of(pod), namespace_of(pod), grace=0 if force else None)

    # ------------------------------------------------------------------ faults

    def _silent(self, key: str, job: Object, pods: list[Object], begun: bool) -> faults.Fault | None:
        """What the log rules say. They count from the moment the job became Running."""
        specs = run_policy(job).get("logMonitoringConfiguration") or []
        if not specs or not begun:
            self._monitors.pop(key, None)
            return None
        began = seconds_of((condition_of(job, "Running") or {}).get("lastTransitionTime"))
        monitor = self._monitors.get(key)
        if monitor is None or monitor.began != began:
            monitor = self._monitors[key] = Monitor(specs, began)
        monitor.take([self.cluster.log_path(namespace_of(p), name_of(p), spec_of(p)["containers"][0]["name"]) for p in pods])
        found = monitor.finding(self.now())
        if found is not None:
            return faults.Fault(found.reason, found.message, pods)
        due = monitor.due()
        self.later(min(_POLL_SECONDS, due - self.now()) if due is not None else _POLL_SECONDS, key)
        return None

    async def _fault(self, job: Object, pods: list[Object], fault: faults.Fault) -> None:
        """Count the fault, say it, and begin to remedy it."""
        await self.event(job, fault.reason, fault.message, warning=True)
        verdict = judge(job, self.now())
        record = fault.record(verdict.kind if verdict.kind != END else FULL)
        if verdict.kind == END:
            await self._tell(job, [], latestFaultyPodInstanceList=record)
            fresh = self.cache.get(JOBS, f"{namespace_of(job)}/{name_of(job)}") or job
            await self._fail(fresh, pods, fault.reason, f"{verdict.why}. Last fault: {fault.message}")
            return
        told = [
            {"type": "Running", "status": "False", "reason": fault.reason, "message": fault.message},
            {"type": "PodsRunning", "status": "False" if fault.lost or verdict.kind == FULL else "True"},
            {"type": "Faulted", "status": "True", "reason": fault.reason, "message": fault.message},
        ]
        await self._tell(job, told, latestFaultyPodInstanceList=record, **verdict.status)
        await self._delete(fault.lost, force=fault.forced)
        if verdict.kind == FULL:
            await self.event(job, "FullJobRestart", "All pods are made anew")
            await self._delete([p for p in pods if p not in fault.lost], force=False)

    async def _remedy(self, key: str, job: Object, pods: list[Object], wanted: list[Place]) -> None:
        """Bring all pods back, then start the processes of those that stayed."""
        faulted = condition_of(job, "Faulted") or {}
        since = seconds_of(faulted.get("lastTransitionTime"))
        limit = run_policy(job).get("faultDeadlineSeconds")
        if limit is not None and self.now() >= since + float(limit):
            await self._fail(job, pods, "FaultDeadlineExceeded", f"The fault was not remediated within {limit} seconds")
            return
        if limit is not None:
            self.later(since + float(limit) - self.now(), key)
        ill = faults.on_ill_nodes(pods, self._node)
        await self._delete(ill, force=True)
        await self._delete([p for p in pods if pod_finished(p)], force=False)
        if await elastic.shrink(self, key, job, pods, since):
            return
        if ill or not await self._fill(key, job, pods, wanted):
            return
        if any(status_of(p).get("phase") != "Running" or deleting(p) for p in pods):
            return
        if self.now() < since + _REMEDY_SECONDS:
            self.later(since + _REMEDY_SECONDS - self.now(), key)
            return
        count = int(status_of(job).get("restartCount") or 0)
        stayed = [p for p in pods if faults.started_after(p, STARTS) < count or uid_of(p) in self._agents.ended]
        took = int((self.now() - since) * 1000)
        told = f"The fault of reason {faulted.get('reason')} was remediated in {took} milliseconds."
        running = [{"type": "Faulted", "status": "False"}, {"type": "PodsRunning", "status": "True"}]
        await self._tell(job, [*running, {"type": "Running", "status": "True", "reason": "Running", "message": told}])
        for pod in stayed:
            self._agents.restart(pod)
        await self.event(job, "Running", told)

    # ------------------------------------------------------------------ endings

    async def _overdue(self, key: str, job: Object, pods: list[Object]) -> bool:
        """Whether a deadline has ended the job."""
        policy, started = run_policy(job), seconds_of(status_of(job).get("startTime"))
        limits = [("DeadlineExceeded", policy.get("activeDeadlineSeconds"), "Job was active longer than specified deadline")]
        if not is_true(job, "Running") and not is_true(job, "Faulted"):
            limits.append(
                ("StartupDeadlineExceeded", policy.get("startupDeadlineSeconds"), "Job did not start within its startup deadline")
            )
        for reason, limit, told in limits:
            if limit is None or not started:
                continue
            if self.now() >= started + float(limit):
                await self._fail(job, pods, reason, f"{told} of {limit} seconds")
                return True
            self.later(started + float(limit) - self.now(), key)
        return False

    async def _complete(self, job: Object, pods: list[Object]) -> None:
        told = {"type": "Completed", "status": "True", "reason": "Completed", "message": "The job has completed."}
        await self._tell(job, [{"type": "Running", "status": "False"}, told], completionTime=stamp(self.now()))
        await self.event(job, "Completed", "The job has completed")

    async def _fail(self, job: Object, pods: list[Object], reason: str, message: str) -> None:
        over = [{"type": kind, "status": "False"} for kind in ("Running", "Faulted") if condition_of(job, kind)]
        told = {"type": "Failed", "status": "True", "reason": reason, "message": message}
        await self._tell(job, [*over, told], completionTime=stamp(self.now()))
        await self.event(job, "Failed", message, warning=True)

    async def _after(self, key: str, job: Object, pods: list[Object]) -> None:
        """cleanPodPolicy, then the time to live."""
        self._monitors.pop(key, None)
        policy = run_policy(job)
        clean = policy.get("cleanPodPolicy") or "All"
        if clean == "All":
            await self._delete(pods, force=False)
        elif clean == "OnlyComplete":
            await self._delete([p for p in pods if status_of(p).get("phase") == "Succeeded"], force=False)
        for pod in pods:
            if uid_of(pod) in self._agents.ended and not self._agents.is_released(pod):
                self._agents.release(pod)
        ttl = int(policy.get("ttlSecondsAfterFinished") or 0)
        if ttl < 0:
            return
        left = seconds_of(status_of(job).get("completionTime")) + ttl - self.now()
        if left > 0:
            self.later(left, key)
        elif not [p for p in pods if clean == "All"]:
            await self.client.delete(JOBS, name_of(job), namespace_of(job))

    async def _suspend(self, job: Object, pods: list[Object]) -> None:
        await self._delete(pods, force=False)
        if is_true(job, "Suspended"):
            return
        first = not status_of(job).get("startTime")
        queue = labels_of(job).get("kueue.x-k8s.io/queue-name")
        where = f" The job will resume when admitted by kueue. See the queue {queue} for details" if queue else ""
        reason, told = (
            ("JobInitiallySuspended", "The job was suspended during its creation.") if first else ("Suspended", "Job is suspended.")
        )
        over = [{"type": kind, "status": "False"} for kind in ("Running", "PodsRunning", "Faulted") if condition_of(job, kind)]
        await self._tell(job, [*over, {"type": "Suspended", "status": "True", "reason": reason, "message": told + where}], startTime=None)
        await self.event(job, reason, told + where)
