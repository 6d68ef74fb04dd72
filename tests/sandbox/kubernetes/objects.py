"""Bodies that several tests use."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"


def pod(name: str = "a", **spec: Any) -> Object:
    return {"metadata": {"name": name, "labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "busybox:1"}], **spec}}


def config_map(name: str = "a", **data: str) -> Object:
    return {"metadata": {"name": name}, "data": data or {"k": "v"}}


def deployment(name: str = "web", replicas: int = 2) -> Object:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "nginx:1"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def job(name: str = "j") -> Object:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox:1"}]}}
    return {"metadata": {"name": name}, "spec": {"template": template}}


def widget(name: str = "w", **spec: Any) -> Object:
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec}


def widget_definition() -> Object:
    size = {"type": "integer", "minimum": 1, "maximum": 9, "default": 3}
    color = {"type": "string", "enum": ["red", "blue"]}
    port = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "port": {"type": "integer"}}}
    ports = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": port}
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    spec = {
        "type": "object",
        "required": ["color"],
        "properties": {
            "size": size,
            "color": color,
            "ports": ports,
            "free": anything,
            "replicas": {"type": "integer"},
            "code": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
        },
    }
    status = {"type": "object", "properties": {"phase": {"type": "string"}, "replicas": {"type": "integer"}}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}}
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": schema,
        "subresources": {"status": {}, "scale": scale},
        "additionalPrinterColumns": [{"name": "Color", "type": "string", "jsonPath": ".spec.color"}],
    }
    names = {"plural": "widgets", "kind": "Widget", "shortNames": ["wg"], "categories": ["all"]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }
