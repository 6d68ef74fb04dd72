"""All emulated clusters: one event loop in one thread, one HTTPS listener per cluster. Implements ``KubernetesWorld``."""

from __future__ import annotations

import asyncio
import logging
import re
import shutil
import socket
import threading
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson
import uvicorn

from instantstart_sandbox.kubernetes import addons, health, tls
from instantstart_sandbox.kubernetes.api import Api
from instantstart_sandbox.kubernetes.cluster import About, Cluster
from instantstart_sandbox.kubernetes.populate import Populating, crowd_of
from instantstart_sandbox.kubernetes.weather import Weather
from instantstart_sandbox.world.clock import Clock
from instantstart_sandbox.world.seams import AwsWorld, Endpoint, Identity

_LOG = logging.getLogger(__name__)
_TOKEN_SECONDS: Final = 1.0
_STOP_SECONDS: Final = 5.0


class Authenticator:
    """Asks the AWS side who a token is, in a thread, and remembers the answer for a moment (real and virtual)."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._known: dict[str, tuple[float, float, Identity]] = {}
        cluster.on_nudge(self._known.clear)

    async def __call__(self, token: str) -> Identity | None:
        """The caller behind a token, or None."""
        now, virtual = time.monotonic(), self.cluster.clock.now()
        found = self._known.get(token)
        if found and now < found[0] and virtual < found[1]:
            return found[2]
        who = await self.cluster.ask_aws(self.cluster.aws.authenticate, self.cluster.arn, token)
        if who is None:
            self._known.pop(token, None)
            return None
        if len(self._known) > 1000:
            self._known.clear()
        self._known[token] = (now + _TOKEN_SECONDS, virtual + 10 * _TOKEN_SECONDS, who)
        return who


class _Listener(uvicorn.Server):
    """A uvicorn server that lives in our loop and leaves the process' signals alone."""

    def install_signal_handlers(self) -> None:
        """The sandbox's main thread handles signals."""


@dataclass
class _Served:
    cluster: Cluster
    endpoint: Endpoint
    socket: socket.socket
    listener: _Listener
    authenticator: Authenticator
    serving: asyncio.Task[None] | None = None
    populating: Populating | None = None
    stopped: threading.Event = field(default_factory=threading.Event)


