"""The containers that run now: a deadline for the simulated ones, a process for the real ones. Memory only.

After a restart of the sandbox simulated containers go on from what their status says; processes have died with it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...programs.hyperpodrun import MOST_RANKS
from ...programs.serving.spoiling import OOM_MARK
from ...world.seams import TrackingWorld
from ..loops.objects import Object, annotations_of, key_of, name_of, namespace_of, spec_of, uid_of
from . import addresses, agents, facts, mounts, processes, programs
from .behaviour import LIKE, OUTPUT, Beat, Behaviour, beat_of
from .buckets import Mounts
from .environment import ConfigError, environment, expand
from .logs import Log
from .probes import Records

if TYPE_CHECKING:
    from ..cluster import Cluster

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: A simulated container stops this long after it was asked to.
_STOP_SECONDS = 1.0
#: The pod's own address, for programs that can choose where they listen.
POD_IP = "INSTANTSTART_SANDBOX_POD_IP"
_KILLED = 137


#: MLflow's own variable; where it was an ARN, that is kept in the other one.
TRACKING, TRACKING_ARN = "MLFLOW_TRACKING_URI", "INSTANTSTART_SANDBOX_MLFLOW_ARN"
#: What a container does whose program is not on this machine.
SIMULATED = Behaviour("sleep")


@dataclass
class Run:
    """One run of one container. ``ends`` is a virtual moment, None while no end is in sight."""

    behaviour: Behaviour
    began: float
    log: Log
    ends: float | None = None
    process: processes.Process | None = None
    stopping: float | None = None
    beat: Beat | None = None
    beats: int = 0
    command: processes.Command | None = None
    real_began: float = field(default_factory=time.monotonic)
    real_stopping: float | None = None
    probes: Records = field(default_factory=Records)
    #: port -> the address at which the process was found to listen
    listens: dict[int, str] = field(default_factory=dict)

    def result(self, now: float) -> tuple[int, str] | None:
        """(exit code, reason) once it is over."""
        if self.process is not None:
            code = self.process.code
            return None if code is None else (code, self._reason(code))
        if self.stopping is not None:
            return (143, "Error") if now >= self.stopping + _STOP_SECONDS else None
        if self.ends is not None and now >= self.ends:
            return self.behaviour.code, self.behaviour.reason
        return None

    def _reason(self, code: int) -> str:
        """Why a process ended; one of our own that plays being killed for its memory leaves a mark."""
        home = self.command.environment["HOME"] if self.command is not None else ""
        if code == _KILLED and home and (Path(home) / OOM_MARK).exists():
            (Path(home) / OOM_MARK).unlink(missing_ok=True)
            return "OOMKilled"
        return "Completed" if code == 0 else "Error"

    def left(self, now: float) -> float | None:
        """Virtual seconds until it ends or writes by itself; None when only an event can tell."""
        if self.process is not None:
            return None
        end = self.stopping + _STOP_SECONDS if self.stopping is not None else self.ends
        moments = [m for m in (end, self._next_beat()) if m is not None]
        return max(min(moments) - now, 0.0) if moments else None

    def _next_beat(self) -> float | None:
        beat, after = self.beat, (self.beats + 1) * (self.beat.every if self.beat else 0.0)
        if beat is None or self.stopping is not None or (beat.until and after > beat.until):
            return None
        return self.began + after

    def speak(self, now: float) -> None:
        """Write the lines whose moment has come."""
        while self.beat is not None and (moment := self._next_beat()) is not None and moment <= now:
            self.beats += 1
            self.log.line(moment, self.beat.text.replace("{n}", str(self.beats)).encode())


@dataclass
class Body:
    """What a pod has on this machine."""

    uid: str
    folder: Path
    containers: tuple[str, ...]
    runs: dict[str, Run] = field(default_factory=dict)


class Runtime:
    """Bodies by pod key."""

    def __init__(self, cluster: Cluster, now: Callable[[], float], changed: Callable[[str], None]) -> None:
        self._cluster, self._now, self._changed = cluster, now, changed
        self.bodies: dict[str, Body] = {}
        self._mounts = Mounts(cluster)

    def body(self, key: str, pod: Object) -> Body:
        """The pod's body; a leftover of an earlier pod of that name is removed first."""
        found = self.bodies.get(key)
        if found is not None and found.uid != uid_of(pod):
            self.remove(key)
            found = None
        if found is None:
            spec = spec_of(pod)
            names = tuple(c["name"] for c in [*spec["containers"], *(spec.get("initContainers") or [])])
            found = self.bodies[key] = Body(uid_of(pod), self._cluster.data_dir / "pods" / uid_of(pod), names)
        return found

    def remove(self, key: str) -> None:
        """Kill what runs and remove the pod's own folders and logs (not what its claims point at)."""
        namespace, _, name = key.partition("/")
        shutil.rmtree(self._cluster.log_path(namespace, name, "any").parent, ignore_errors=True)
        body = self.bodies.pop(key, None)
        if body is None:
            return
        for run in body.runs.values():
            if run.process is not None:
                run.process.signal(signal.SIGKILL)
            run.log.close()
        shutil.rmtree(body.folder, ignore_errors=True)

    def stop_all(self) -> None:
        """Kill every process; folders stay for the next start."""
        for body in self.bodies.values():
            for run in body.runs.values():
                if run.process is not None:
                    run.process.signal(signal.SIGKILL)
                    self._cluster.ending.extend(run.process.tasks)
                run.log.close()

    def has_process(self, key: str) -> bool:
        """Whether a process of the pod runs."""
        body = self.bodies.get(key)
        return body is not None and any(r.process is not None and r.process.code is None for r in body.runs.values())

    def now(self) -> float:
        """Virtual seconds since the epoch."""
        return self._now()

    def background(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run something beside the worker."""
        self._cluster.start(work, name=name)

    @staticmethod
    def own_address(pod: Object) -> str:
        """The pod's loopback address (also of one that uses its host's network)."""
        return addresses.loopback_address(uid_of(pod))

    def address(self, key: str, port: int) -> tuple[str, int] | None:
        """Where a process of the pod takes connections for its ``port``; None when none does."""
        body = self.bodies.get(key)
        runs = [r for r in body.runs.values() if r.process is not None and r.process.code is None] if body else []
        if body is None or not runs:
            return None
        known = next((r.listens[port] for r in runs if port in r.listens), None)
        if known is None:
            marks = frozenset({f"{processes.MARK}={body.folder}".encode()})
            sessions = frozenset(r.process.child.pid for r in runs if r.process is not None)
            known = addresses.listener(addresses.loopback_address(body.uid), marks, sessions, port)
            if known is not None:
                runs[0].listens[port] = known
        return None if known is None else (known, port)

    def count(self) -> int:
        """How many processes run."""
        runs = [r for body in self.bodies.values() for r in body.runs.values()]
        return sum(1 for r in runs if r.process is not None and r.process.code is None)

    async def start(self, key: str, pod: Object, container: Object, behaviour: Behaviour, *, again: bool = False) -> Run:
        """Start a container; ``again`` in the same one, with the same log. StartError, ConfigError or MountError when it cannot be."""
        body, now, name = self.body(key, pod), self._now(), container["name"]
        values = environment(self.read, pod, container)
        command = self._command(body, pod, container, values) if behaviour.kind == "process" else None
        if behaviour.by_table and command is not None:
            words = self._launched(pod, container, command)
            command = replace(command, arguments=words) if words else None
        if command is None and behaviour.kind == "process":
            behaviour = SIMULATED
        log = self._log(pod, name, again)
        run = Run(behaviour, now, log, ends=now + behaviour.seconds if behaviour.kind == "end" else None)
        if command is not None:
            await self._translate(command.environment)
            run.command = command
            run.process = await self._spawn(key, command, log, pod)
        else:
            run.beat = beat_of(pod)
            log.line(now, f"InstantStart sandbox: {container['image']} is not run, this container is simulated".encode())
            for line in filter(None, annotations_of(pod).get(OUTPUT, "").split("\n")):  # a carriage return is part of a line
                log.line(now, line.encode())
        body.runs[name] = run
        return run

    async def _translate(self, environment: dict[str, str]) -> None:
        """An MLflow server named by its ARN, which the SageMaker plugin would find in AWS, is found on this machine."""
        arn, aws = environment.get(TRACKING, ""), self._cluster.aws
        if arn.startswith("arn:") and isinstance(aws, TrackingWorld):
            url = await self._cluster.ask_aws(aws.tracking_url, arn)
            if url is not None:
                environment |= {TRACKING: url, TRACKING_ARN: arn}

    def _launched(self, pod: Object, container: Object, command: processes.Command) -> list[str] | None:
        """The words of the process that a container becomes by the table of programs; None where it is to be simulated."""
        row = programs.row_of(pod, container)
        if row is None:
            return None
        places = tuple(self._places(pod, container).values())
        return row.launch(programs.Asked(container["image"], command.arguments, command.environment, places, command.folder))

    async def _spawn(self, key: str, command: processes.Command, log: Log, pod: Object) -> processes.Process:
        if self.count() >= processes.MOST_PROCESSES:
            raise processes.StartError(f"the sandbox runs at most {processes.MOST_PROCESSES} processes")
        buckets = mounts.bucket_folders(self.read, self._stage(pod, {})[0], self._cluster.data_dir)
        keeping = self._cluster.start(self._mounts.keep(buckets), name=f"buckets of {key}")

        async def flush() -> None:
            keeping.cancel()
            await self._mounts.sync(buckets)

        try:
            return await processes.start(command, log, self._cluster.clock.now, processes.Ending(flush, lambda: self._changed(key)))
        except processes.StartError:
            keeping.cancel()
            raise

    async def fetch(self, pod: Object) -> None:
        """Bring the objects of the pod's buckets into its folders."""
        await self._mounts.sync(mounts.bucket_folders(self.read, pod, self._cluster.data_dir))

    def resume(self, key: str, pod: Object, name: str, began: float, behaviour: Behaviour) -> Run | None:
        """Take up a container that ran before the sandbox was restarted; None for a process, which is lost."""
        if behaviour.kind == "process" and not self._was_simulated(key, pod, name, behaviour):
            return None
        log = Log(self._cluster.log_path(namespace_of(pod), name_of(pod), name))
        run = Run(behaviour, began, log, ends=began + behaviour.seconds if behaviour.kind == "end" else None)
        if (beat := beat_of(pod)) is not None:
            run.beat, run.beats = beat, int(max(self._now() - began, 0.0) // beat.every)
        self.body(key, pod).runs[name] = run
        return run

    def _was_simulated(self, key: str, pod: Object, name: str, behaviour: Behaviour) -> bool:
        """Whether a container of the table had no program here: it goes on as it was."""
        found = next((c for c in spec_of(pod)["containers"] if c["name"] == name), None)
        if found is None or not behaviour.by_table:
            return False
        body = self.body(key, pod)
        try:
            command = self._command(body, pod, found, environment(self.read, pod, found))
            return self._launched(pod, found, command) is None
        except (ConfigError, mounts.MountError):
            return False

    def stop(self, run: Run, hard: bool) -> None:
        """SIGTERM, or SIGKILL; a simulated container obeys after a second."""
        if run.process is not None:
            run.real_stopping = run.real_stopping or time.monotonic()
            run.process.signal(signal.SIGKILL if hard else signal.SIGTERM)
        elif run.stopping is None:
            run.stopping = self._now()

    def read(self, resource: str, name: str, namespace: str) -> Object | None:
        """A present object."""
        return self._cluster.read(resource, name, namespace or None)

    def folders(self, key: str, pod: Object) -> dict[str, Path]:
        """Make and fill the pod's volumes. MountError when one cannot be."""
        return mounts.folders(self.read, pod, self.body(key, pod).folder, self._cluster.data_dir)

    def _log(self, pod: Object, container: str, again: bool) -> Log:
        where = namespace_of(pod), name_of(pod), container
        return Log(self._cluster.log_path(*where), None if again else self._cluster.log_path(*where, previous=True))

    def _stage(self, pod: Object, container: Object) -> tuple[Object, Object]:
        """Whose volumes and environment a process has: its own, or those of the pod that ``like`` names."""
        other = self.read("pods", annotations_of(pod).get(LIKE, ""), namespace_of(pod))
        return (pod, container) if other is None else (other, spec_of(other)["containers"][0])

    def _places(self, pod: Object, container: Object) -> dict[str, Path]:
        stage, _ = self._stage(pod, container)
        return mounts.folders(self.read, stage, self.body(key_of(stage), stage).folder, self._cluster.data_dir)

    def _command(self, body: Body, pod: Object, container: Object, values: dict[str, str]) -> processes.Command:
        stage, model = self._stage(pod, container)
        moves = mounts.moves(model, self._places(pod, container))
        moved = mounts.relocation(moves)
        if stage is not pod:
            values = {**environment(self.read, stage, model), **values}
        home = body.folder / "containers" / container["name"]
        home.mkdir(parents=True, exist_ok=True)
        given = model.get("workingDir") or ""
        working = Path(moved(given)) if given and moved(given) != given else home
        standing = {
            "PATH": programs.search_path(self._cluster.data_dir, os.environ.get("PATH", _PATH)),
            "HOME": str(home),
            "HOSTNAME": spec_of(pod).get("hostname") or name_of(pod),
            "PYTHONUNBUFFERED": "1",
            MOST_RANKS: os.environ.get(MOST_RANKS, "2"),
            # gloo looks up the host's own name, which a pod's is not here
            "GLOO_SOCKET_IFNAME": "lo",
            processes.MARK: str(body.folder),
            mounts.MOUNTED: json.dumps({target: path for path, target in moves}),
            POD_IP: self.own_address(pod),
            **facts.told(self._cluster, pod, container, body.folder),
        }
        arguments = [*(container.get("command") or []), *(container.get("args") or [])]
        return processes.Command(
            [moved(expand(a, values)) for a in arguments],
            {**standing, **{k: moved(v) for k, v in values.items()}, **agents.topology(self.read, pod)},
            working,
            moved,
        )
