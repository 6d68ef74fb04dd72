"""Startup, readiness and liveness probes of containers that are real processes, really made: HTTP, TCP, and a command.

A period, a delay and a threshold count in virtual time; a try may take some real seconds, since the machine behind is real. While a
process is so young in real time that it cannot have come up yet, a refused connection is not held against it.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..loops.objects import Object, key_of
from ..loops.service import container_port

if TYPE_CHECKING:
    from .runtime import Run, Runtime

#: (field of the container, its name in events)
_KINDS = (("startupProbe", "Startup"), ("readinessProbe", "Readiness"), ("livenessProbe", "Liveness"))
#: A process may refuse connections for so many real seconds: starting takes real time however fast the clock runs.
YOUNG_REAL_SECONDS = 3.0
#: A probe's own timeout is virtual and this machine is real: a try is given at least this long.
_LEAST_REAL_SECONDS = 5.0
_FIRST_LINE_BYTES = 4096
Tell = Callable[[Object, str, str], Awaitable[None]]


class ProbeFailedError(Exception):
    """A try that failed; ``refused``: nothing listens."""

    def __init__(self, message: str, refused: bool = False) -> None:
        super().__init__(message)
        self.refused = refused


@dataclass
class Record:
    """What the tries of one probe have said so far. ``passed`` is None until the first verdict."""

    passed: bool | None = None
    good: int = 0
    bad: int = 0
    due: float = 0.0
    trying: bool = False


@dataclass
class Verdict:
    """What the probes of a container say now. ``kill``: why it has to go; ``wait``: virtual seconds until the next try."""

    started: bool
    ready: bool
    kill: str = ""
    wait: float | None = None


@dataclass
class Records:
    """The probes of one run of a container, by field."""

    by_field: dict[str, Record] = field(default_factory=dict)


class Prober:
    """Makes the tries that are due and remembers what they said."""

    def __init__(self, runtime: Runtime, tell: Tell, changed: Callable[[str], None]) -> None:
        self._runtime, self._tell, self._changed = runtime, tell, changed

    def look(self, pod: Object, container: Object, run: Run, now: float) -> Verdict:
        """The present verdict on a process; begins what is due."""
        records, verdict = run.probes.by_field, Verdict(True, True)
        for name, word in _KINDS:
            probe = container.get(name)
            if not probe or (not verdict.started and name != "startupProbe"):
                continue
            record = records.setdefault(name, Record(due=run.began + float(probe.get("initialDelaySeconds") or 0)))
            if name == "startupProbe":
                verdict.started = record.passed is True
            if name == "startupProbe" and verdict.started:
                continue
            if record.passed is False and name != "readinessProbe":
                verdict.kill = f"Container {container['name']} failed {word.lower()} probe, will be restarted"
                return verdict
            if name == "readinessProbe":
                verdict.ready = record.passed is True
            self._due(pod, container, run, (name, now))
            if not record.trying:
                left = max(record.due - now, 0.0)
                verdict.wait = left if verdict.wait is None else min(left, verdict.wait)
        verdict.ready = verdict.ready and verdict.started
        return verdict

    def _due(self, pod: Object, container: Object, run: Run, when: tuple[str, float]) -> None:
        name, now = when
        record = run.probes.by_field[name]
        if record.trying or record.due > now:
            return
        record.trying = True
        self._runtime.background(self._attempt(pod, container, run, name), name=f"{name} of {key_of(pod)}")

    async def _attempt(self, pod: Object, container: Object, run: Run, name: str) -> None:
        probe, record, word = container[name], run.probes.by_field[name], dict(_KINDS)[name]
        try:
            limit = max(float(probe.get("timeoutSeconds") or 1), _LEAST_REAL_SECONDS)
            async with asyncio.timeout(limit):
                await self._try(pod, probe, run)
        except (ProbeFailedError, OSError, TimeoutError) as failure:
            young = time.monotonic() - run.real_began < YOUNG_REAL_SECONDS
            if not (young and getattr(failure, "refused", False)) and run.stopping is None:
                self._count(record, probe, good=False)
                words = str(failure) or "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
                await self._tell(pod, "Unhealthy", f"{word} probe failed: {words}")
        else:
            self._count(record, probe, good=True)
        finally:
            record.trying = False
            record.due = self._runtime.now() + float(probe.get("periodSeconds") or 10)
            self._changed(key_of(pod))

    @staticmethod
    def _count(record: Record, probe: Object, good: bool) -> None:
        record.good, record.bad = (record.good + 1, 0) if good else (0, record.bad + 1)
        if record.good >= int(probe.get("successThreshold") or 1):
            record.passed = True
        elif record.bad >= int(probe.get("failureThreshold") or 3):
            record.passed = False

    async def _try(self, pod: Object, probe: Object, run: Run) -> None:
        if "exec" in probe:
            await _command(run, [str(a) for a in probe["exec"].get("command") or []])
            return
        asked = probe.get("httpGet") or probe.get("tcpSocket") or probe.get("grpc") or {}
        port = container_port(pod, asked.get("port"))
        address = self._runtime.address(key_of(pod), port) if port is not None else None
        shown = f"{self._runtime.own_address(pod)}:{port}"
        if address is None or port is None:
            target = f'Get "http://{shown}{_path(asked)}": ' if "httpGet" in probe else ""
            raise ProbeFailedError(f"{target}dial tcp {shown}: connect: connection refused", refused=True)
        if "httpGet" in probe:
            await _http(address, asked)
        else:
            _, writer = await asyncio.open_connection(*address)
            writer.close()


def _path(asked: Object) -> str:
    path = str(asked.get("path") or "/")
    return path if path.startswith("/") else f"/{path}"


async def _http(address: tuple[str, int], asked: Object) -> None:
    """One GET as the kubelet makes it; its status is from 200 to 399 or ProbeFailedError."""
    context = None
    if asked.get("scheme") == "HTTPS":
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    reader, writer = await asyncio.open_connection(*address, ssl=context)
    try:
        headers = {"Host": f"{address[0]}:{address[1]}", "User-Agent": "kube-probe/1", "Accept": "*/*", "Connection": "close"}
        headers.update({h["name"]: h.get("value", "") for h in asked.get("httpHeaders") or []})
        lines = [f"GET {_path(asked)} HTTP/1.1", *(f"{k}: {v}" for k, v in headers.items()), "", ""]
        writer.write("\r\n".join(lines).encode())
        words = (await reader.readline())[:_FIRST_LINE_BYTES].split()
        code = int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
        if not 200 <= code < 400:
            raise ProbeFailedError(f"HTTP probe failed with statuscode: {code}")
    finally:
        writer.close()


async def _command(run: Run, arguments: list[str]) -> None:
    """A command in the container's own environment; ProbeFailedError unless it ends with 0."""
    if run.command is None or not arguments:
        return
    moved = [run.command.place(a) for a in arguments]
    child = await asyncio.create_subprocess_exec(
        *moved,
        cwd=run.command.folder,
        env=run.command.environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        output, _ = await child.communicate()
    except asyncio.CancelledError:
        child.kill()
        raise
    if child.returncode:
        raise ProbeFailedError(output.decode(errors="replace").strip()[:500] or f"command exited with {child.returncode}")


def probed(container: Object) -> bool:
    """Whether the container has a probe at all."""
    return any(container.get(name) for name, _ in _KINDS)
