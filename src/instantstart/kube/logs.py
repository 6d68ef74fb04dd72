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
from instantstart.kube.connection import CONNECT_SECONDS, Connection
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


@dataclass(frozen=True)
class _End:
    """Why there will be no more lines; ``readable``: those that there are can still be read."""

    text: str
    readable: bool = False


async def follow(cluster: KubeCluster, pod_name: str, namespace: str, query: LogQuery | None = None) -> AsyncIterator[Line | Note]:
    """The lines of a container as they come, and Notes; ends after a Note with ``ended``.

    Raises NotFound when there is no such pod at the start, Denied when its log may not be read.
    """
    async with cluster.connection.open_async() as http:
        path = cluster.kinds.resolve("Pod").path(namespace, pod_name, "log")
        reader = _Reader(cluster.connection, http, path, replace(query or LogQuery(), timestamps=True))
        found = await asyncio.to_thread(cluster.get, "Pod", pod_name, namespace)
        while True:
            async for item in reader.life(pod(found)):
                yield item
            again = await asyncio.to_thread(cluster.find, "Pod", pod_name, namespace)
            end = _end(again, found, reader.query.container)
            if end is not None:
                if end.readable:
                    async for line in reader.lines():  # it may have begun and ended between two looks
                        yield line
                yield Note(end.text, ended=True)
                return
            found = again or found
            await asyncio.sleep(AGAIN_SECONDS)


@dataclass
class _Reader:
    """Reads one container's log from where we are."""

    connection: Connection
    http: httpx2.AsyncClient
    path: str
    query: LogQuery
    at: str = ""
    #: the texts given that bear the very time ``at``
    texts: tuple[str, ...] = ()
    restarts: int | None = None

    async def life(self, found: Pod) -> AsyncIterator[Line | Note]:
        """What there is to say of the container as it was found; returns when its log pauses, tears or ends."""
        status = _container(found, self.query.container)
        if status is None:
            return
        before, self.restarts = self.restarts, status.restart_count
        if before is not None and status.restart_count != before:
            # The life that ended while we were not looking is read first: its last words say why it ended.
            async for line in self.lines(previous=True):
                yield line
            yield Note(f"The container {status.name} was restarted (restart {status.restart_count}).")
        if status.state.waiting is None:
            async for line in self.lines(follow=status.state.terminated is None):
                yield line

    async def lines(self, *, follow: bool = False, previous: bool = False) -> AsyncIterator[Line]:
        """New lines of one answer. A torn one just ends: the caller looks at the pod and goes on. No log has no lines."""
        query = replace(self.query, previous=previous)
        if self.at:
            query = replace(query, since_time=self.at, tail_lines=None, since_seconds=None)
        params = query.params() | ({"follow": "true"} if follow else {})
        call = self.connection.call("GET", self.path)
        try:
            async with self.http.stream(
                "GET", self.path, params=params, timeout=httpx2.Timeout(CONNECT_SECONDS, read=SILENCE_SECONDS)
            ) as response:
                if response.status_code >= 400:
                    problem = errors.from_response(response.status_code, await response.aread(), response.headers, call)
                    if isinstance(problem, (problems.Busy, problems.NotFound, problems.Invalid)):
                        return
                    raise problem
                async for text in response.aiter_lines():
                    at, _, rest = text.partition(" ")
                    if self._is_new(at, rest):
                        yield Line(at, rest)
        except (httpx2.ReadError, httpx2.ReadTimeout, httpx2.RemoteProtocolError):
            return
        except httpx2.RequestError as error:
            raise errors.from_transport(error, call) from error

    def _is_new(self, at: str, text: str) -> bool:
        """Times are RFC 3339 in UTC with nanoseconds, so they sort as text."""
        if at < self.at or (at == self.at and text in self.texts):
            return False
        self.texts = (*self.texts, text) if at == self.at else (text,)
        self.at = at
        return True


def _container(found: Pod, name: str | None) -> ContainerStatus | None:
    """The status of the named container, or of the only one; None while the kubelet has not said anything."""
    statuses = [*found.status.init_container_statuses, *found.status.container_statuses]
    if name is None:
        return found.status.container_statuses[0] if found.status.container_statuses else None
    return next((s for s in statuses if s.name == name), None)


def _end(again: dict[str, object] | None, before: dict[str, object], container: str | None) -> _End | None:
    """Why there will be no more lines, or None when there may be."""
    if again is None:
        return _End("The pod is gone.")
    now, then = pod(again), pod(before)
    if now.metadata.uid != then.metadata.uid:
        return _End("The pod was replaced by another of the same name.")
    if now.status.phase not in ("Succeeded", "Failed"):
        return None
    status = _container(now, container)
    terminated = (status.state.terminated if status else None) or {}
    code = terminated.get("exitCode")
    reason = f" ({terminated['reason']})" if terminated.get("reason") else ""
    told = f" with exit code {code}{reason}" if code is not None else ""
    return _End(f"The container ended{told}.", readable=True)
