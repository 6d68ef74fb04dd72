"""KEDA's operator: a ScaledObject becomes an HPA, is polled, and takes its target to zero and back. It acts while its pod runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .. import scaling
from ..errors import ApiError
from ..loops.engine import Engine
from ..loops.objects import (
    Object,
    annotations_of,
    deleting,
    key_of,
    labels_of,
    meta,
    name_of,
    namespace_of,
    owner_reference,
    pod_ready,
    seconds_of,
    spec_of,
    split,
    stamp,
    status_of,
)
from ..operating import OperatorLoop
from ..resources import Resource
from . import triggers
from .definitions import SCALED
from .hpa import AUTOSCALERS
from .measures import External
from .triggers import Reading, TriggerError

PAUSED, PAUSED_REPLICAS = "autoscaling.keda.sh/paused", "autoscaling.keda.sh/paused-replicas"
_FINALIZER = "finalizer.keda.sh"
_POLLING_SECONDS, _COOLDOWN_SECONDS, _MOST = 30, 300, 100


class ScaledObjects(OperatorLoop):
    """Keys are ScaledObjects."""

    name = "keda-operator"
    kinds = (SCALED,)

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._failures: dict[str, dict[str, int]] = {}

    def _is_manager(self, pod: Object) -> bool:
        labels = labels_of(pod)
        return "keda-operator" in (labels.get("app.kubernetes.io/name"), labels.get("app"))

    def serving(self) -> bool:
        """While a pod of the operator runs, wherever it was installed."""
        return any(pod_ready(p) for p in self.cache.all("pods") if self._is_manager(p))

    def concerned(self, resource: str, obj: Object) -> Iterable[str]:
        """Nothing else: it polls."""
        return ()

    def concerns(self, resource: str, before: Object | None, after: Object | None) -> bool:
        """Not its own status."""
        if resource != SCALED or before is None or after is None:
            return True
        return spec_of(before) != spec_of(after) or annotations_of(before) != annotations_of(after) or deleting(after)

    async def look(self, key: str) -> None:
        """One look at one ScaledObject."""
        scaled = self.cache.get(SCALED, key)
        if scaled is None:
            space, name = split(key)
            self.cluster.measures.forget(str(space), name)
            self._failures.pop(key, None)
            return
        if deleting(scaled):
            await self._end(scaled)
            return
        if _FINALIZER not in (meta(scaled).get("finalizers") or []):
            scaled = await self._patch(scaled, {"metadata": {"finalizers": [*(meta(scaled).get("finalizers") or []), _FINALIZER]}})
        self.later(float(spec_of(scaled).get("pollingInterval") or _POLLING_SECONDS), key)
        try:
            resource, target = self._target(scaled)
        except ApiError as error:
            await self._refuse(scaled, "ScaledObject doesn't have correct scaleTargetRef specification", error.message)
            return
        wrong = next((w for t in _triggers(scaled) if (w := triggers.faults(t) or self._unauthenticated(scaled, t))), "")
        if wrong:
            await self._refuse(scaled, "Triggers defined in ScaledObject are not working correctly", wrong)
            return
        if await self._paused(scaled, resource, target):
            return
        await self._hpa(scaled)
        await self._poll(scaled, resource, target)

    def _target(self, scaled: Object) -> tuple[Resource, Object]:
        wish = spec_of(scaled).get("scaleTargetRef") or {}
        kind, version, name = wish.get("kind") or "Deployment", wish.get("apiVersion") or "apps/v1", wish.get("name") or ""
        found = self.cluster.catalog.of_kind(version, kind)
        obj = self.cluster.read(found.qualified, name, namespace_of(scaled)) if name and found and found.scale else None
        if found is None or obj is None:
            raise ApiError(404, "NotFound", f'{kind.lower()}s.{version.partition("/")[0]} "{name}" not found', {})
        return found, obj

    def _unauthenticated(self, scaled: Object, trigger: Object) -> str:
        wish = trigger.get("authenticationRef")
        if not wish:
            return ""
        whole = wish.get("kind") == "ClusterTriggerAuthentication"
        resource = "clustertriggerauthentications.keda.sh" if whole else "triggerauthentications.keda.sh"
        if self.cluster.read(resource, wish["name"], None if whole else namespace_of(scaled)) is not None:
            return ""
        return f'{resource.partition(".")[0].removesuffix("s")}.keda.sh "{wish["name"]}" not found'

    async def _refuse(self, scaled: Object, words: str, why: str) -> None:
        await self.event(scaled, "ScaledObjectCheckFailed", f"{words}: {why}", warning=True)
        ready = {"type": "Ready", "status": "False", "reason": "ScaledObjectCheckFailed", "message": words}
        active = {"type": "Active", "status": "Unknown", "reason": "UnkownState", "message": "ScaledObject check failed"}
        await self._status(scaled, [ready, active], {})

    # ------------------------------------------------------------------ pause and end

    async def _paused(self, scaled: Object, resource: Resource, target: Object) -> bool:
        notes = annotations_of(scaled)
        told = notes.get(PAUSED_REPLICAS)
        if told is None and notes.get(PAUSED, "false").lower() != "true":
            return False
        hpa = _hpa_name(scaled)
        if self.cluster.read(AUTOSCALERS, hpa, namespace_of(scaled)) is not None:
            await self.client.delete(AUTOSCALERS, hpa, namespace_of(scaled))
        if told is not None and told.isdigit() and _replicas(resource, target) != int(told):
            await self.client.scale(resource.qualified, name_of(target), int(told), namespace_of(scaled))
        paused = {"type": "Paused", "status": "True", "reason": "ScaledObjectPaused", "message": "ScaledObject is paused"}
        if told is not None:
            paused["message"] = f"ScaledObject is paused at {told} replicas"
        fields = {"pausedReplicaCount": int(told)} if told is not None and told.isdigit() else {}
        await self._status(scaled, [paused], fields)
        return True

    async def _end(self, scaled: Object) -> None:
        held = meta(scaled).get("finalizers") or []
        if _FINALIZER not in held:
            return
        await self.client.delete(AUTOSCALERS, _hpa_name(scaled), namespace_of(scaled))
        self.cluster.measures.forget(namespace_of(scaled), name_of(scaled))
        restore = (
            (spec_of(scaled).get("advanced") or {}).get("restoreToOriginalReplicaCount"),
            status_of(scaled).get("originalReplicaCount"),
        )
        if restore[0] and restore[1] is not None:
            resource, target = self._target(scaled)
            await self.client.scale(resource.qualified, name_of(target), int(restore[1]), namespace_of(scaled))
        await self._patch(scaled, {"metadata": {"finalizers": [f for f in held if f != _FINALIZER]}})

    # ------------------------------------------------------------------ the HPA

    async def _hpa(self, scaled: Object) -> None:
        spec, space = spec_of(scaled), namespace_of(scaled)
        wish = spec["scaleTargetRef"]
        config = (spec.get("advanced") or {}).get("horizontalPodAutoscalerConfig") or {}
        wanted: Object = {
            "scaleTargetRef": {
                "apiVersion": wish.get("apiVersion") or "apps/v1",
                "kind": wish.get("kind") or "Deployment",
                "name": wish["name"],
            },
            "minReplicas": max(_least(scaled), 1),
            "maxReplicas": _greatest(scaled),
            "metrics": [_metric(scaled, n, t) for n, t in enumerate(spec.get("triggers") or [])],
        }
        if config.get("behavior"):
            wanted["behavior"] = config["behavior"]
        labels = {"app.kubernetes.io/managed-by": "keda-operator", "scaledobject.keda.sh/name": name_of(scaled)}
        metadata = {"name": _hpa_name(scaled), "namespace": space, "labels": labels, "ownerReferences": [owner_reference(scaled)]}
        body = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": metadata, "spec": wanted}
        await self.client.apply(AUTOSCALERS, body)

    # ------------------------------------------------------------------ polling

    async def _poll(self, scaled: Object, resource: Resource, target: Object) -> None:
        key, space, now = key_of(scaled), namespace_of(scaled), self.now()
        failures = self._failures.setdefault(key, {})
        readings, errors = [], {}
        for number, trigger in enumerate(_triggers(scaled)):
            if trigger["type"] in triggers.RESOURCE:
                continue
            name = triggers.metric_name(number, trigger)
            try:
                found = await triggers.read(self.cluster, number, trigger, now)
            except TriggerError as error:
                failures[name] = failures.get(name, 0) + 1
                errors[name] = str(error)
                await self.event(scaled, "KEDAScalerFailed", str(error), warning=True)
                continue
            failures[name] = 0
            readings.append(found)
        fallen = self._tell(scaled, readings, errors, failures)
        fixed = any(t["type"] in triggers.RESOURCE for t in _triggers(scaled))
        active = fixed or any(r.active for r in readings) or fallen
        fields = await self._act(scaled, (resource, target), active, bool(errors) and not readings and not fallen)
        fields |= {
            "hpaName": _hpa_name(scaled),
            "externalMetricNames": [
                triggers.metric_name(n, t) for n, t in enumerate(_triggers(scaled)) if t["type"] not in triggers.RESOURCE
            ],
            "health": {n: {"numberOfFailures": c, "status": "Failing" if c else "Happy"} for n, c in failures.items()},
            "triggersTypes": ",".join(dict.fromkeys(t["type"] for t in _triggers(scaled))),
            "scaleTargetKind": f"{resource.api_version}.{resource.kind}",
        }
        if status_of(scaled).get("originalReplicaCount") is None:
            fields["originalReplicaCount"] = _replicas(resource, target)
        await self._status(scaled, _conditions(active, errors, fallen), fields)
        self.engine.enqueue(self.engine.controller("horizontal-pod-autoscaler"), f"{space}/{_hpa_name(scaled)}")

    def _tell(self, scaled: Object, readings: list[Reading], errors: dict[str, str], failures: dict[str, int]) -> bool:
        """Give the HPA its values; a metric that failed often enough is stood in for by the fallback. Whether one is."""
        space, name, fallback = namespace_of(scaled), name_of(scaled), spec_of(scaled).get("fallback")
        for reading in readings:
            self.cluster.measures.tell(space, name, reading.name, External(reading.value))
        fallen = False
        targets = {triggers.metric_name(n, t): t for n, t in enumerate(_triggers(scaled))}
        for metric, why in errors.items():
            if fallback and failures[metric] >= int(fallback["failureThreshold"]):
                goal = float(targets[metric]["metadata"].get("threshold") or 1)
                self.cluster.measures.tell(space, name, metric, External(goal * int(fallback["replicas"])))
                fallen = True
            else:
                self.cluster.measures.tell(space, name, metric, External(0.0, why))
        return fallen

    async def _act(self, scaled: Object, place: tuple[Resource, Object], active: bool, unknown: bool) -> Object:
        """From zero up and down to zero (or to the idle count); between one and the most it is the HPA's affair."""
        resource, target = place
        have, least, now = _replicas(resource, target), _least(scaled), self.now()
        idle = spec_of(scaled).get("idleReplicaCount")
        floor = int(idle) if idle is not None else least
        if active:
            if have == 0 or (idle is not None and have <= floor):
                await self._scale(scaled, place, max(least, 1), "KEDAScaleTargetActivated")
            return {"lastActiveTime": stamp(now)}
        if unknown:
            return {}
        since = now - seconds_of(status_of(scaled).get("lastActiveTime") or meta(scaled).get("creationTimestamp"))
        cooldown = float(spec_of(scaled).get("cooldownPeriod", _COOLDOWN_SECONDS))
        if (least == 0 or idle is not None) and have > floor and since >= cooldown:
            await self._scale(scaled, place, floor, "KEDAScaleTargetDeactivated")
        elif have < least:
            await self._scale(scaled, place, least, "KEDAScaleTargetActivated")
        return {}

    async def _scale(self, scaled: Object, place: tuple[Resource, Object], count: int, reason: str) -> None:
        resource, target = place
        have = _replicas(resource, target)
        await self.client.scale(resource.qualified, name_of(target), count, namespace_of(scaled))
        word = "Scaled" if reason == "KEDAScaleTargetActivated" else "Deactivated"
        await self.event(scaled, reason, f"{word} {resource.api_version}.{resource.kind} {key_of(target)} from {have} to {count}")

    # ------------------------------------------------------------------ status

    async def _status(self, scaled: Object, conditions: list[Object], fields: Object) -> None:
        told = {c["type"]: c for c in status_of(scaled).get("conditions") or []}
        told.setdefault("Paused", {"type": "Paused", "status": "Unknown"})
        told.setdefault("Fallback", {"type": "Fallback", "status": "Unknown"})
        if not any(c["type"] == "Paused" for c in conditions):
            told["Paused"] = {"type": "Paused", "status": "False", "reason": "ScaledObjectUnpaused", "message": "pause annotation removed"}
        told |= {c["type"]: c for c in conditions}
        await self.engine.write_status(SCALED, scaled, {"conditions": list(told.values()), **fields}, self.client)

    async def _patch(self, scaled: Object, change: Object) -> Object:
        return await self.client.patch(SCALED, name_of(scaled), change, namespace_of(scaled))


