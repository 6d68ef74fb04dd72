"""What the API server refuses in what makes pods: Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs, CronJobs (v1.34)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Final

from instantstart_sandbox.kubernetes.errors import Cause, bad_value, forbidden_field, required, unsupported
from instantstart_sandbox.kubernetes.names import key_causes, label_causes, value_text
from instantstart_sandbox.kubernetes.pod_rules import pod_causes
from instantstart_sandbox.kubernetes.selectors import selector_matches

Object = dict[str, Any]
_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
_UNMATCHED: Final = "`selector` does not match template `labels`"


def _shown(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def at_least_zero(spec: Object, fields: Iterable[str], path: str) -> list[Cause]:
    """Numbers that may not be negative."""
    text = "must be greater than or equal to 0"
    return [bad_value(f"{path}.{f}", str(spec[f]), text) for f in fields if isinstance(spec.get(f), int) and spec[f] < 0]


# ---------------------------------------------------------------------- selectors


def selector_causes(selector: Object, path: str) -> list[Cause]:
    """Violations in a label selector."""
    causes = label_causes(selector.get("matchLabels") or {}, f"{path}.matchLabels")
    for index, expression in enumerate(selector.get("matchExpressions") or ()):
        causes += _requirement(expression, f"{path}.matchExpressions[{index}]")
    return causes


def _requirement(expression: Object, where: str) -> list[Cause]:
    operator, values = expression.get("operator", ""), expression.get("values") or []
    causes: list[Cause] = []
    if operator not in _OPERATORS:
        causes.append(bad_value(f"{where}.operator", f'"{operator}"', "not a valid selector operator"))
    elif operator in ("In", "NotIn") and not values:
        causes.append(required(f"{where}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist") and values:
        causes.append(forbidden_field(f"{where}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"))
    causes += key_causes(expression.get("key", ""), f"{where}.key")
    for index, value in enumerate(values):
        text = value_text(value)
        causes += [bad_value(f"{where}.values[{index}]", f'"{value}"', text)] if text else []
    return causes


def _selector(spec: Object, kind: str) -> list[Cause]:
    selector = spec.get("selector")
    if selector is None:
        return [required("spec.selector")]
    causes = selector_causes(selector, "spec.selector")
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        causes.append(bad_value("spec.selector", _shown(selector), f"empty selector is invalid for {kind}"))
    return causes


def _readable(selector: Object) -> bool:
    return all(e.get("operator") in _OPERATORS for e in selector.get("matchExpressions") or ())


# ---------------------------------------------------------------------- templates


def _unmatched(spec: Object) -> list[Cause]:
    """A template that its own selector does not find; an empty selector is another complaint."""
    selector = spec.get("selector") or {}
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if not selector or not _readable(selector) or selector_matches(selector, labels or {}):
        return []
    return [bad_value("spec.template.metadata.labels", _shown(labels), _UNMATCHED)]


def _template(spec: Object, claims: set[str] = frozenset()) -> list[Cause]:  # type: ignore[assignment]
    template = spec.get("template") or {}
    causes = label_causes((template.get("metadata") or {}).get("labels") or {}, "spec.template.labels")
    return causes + pod_causes(template.get("spec") or {"restartPolicy": "Always"}, "spec.template.spec", claims)


def _always(spec: Object, kind: str) -> list[Cause]:
    pod = (spec.get("template") or {}).get("spec") or {}
    causes = []
    if pod.get("restartPolicy", "Always") != "Always":
        causes.append(unsupported("spec.template.spec.restartPolicy", pod["restartPolicy"], ("Always",)))
    if pod.get("activeDeadlineSeconds") is not None:
        text = f"activeDeadlineSeconds in {kind} is not Supported"
        causes.append(forbidden_field("spec.template.spec.activeDeadlineSeconds", text))
    return causes


def _selected_template(spec: Object, kind: str) -> list[Cause]:
    selector = spec.get("selector") or {}
    if not _readable(selector):
        return [bad_value("spec.selector", _shown(selector), "invalid label selector")]
    return _unmatched(spec) + _template(spec) + _always(spec, kind)


# ---------------------------------------------------------------------- the kinds


def deployment(obj: Object) -> list[Cause]:
    """Violations in a Deployment."""
    spec = obj.get("spec") or {}
    causes = at_least_zero(spec, ("replicas",), "spec") + _selector(spec, "deployment") + _selected_template(spec, "ReplicaSet")
    causes += _strategy(spec.get("strategy") or {})
    causes += at_least_zero(spec, ("minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"), "spec")
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= (spec.get("minReadySeconds") or 0):
        causes.append(bad_value("spec.progressDeadlineSeconds", str(deadline), "must be greater than minReadySeconds"))
    return causes


def _strategy(strategy: Object) -> list[Cause]:
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    if kind == "Recreate":
        text = "may not be specified when strategy `type` is 'Recreate'"
        return [forbidden_field("spec.strategy.rollingUpdate", text)] if rolling is not None else []
    if kind != "RollingUpdate":
        listed = '"Recreate", "RollingUpdate"'
        return [Cause("spec.strategy", "FieldValueNotSupported", f"Unsupported value: {_shown(strategy)}: supported values: {listed}")]
    rolling = rolling or {}
    causes = [
        c
        for field in ("maxUnavailable", "maxSurge")
        for c in _number_or_percent(rolling.get(field), f"spec.strategy.rollingUpdate.{field}")
    ]
    if not causes and all(_count(rolling.get(f)) == 0 for f in ("maxUnavailable", "maxSurge")):
        shown = _shown(rolling.get("maxUnavailable"))
        causes.append(bad_value("spec.strategy.rollingUpdate.maxUnavailable", shown, "may not be 0 when `maxSurge` is 0"))
    unavailable = rolling.get("maxUnavailable")
    if isinstance(unavailable, str) and _count(unavailable) > 100:
        causes.append(bad_value("spec.strategy.rollingUpdate.maxUnavailable", _shown(unavailable), "must not be greater than 100%"))
    return causes


def _number_or_percent(value: Any, field: str) -> list[Cause]:
    if isinstance(value, str) and not re.fullmatch("[0-9]+%", value):
        form = "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
        text = f"a valid percent string must be a numeric string followed by an ending '%' {form}"
        return [bad_value(field, _shown(value), text)]
    return [bad_value(field, str(value), "must be greater than or equal to 0")] if isinstance(value, int) and value < 0 else []


def _count(value: Any) -> int:
    return int(str(value or 0).rstrip("%") or 0)


def replica_set(obj: Object) -> list[Cause]:
    """Violations in a ReplicaSet."""
    spec = obj.get("spec") or {}
    numbers = at_least_zero(spec, ("replicas", "minReadySeconds"), "spec")
    # the API server says "deployment" here, too
    return numbers + _selector(spec, "deployment") + _selected_template(spec, "ReplicaSet")


def stateful_set(obj: Object) -> list[Cause]:
    """Violations in a StatefulSet."""
    spec = obj.get("spec") or {}
    causes = []
    policy = spec.get("podManagementPolicy", "OrderedReady")
    if policy not in ("OrderedReady", "Parallel"):
        causes.append(bad_value("spec.podManagementPolicy", f'"{policy}"', "must be 'OrderedReady' or 'Parallel'"))
    way = spec.get("updateStrategy") or {}
    if way.get("type", "RollingUpdate") not in ("RollingUpdate", "OnDelete"):
        rolling = way.get("rollingUpdate")
        shown = {"Partition": rolling.get("partition", 0), "MaxUnavailable": rolling.get("maxUnavailable")} if rolling is not None else None
        told = _shown({"Type": way["type"], "RollingUpdate": shown})
        causes.append(bad_value("spec.updateStrategy", told, "must be 'RollingUpdate' or 'OnDelete'"))
    causes += at_least_zero(spec, ("replicas", "minReadySeconds"), "spec") + _selector(spec, "statefulset")
    claims = {(c.get("metadata") or {}).get("name", "") for c in spec.get("volumeClaimTemplates") or ()}
    return causes + _unmatched(spec) + _template(spec, claims) + _always(spec, "StatefulSet")


def daemon_set(obj: Object) -> list[Cause]:
    """Violations in a DaemonSet."""
    spec = obj.get("spec") or {}
    selector = spec.get("selector")
    causes = selector_causes(selector or {}, "spec.selector")
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if selector is None:
        causes.append(bad_value("spec.template.metadata.labels", _shown(labels), _UNMATCHED))
    causes += _unmatched(spec)
    if selector is not None and not selector.get("matchLabels") and not selector.get("matchExpressions"):
        causes.append(bad_value("spec.selector", _shown(selector), "empty selector is invalid for daemonset"))
    causes += _template(spec) + _always(spec, "DaemonSet")
    return causes + at_least_zero(spec, ("minReadySeconds", "revisionHistoryLimit"), "spec")


_JOB_NUMBERS: Final = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
)


def job_spec(spec: Object, path: str) -> list[Cause]:
    """Violations in a Job's spec, selector left out."""
    causes = at_least_zero(spec, _JOB_NUMBERS, path)
    mode = spec.get("completionMode", "NonIndexed")
    if mode not in ("NonIndexed", "Indexed"):
        causes.append(unsupported(f"{path}.completionMode", mode, ("NonIndexed", "Indexed")))
    if mode == "Indexed" and spec.get("completions") is None:
        causes.append(required(f"{path}.completions", "when completion mode is Indexed"))
    if mode == "NonIndexed" and spec.get("backoffLimitPerIndex") is not None:
        causes.append(bad_value(f"{path}.backoffLimitPerIndex", str(spec["backoffLimitPerIndex"]), "requires indexed completion mode"))
    pod = (spec.get("template") or {}).get("spec") or {"restartPolicy": "Always"}
    causes += pod_causes(pod, f"{path}.template.spec")
    where = f"{path}.template.spec.restartPolicy"
    if pod.get("restartPolicy", "Always") == "Always":
        causes.append(required(where, 'valid values: "OnFailure", "Never"'))
    elif pod["restartPolicy"] not in ("OnFailure", "Never"):
        causes.append(unsupported(where, pod["restartPolicy"], ("OnFailure", "Never")))
    return causes


def job(obj: Object) -> list[Cause]:
    """Violations in a Job."""
    spec = obj.get("spec") or {}
    causes = job_spec(spec, "spec") + selector_causes(spec.get("selector") or {}, "spec.selector")
    return causes + _unmatched(spec)


def cron_job(obj: Object) -> list[Cause]:
    """Violations in a CronJob."""
    spec = obj.get("spec") or {}
    causes = [] if spec.get("schedule") else [required("spec.schedule")]
    causes += at_least_zero(spec, ("startingDeadlineSeconds",), "spec")
    policy = spec.get("concurrencyPolicy", "Allow")
    if policy not in ("Allow", "Forbid", "Replace"):
        causes.append(unsupported("spec.concurrencyPolicy", policy, ("Allow", "Forbid", "Replace")))
    causes += job_spec((spec.get("jobTemplate") or {}).get("spec") or {}, "spec.jobTemplate.spec")
    return causes + at_least_zero(spec, ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"), "spec")
