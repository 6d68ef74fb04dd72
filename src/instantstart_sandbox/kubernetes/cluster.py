"""One emulated EKS cluster: its store, its in-process client, its watches and the seams for controllers and kubelet.

For whoever writes controllers (kubernetes/loops), the kubelet and the bridge: this is the whole interface.

Resources are named ``plural`` or ``plural.group``: ``"pods"``, ``"deployments.apps"``, ``"rayclusters.ray.io"``. Objects are plain
dicts. Everything here runs in the cluster's one asyncio loop; from another thread use ``cluster.in_loop(function, *args)``.

``cluster.arn, name, region, version``
    strings; the version is ``"1.34"``.
``cluster.clock``
    world.clock.Clock; ``await cluster.clock.sleep(seconds)``. ``cluster.timestamp()`` is ``"2026-11-30T12:00:00Z"``.
``cluster.aws``
    the AwsWorld seam. It may take the AWS side's lock: ``await cluster.ask_aws(cluster.aws.instances, cluster.arn)`` asks in a thread;
    never call it straight from the loop.
``cluster.data_dir``
    pathlib.Path of this cluster's files.
``cluster.log_path(namespace, pod, container, previous=False)``
    Path of a container's log. The kubelet writes lines ``<RFC3339Nano, virtual UTC> <text>``; the log subresource reads, cuts and
    follows that file (tailLines, sinceSeconds, timestamps, limitBytes, previous, follow) until the container's status in the Pod says
    that it no longer runs. ``cluster.logs`` may be replaced by another provider: an async generator function
    ``logs(namespace, pod, container, params: dict[str, str]) -> AsyncIterator[bytes]``.
``cluster.backend``
    None, or an async callable (kind: "pods" or "services", namespace, name, port: str) -> (host, port) or None, set by the kubelet:
    where the proxy subresource connects to (a pod's process on loopback).

``cluster.client``
    user "system:admin"; ``cluster.client.named("kube-scheduler")`` is user system:kube-scheduler and that field manager. No-op writes
    make no revision. Every refusal is ApiError (code, reason, message) from kubernetes/errors.py.

    - ``await get(resource, name, namespace=None)`` -> dict, ApiError 404; ``find`` -> dict or None
    - ``await list(resource, namespace=None, labels="", fields="")``; selectors as in kubectl: "app=x,tier in (a,b)", "spec.nodeName=n"
    - ``await create(resource, obj)``: namespace from obj.metadata; generateName works
    - ``await update(resource, obj)``: 409 when metadata.resourceVersion is stale
    - ``await apply(resource, obj, force=True)``: server-side apply
    - ``await patch(resource, name, patch, namespace=None, kind="merge")``: kind merge, json or strategic
    - ``await status(resource, name, status, namespace=None)``: merge-patches .status through the status subresource
    - ``await replace_status(resource, obj)``: writes obj.status whole; 409 when the resourceVersion is stale
    - ``await scale(resource, name, replicas, namespace=None)``; ``await bind(pod, namespace, node)``; ``await finalize(namespace)``
    - ``await delete(resource, name, namespace=None, propagation="Background", grace=None)``: a missing object is no error
    - ``await event(obj, reason, message, type="Normal", component="")``: an Event about obj; repeated ones are counted

``cluster.read(resource, name, namespace=None)``, ``cluster.read_all(resource, namespace=None)``
    synchronous and thread-safe: present objects.
``cluster.store.owned_by(uid)``, ``cluster.store.find_uid(uid)``
    the owner index for garbage collection: (collection, key) pairs.
``async for type, obj in cluster.watch("pods", namespace=None)``
    ADDED of all that exists, then changes, for ever (ADDED, MODIFIED, DELETED). Waits for a CRD that is not there yet.
``cluster.start(coroutine, name="")``
    a task, cancelled when the cluster stops; a crash is logged and kept in ``cluster.crashes``.
``cluster.on_nudge(callback)``, ``cluster.on_stop(callback)``
    called in the loop when AWS says that instances, add-ons or access entries changed; and at the end (kill the pods' processes).

What the API server itself does (not to be done in a controller): defaults, names, uid, generation; clusterIP and nodePort of Services;
default tolerations, priority, service account and its token volume of Pods; ``default`` ServiceAccount and kube-root-ca.crt of a new
namespace; definitions become Established and are emptied on deletion; ServiceAccount tokens; Events expire after an hour. A Pod with a
nodeName that is deleted gets a deletionTimestamp and stays until the kubelet deletes it with ``grace=0``; one without a node goes at
once.
What it leaves to loops: garbage collection by ownerReferences (the finalizers ``foregroundDeletion`` and ``orphan`` are set here, acted
on and removed by the loop), and emptying a Terminating namespace and then ``await client.finalize(name)``.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from instantstart_sandbox.kubernetes import crd, kinds
from instantstart_sandbox.kubernetes.access import BUILT_IN_BINDINGS, BUILT_IN_ROLES, Authorizer
from instantstart_sandbox.kubernetes.autoscaling.measures import Measures
from instantstart_sandbox.kubernetes.client import Client
from instantstart_sandbox.kubernetes.decoding import Options
from instantstart_sandbox.kubernetes.deletion import Deletion
from instantstart_sandbox.kubernetes.kubelet.addresses import loopback_address
from instantstart_sandbox.kubernetes.kubelet.agents import Agents
from instantstart_sandbox.kubernetes.logs import LogQuery, read
from instantstart_sandbox.kubernetes.pipeline import DEFINITIONS, Pipeline
from instantstart_sandbox.kubernetes.quota import Quotas
from instantstart_sandbox.kubernetes.resources import Resource
from instantstart_sandbox.kubernetes.store import ADDED, DELETED, Store
from instantstart_sandbox.kubernetes.tokens import ServiceAccountTokens
from instantstart_sandbox.kubernetes.watch import Subscription
from instantstart_sandbox.world.clock import Clock
from instantstart_sandbox.world.seams import AwsWorld

Object = dict[str, Any]
Result = TypeVar("Result")
Logs = Callable[[str, str, str, dict[str, str]], AsyncIterator[bytes]]
Backend = Callable[[str, str, str, str], Awaitable[tuple[str, int] | None]]

_LOG = logging.getLogger(__name__)
_EVENT_SECONDS: Final = 3600
_SWEEP_SECONDS: Final = 300
_FIRST_NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease")


@dataclass(frozen=True)
class About:
    """What a cluster is called. ``arn`` and ``name`` are those of EKS."""

    arn: str
    name: str
    region: str
    version: str


class Cluster:
    """One emulated cluster. Made in any thread; used in the loop that ``bind`` names."""

    def __init__(self, about: About, data_dir: Path, clock: Clock, aws: AwsWorld, ca_pem: str = "") -> None:
        self.about, self.data_dir, self.clock, self.aws, self.ca_pem = about, data_dir, clock, aws, ca_pem
        self.arn, self.name, self.region, self.version = about.arn, about.name, about.region, about.version
        self.store = Store(data_dir / "store")
        self.catalog = kinds.built_in()
        self.pipeline = Pipeline(self.store, self.catalog, self.timestamp)
        self.deletion = Deletion(self.pipeline)
        Quotas(self.pipeline)
        self.authorizer = Authorizer(self.pipeline)
        self.tokens = ServiceAccountTokens(data_dir, f"https://oidc.eks.{about.region}/id/{about.name}", clock.now)
        self.client = Client(self.pipeline, self.deletion, "system:admin")
        self.logs: Logs = self._log_file
        self.backend: Backend | None = None
        self.measures = Measures()
        #: what is still ending when the cluster has stopped: processes that were killed
        self.ending: list[asyncio.Task[None]] = []
        self.agents = Agents()
        self.crashes: list[str] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._nudges: list[Callable[[], None]] = []
        self._stops: list[Callable[[], None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self.pipeline.after.append(self._furnish_namespace)
        self._restore()
        self._bootstrap()

    # ------------------------------------------------------------------ time, files, AWS

    def timestamp(self) -> str:
        """Virtual now, RFC 3339 with whole seconds."""
        return self.clock.utc().strftime("%Y-%m-%dT%H:%M:%SZ")

    def log_path(self, namespace: str, pod: str, container: str, previous: bool = False) -> Path:
        """Where a container's log lies."""
        return self.data_dir / "logs" / namespace / pod / f"{container}{'.previous' if previous else ''}.log"

    @staticmethod
    def pod_address(uid: str) -> str:
        """The address of a pod, from the moment it is made."""
        return loopback_address(uid)

    async def ask_aws(self, question: Callable[..., Result], *args: Any) -> Result:
        """Call the AWS side in a thread (it may wait for its lock)."""
        return await asyncio.to_thread(question, *args)

    # ------------------------------------------------------------------ reading and watching

    def read(self, resource: str, name: str, namespace: str | None = None) -> Object | None:
        """The present object or None; from any thread."""
        return self.pipeline.read(resource, name, namespace)

    def read_all(self, resource: str, namespace: str | None = None) -> list[Object]:
        """All present objects; from any thread."""
        if resource not in self.catalog:
            return []
        entries = list(self.pipeline.collection(self.catalog.find(resource)).current.items())
        prefix = f"{namespace}/" if namespace else ""
        return [entry.object() for key, entry in sorted(entries, key=lambda item: item[0]) if key.startswith(prefix)]

    async def watch(self, resource: str, namespace: str | None = None) -> AsyncIterator[tuple[str, Object]]:
        """Everything there is as ADDED, then each change, for ever."""
        while resource not in self.catalog:  # noqa: ASYNC110 - a definition may come at any time; nothing else waits for it
            await asyncio.sleep(0.5)
        collection = self.pipeline.collection(self.catalog.find(resource))
        with Subscription(collection, namespace) as subscription:
            present = [entry for _, entry in collection.scan(subscription.prefix)]
            newest = self.store.revision
            for entry in present:
                yield ADDED, entry.object()
            while True:
                await subscription.wait(3600)
                while subscription.queue:
                    change = subscription.queue.popleft()
                    if change.revision > newest:
                        yield change.type, change.entry.object()

    async def _log_file(self, namespace: str, pod: str, container: str, params: dict[str, str]) -> AsyncIterator[bytes]:
        query = LogQuery(params, self.clock.now())
        path = self.log_path(namespace, pod, container, query.previous)
        async for chunk in read(path, query, lambda: self._runs(namespace, pod, container)):
            yield chunk

    def _runs(self, namespace: str, pod: str, container: str) -> bool:
        obj = self.read("pods", pod, namespace)
        status = (obj or {}).get("status") or {}
        found = [c for f in ("containerStatuses", "initContainerStatuses") for c in status.get(f) or () if c["name"] == container]
        return bool(found) and "running" in (found[0].get("state") or {})

    # ------------------------------------------------------------------ tasks

    def bind(self, loop: asyncio.AbstractEventLoop) -> None:
        """Name the loop that owns this cluster, and begin its own housekeeping. Called in that loop."""
        self._loop = loop
        self.start(self._expire_events(), "expire events")

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop that owns this cluster."""
        assert self._loop is not None
        return self._loop

    def in_loop(self, function: Callable[..., object], *args: object) -> None:
        """Run a function in the cluster's loop, from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function, *args)

    def start(self, coroutine: Coroutine[Any, Any, None], name: str = "") -> asyncio.Task[None]:
        """Run a controller's coroutine until the cluster stops."""
        task = asyncio.get_running_loop().create_task(coroutine, name=f"{self.name}: {name}")
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.crashes.append(f"{task.get_name()}: {task.exception()!r}")
            _LOG.error("a loop of the cluster crashed", exc_info=task.exception(), extra={"loop": task.get_name()})

    def on_nudge(self, callback: Callable[[], None]) -> None:
        """Call back when AWS says that something changed."""
        self._nudges.append(callback)

    def on_stop(self, callback: Callable[[], None]) -> None:
        """Call back when the cluster stops."""
        self._stops.append(callback)

    def nudge(self) -> None:
        """Tell the loops that AWS changed. Called in the loop."""
        for callback in self._nudges:
            callback()

    def halt(self) -> None:
        """End the loops; the API server goes on serving. Called in the loop."""
        for task in list(self._tasks):
            task.cancel()

    def stop(self) -> None:
        """End the loops and close the store. Called in the loop."""
        for callback in self._stops:
            callback()
        self.halt()
        self.store.close()

    async def _expire_events(self) -> None:
        """Events live one hour, as on EKS."""
        resource = self.catalog.find("events")
        known: dict[str, tuple[int, float]] = {}
        while True:
            await asyncio.sleep(max(_SWEEP_SECONDS / self.clock.rate, 5.0))
            limit, before, known = self.clock.now() - _EVENT_SECONDS, known, {}
            for key, entry in list(self.pipeline.collection(resource).scan()):
                seen = before.get(key)
                last = seen[1] if seen and seen[0] == entry.revision else _last_time(entry.object())
                if last < limit:
                    self.pipeline.commit(resource, DELETED, entry.object())
                else:
                    known[key] = (entry.revision, last)

    # ------------------------------------------------------------------ what every cluster has

    def _restore(self) -> None:
        """Read every collection back from disk: definitions first, since they say what else is served."""
        self.pipeline.collection(self.catalog.find(DEFINITIONS))
        for definition in self.pipeline.read_all(DEFINITIONS):
            crd.serve(self.catalog, definition)
        for resource in self.catalog.collections():
            self.pipeline.collection(resource)

    def _bootstrap(self) -> None:
        for namespace in _FIRST_NAMESPACES:
            self._ensure("namespaces", {"metadata": {"name": namespace}})
        for name, rules in BUILT_IN_ROLES.items():
            labels = {"kubernetes.io/bootstrapping": "rbac-defaults"}
            self._ensure("clusterroles.rbac.authorization.k8s.io", {"metadata": {"name": name, "labels": labels}, "rules": list(rules)})
        for name, role, groups in BUILT_IN_BINDINGS:
            subjects = [{"kind": "Group", "name": g, "apiGroup": "rbac.authorization.k8s.io"} for g in groups]
            reference = {"kind": "ClusterRole", "name": role, "apiGroup": "rbac.authorization.k8s.io"}
            body = {"metadata": {"name": name}, "roleRef": reference, "subjects": subjects}
            self._ensure("clusterrolebindings.rbac.authorization.k8s.io", body)
        for name, value in (("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)):
            self._ensure("priorityclasses.scheduling.k8s.io", {"metadata": {"name": name}, "value": value})
        port = {"name": "https", "port": 443, "targetPort": 443, "protocol": "TCP"}
        labels = {"component": "apiserver", "provider": "kubernetes"}
        service = {
            "metadata": {"name": "kubernetes", "namespace": "default", "labels": labels},
            "spec": {"clusterIP": "10.100.0.1", "ports": [port]},
        }
        self._ensure("services", service)

    def _ensure(self, qualified: str, body: Object) -> None:
        resource: Resource = self.catalog.find(qualified)
        metadata = body["metadata"]
        if self.read(qualified, metadata["name"], metadata.get("namespace")) is None:
            self.pipeline.create(resource, metadata.get("namespace"), body, Options(manager="kube-apiserver"))

    def _furnish_namespace(self, resource: Resource, kind: str, obj: Object) -> None:
        if resource.qualified != "namespaces" or kind != ADDED:
            return
        namespace = obj["metadata"]["name"]
        self._ensure("serviceaccounts", {"metadata": {"name": "default", "namespace": namespace}})
        self._ensure("configmaps", {"metadata": {"name": "kube-root-ca.crt", "namespace": namespace}, "data": {"ca.crt": self.ca_pem}})


def _last_time(event: Object) -> float:
    """When an Event was last seen, in seconds since the epoch."""
    stamp = event.get("lastTimestamp") or event.get("eventTime") or event["metadata"]["creationTimestamp"]
    return dt.datetime.fromisoformat(stamp).timestamp()
