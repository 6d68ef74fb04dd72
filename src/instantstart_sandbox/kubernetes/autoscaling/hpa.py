"""HorizontalPodAutoscalers (autoscaling/v2): resource and external metrics, tolerance, stabilisation, policies, conditions, events."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .. import scaling
from ..errors import ApiError
from ..loops.engine import Controller, Engine
from ..loops.objects import (
    Object,
    annotations_of,
    key_of,
    labels_of,
    name_of,
    namespace_of,
    pod_active,
    pod_ready,
    selects,
    spec_of,
    stamp,
    status_of,
    with_condition,
)
from ..loops.quantity import amount
from ..resources import Resource

AUTOSCALERS = "horizontalpodautoscalers.autoscaling"
#: what an HPA without metrics scales by
_BY_CPU: list[Object] = [{"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 80}}}]
_PERIOD_SECONDS, _TOLERANCE, _DOWN_WINDOW_SECONDS = 15.0, 0.1, 300.0
_USAGE = "sandbox.instantstart.dev/"
_UNIT = {"cpu": 1000, "memory": 1}


class NoMetricError(Exception):
    """A metric that cannot be had: (reason of the condition, message)."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass
class Target:
    """What is scaled: its present scale and its pods."""

    resource: Resource
    wanted: int
    pods: list[Object]


