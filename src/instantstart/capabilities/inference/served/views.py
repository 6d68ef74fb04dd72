"""Everything that serves a model, on both paths and of others: how many replicas answer, why not, what they measure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from instantstart.base import problems
from instantstart.capabilities.paging import page
from instantstart.capabilities.room import Room
from instantstart.ensure import sites
from instantstart.ensure.inference import served, serving_trouble
from instantstart.ensure.inference.meters import Measured, Sample
from instantstart.ensure.inference.served import Path, Served
from instantstart.ensure.running import events
from instantstart.ensure.running.pending_words import Why
from instantstart.ensure.sites import Site
from instantstart.kube import shapes
from instantstart.kube.client import Resource

State = Literal["answering", "partly", "starting", "failing", "stopped", "unknown"]
_MOST_EVENTS, _TEXT = 30, 500


@dataclass(frozen=True)
class ServedItem:
    """One thing that serves. ``path``: managed (the inference operator), self_managed (InstantStart), foreign (others).

    ``why``: in one sentence, why not every replica is ready. Measures are the newest known ones: asking for one thing renews its.
    """

    name: str
    namespace: str
    kind: str
    path: Path
    part: str
    engine: str
    model: str | None
    state: State
    ready: int
    replicas: int
    why: str | None
    why_code: str | None
    next_step: str | None
    port: int | None
    running: float | None
    waiting: float | None
    cache: float | None
    generated_tokens_per_second: float | None
    created_at: dt.datetime | None


@dataclass(frozen=True)
class ServedPage:
    """One page, by namespace and name."""

    items: tuple[ServedItem, ...]
    cursor: str | None
    total: int


@dataclass(frozen=True)
class ServedReplica:
    """One pod."""

    name: str
    ready: bool
    phase: str
    node: str | None
    restarts: int
    started_at: dt.datetime | None


@dataclass(frozen=True)
class ServedEvent:
    """Something that was said of it; the text is untrusted."""

    at: str
    object: str
    type: str
    reason: str
    message: str


@dataclass(frozen=True)
class ServedDetail:
    """One thing that serves: its replicas, and what was said of it. Logs are the logs of its pods."""

    served: ServedItem
    replicas: tuple[ServedReplica, ...]
    events: tuple[ServedEvent, ...]
    pod_selector: str


@dataclass(frozen=True)
class ServedMetrics:
    """What its replicas measure, oldest first; ``trouble``: why the newest look told nothing. The history is short and in memory."""

    samples: tuple[Sample, ...]
    trouble: str | None


@dataclass(frozen=True)
class Filter:
    """Which; empty texts ask nothing."""

    namespace: str = ""
    contains: str = ""
    path: Path | None = None


def list_served(room: Room, tag: str, wanted: Filter, limit: int, cursor: str | None) -> ServedPage:
    """Everything that serves in a cluster."""
    where = sites.find(room, tag)
    every = served.list_all(where.kube(room), wanted.namespace or None)
    chosen = [s for s in every if wanted.contains in s.name and wanted.path in (None, s.path)]
    shown = page(chosen, _key, limit, cursor)
    return ServedPage(tuple(_item(room, where, s) for s in shown.items), shown.cursor, shown.total)


def get_served(room: Room, tag: str, namespace: str, name: str) -> ServedDetail:
    """One thing that serves. Raises NotFound naming what is served there."""
    where = sites.find(room, tag)
    kube = where.kube(room)
    found = served.find(kube, namespace, name)
    pods = served.pods(kube, found)
    about = [each for each in (found.owner, found.workload, *pods[:10]) if each is not None]
    told = [_event(each, event) for each in _once(about) for event in events.about(kube, each)]
    newest = sorted(told, key=lambda e: e.at, reverse=True)[:_MOST_EVENTS]
    selector = ",".join(f"{key}={value}" for key, value in sorted(found.selector.items()))
    return ServedDetail(_item(room, where, found, pods), tuple(_replica(p) for p in pods), tuple(newest), selector)


def get_metrics(room: Room, tag: str, namespace: str, name: str) -> ServedMetrics:
    """A fresh look at its replicas, and the history since somebody looks."""
    kube = sites.find(room, tag).kube(room)
    told: Measured = room.meters.look(kube, served.find(kube, namespace, name))
    return ServedMetrics(told.samples, told.trouble)


def _key(each: Served) -> str:
    return f"{each.namespace}/{each.name}/{each.kind}"


def _once(resources: Sequence[Resource]) -> list[Resource]:
    return list({r["metadata"]["uid"]: r for r in resources}.values())


def _item(room: Room, where: Site, found: Served, pods: list[Resource] | None = None) -> ServedItem:
    kube = where.kube(room)
    ready, wanted = found.ready, found.wanted
    if found.workload is None:
        pods = served.pods(kube, found) if pods is None else pods
        ready, wanted = sum(served.is_ready(shapes.pod(p)) for p in pods), len(pods)
    why = None
    if ready < wanted and found.workload is not None:
        why = _why(room, where, found, served.pods(kube, found) if pods is None else pods)
    newest, at = room.meters.known(kube, found), found.owner["metadata"].get("creationTimestamp")
    return ServedItem(
        name=found.name,
        namespace=found.namespace,
        kind=found.kind,
        path=found.path,
        part=found.part,
        engine=found.engine,
        model=found.model,
        state=_state(ready, wanted, why, found),
        ready=ready,
        replicas=wanted,
        why=why.text if why else _no_workload(found),
        why_code=why.code if why else None,
        next_step=why.next_step or None if why else None,
        port=found.port,
        running=newest.running if newest else None,
        waiting=newest.waiting if newest else None,
        cache=newest.cache if newest else None,
        generated_tokens_per_second=newest.generated_tokens_per_second if newest else None,
        created_at=dt.datetime.fromisoformat(at.replace("Z", "+00:00")) if at else None,
    )


def _why(room: Room, where: Site, found: Served, pods: list[Resource]) -> Why | None:
    try:
        return serving_trouble.explain(room, where, found.workload or found.owner, pods)
    except problems.Problem as problem:
        return Why("pods.unread", "waiting", f"Its pods cannot be read: {problem.detail}")


def _no_workload(found: Served) -> str | None:
    if found.workload is not None or found.kind == "Service":
        return None
    return "The inference operator has made no Deployment for it yet."


def _state(ready: int, wanted: int, why: Why | None, found: Served) -> State:
    if found.kind == "Service":
        return "answering" if ready else "stopped"
    if found.workload is None:
        return "starting"
    if not wanted:
        return "stopped"
    if ready >= wanted:
        return "answering"
    if ready:
        return "partly"
    return "failing" if why is not None and why.kind in ("failing", "blocked") else "starting"


def _replica(pod: Resource) -> ServedReplica:
    slim = shapes.pod(pod)
    restarts = sum(c.restart_count for c in slim.status.container_statuses)
    return ServedReplica(
        slim.metadata.name, served.is_ready(slim), slim.status.phase, slim.spec.node_name, restarts, slim.status.start_time
    )


def _event(about: Resource, event: Resource) -> ServedEvent:
    at = event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp") or ""
    message = " ".join(str(event.get("message") or "").split())[:_TEXT]
    shown = f"{about['kind']} {about['metadata']['name']}"
    return ServedEvent(str(at), shown, str(event.get("type") or "Normal"), str(event.get("reason") or ""), message)
