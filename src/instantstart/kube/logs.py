"""Following a container's log: through rotation, torn streams and restarts, without a line twice (case 78).

The API ends a followed log when the file is rotated or the container ends, and cuts it when it likes. Each line carries its time
(``timestamps=true``), so we go on from the last second seen and drop what was already given.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import httpx2

from instantstart.base import problems
from instantstart.kube import errors
from instantstart.kube.client import KubeCluster, LogQuery
from instantstart.kube.connection import CONNECT_SECONDS
from instantstart.kube.shapes import ContainerStatus, Pod, pod

#: A followed log may be silent for long; this only bounds how late a dead socket is noticed (real seconds).
SILENCE_SECONDS = 120.0
AGAIN_SECONDS = 1.0


@dataclass(frozen=True)
class Line:
    """One line of a container. ``at`` is RFC 3339 as the node wrote it."""

    at: str
    text: str


@dataclass(frozen=True)
class Note:
    """Something that is no line: the container restarted, ended, or its pod is gone."""

    text: str
    ended: bool = False


@dataclass
class _Place:
    """How far we are: the last time seen, and the texts given at that very time."""

    at: str = ""
    texts: tuple[str, ...] = ()
    restarts: int = -1

    def take(self, line: Line) -> bool:
        """Whether a line is new; times are RFC 3339 with nanoseconds in UTC, so they sort as text."""
        if line.at < self.at or (line.at == self.at and line.text in self.texts):
            return False
        self.texts = (*self.texts, line.text) if line.at == self.at else (line.text,)
        self.at = line.at
        return True


async def follow(cluster: KubeCluster, pod_name: str, namespace: str, query: LogQuery | None = None) -> AsyncIterator[Line | Note]:
    """The lines of a container as they come, and Notes; ends after a Note with ``ended``.

    Raises NotFound when there is no such pod at the start, Invalid when its container has no log and never will.
    """
    query = replace(query or LogQuery(), timestamps=True)
    place = _Place()
    async with cluster.connection.open_async() as http:
        found = await asyncio.to_thread(cluster.get, "Pod", pod_name, namespace)
        while True:
            status = _container(pod(found), query.container)
            for note in _restarted(place, status):
                yield note
            if status is not None and status.state.waiting is None:
                async for line in _stream(cluster, http, (pod_name, namespace), _from(place, query)):
                    if place.take(line):
                        yield line
            again = await asyncio.to_thread(cluster.find, "Pod", pod_name, namespace)
            end = _end(again, found, query.container)
            if end is not None:
                yield end
                return
            found = again or found
            await asyncio.sleep(AGAIN_SECONDS)


def _from(place: _Place, query: LogQuery) -> LogQuery:
    """The query that goes on where we are."""
    return replace(query, since_time=place.at, tail_lines=None, since_seconds=None) if place.at else query


async def _stream(cluster: KubeCluster, http: httpx2.AsyncClient, named: tuple[str, str], query: LogQuery) -> AsyncIterator[Line]:
    """One followed answer; a torn one just ends, as the caller looks at the pod and goes on."""
    path = cluster.kinds.resolve("Pod").path(named[1], named[0], "log")
    call = cluster.connection.call("GET", path)
    timeout = httpx2.Timeout(CONNECT_SECONDS, read=SILENCE_SECONDS)
    try:
        async with http.stream("GET", path, params=query.params() | {"follow": "true"}, timeout=timeout) as response:
            if response.status_code >= 400:
                problem = errors.from_response(response.status_code, await response.aread(), response.headers, call)
                if isinstance(problem, (problems.Busy, problems.NotFound)):
                    return
                raise problem
            async for text in response.aiter_lines():
                at, _, rest = text.partition(" ")
                yield Line(at, rest)
    except (httpx2.ReadError, httpx2.ReadTimeout, httpx2.RemoteProtocolError):
        return
    except httpx2.RequestError as error:
        raise errors.from_transport(error, call) from error


def _container(found: Pod, name: str | None) -> ContainerStatus | None:
    """The status of the named container, or of the only one; None while the kubelet has not said anything."""
    statuses = [*found.status.init_container_statuses, *found.status.container_statuses]
    if name is None:
        return found.status.container_statuses[0] if found.status.container_statuses else None
    return next((s for s in statuses if s.name == name), None)


def _restarted(place: _Place, status: ContainerStatus | None) -> list[Note]:
    if status is None:
        return []
    before, place.restarts = place.restarts, status.restart_count
    if before < 0 or status.restart_count == before:
        return []
    return [Note(f"The container {status.name} was restarted (restart {status.restart_count}).")]


def _end(again: dict[str, object] | None, before: dict[str, object], container: str | None) -> Note | None:
    """Why there will be no more lines, or None when there may be."""
    if again is None:
        return Note("The pod is gone.", ended=True)
    now, then = pod(again), pod(before)
    if now.metadata.uid != then.metadata.uid:
        return Note("The pod was replaced by another of the same name.", ended=True)
    if now.status.phase not in ("Succeeded", "Failed"):
        return None
    status = _container(now, container)
    terminated = (status.state.terminated if status else None) or {}
    code = terminated.get("exitCode")
    reason = f" ({terminated['reason']})" if terminated.get("reason") else ""
    told = f" with exit code {code}{reason}" if code is not None else ""
    return Note(f"The container ended{told}.", ended=True)
