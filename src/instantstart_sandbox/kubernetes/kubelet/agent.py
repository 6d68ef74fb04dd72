"""The kubelets of all nodes as one controller: each look moves a pod by the steps that its time has come for."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable

from ..errors import ApiError
from ..loops.engine import Controller, Engine
from ..loops.objects import (
    Object,
    condition_of,
    deleting,
    key_of,
    labels_of,
    name_of,
    namespace_of,
    pod_finished,
    pod_ready,
    seconds_of,
    spec_of,
    stamp,
    status_of,
    uid_of,
    with_condition,
)
from ..loops.service import backends, container_port, service_port
from . import agents, facts, hooks, mounts, processes, programs, state
from .behaviour import behaviour_of, image_problem, pull_seconds, resumed, runs_process, starts_before
from .environment import ConfigError
from .probes import Prober, probed
from .processes import StartError
from .runtime import Run, Runtime

_CACHED_PULL_SECONDS = 0.5
_START_SECONDS = 0.5
_MOUNT_RETRY_SECONDS = 15.0
_NETWORK_RETRY_SECONDS = 2.0
_BUCKET_KEPT_SECONDS = 30.0


def answers(node: Object) -> bool:
    """Whether there is a kubelet: HyperPod's nodes have one while their instance runs, a Node that somebody just wrote has none."""
    hyperpod = labels_of(node).get("sagemaker.amazonaws.com/compute-type") == "hyperpod"
    return hyperpod and (condition_of(node, "Ready") or {}).get("status") != "Unknown"


