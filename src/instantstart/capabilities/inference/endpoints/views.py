"""What can be read of managed endpoints."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from instantstart.base import problems, trees
from instantstart.capabilities.inference.endpoints import objects, parts, told
from instantstart.capabilities.inference.endpoints.told import EndpointLink
from instantstart.capabilities.paging import page
from instantstart.capabilities.room import Room
from instantstart.ensure import sites
from instantstart.ensure.inference import endpoint_judging as judging
from instantstart.ensure.inference import endpoints, serving
from instantstart.ensure.inference.endpoint_judging import ServedOtherwise
from instantstart.ensure.running import events
from instantstart.kube.client import Resource
from instantstart.operations.record import ACTIVE
from instantstart.store.records import OperationFilter

_MOST_EVENTS = 30
_TEXT = 500


@dataclass(frozen=True)
class EndpointItem:
    """One endpoint. ``ready`` and ``replicas`` count replicas; ``why``: one sentence when it is not as it should be."""

    name: str
    namespace: str
    kind: str
    made_by_us: bool
    state: str
    ready: int
    replicas: int
    why: str | None
    model: str | None
    instance_types: tuple[str, ...]
    autoscaled: bool
    sagemaker_endpoint: str | None
    created_at: dt.datetime | None


@dataclass(frozen=True)
class EndpointPage:
    """One page of endpoints, by namespace and name."""

    items: tuple[EndpointItem, ...]
    cursor: str | None
    total: int


@dataclass(frozen=True)
class Event:
    """Something that Kubernetes or the operator said; the text is untrusted."""

    at: str
    type: str
    reason: str
    message: str
    count: int


@dataclass(frozen=True)
class Replica:
    """One pod."""

    name: str
    ready: bool
    phase: str
    node: str | None
    restarts: int


@dataclass(frozen=True)
class EndpointOperation:
    """The operation that works on an endpoint now."""

    id: str
    workflow: str
    status: str


@dataclass(frozen=True)
class EndpointDetail:
    """One endpoint: each link up to its callers, its settings as a form takes them, its replicas and what was said of it."""

    endpoint: EndpointItem
    links: tuple[EndpointLink, ...]
    next_step: str | None
    settings: Mapping[str, Any]
    #: after a roll-back: what is asked beside what is served
    differs: tuple[ServedOtherwise, ...]
    hostname: str | None
    invoke_url: str | None
    generation: int
    observed_generation: int
    replicas: tuple[Replica, ...]
    events: tuple[Event, ...]
    operation: EndpointOperation | None


@dataclass(frozen=True)
class Filter:
    """Which endpoints; empty texts ask nothing."""

    namespace: str = ""
    contains: str = ""


def list_endpoints(room: Room, tag: str, wanted: Filter, limit: int, cursor: str | None) -> EndpointPage:
    """The endpoints of a cluster, both kinds, whoever made them."""
    where = sites.find(room, tag)
    found = endpoints.list_all(where.kube(room), wanted.namespace or None)
    chosen = sorted((e for e in found if wanted.contains in e["metadata"]["name"]), key=_key)
    shown = page(chosen, _key, limit, cursor)
    items = tuple(_item(told.look(room, where, e, whole=False)) for e in shown.items)
    return EndpointPage(items, shown.cursor, shown.total)


def get_endpoint(room: Room, tag: str, namespace: str, name: str) -> EndpointDetail:
    """One endpoint. Raises NotFound naming those there are."""
    where = sites.find(room, tag)
    kube = where.kube(room)
    live = endpoints.find(kube, namespace, name)
    if live is None:
        have = ", ".join(sorted(e["metadata"]["name"] for e in endpoints.list_all(kube, namespace))) or "none"
        detail = f"There is no endpoint {name} in the namespace {namespace}."
        raise problems.NotFound("inference_endpoint.unknown", detail, hint=f"There are: {have}.")
    seen = told.look(room, where, live)
    address = endpoints.hostname(seen.ingress)
    path = trees.get(live, "spec.invocationEndpoint") or "invocations"
    return EndpointDetail(
        endpoint=_item(seen),
        links=told.links(kube, seen),
        next_step=_next_step(seen),
        settings=parts.shown(objects.read(live)),
        differs=judging.served_otherwise(judging.Seen(live, seen.deployment)),
        hostname=address,
        invoke_url=f"https://{trees.get(live, 'spec.tlsConfig.customCertificateConfig.domainName') or address}/{path}" if address else None,
        generation=int(live["metadata"].get("generation", 1)),
        observed_generation=int(trees.get(live, "status.observedGeneration") or 0),
        replicas=tuple(_replica(p) for p in seen.pods),
        events=tuple(_event(e) for each in (live, seen.deployment) if each for e in events.about(kube, each))[:_MOST_EVENTS],
        operation=_working(room, tag, namespace, name),
    )


def _key(endpoint: Resource) -> str:
    return f"{endpoint['metadata']['namespace']}/{endpoint['metadata']['name']}"


def _item(seen: told.Look) -> EndpointItem:
    live, deployed = seen.endpoint, seen.deployment or {}
    settings = objects.read(live)
    source = settings.get("source") or {}
    state = "Deleting" if live["metadata"].get("deletionTimestamp") else str(trees.get(live, "status.state") or "Unknown")
    wanted = trees.get(deployed, "spec.replicas")
    at = live["metadata"].get("creationTimestamp")
    return EndpointItem(
        name=live["metadata"]["name"],
        namespace=live["metadata"]["namespace"],
        kind=live["kind"],
        made_by_us=serving.is_ours(live),
        state=state,
        ready=int(trees.get(deployed, "status.readyReplicas") or 0),
        replicas=int(wanted if wanted is not None else trees.get(live, "spec.replicas") or 0),
        why=_why(seen, state),
        model=next((source[k] for k in ("repository", "model_id", "location", "claim") if source.get(k)), None),
        instance_types=tuple(settings.get("instance_types") or ()),
        autoscaled="autoscaling" in settings,
        sagemaker_endpoint=endpoints.endpoint_name(live),
        created_at=dt.datetime.fromisoformat(at.replace("Z", "+00:00")) if at else None,
    )


def _why(seen: told.Look, state: str) -> str | None:
    """The one sentence: the replicas' own reason, else the operator's."""
    if seen.why is not None:
        return seen.why.text
    return told.taken_back(seen) if state == endpoints.COMPLETE else endpoints.trouble(seen.endpoint)


def _next_step(seen: told.Look) -> str | None:
    if seen.why is not None:
        return seen.why.next_step or None
    return judging.AFTER_ROLL_BACK if told.taken_back(seen) else None


def _replica(pod: Resource) -> Replica:
    status = pod.get("status") or {}
    containers = status.get("containerStatuses") or ()
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions") or ())
    restarts = sum(int(c.get("restartCount") or 0) for c in containers)
    return Replica(pod["metadata"]["name"], ready, str(status.get("phase") or "Pending"), pod["spec"].get("nodeName"), restarts)


def _event(event: Resource) -> Event:
    at = event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp") or ""
    message = " ".join(str(event.get("message") or "").split())[:_TEXT]
    return Event(str(at), str(event.get("type") or "Normal"), str(event.get("reason") or ""), message, int(event.get("count") or 1))


def _working(room: Room, tag: str, namespace: str, name: str) -> EndpointOperation | None:
    newest = room.engine.list(OperationFilter(cluster=tag, statuses=tuple(sorted(ACTIVE))), limit=200)
    for operation in newest.items:
        spec = operation.spec
        if operation.workflow.startswith("inference_endpoint.") and (spec.get("namespace"), spec.get("name")) == (namespace, name):
            return EndpointOperation(operation.id, operation.workflow, operation.status)
    return None
