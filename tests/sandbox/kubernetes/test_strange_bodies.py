"""Whatever a client sends, the API server answers with a refusal or stores it: it never crashes, and keeps working."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from instantstart_sandbox.kubernetes import kinds
from instantstart_sandbox.kubernetes.decoding import Options
from instantstart_sandbox.kubernetes.deletion import DeleteOptions, Deletion
from instantstart_sandbox.kubernetes.errors import ApiError
from instantstart_sandbox.kubernetes.http import parse
from instantstart_sandbox.kubernetes.pipeline import PATCHES, Pipeline
from instantstart_sandbox.kubernetes.quota import Quotas
from instantstart_sandbox.kubernetes.resources import Resource
from instantstart_sandbox.kubernetes.scaling import change, show
from instantstart_sandbox.kubernetes.store import Store
from instantstart_sandbox.kubernetes.tables import table

from .objects import config_map, deployment, job, pod, widget, widget_definition

Object = dict[str, Any]
POD_SPEC = {
    "initContainers": [{"name": "i", "image": "x", "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}],
    "containers": [
        {
            "name": "c",
            "image": "x",
            "ports": [{"containerPort": 1, "hostPort": 2}],
            "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}},
            "livenessProbe": {"httpGet": {"port": 1}},
            "lifecycle": {"preStop": {"httpGet": {"port": 1}}},
            "volumeMounts": [{"name": "v", "mountPath": "/v"}],
        }
    ],
    "volumes": [
        {"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
        {"name": "w", "configMap": {"name": "c"}},
    ],
    "tolerations": [{"key": "k", "operator": "Exists"}],
    "hostNetwork": True,
    "priorityClassName": "",
}
SELECTOR = {"matchLabels": {"app": "x"}, "matchExpressions": [{"key": "app", "operator": "In", "values": ["x"]}]}
TEMPLATE = {"metadata": {"labels": {"app": "x"}}, "spec": POD_SPEC}
BODIES: dict[str, Object] = {
    "pods": {**pod("x"), "spec": POD_SPEC},
    "deployments.apps": {**deployment("x"), "spec": {"selector": SELECTOR, "template": TEMPLATE, "strategy": {"type": "RollingUpdate"}}},
    "statefulsets.apps": {
        "metadata": {"name": "x"},
        "spec": {
            "selector": SELECTOR,
            "template": TEMPLATE,
            "serviceName": "s",
            "volumeClaimTemplates": [{"metadata": {"name": "d"}, "spec": {}}],
        },
    },
    "daemonsets.apps": {"metadata": {"name": "x"}, "spec": {"selector": SELECTOR, "template": TEMPLATE}},
    "jobs.batch": job("x"),
    "cronjobs.batch": {"metadata": {"name": "x"}, "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": job()["spec"]}}},
    "configmaps": config_map("x"),
    "secrets": {"metadata": {"name": "x"}, "stringData": {"a": "b"}, "data": {"c": "ZA=="}},
    "services": {"metadata": {"name": "x"}, "spec": {"type": "NodePort", "selector": {"a": "b"}, "ports": [{"port": 80, "name": "p"}]}},
    "persistentvolumeclaims": {
        "metadata": {"name": "x"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    },
    "persistentvolumes": {
        "metadata": {"name": "x"},
        "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "claimRef": {}},
    },
    "nodes": {
        "metadata": {"name": "x"},
        "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]},
        "status": {"conditions": [{"type": "Ready"}]},
    },
    "events": {"metadata": {"name": "x"}, "involvedObject": {"kind": "Pod", "name": "p"}, "source": {"component": "c"}},
    "resourcequotas": {"metadata": {"name": "x"}, "spec": {"hard": {"pods": "1", "requests.cpu": "1"}}},
    "poddisruptionbudgets.policy": {"metadata": {"name": "x"}, "spec": {"minAvailable": 1, "selector": SELECTOR}},
    "networkpolicies.networking.k8s.io": {"metadata": {"name": "x"}, "spec": {"podSelector": {}, "ingress": [{"ports": [{"port": 1}]}]}},
    "horizontalpodautoscalers.autoscaling": {
        "metadata": {"name": "x"},
        "spec": {"maxReplicas": 2, "scaleTargetRef": {"kind": "Deployment", "name": "x"}},
    },
    "storageclasses.storage.k8s.io": {
        "metadata": {"name": "x", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": "p",
    },
    "csidrivers.storage.k8s.io": {"metadata": {"name": "x"}, "spec": {}},
    "priorityclasses.scheduling.k8s.io": {"metadata": {"name": "x"}, "value": 5},
    "rolebindings.rbac.authorization.k8s.io": {
        "metadata": {"name": "x"},
        "roleRef": {"kind": "Role", "name": "r"},
        "subjects": [{"kind": "User", "name": "u"}],
    },
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": {
        "metadata": {"name": "x"},
        "webhooks": [
            {"name": "h", "clientConfig": {"service": {"name": "s"}}, "rules": [{"operations": ["CREATE"]}], "sideEffects": "None"}
        ],
    },
    "endpointslices.discovery.k8s.io": {
        "metadata": {"name": "x"},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["1.1.1.1"]}],
        "ports": [{"port": 1}],
    },
    "customresourcedefinitions.apiextensions.k8s.io": widget_definition(),
    "widgets.example.com": {**widget("x", color="red", ports=[{"name": "a", "port": 1}], free={"a": [1]}), "status": {"phase": "p"}},
}
JUNK: tuple[Any, ...] = (None, "", "x", "-1", 0, -5, 1.5, True, [], {}, [None], [[]], ["x"], {"x": None}, {"": {}}, [{}], "é\u0000", 2**40)


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    out = [path] if path else []
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in children:
        out += paths(item, (*path, key))
    return out


def put(value: Any, path: tuple[Any, ...], junk: Any) -> Any:
    out = copy.deepcopy(value)
    target = out
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = copy.deepcopy(junk)
    return out


def bench() -> Pipeline:
    pipeline = Pipeline(Store(), kinds.built_in(), lambda: "2026-11-30T12:00:00Z")
    Deletion(pipeline)
    Quotas(pipeline)
    for qualified, body in (("namespaces", {"metadata": {"name": "default"}}), ("serviceaccounts", {"metadata": {"name": "default"}})):
        resource = pipeline.catalog.find(qualified)
        pipeline.create(resource, "default" if resource.namespaced else None, body, Options())
    definitions = pipeline.catalog.find("customresourcedefinitions.apiextensions.k8s.io")
    pipeline.create(definitions, None, widget_definition(), Options())
    return pipeline


def attempt(action: Any) -> Any:
    """What an action answers. A refusal must be one that can be told; Kubernetes itself answers some strange bodies with a 500
    that has no reason (typed patch objects, merge keys), which is its way of refusing. Anything but a refusal is a crash."""
    try:
        return action()
    except ApiError as refusal:
        told = ("failed calling webhook", "spec replicas field")
        if refusal.code >= 500 and refusal.reason and not any(words in refusal.message for words in told):
            raise
        refusal.status()


OPERATIONS: tuple[Any, ...] = (
    {"op": "remove", "path": "/spec"},
    {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}},
    {"op": "test", "path": "/metadata/name", "value": "x"},
    {"op": "move", "from": "/spec", "path": "/metadata/annotations"},
    {"op": "copy", "from": "/metadata", "path": "/spec/x"},
    {"op": "replace", "path": "/metadata/managedFields", "value": [{}]},
    {"op": "add", "path": "/metadata/finalizers/-", "value": "e.com/a"},
    {"op": "odd", "path": "/"},
    {"op": "add", "path": "no slash", "value": 1},
    {"op": "add"},
    {"op": "replace", "path": "/spec/containers/0/image", "value": None},
    {"op": "remove", "path": "/spec/containers/9"},
    "no operation",
)
FIELDS: tuple[Any, ...] = (
    None,
    [],
    [{}],
    [None],
    "x",
    [{"manager": "m", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:x": {}}}}],
    [{"manager": "m", "operation": "Update", "fieldsV1": {"k:{": {}}}],
    [{"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:metadata": {"v:1": None}}}],
    [{"manager": 5, "operation": "Odd", "apiVersion": "no/such/version", "time": "then", "fieldsV1": []}],
    [{"fieldsV1": {"f:spec": {".": {}, 'k:{"name":"c"}': {"f:image": {}}}}, "subresource": "status"}],
)


def sent(body: Any, text: str) -> Any:
    """A body as it comes over the wire, as JSON or YAML; a character that neither can carry makes it a refusal."""
    shown = json.dumps(body, ensure_ascii=False) if text == "json" else yaml.safe_dump(body, allow_unicode=True)
    return parse(shown.encode(), yaml_allowed=text == "yaml")


def patches(pipeline: Pipeline, resource: Resource, namespace: str | None, body: Object, data: st.DataObject) -> None:
    """Each type of patch with the strange body, and some that are strange in themselves."""
    name = "widgets.example.com" if resource.qualified.startswith("customresourcedefinitions") else "x"
    for kind in ("merge", "strategic"):
        request = (PATCHES[kind], copy.deepcopy(body))
        attempt(lambda request=request: pipeline.patch(resource, namespace, name, request, Options()))
        odd = (PATCHES[kind], data.draw(st.sampled_from(({"$patch": "delete"}, {"spec": {"$patch": "odd"}}, {"$retainKeys": 5}, *JUNK))))
        attempt(lambda odd=odd: pipeline.patch(resource, namespace, name, copy.deepcopy(odd), Options()))
    replaced: Any = [{"op": "replace", "path": "/" + "/".join(map(str, p)), "value": None} for p in paths(body)[:3]]
    drawn: Any = data.draw(st.one_of(st.lists(st.sampled_from(OPERATIONS), max_size=3), st.sampled_from(JUNK)))
    for operations in (replaced, drawn):
        request = (PATCHES["json"], copy.deepcopy(operations))
        attempt(lambda request=request: pipeline.patch(resource, namespace, name, request, Options()))


def applies(pipeline: Pipeline, resource: Resource, namespace: str | None, body: Object, data: st.DataObject) -> None:
    """Server-side applies of the strange body over objects whose owners are strange, too."""
    name = "widgets.example.com" if resource.qualified.startswith("customresourcedefinitions") else "x"
    typed = {"apiVersion": resource.api_version, "kind": resource.kind, **copy.deepcopy(body)}
    owners = data.draw(st.sampled_from(FIELDS))
    attempt(lambda: pipeline.apply(resource, namespace, name, copy.deepcopy(typed), Options(manager="m", force=True)))
    own = (PATCHES["merge"], {"metadata": {"managedFields": copy.deepcopy(owners)}})
    attempt(lambda: pipeline.patch(resource, namespace, name, own, Options()))
    for subresource in ("", "status"):
        options = Options(manager="n", subresource=subresource)
        attempt(lambda options=options: pipeline.apply(resource, namespace, name, copy.deepcopy(typed), options))
    if isinstance(typed.get("metadata"), dict):
        typed["metadata"]["managedFields"] = copy.deepcopy(owners)
        attempt(lambda: pipeline.apply(resource, namespace, name, typed, Options(manager="o")))


@pytest.mark.parametrize("qualified", sorted(BODIES))
@given(st.data())
@settings(max_examples=12, deadline=None)
def test_a_strange_body_never_crashes_the_server(qualified: str, data: st.DataObject) -> None:
    never_crashes(qualified, data)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("qualified", sorted(BODIES))
@given(st.data())
@settings(max_examples=60, deadline=None)
def test_many_strange_bodies_never_crash_the_server(qualified: str, data: st.DataObject) -> None:
    never_crashes(qualified, data)


def never_crashes(qualified: str, data: st.DataObject) -> None:
    """One or two places of a good body hold junk; every way of writing it is refused or taken, and what is there can be read."""
    pipeline, good = bench(), BODIES[qualified]
    resource: Resource = pipeline.catalog.find(qualified)
    namespace = "default" if resource.namespaced else None
    name = good["metadata"]["name"]
    body = put(good, data.draw(st.sampled_from(paths(good))), data.draw(st.sampled_from(JUNK)))
    if data.draw(st.booleans()):
        body = put(body, data.draw(st.sampled_from(paths(body))), data.draw(st.sampled_from(JUNK)))
    carried = attempt(lambda: sent(body, data.draw(st.sampled_from(("json", "yaml")))))
    if carried is None:
        return
    body = carried
    attempt(lambda: pipeline.create(resource, namespace, copy.deepcopy(body), Options(validation="Strict")))
    attempt(lambda: pipeline.create(resource, namespace, copy.deepcopy(good), Options()))
    patches(pipeline, resource, namespace, body, data)
    applies(pipeline, resource, namespace, body, data)
    attempt(lambda: pipeline.update(resource, namespace, name, copy.deepcopy(body), Options()))
    if resource.has_status:
        attempt(lambda: pipeline.patch(resource, namespace, name, (PATCHES["merge"], copy.deepcopy(body)), Options(subresource="status")))
    for obj in pipeline.read_all(qualified):
        table(resource, [obj], {}, 0.0)
        if resource.scale:
            attempt(lambda obj=obj: show(resource, obj))
            edit = {"spec": {"replicas": data.draw(st.sampled_from(JUNK))}}
            at = (namespace, obj["metadata"]["name"])
            attempt(
                lambda at=at, edit=edit: change(pipeline, resource, at, lambda present: {**present, **edit}, Options(subresource="scale"))
            )
    attempt(lambda: Deletion(pipeline).delete(resource, namespace, name, DeleteOptions()))