class Kubelet(Controller):
    """Runs every pod that is bound to a node which answers."""

    name = "kubelet"
    watched = ("pods",)

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.runtime = Runtime(engine.cluster, engine.now, lambda key: engine.enqueue(self, key))
        self._prober = Prober(self.runtime, self._unhealthy, lambda key: engine.enqueue(self, key))
        self._images: dict[str, set[str]] = {}
        self._turns: dict[str, int] = {}
        self._buckets: dict[str, tuple[bool, float]] = {}
        self._agents = engine.cluster.agents
        self._agents.poke = lambda key: engine.enqueue(self, key)
        engine.cluster.on_stop(self.runtime.stop_all)
        engine.cluster.backend = self.backend

    def begin(self) -> None:
        """Kill what an earlier sandbox that was killed itself has left running."""
        processes.kill_leftovers(self.cluster.data_dir)
        self._tell_time()
        self.cluster.clock.changed.add(self._tell_time)
        self.cluster.on_stop(lambda: self.cluster.clock.changed.discard(self._tell_time))

    def _tell_time(self) -> None:
        """Let processes know how the virtual time stands. Called from any thread."""
        facts.write_clock(self.cluster)

    def keys(self, resource: str, obj: Object) -> Iterable[str]:
        """Every pod with a node."""
        return [key_of(obj)] if spec_of(obj).get("nodeName") else []

    async def reconcile(self, key: str) -> None:
        """One look at one pod."""
        pod = self.cache.get("pods", key)
        if pod is None:
            self._forget(key)
            return
        node = self.cache.get("nodes", spec_of(pod).get("nodeName") or "")
        if node is None or not answers(node):
            return
        if deleting(pod):
            await self._terminate(key, pod)
        elif not pod_finished(pod):
            await self._live(key, pod, node)

    def _forget(self, key: str) -> None:
        body = self.runtime.bodies.get(key)
        if body is not None:
            self._buckets = {k: v for k, v in self._buckets.items() if not k.startswith(body.uid)}
            self._agents.forget(body.uid)
            self.engine.forget(("terminate", body.uid), *((w, f"{body.uid}/{c}") for w in ("pull", "pull-failed") for c in body.containers))
        self.runtime.remove(key)

    async def backend(self, kind: str, namespace: str, name: str, port: str) -> tuple[str, int] | None:
        """Where a pod's process listens: its container port on this machine. A Service leads to its ready pods with a process, in turn."""
        if kind == "services":
            service = self.cluster.read("services", name, namespace)
            pods = backends(service, self.cache.all("pods", namespace)) if service else []
            wanted = [(p, n) for p in pods if pod_ready(p) and (n := service_port(service or {}, p, port)) is not None]
        else:
            pod = self.cache.get("pods", f"{namespace}/{name}")
            wanted = [(pod, n)] if pod is not None and (n := container_port(pod, port)) is not None else []
        if kind == "services" and wanted:
            turn = self._turns[f"{namespace}/{name}"] = (self._turns.get(f"{namespace}/{name}", -1) + 1) % len(wanted)
            wanted = wanted[turn:] + wanted[:turn]
        queries = self.cluster.measures.address
        if queries is not None and any(programs.queries(pod) and status_of(pod).get("phase") == "Running" for pod, _ in wanted):
            return queries
        found = (self.runtime.address(key_of(pod), number) for pod, number in wanted)
        return next((address for address in found if address is not None), None)

    async def _unhealthy(self, pod: Object, reason: str, message: str) -> None:
        await self.event(pod, reason, message, warning=True)

    # ------------------------------------------------------------------ life

    async def _live(self, key: str, pod: Object, node: Object) -> None:
        status = status_of(pod)
        if not status.get("startTime"):
            pod = await self._admit(pod)
            status = status_of(pod)
        limit = spec_of(pod).get("activeDeadlineSeconds")
        if limit is not None:
            left = seconds_of(status["startTime"]) + float(limit) - self.now()
            if left <= 0:
                await self._deadline(key, pod)
                return
            self.later(left, key)
        if not await self._network(key, pod, node) or not await self._mount(key, pod):
            return
        began, now = {c["name"]: c for c in status.get("containerStatuses") or []}, self.now()
        first = {c["name"]: c for c in status.get("initContainerStatuses") or []}
        # a container may ask for its pod's address before it is written
        placed = {**pod, "status": {**status, **state.identity(pod, node)}}
        initial, initialized = await self._initial(key, placed, first)
        main = []
        for container in spec_of(pod)["containers"]:
            before = began.get(container["name"]) or state.fresh(container)
            main.append(await self._step(key, placed, container, before) if initialized else self._held(pod, before))
        phase = state.phase_of(pod, initial, main)
        sandbox = {"type": "PodReadyToStartContainers", "status": "True"}
        conditions = with_condition(state.conditions_of(pod, initialized, main, (phase, now)), sandbox, now)
        wanted = {**state.identity(pod, node), "phase": phase, "conditions": conditions, "containerStatuses": main}
        if initial:
            wanted["initContainerStatuses"] = initial
        # the API server fills in empty times: they are no difference
        known = {**pod, "status": {**status, "conditions": state.without_empty(status.get("conditions") or [])}}
        await self.engine.write_status("pods", known, wanted, self.client)

    async def _admit(self, pod: Object) -> Object:
        now = self.now()
        waiting = [state.fresh(c) for c in spec_of(pod)["containers"]]
        conditions = state.conditions_of(pod, not spec_of(pod).get("initContainers"), waiting, ("Pending", now))
        fields = {
            "phase": "Pending",
            "startTime": stamp(now),
            "conditions": with_condition(conditions, {"type": "PodReadyToStartContainers", "status": "False"}, now),
            "containerStatuses": waiting,
        }
        return await self.client.status("pods", name_of(pod), fields, namespace_of(pod))

    def _held(self, pod: Object, before: Object) -> Object:
        return state.waiting(before, "PodInitializing") if not before["lastState"] else before

    async def _initial(self, key: str, pod: Object, before: dict[str, Object]) -> tuple[list[Object], bool]:
        """The init containers' statuses, and whether they are all done."""
        found, going = [], True
        for container in spec_of(pod).get("initContainers") or []:
            status = before.get(container["name"]) or state.waiting(state.fresh(container), "PodInitializing")
            if going and state.exit_code(status) != 0:
                status = await self._step(key, pod, container, status, initial=True)
            done = state.exit_code(status) == 0
            if done:
                status = {**status, "ready": True}
            going = going and (done or (state.sidecar(container) and bool(status["started"])))
            found.append(status)
        return found, going

    # ------------------------------------------------------------------ one container

    async def _step(self, key: str, pod: Object, container: Object, status: Object, initial: bool = False) -> Object:
        if state.is_running(status):
            status = await self._running(key, pod, container, status, initial)
        if (code := state.exit_code(status)) is not None:
            if not state.restarts_again(pod, container, code, initial):
                return status
            status = await self._restart(pod, container, status)
        if "waiting" in status["state"]:
            status = await self._waiting(key, pod, container, status, initial)
        return status

    async def _running(self, key: str, pod: Object, container: Object, status: Object, initial: bool) -> Object:
        name, now = container["name"], self.now()
        run = self.runtime.body(key, pod).runs.get(name) or self._resume(key, pod, status, initial)
        if run is not None:
            run.speak(now)
        end = run.result(now) if run is not None else (255, "Unknown")
        if not initial and self._agents.hold(pod, name) and await self._agent(pod, container, run, end):
            return status
        if end is not None or run is None:
            self._drop(key, pod, name)
            return state.terminated(status, *(end or (255, "Unknown")), now)
        if (left := run.left(now)) is not None:
            self.later(left, key)
        if run.process is not None and probed(container):
            return await self._judged(pod, container, status, run)
        wait = run.began + state.ready_delay(container) - now
        if wait > 0:
            self.later(wait, key)
        return {**status, "ready": wait <= 0 and run.behaviour.kind != "unready"}

    def _resume(self, key: str, pod: Object, status: Object, initial: bool) -> Run | None:
        """Take up a container that ran before the sandbox was started again."""
        name, began = status["name"], seconds_of(status["state"]["running"]["startedAt"])
        if self._agents.hold(pod, name):
            began = agents.began(self.runtime.read, pod, began)
        return self.runtime.resume(key, pod, name, began, resumed(pod, name, initial, self._start_number(pod, status)))

    def _start_number(self, pod: Object, status: Object) -> int:
        """How many starts went before this one."""
        own = int(status["restartCount"]) + int(bool(status["lastState"]))
        if self._agents.hold(pod, status["name"]) and (count := agents.restarts(self.runtime.read, pod)) is not None:
            return max(own, count - starts_before(pod))
        return own

    async def _agent(self, pod: Object, container: Object, run: Run | None, end: tuple[int, str] | None) -> bool:
        """Whether the agent of a training pod keeps its container running: it restarts the processes, or waits for a word about them."""
        told, now = self._agents.is_told(pod), self.now()
        if told and run is not None and end is None and run.process is not None:
            self.runtime.stop(run, hard=True)
            return True
        if told:
            self._drop(key_of(pod), pod, container["name"])
            number = self._start_number(pod, state.fresh(container))
            self._agents.begun(pod)
            try:
                await self.runtime.start(key_of(pod), pod, container, behaviour_of(pod, container["name"], False, number), again=True)
            except (ConfigError, StartError, ValueError, mounts.MountError) as error:
                await self.event(pod, "Failed", f"Error: {error}", warning=True)
                self._agents.report(pod, agents.Ended(128, "StartError", now))
            self.engine.enqueue(self, key_of(pod))
            return True
        if end is None or end[0] == 0 or self._agents.is_released(pod):
            return False
        self._agents.report(pod, agents.Ended(*end, now))
        return True

    async def _judged(self, pod: Object, container: Object, status: Object, run: Run) -> Object:
        """The status of a process as its probes see it; one that fails them is stopped, softly at first."""
        now, key = self.now(), key_of(pod)
        verdict = self._prober.look(pod, container, run, now)
        if verdict.kill:
            limit = (container.get("livenessProbe") or {}).get("terminationGracePeriodSeconds") or state.grace_of(pod)
            if run.stopping is None:
                run.stopping = now
                await self.event(pod, "Killing", verdict.kill)
                self.runtime.stop(run, hard=False)
            elif now >= run.stopping + float(limit):
                self.runtime.stop(run, hard=True)
            self.later(max(run.stopping + float(limit) - now, _START_SECONDS), key)
        elif verdict.wait is not None:
            self.later(verdict.wait, key)
        return {**status, "started": verdict.started, "ready": verdict.ready and not verdict.kill and run.behaviour.kind != "unready"}

    def _drop(self, key: str, pod: Object, name: str) -> None:
        run = self.runtime.body(key, pod).runs.pop(name, None)
        if run is not None:
            run.log.close()

    async def _restart(self, pod: Object, container: Object, status: Object) -> Object:
        wait = state.backoff_seconds(int(status["restartCount"]))
        if wait <= 0:
            return state.restarting(status, "ContainerCreating", "")
        text = state.backoff_text(pod, container["name"], wait)
        told = f"Back-off restarting failed container {container['name']} in pod {name_of(pod)}_{namespace_of(pod)}({uid_of(pod)})"
        await self.event(pod, "BackOff", told, warning=True)
        return state.restarting(status, "CrashLoopBackOff", text)

    async def _waiting(self, key: str, pod: Object, container: Object, status: Object, initial: bool) -> Object:
        ended = (status["lastState"].get("terminated") or {}).get("finishedAt")
        if status["state"]["waiting"].get("reason") == "CrashLoopBackOff" and ended:
            left = seconds_of(ended) + state.backoff_seconds(int(status["restartCount"])) - self.now()
            if left > 0:
                self.later(left, key)
                return status
        problem = image_problem(pod, container["image"])
        if problem is not None:
            return await self._no_image(key, pod, container, status, problem)
        if not await self._pulled(key, pod, container):
            return status
        return await self._start(key, pod, container, status, initial)

    async def _no_image(self, key: str, pod: Object, container: Object, status: Object, problem: tuple[str, str]) -> Object:
        reason, message = problem
        image, what = container["image"], ("pull-failed", f"{uid_of(pod)}/{container['name']}")
        if reason != "ErrImagePull":
            await self.event(pod, "InspectFailed", message, warning=True)
            return state.waiting(status, reason, message)
        began, now = self.engine.first_seen(what), self.now()
        if now - began < state.FIRST_BACKOFF_SECONDS:
            if now == began:
                await self.event(pod, "Pulling", f'Pulling image "{image}"')
                await self.event(pod, "Failed", f'Failed to pull image "{image}": {message}', warning=True)
                await self.event(pod, "Failed", "Error: ErrImagePull", warning=True)
            self.later(began + state.FIRST_BACKOFF_SECONDS - now, key)
            return state.waiting(status, reason, message)
        if status["state"]["waiting"].get("reason") != "ImagePullBackOff":
            await self.event(pod, "BackOff", f'Back-off pulling image "{image}"')
            await self.event(pod, "Failed", "Error: ImagePullBackOff", warning=True)
        return state.waiting(status, "ImagePullBackOff", f'Back-off pulling image "{image}": ErrImagePull: {message}')

    async def _pulled(self, key: str, pod: Object, container: Object) -> bool:
        """Whether the image is on the node; pulling takes its time once for each node."""
        node, image = spec_of(pod)["nodeName"], container["image"]
        present = image in self._images.setdefault(node, set())
        what = ("pull", f"{uid_of(pod)}/{container['name']}")
        began, now = self.engine.first_seen(what), self.now()
        seconds = _CACHED_PULL_SECONDS if present else pull_seconds(pod)
        if now == began and not present:
            await self.event(pod, "Pulling", f'Pulling image "{image}"')
        if now < began + seconds:
            self.later(began + seconds - now, key)
            return False
        if not present:
            took = f"{seconds:g}s"
            await self.event(pod, "Pulled", f'Successfully pulled image "{image}" in {took} ({took} including waiting).')
        self._images[node].add(image)
        return True

    async def _start(self, key: str, pod: Object, container: Object, status: Object, initial: bool) -> Object:
        name = container["name"]
        try:
            await self.runtime.start(key, pod, container, behaviour_of(pod, name, initial, self._start_number(pod, status)))
        except ConfigError as error:
            self.later(_MOUNT_RETRY_SECONDS, key)
            await self.event(pod, "Failed", f"Error: {error}", warning=True)
            return state.waiting(status, "CreateContainerConfigError", str(error))
        except (StartError, ValueError, mounts.MountError) as error:
            await self.event(pod, "Failed", f"Error: {error}", warning=True)
            failed = state.terminated(state.running(status, self.now(), ""), 128, "StartError", self.now())
            failed["state"]["terminated"]["message"] = str(error)
            failed["restartCount"] = int(status["restartCount"]) + int(bool(status["lastState"]))
            self.later(_START_SECONDS, key)
            return failed
        again = bool(status["lastState"])
        await self.event(pod, "Created", f"Created container: {name}")
        await self.event(pod, "Started", f"Started container {name}")
        count = int(status["restartCount"]) + int(again)
        seed = f"{uid_of(pod)}/{name}/{count}"
        status = state.running({**status, "restartCount": count}, self.now(), hashlib.sha256(seed.encode()).hexdigest())
        return await self._running(key, pod, container, status, initial)

    # ------------------------------------------------------------------ network and volumes

    def _begun(self, key: str, pod: Object) -> bool:
        """Whether a container of the pod runs or has run."""
        statuses = status_of(pod).get("containerStatuses") or []
        return bool(self.runtime.body(key, pod).runs) or any(state.is_running(c) or c["lastState"] for c in statuses)

    async def _network(self, key: str, pod: Object, node: Object) -> bool:
        """Whether the pod can have an address: the node's CNI must run, unless the pod uses the host's network."""
        ready = condition_of(node, "Ready") or {}
        if spec_of(pod).get("hostNetwork") or ready.get("status") == "True" or self._begun(key, pod):
            return True
        await self.event(pod, "NetworkNotReady", f"network is not ready: {ready.get('message', '')}", warning=True)
        self.later(_NETWORK_RETRY_SECONDS, key)
        return False

    async def _mount(self, key: str, pod: Object) -> bool:
        if self._begun(key, pod):
            return True
        try:
            if not self._volumes_there(key, pod):
                return False
            self.runtime.folders(key, pod)
        except mounts.MountError as error:
            await self.event(pod, "FailedMount", str(error), warning=True)
            self.later(_MOUNT_RETRY_SECONDS, key)
            return False
        return True

    def _volumes_there(self, key: str, pod: Object) -> bool:
        """Whether everything is known about the volumes; MountError when one cannot be mounted."""

        def read(resource: str, name: str, namespace: str) -> Object | None:
            return self.cluster.read(resource, name, namespace or None)

        for volume in spec_of(pod).get("volumes") or []:
            kept = mounts.persistent_volume(read, pod, volume)
            if kept is None:
                continue
            mounts.check_driver(read, kept, self.cache.pods_on(spec_of(pod)["nodeName"]))
            bucket, file_system = mounts.bucket_of(kept), mounts.file_system_of(kept)
            source = bucket or file_system
            if source is None:
                continue
            asked = f"{uid_of(pod)}/{source}"
            known = self._buckets.get(asked)
            if known is None or known[1] + _BUCKET_KEPT_SECONDS < self.now():
                ask = self.cluster.aws.bucket_exists if bucket else self.cluster.aws.file_system_ready
                self.cluster.start(self._ask_source(pod, asked, ask, source), name=f"volume {source}")
                return False
            if not known[0]:
                raise mounts.no_bucket(kept, bucket) if bucket else mounts.no_file_system(kept, source)
        return True

    async def _ask_source(self, pod: Object, asked: str, ask: Callable[[str], bool], source: str) -> None:
        there = await self.cluster.ask_aws(ask, source)
        if there and runs_process(pod):
            await self.runtime.fetch(pod)
        self._buckets[asked] = (there, self.now())
        self.engine.enqueue(self, key_of(pod))

    # ------------------------------------------------------------------ death

    async def _terminate(self, key: str, pod: Object) -> None:
        runs, now = self.runtime.body(key, pod).runs, self.now()
        asked = self.engine.first_seen(("terminate", uid_of(pod)))
        left = asked + state.grace_of(pod) - now
        for name, run in list(runs.items()):
            if run.result(now) is not None:
                continue
            hook = min(hooks.pre_stop_seconds(pod, name), state.grace_of(pod))
            if run.stopping is None and now < asked + hook:
                self.later(asked + hook - now, key)
            elif run.stopping is None:
                run.stopping = now
                await self.event(pod, "Killing", f"Stopping container {name}")
                self.runtime.stop(run, hard=state.grace_of(pod) <= 0)
            elif left <= 0 and hooks.may_kill(run, state.grace_of(pod)):
                self.runtime.stop(run, hard=True)
        busy = [r for r in runs.values() if r.result(now) is None]
        if busy:
            waits = [w for r in busy if (w := r.left(now)) is not None]
            self.later(min([*waits, max(left, 0.5)]), key)
            return
        await self._bury(key, pod)

    async def _bury(self, key: str, pod: Object) -> None:
        """Say how the containers ended, then let the object go (finalizers may keep it a while)."""
        if not pod_finished(pod):
            await self._final(key, pod, {})
        try:
            await self.client.delete("pods", name_of(pod), namespace_of(pod), grace=0)
        except ApiError as error:
            if error.code != 404:
                raise

    async def _final(self, key: str, pod: Object, fields: Object) -> None:
        runs, now, ended = self.runtime.body(key, pod).runs, self.now(), []
        for status in status_of(pod).get("containerStatuses") or []:
            if state.exit_code(status) is None and state.is_running(status):
                run = runs.get(status["name"])
                code, reason = (run.result(now) if run else None) or (137, "Error")
                status = state.terminated(status, code, reason, now)
            ended.append(status)
        good = bool(ended) and all(state.exit_code(s) == 0 for s in ended)
        phase = "Succeeded" if good else "Failed"
        conditions = state.conditions_of(pod, True, ended, (phase, now))
        wanted = {"phase": phase, "containerStatuses": ended, "conditions": conditions, **fields}
        await self.engine.write_status("pods", pod, wanted, self.client)

    async def _deadline(self, key: str, pod: Object) -> None:
        for run in self.runtime.body(key, pod).runs.values():
            self.runtime.stop(run, hard=True)
        text = "Pod was active on the node longer than the specified deadline"
        await self.event(pod, "DeadlineExceeded", text)
        await self._final(key, pod, {"reason": "DeadlineExceeded", "message": text})
