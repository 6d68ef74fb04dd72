"""What KEDA's admission webhook refuses: two autoscalers on one workload, counts that contradict one another, cpu without requests."""

from __future__ import annotations

from typing import Any

from ..admission import Reader
from ..errors import ApiError
from ..resources import Resource

Object = dict[str, Any]
_SCALED, _AUTOSCALERS = "scaledobjects.keda.sh", "horizontalpodautoscalers.autoscaling"
_HOOK = "vscaledobject.kb.io"


def check(reader: Reader, resource: Resource, obj: Object, operation: str) -> None:
    """403 in the webhook's words, while a pod of it is ready."""
    if resource.qualified != _SCALED or operation not in ("CREATE", "UPDATE") or obj["metadata"].get("deletionTimestamp"):
        return
    if not _runs(reader):
        return
    why = _counts(obj) or _taken(reader, obj) or _unmeasured(reader, obj)
    if why:
        text = f'admission webhook "{_HOOK}" denied the request: {why}'
        raise ApiError(403, "Forbidden", text, {})


def _runs(reader: Reader) -> bool:
    for pod in reader.read_all("pods"):
        labels = pod["metadata"].get("labels") or {}
        if "keda-admission-webhooks" not in (labels.get("app.kubernetes.io/name"), labels.get("app")):
            continue
        if any(c["type"] == "Ready" and c["status"] == "True" for c in (pod.get("status") or {}).get("conditions") or []):
            return True
    return False


def _target(obj: Object) -> tuple[str, str, str]:
    # A definition without a schema lets an object pass that names no target: such a one is nobody's rival.
    wish = (obj.get("spec") or {}).get("scaleTargetRef") or {}
    return wish.get("apiVersion") or "apps/v1", wish.get("kind") or "Deployment", str(wish.get("name") or "")


def _counts(obj: Object) -> str:
    spec = obj.get("spec") or {}
    least, most, idle = spec.get("minReplicaCount", 0), spec.get("maxReplicaCount", 100), spec.get("idleReplicaCount")
    if least > most:
        return f"MinReplicaCount={least} must be less than or equal to MaxReplicaCount={most}"
    if idle is not None and idle >= least:
        return f"IdleReplicaCount={idle} must be less than MinReplicaCount={least}"
    names = [t["name"] for t in (spec.get("triggers") or []) if t.get("name")]
    if len(names) != len(set(names)):
        return "triggerName must be unique across triggers"
    return ""


def _taken(reader: Reader, obj: Object) -> str:
    """Another ScaledObject or an HPA that is not this one's."""
    metadata, target = obj["metadata"], _target(obj)
    space, name = metadata.get("namespace"), metadata["name"]
    shown = f"the workload '{target[2]}' of type '{target[0]}.{target[1]}' is already managed by the"
    config = ((obj.get("spec") or {}).get("advanced") or {}).get("horizontalPodAutoscalerConfig") or {}
    own = config.get("name") or f"keda-hpa-{name}"
    for other in reader.read_all(_SCALED, space):
        if target[2] and other["metadata"]["name"] != name and _target(other) == target:
            return f"{shown} ScaledObject '{other['metadata']['name']}'"
    for other in reader.read_all(_AUTOSCALERS, space):
        wish = other["spec"]["scaleTargetRef"]
        mine = other["metadata"]["name"] == own and any(o.get("name") == name for o in other["metadata"].get("ownerReferences") or ())
        if (wish.get("apiVersion"), wish["kind"], wish["name"]) == target and not mine:
            taken_over = (metadata.get("annotations") or {}).get("scaledobject.keda.sh/transfer-hpa-ownership") == "true"
            if not (taken_over and other["metadata"]["name"] == own):
                return f"{shown} hpa '{other['metadata']['name']}'"
    return ""


def _unmeasured(reader: Reader, obj: Object) -> str:
    kinds = [t["type"] for t in _triggers(obj) if t["type"] in ("cpu", "memory") and t.get("metricType", "Utilization") == "Utilization"]
    version, kind, name = _target(obj)
    if not kinds or (version, kind) != ("apps/v1", "Deployment"):
        return ""
    found = reader.read("deployments.apps", name, obj["metadata"].get("namespace"))
    for container in found["spec"]["template"]["spec"]["containers"] if found else ():
        for resource in kinds:
            if resource not in ((container.get("resources") or {}).get("requests") or {}):
                shown = f"the scaledobject has a {resource} trigger but the container {container['name']}"
                return f"{shown} doesn't have the {resource} request defined"
    return ""


def _triggers(scaled: Object) -> list[Object]:
    """Its triggers; a definition without a schema lets an object pass that has none."""
    found: list[Object] = (scaled.get("spec") or {}).get("triggers") or []
    return found
