"""What can be read of autoscalers: those of ours and those of others, on what they act and whether they work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from instantstart.base import problems
from instantstart.capabilities import paging
from instantstart.capabilities.inference.scaling import objects, stages
from instantstart.capabilities.room import Room
from instantstart.ensure import sites
from instantstart.ensure.inference import autoscalers, load_queries, serving
from instantstart.kube.client import KubeCluster

Resource = dict[str, Any]


@dataclass(frozen=True)
class AutoscalerItem:
    """One autoscaler. ``kind``: ScaledObject or HorizontalPodAutoscaler; ``ours``: InstantStart made it; ``why`` it does not work."""

    namespace: str
    name: str
    kind: str
    target: str
    ours: bool
    min_replicas: int
    max_replicas: int
    replicas: int | None
    desired: int | None
    ready: bool
    active: bool | None
    paused: bool
    metric: str | None
    query: str | None
    threshold: str | None
    why: str | None


@dataclass(frozen=True)
class AutoscalerPage:
    """One page of autoscalers."""

    items: tuple[AutoscalerItem, ...]
    cursor: str | None
    total: int


def list_autoscalers(room: Room, tag: str, namespace: str, limit: int, cursor: str | None) -> AutoscalerPage:
    """Every ScaledObject, and every HorizontalPodAutoscaler that KEDA did not make."""
    kube = sites.find(room, tag).kube(room)
    hpas = {_key(h): h for h in kube.list("HorizontalPodAutoscaler", namespace or None)}
    scaled = _scaled(kube, namespace or None)
    items = [_of_scaled(s, hpas.pop(f"{s['metadata']['namespace']}/{_hpa_name(s)}", None)) for s in scaled]
    items += [_of_hpa(h) for h in hpas.values()]
    paged = paging.page(sorted(items, key=_item_key), _item_key, limit, cursor)
    return AutoscalerPage(paged.items, paged.cursor, paged.total)


def get_autoscaler(room: Room, tag: str, namespace: str, target: str) -> AutoscalerItem:
    """The autoscaler of ours on a target. Raises NotFound."""
    kube = sites.find(room, tag).kube(room)
    live = kube.find(autoscalers.SCALED_OBJECT, load_queries.name_of(target), namespace)
    if live is None:
        detail = f"There is no autoscaler for {namespace}/{target}."
        raise problems.NotFound("autoscaler.unknown", detail, hint="List the autoscalers.")
    return _of_scaled(live, kube.find("HorizontalPodAutoscaler", _hpa_name(live), namespace))


def _scaled(kube: KubeCluster, namespace: str | None) -> list[Resource]:
    try:
        return kube.list(autoscalers.SCALED_OBJECT, namespace)
    except problems.NotFound:
        return []


def _key(resource: Resource) -> str:
    return f"{resource['metadata']['namespace']}/{resource['metadata']['name']}"


def _item_key(item: AutoscalerItem) -> str:
    return f"{item.namespace}/{item.target}/{item.kind}/{item.name}"


def _hpa_name(scaled: Resource) -> str:
    return str((scaled.get("status") or {}).get("hpaName") or f"keda-hpa-{scaled['metadata']['name']}")


def _of_scaled(live: Resource, hpa: Resource | None) -> AutoscalerItem:
    metadata, spec = live["metadata"], live["spec"]
    ready, active, paused = (stages.condition(live, kind) for kind in ("Ready", "Active", "Paused"))
    first = next((t for t in spec.get("triggers") or () if t.get("type") == "prometheus"), None) or {"metadata": {}}
    asked = objects.asked_of(live)
    status = (hpa or {}).get("status") or {}
    works = ready.get("status") == "True"
    return AutoscalerItem(
        namespace=metadata["namespace"],
        name=metadata["name"],
        kind="ScaledObject",
        target=str(spec["scaleTargetRef"]["name"]),
        ours=serving.is_ours(live),
        min_replicas=int(spec.get("minReplicaCount", 0)),
        max_replicas=int(spec.get("maxReplicaCount", 100)),
        replicas=status.get("currentReplicas"),
        desired=status.get("desiredReplicas"),
        ready=works,
        active=active.get("status") == "True" if active else None,
        paused=paused.get("status") == "True",
        metric=asked.metric if asked else None,
        query=first["metadata"].get("query"),
        threshold=first["metadata"].get("threshold"),
        why=None if works else str(ready.get("message") or "KEDA has not taken it yet."),
    )


def _of_hpa(live: Resource) -> AutoscalerItem:
    metadata, spec, status = live["metadata"], live["spec"], live.get("status") or {}
    said = {c["type"]: c for c in status.get("conditions") or ()}
    works = said.get("ScalingActive", {}).get("status") == "True"
    return AutoscalerItem(
        namespace=metadata["namespace"],
        name=metadata["name"],
        kind="HorizontalPodAutoscaler",
        target=str(spec["scaleTargetRef"]["name"]),
        ours=serving.is_ours(live),
        min_replicas=int(spec.get("minReplicas", 1)),
        max_replicas=int(spec["maxReplicas"]),
        replicas=status.get("currentReplicas"),
        desired=status.get("desiredReplicas"),
        ready=works,
        active=None,
        paused=False,
        metric=None,
        query=None,
        threshold=None,
        why=None if works else said.get("ScalingActive", {}).get("message") or "It has not said whether it can scale.",
    )