class KubernetesServer:
    """The API servers of all EKS clusters. ``start_loops`` is called in the loop for each cluster (controllers, kubelet, bridge)."""

    def __init__(self, data_dir: Path, clock: Clock, aws: AwsWorld, start_loops: Callable[[Cluster], None] | None = None) -> None:
        self.data_dir, self.clock, self.aws, self.start_loops = data_dir, clock, aws, start_loops
        #: set before the first cluster; None: fair weather for ever
        self.weather: Weather | None = None
        self._served: dict[str, _Served] = {}
        self._ending: list[_Served] = []
        self._lock = threading.Lock()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="kubernetes", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    # ------------------------------------------------------------------ KubernetesWorld

    def create_cluster(self, cluster: str, name: str, region: str, version: str) -> Endpoint:
        """Start an API server, or answer the running one's endpoint. A restart gives the same port and CA."""
        with self._lock:
            found = self._served.get(cluster)
            if found is None:
                found = self._served[cluster] = self._open(About(cluster, name, region, version))
            return found.endpoint

    def delete_cluster(self, cluster: str) -> None:
        """Stop the API server and forget its objects."""
        with self._lock:
            served = self._served.pop(cluster, None)
        folder = self.folder(cluster)
        if served is None:
            shutil.rmtree(folder, ignore_errors=True)
            return
        self._ending = [*(e for e in self._ending if not e.stopped.is_set()), served]
        self._loop.call_soon_threadsafe(self._end, served, folder)

    def workload_ready(self, cluster: str, namespace: str, kind: str, name: str) -> bool:
        """Whether a Deployment or DaemonSet has all its wanted replicas ready."""
        served = self._served.get(cluster)
        return served is not None and health.workload_ready(served.cluster, namespace, kind, name)

    def foreign_objects(self, cluster: str, addon: str, configuration: dict[str, Any]) -> list[str]:
        """The objects of an add-on that are there and were not made by it."""
        served = self._served.get(cluster)
        return addons.foreign(served.cluster, addon, configuration) if served else []

    def schedulable_nodes(self, cluster: str) -> int:
        """How many nodes are Ready, not cordoned and not tainted against pods."""
        served = self._served.get(cluster)
        return health.schedulable_nodes(served.cluster) if served else 0

    def nudge(self, cluster: str) -> None:
        """Tell a cluster's loops that AWS changed."""
        served = self._served.get(cluster)
        if served is not None:
            served.cluster.in_loop(served.cluster.nudge)

    def populate(self, cluster: str, body: dict[str, Any]) -> dict[str, Any]:
        """Begin to fill a cluster (kubernetes/populate.py), once; how far that is."""
        served = self._served.get(cluster)
        if served is None:
            raise ValueError(f"there is no cluster {cluster}")
        if served.populating is None:
            served.populating = Populating(served.cluster, crowd_of(body))
            asyncio.run_coroutine_threadsafe(served.populating.run(), self._loop)
        return served.populating.told()

    # ------------------------------------------------------------------ for the composition and tests

    def cluster(self, arn: str) -> Cluster:
        """A running cluster. KeyError when there is none."""
        return self._served[arn].cluster

    def clusters(self) -> list[Cluster]:
        """All running clusters."""
        return [served.cluster for served in self._served.values()]

    def folder(self, arn: str) -> Path:
        """Where a cluster's files lie."""
        return self.data_dir / re.sub(r"[^\w.-]+", "_", arn)

    def restore(self) -> list[str]:
        """Start every cluster that has files on disk (after a restart of the sandbox); answers their ARNs."""
        found = []
        for path in sorted(self.data_dir.glob("*/cluster.json")):
            saved = orjson.loads(path.read_bytes())
            self.create_cluster(saved["arn"], saved["name"], saved["region"], saved["version"])
            found.append(saved["arn"])
        return found

    def close(self) -> None:
        """Stop everything; the files stay."""
        with self._lock:
            served, self._served = list(self._served.values()), {}
        for one in served:
            self._loop.call_soon_threadsafe(self._end, one, None)
        for one in [*served, *self._ending]:
            one.stopped.wait(2 * _STOP_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_STOP_SECONDS)

    # ------------------------------------------------------------------ one cluster's life

    def _open(self, about: About) -> _Served:
        self._await_end(about.arn)
        folder = self.folder(about.arn)
        folder.mkdir(parents=True, exist_ok=True)
        files = tls.ensure(folder / "pki", about.name)
        ca = files.authority.read_text()
        listening = _listen(folder, about)
        cluster = Cluster(about, folder, self.clock, self.aws, ca)
        authenticator = Authenticator(cluster)
        config = uvicorn.Config(
            Api(cluster, authenticator, self.weather),
            http="httptools",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=120,
            timeout_graceful_shutdown=1,
            ssl_certfile=files.certificate,
            ssl_keyfile=files.key,
        )
        endpoint = Endpoint(f"https://127.0.0.1:{listening.getsockname()[1]}", ca)
        served = _Served(cluster, endpoint, listening, _Listener(config), authenticator)
        self._loop.call_soon_threadsafe(self._begin, served)
        return served

    def _await_end(self, arn: str) -> None:
        """A cluster of that name that is still ending takes the folder with it: its successor waits, so that it keeps its own."""
        for one in self._ending:
            if one.cluster.about.arn == arn:
                one.stopped.wait(2 * _STOP_SECONDS)

    def _begin(self, served: _Served) -> None:
        served.cluster.bind(self._loop)
        served.serving = self._spawn(served.listener.serve(sockets=[served.socket]))
        if self.start_loops is not None:
            self.start_loops(served.cluster)

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(coroutine)
        task.add_done_callback(_report)
        return task

    def _end(self, served: _Served, folder: Path | None) -> None:
        self._spawn(self._shut(served, folder))

    async def _shut(self, served: _Served, folder: Path | None) -> None:
        served.cluster.stop()
        if served.cluster.ending:
            await asyncio.wait(served.cluster.ending, timeout=_STOP_SECONDS)
        served.listener.should_exit = True
        served.listener.force_exit = True
        if served.serving is not None:
            await asyncio.wait({served.serving}, timeout=_STOP_SECONDS)
        await _cancel(set(served.listener.server_state.tasks))
        served.socket.close()
        if folder is not None:
            await asyncio.to_thread(shutil.rmtree, folder, True)
        served.stopped.set()


async def _cancel(requests: set[asyncio.Task[None]]) -> None:
    """End the streams that a forced exit leaves behind, while there still is a loop for them to end in."""
    for request in requests:
        request.cancel()
    if requests:
        await asyncio.wait(requests, timeout=_STOP_SECONDS)


def _report(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        _LOG.error("a listener crashed", exc_info=task.exception())


def _listen(folder: Path, about: About) -> socket.socket:
    """A listening socket on the port of last time, or on a new one that is then kept."""
    record = folder / "cluster.json"
    saved = orjson.loads(record.read_bytes()) if record.exists() else {}
    # asyncio switches Nagle's delay off only for sockets that name the protocol; without it each answer waits 40 ms
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(("127.0.0.1", saved.get("port", 0)))
    except OSError:
        if not saved:
            raise
        _LOG.warning(
            "the cluster's port is taken by another process; it gets a new one", extra={"cluster": about.name, "port": saved["port"]}
        )
        listening.bind(("127.0.0.1", 0))
    listening.listen(2048)
    facts = {"arn": about.arn, "name": about.name, "region": about.region, "version": about.version, "port": listening.getsockname()[1]}
    record.write_bytes(orjson.dumps(facts))
    return listening