def _conditions(active: bool, errors: dict[str, str], fallen: bool) -> list[Object]:
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "ScaledObjectReady",
        "message": "ScaledObject is defined correctly and is ready for scaling",
    }
    if errors:
        words = "Triggers defined in ScaledObject are not working correctly"
        ready = {"type": "Ready", "status": "False", "reason": "TriggerError", "message": f"{words}: {next(iter(errors.values()))}"}
    told = "Scaling is performed because triggers are active" if active else "Scaling is not performed because triggers are not active"
    act = {"type": "Active", "status": str(active), "reason": "ScalerActive" if active else "ScalerNotActive", "message": told}
    words = "At least one trigger is falling back on this scaled object" if fallen else "No fallbacks are active on this scaled object"
    fall = {"type": "Fallback", "status": str(fallen), "reason": "FallbackExists" if fallen else "NoFallbackFound", "message": words}
    return [ready, act, fall]


def _metric(scaled: Object, number: int, trigger: Object) -> Object:
    told, kind = trigger["metadata"], trigger["type"]
    style = trigger.get("metricType")
    if kind in triggers.RESOURCE:
        value: Any = told.get("value", "80")
        goal = {"type": "Utilization", "averageUtilization": int(float(value))}
        if style == "AverageValue":
            goal = {"type": "AverageValue", "averageValue": value}
        return {"type": "Resource", "resource": {"name": kind, "target": goal}}
    wanted = told.get("threshold") or told.get("targetMetricValue") or told.get("targetValue") or "1"
    goal = {"type": "Value", "value": wanted} if style == "Value" else {"type": "AverageValue", "averageValue": wanted}
    selector = {"matchLabels": {"scaledobject.keda.sh/name": name_of(scaled)}}
    return {
        "type": "External",
        "external": {"metric": {"name": triggers.metric_name(number, trigger), "selector": selector}, "target": goal},
    }


def _hpa_name(scaled: Object) -> str:
    config = (spec_of(scaled).get("advanced") or {}).get("horizontalPodAutoscalerConfig") or {}
    return str(config.get("name") or f"keda-hpa-{name_of(scaled)}")


def _least(scaled: Object) -> int:
    return int(spec_of(scaled).get("minReplicaCount") or 0)


def _greatest(scaled: Object) -> int:
    return int(spec_of(scaled).get("maxReplicaCount") or _MOST)


def _replicas(resource: Resource, target: Object) -> int:
    return int(scaling.show(resource, target)["spec"].get("replicas", 0))


def _triggers(scaled: Object) -> list[Object]:
    """Its triggers; a definition without a schema lets an object pass that has none."""
    found: list[Object] = (scaled.get("spec") or {}).get("triggers") or []
    return found