class Autoscaler(Controller):
    """Keys are HPAs."""

    name = "horizontal-pod-autoscaler"
    watched = (AUTOSCALERS,)

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._advice: dict[str, list[tuple[float, int]]] = {}
        self._moves: dict[str, list[tuple[float, int]]] = {}

    def keys(self, resource: str, obj: Object) -> Iterable[str]:
        """Every HPA."""
        return [key_of(obj)]

    def concerns(self, resource: str, before: Object | None, after: Object | None) -> bool:
        """Its own status is not news."""
        return before is None or after is None or spec_of(before) != spec_of(after)

    async def reconcile(self, key: str) -> None:
        """One look at one HPA."""
        hpa = self.cache.get(AUTOSCALERS, key)
        if hpa is None:
            self._advice.pop(key, None)
            self._moves.pop(key, None)
            return
        self.later(_PERIOD_SECONDS, key)
        conditions = status_of(hpa).get("conditions")
        try:
            target = self._target(hpa)
        except ApiError as error:
            told = {"type": "AbleToScale", "status": "False", "reason": "FailedGetScale", "message": error.message}
            await self._write(hpa, {"conditions": with_condition(conditions, told, self.now())})
            await self.event(hpa, "FailedGetScale", error.message, warning=True)
            return
        if target.wanted == 0:
            words = "scaling is disabled since the replica count of the target is zero"
            told = {"type": "ScalingActive", "status": "False", "reason": "ScalingDisabled", "message": words}
            fields = {"conditions": with_condition(conditions, told, self.now()), "currentReplicas": 0, "desiredReplicas": 0}
            await self._write(hpa, fields)
            return
        await self._scale(hpa, target)

    def _target(self, hpa: Object) -> Target:
        wish, space = spec_of(hpa)["scaleTargetRef"], namespace_of(hpa)
        found = self.cluster.catalog.of_kind(wish.get("apiVersion", "apps/v1"), wish["kind"])
        missing = ApiError(404, "NotFound", f'{wish["kind"].lower()}s "{wish["name"]}" not found', {})
        obj = self.cluster.read(found.qualified, wish["name"], space) if found is not None else None
        if found is None or obj is None:
            raise missing
        scale = scaling.show(found, obj)
        chosen = obj["spec"].get("selector")
        pods = [p for p in self.cache.all("pods", space) if pod_active(p) and isinstance(chosen, dict) and selects(chosen, labels_of(p))]
        return Target(found, int(scale["spec"].get("replicas", 0)), pods)

    async def _scale(self, hpa: Object, target: Target) -> None:
        proposals, current, failures = self._proposals(hpa, target)
        conditions = status_of(hpa).get("conditions")
        now = self.now()
        if not proposals:
            await self._cannot(hpa, target, failures[0])
            return
        # a metric that fails keeps the others from scaling down, as upstream
        advice = max([*proposals, *([target.wanted] if failures else [])])
        desired, limited = self._bounded(hpa, target.wanted, self._stabilised(hpa, target.wanted, advice))
        active = {"type": "ScalingActive", "status": "True", "reason": "ValidMetricFound"}
        active["message"] = "the HPA was able to successfully calculate a replica count"
        able = {"type": "AbleToScale", "status": "True", "reason": "ReadyForNewScale", "message": "recommended size matches current size"}
        if desired != target.wanted:
            await self.client.scale(target.resource.qualified, spec_of(hpa)["scaleTargetRef"]["name"], desired, namespace_of(hpa))
            self._moves.setdefault(key_of(hpa), []).append((now, desired - target.wanted))
            words = "above target" if desired > target.wanted else "All metrics below target"
            await self.event(hpa, "SuccessfulRescale", f"New size: {desired}; reason: {words}")
            message = f"the HPA controller was able to update the target scale to {desired}"
            able = {"type": "AbleToScale", "status": "True", "reason": "SucceededRescale", "message": message}
        for condition in (able, active, limited):
            conditions = with_condition(conditions, condition, now)
        fields: Object = {
            "conditions": conditions,
            "currentReplicas": target.wanted,
            "desiredReplicas": desired,
            "currentMetrics": current,
            "observedGeneration": hpa["metadata"].get("generation"),
        }
        if desired != target.wanted:
            fields["lastScaleTime"] = stamp(now)
        await self._write(hpa, fields)

    def _proposals(self, hpa: Object, target: Target) -> tuple[list[int], list[Object], list[NoMetricError]]:
        proposals, current, failures = [], [], []
        for metric in spec_of(hpa).get("metrics") or _BY_CPU:
            try:
                count, shown = self._proposal(hpa, target, metric)
            except NoMetricError as error:
                failures.append(error)
                continue
            proposals.append(count)
            current.append(shown)
        return proposals, current, failures

    async def _cannot(self, hpa: Object, target: Target, first: NoMetricError) -> None:
        words = f"the HPA was unable to compute the replica count: {first}"
        told = {"type": "ScalingActive", "status": "False", "reason": first.reason, "message": words}
        conditions = with_condition(status_of(hpa).get("conditions"), told, self.now())
        await self.event(hpa, first.reason, str(first), warning=True)
        await self._write(hpa, {"conditions": conditions, "currentReplicas": len(target.pods), "currentMetrics": None})

    async def _write(self, hpa: Object, fields: Object) -> None:
        await self.engine.write_status(AUTOSCALERS, hpa, fields, self.client)

    # ------------------------------------------------------------------ metrics

    def _proposal(self, hpa: Object, target: Target, metric: Object) -> tuple[int, Object]:
        if metric["type"] == "Resource":
            return self._resource(target, metric["resource"])
        if metric["type"] == "External":
            return self._external(hpa, target, metric["external"])
        raise NoMetricError(f"FailedGet{metric['type']}Metric", "no custom metrics API (custom.metrics.k8s.io) is served in the sandbox")

    def _external(self, hpa: Object, target: Target, wish: Object) -> tuple[int, Object]:
        name, selector = wish["metric"]["name"], (wish["metric"].get("selector") or {}).get("matchLabels") or {}
        try:
            value = self.cluster.measures.external(namespace_of(hpa), name, selector)
        except LookupError as error:
            raise NoMetricError(
                "FailedGetExternalMetric", f"unable to get external metric {namespace_of(hpa)}/{name}: {error.args[0]}"
            ) from error
        goal = wish["target"]
        if "averageValue" in goal:
            wanted = float(amount(goal["averageValue"]))
            ratio = value / (wanted * max(target.wanted, 1))
            shown: Object = {"averageValue": _milli(value / max(target.wanted, 1))}
        else:
            wanted, shown = float(amount(goal["value"])), {"value": _milli(value)}
            ratio = value / wanted
        count = target.wanted if abs(ratio - 1.0) <= _TOLERANCE else math.ceil(round(ratio * target.wanted, 6))
        return count, {"type": "External", "external": {"metric": wish["metric"], "current": shown}}

    def _resource(self, target: Target, wish: Object) -> tuple[int, Object]:
        """CPU and memory: the sandbox has no real usage, so that pods say it by annotation (else a tenth of what they request)."""
        name = wish["name"]
        if not self._metrics_served():
            raise NoMetricError(
                "FailedGetResourceMetric", f"failed to get {name} utilization: the server could not find the requested resource"
            )
        ready = [p for p in target.pods if pod_ready(p)]
        if not ready:
            raise NoMetricError("FailedGetResourceMetric", "no ready pods for computing the replica count")
        used, asked = [_usage(p, name) for p in ready], [_requested(p, name) for p in ready]
        goal = wish["target"]
        if "averageUtilization" in goal:
            if not all(asked):
                raise NoMetricError("FailedGetResourceMetric", f"missing request for {name} in container of Pod {name_of(ready[0])}")
            share = 100.0 * sum(used) / sum(asked)
            ratio, shown = (
                share / float(goal["averageUtilization"]),
                {"averageUtilization": int(share), "averageValue": _milli(sum(used) / len(used))},
            )
        else:
            ratio = sum(used) / len(used) / float(amount(goal["averageValue"]))
            shown = {"averageValue": _milli(sum(used) / len(used))}
        count = target.wanted if abs(ratio - 1.0) <= _TOLERANCE else math.ceil(round(ratio * len(ready), 6))
        return count, {"type": "Resource", "resource": {"name": name, "current": shown}}

    def _metrics_served(self) -> bool:
        return any(pod_ready(p) and "metrics-server" in name_of(p) for p in self.cache.all("pods", "kube-system"))

    # ------------------------------------------------------------------ bounds

    def _stabilised(self, hpa: Object, wanted: int, advice: int) -> int:
        """The least recent wish to grow, the greatest recent wish to shrink, within each direction's window."""
        now, rules = self.now(), spec_of(hpa).get("behavior") or {}
        # the first look takes the present count for a wish, so that nothing shrinks before its window has passed
        kept = self._advice.setdefault(key_of(hpa), [(now, wanted)])
        up = float((rules.get("scaleUp") or {}).get("stabilizationWindowSeconds") or 0)
        given = (rules.get("scaleDown") or {}).get("stabilizationWindowSeconds")
        down = _DOWN_WINDOW_SECONDS if given is None else float(given)
        kept.append((now, advice))
        kept[:] = [(m, a) for m, a in kept if m >= now - max(up, down)]
        least = min(a for m, a in kept if m >= now - up)
        most = max(a for m, a in kept if m >= now - down)
        if wanted < least:
            wanted = least
        return min(wanted, most) if wanted > most else wanted

    def _bounded(self, hpa: Object, wanted: int, advice: int) -> tuple[int, Object]:
        spec, rules = spec_of(hpa), spec_of(hpa).get("behavior") or {}
        low, high = int(spec.get("minReplicas") or 1), int(spec["maxReplicas"])
        desired = advice
        if advice > wanted:
            desired = min(advice, self._most(hpa, wanted, rules.get("scaleUp") or {}))
        elif advice < wanted:
            desired = max(advice, self._fewest(hpa, wanted, rules.get("scaleDown") or {}))
        limited = {"type": "ScalingLimited", "status": "False", "reason": "DesiredWithinRange"}
        limited["message"] = "the desired count is within the acceptable range"
        if desired != min(max(desired, low), high):
            reason, word = ("TooFewReplicas", "less than the minimum") if desired < low else ("TooManyReplicas", "more than the maximum")
            limited |= {"status": "True", "reason": reason, "message": f"the desired replica count is {word} replica count"}
            desired = min(max(desired, low), high)
        return desired, limited

    def _moved(self, hpa: Object, seconds: float, up: bool) -> int:
        since = self.now() - seconds
        return sum(d for m, d in self._moves.get(key_of(hpa), []) if m > since and (d > 0) == up)

    def _most(self, hpa: Object, wanted: int, rules: Object) -> int:
        policies = rules.get("policies") or [_policy("Percent", 100), _policy("Pods", 4)]
        if rules.get("selectPolicy") == "Disabled":
            return wanted
        bounds = []
        for each in policies:
            start = wanted - self._moved(hpa, float(each["periodSeconds"]), up=True)
            bounds.append(start + each["value"] if each["type"] == "Pods" else math.ceil(start * (1 + each["value"] / 100)))
        return int(min(bounds) if rules.get("selectPolicy") == "Min" else max(bounds))

    def _fewest(self, hpa: Object, wanted: int, rules: Object) -> int:
        policies = rules.get("policies") or [_policy("Percent", 100)]
        if rules.get("selectPolicy") == "Disabled":
            return wanted
        bounds = []
        for each in policies:
            start = wanted - self._moved(hpa, float(each["periodSeconds"]), up=False)
            bounds.append(start - each["value"] if each["type"] == "Pods" else math.floor(start * (1 - each["value"] / 100)))
        return int(max(bounds) if rules.get("selectPolicy") == "Min" else min(bounds))


def _policy(kind: str, value: int) -> dict[str, Any]:
    return {"type": kind, "value": value, "periodSeconds": 15}


def _milli(value: float) -> str:
    """A number as a quantity."""
    return str(round(value)) if value == round(value) else f"{round(value * 1000)}m"


def _requested(pod: Object, name: str) -> float:
    found = [((c.get("resources") or {}).get("requests") or {}).get(name) for c in spec_of(pod)["containers"]]
    return sum(float(amount(f)) for f in found if f is not None)


def _usage(pod: Object, name: str) -> float:
    told = annotations_of(pod).get(f"{_USAGE}{name}-usage")
    return float(amount(told)) if told else _requested(pod, name) / 10
