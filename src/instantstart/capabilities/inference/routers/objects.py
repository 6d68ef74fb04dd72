"""The Kubernetes objects of a router, as data. It may read pods of its own namespace, and nothing else."""

from __future__ import annotations

import json
from typing import Any

from instantstart.capabilities.inference.routers import specs
from instantstart.ensure.inference import serving
from instantstart.ensure.inference.serving import METRICS_PORT_NAME, PORT_NAME, Marks
from instantstart.ensure.inference.targets import Target
from instantstart.ensure.running import pod_shapes

Resource = dict[str, Any]
_RBAC = "rbac.authorization.k8s.io"
_FORGET_SECONDS, _DRAIN_SECONDS = 15, 60


def command(ask: specs.CreateSglangRouter, target: Target) -> list[str]:
    """Its argv: its workers by exactly their labels, dead ones forgotten after two failed looks."""
    words = ["python3", "-m", "sglang_router.launch_router", "--host", "0.0.0.0", "--port", str(ask.port), "--policy", ask.policy]
    words += ["--service-discovery", "--service-discovery-namespace", ask.namespace, "--service-discovery-port", str(target.port)]
    words += ["--selector", *(f"{key}={value}" for key, value in sorted(target.selector(ask.business).items()))]
    words += ["--prometheus-host", "0.0.0.0", "--prometheus-port", str(ask.metrics_port)]
    words += ["--health-check-interval-secs", "10", "--health-failure-threshold", "2"]
    given = {flag: getattr(ask, field) for field, flag in specs.CACHE_FLAGS.items()}
    return [*words, *(word for flag, value in given.items() if value is not None for word in (flag, str(value)))]


def make(ask: specs.CreateSglangRouter, target: Target, image: str) -> list[Resource]:
    """Everything, in the order of making."""
    marks = Marks(str(ask.name), "sglang-router", "sglang", target.marks.model)
    notes = {**marks.annotations(), serving.TARGET: target.name, **({specs.BUSINESS_OF: ask.business} if ask.business else {})}
    told = {k: v for k, v in ask.model_dump(mode="json").items() if k in specs.CreateSglangRouter.model_fields}
    metadata = {"name": marks.name, "namespace": ask.namespace, "labels": marks.labels(), "annotations": notes}
    made = [*_rights(metadata), _service(ask, metadata, marks), _deployment(ask, metadata, marks, _pod(ask, target, marks, image))]
    made[-1]["metadata"] = {**metadata, "annotations": {**notes, serving.ASKED: json.dumps(told, sort_keys=True)}}
    return [*made, _budget(metadata, marks)] if ask.replicas > 1 else made


def _rights(metadata: Resource) -> list[Resource]:
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}
    subject = {"kind": "ServiceAccount", "name": metadata["name"], "namespace": metadata["namespace"]}
    reference = {"apiGroup": _RBAC, "kind": "Role", "name": metadata["name"]}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {"apiVersion": f"{_RBAC}/v1", "kind": "Role", "metadata": metadata, "rules": [rule]},
        {"apiVersion": f"{_RBAC}/v1", "kind": "RoleBinding", "metadata": metadata, "subjects": [subject], "roleRef": reference},
    ]


def _service(ask: specs.CreateSglangRouter, metadata: Resource, marks: Marks) -> Resource:
    ports = [
        {"name": PORT_NAME, "port": ask.port, "targetPort": PORT_NAME, "protocol": "TCP"},
        {"name": METRICS_PORT_NAME, "port": ask.metrics_port, "targetPort": METRICS_PORT_NAME, "protocol": "TCP"},
    ]
    spec = {"type": "ClusterIP", "selector": marks.selector(), "ports": ports}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def _deployment(ask: specs.CreateSglangRouter, metadata: Resource, marks: Marks, pod: Resource) -> Resource:
    pace = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    spec = {"replicas": ask.replicas, "selector": {"matchLabels": marks.selector()}, "strategy": pace, "template": pod}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def _pod(ask: specs.CreateSglangRouter, target: Target, marks: Marks, image: str) -> Resource:
    """Ready while it knows a healthy worker; alive while it answers at all."""
    ports = [
        {"name": PORT_NAME, "containerPort": ask.port, "protocol": "TCP"},
        {"name": METRICS_PORT_NAME, "containerPort": ask.metrics_port, "protocol": "TCP"},
    ]
    alive, useful = ({"httpGet": {"path": path, "port": PORT_NAME}} for path in ("/liveness", "/readiness"))
    container = {
        "name": serving.CONTAINER,
        "image": image,
        "command": command(ask, target),
        "ports": ports,
        "resources": pod_shapes.equal_resources({"cpu": ask.cpu, "memory": ask.memory}),
        "securityContext": pod_shapes.container_security(),
        "lifecycle": {"preStop": {"sleep": {"seconds": _FORGET_SECONDS}}},
        "startupProbe": {**alive, "periodSeconds": 5, "timeoutSeconds": 5, "failureThreshold": 60},
        "readinessProbe": {**useful, "periodSeconds": 5, "timeoutSeconds": 5, "failureThreshold": 2},
        "livenessProbe": {**alive, "periodSeconds": 15, "timeoutSeconds": 10, "failureThreshold": 6},
    }  # fmt: skip
    spec = {
        **pod_shapes.pod_basics(marks.name),
        "tolerations": pod_shapes.tolerations(),
        "terminationGracePeriodSeconds": _FORGET_SECONDS + _DRAIN_SECONDS,
        "containers": [container],
    }
    return {"metadata": {"labels": marks.labels(), "annotations": serving.scraped(ask.metrics_port, "/metrics")}, "spec": spec}


def _budget(metadata: Resource, marks: Marks) -> Resource:
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": marks.selector()}}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}


def asked_of(live: Resource) -> specs.CreateSglangRouter | None:
    """What was asked of a live router; None when that cannot be read."""
    told = {k: v for k, v in serving.asked(live).items() if k in specs.CreateSglangRouter.model_fields}
    return specs.CreateSglangRouter.model_construct(**told) if told.get("target") else None
