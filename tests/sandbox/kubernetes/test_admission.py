"""Refusals that depend on other objects: quotas, webhooks without endpoints, priority classes, service accounts."""

from __future__ import annotations

from typing import Any

import httpx2

from .objects import MAPS, PODS, config_map, pod

MERGE = {"Content-Type": "application/merge-patch+json"}
QUOTAS = "/api/v1/namespaces/default/resourcequotas"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


def gpu_pod(name: str, count: int) -> dict[str, Any]:
    return pod(name, containers=[{"name": "c", "image": "i:1", "resources": {"limits": {"nvidia.com/gpu": count, "cpu": "500m"}}}])


def test_a_quota_refuses_what_exceeds_it_and_shows_what_is_used(http: httpx2.Client) -> None:
    hard = {"requests.nvidia.com/gpu": "8", "requests.cpu": "1", "pods": "5"}
    http.post(QUOTAS, json={"metadata": {"name": "gpus"}, "spec": {"hard": hard}})
    assert http.post(PODS, json=gpu_pod("a", 6)).status_code == 201
    refused = http.post(PODS, json=gpu_pod("b", 4)).json()
    assert (refused["code"], refused["reason"]) == (403, "Forbidden")
    assert refused["message"] == (
        'pods "b" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=4, used: requests.nvidia.com/gpu=6, '
        "limited: requests.nvidia.com/gpu=8"
    )
    assert http.get(f"{QUOTAS}/gpus").json()["status"]["used"] == {"requests.nvidia.com/gpu": "6", "requests.cpu": "500m", "pods": "1"}
    bare = http.post(PODS, json=pod("c")).json()
    assert bare["message"] == 'pods "c" is forbidden: failed quota: gpus: must specify requests.cpu for: c'
    http.patch(f"{PODS}/a/status", json={"status": {"phase": "Succeeded"}}, headers=MERGE)
    assert http.get(f"{QUOTAS}/gpus").json()["status"]["used"]["requests.nvidia.com/gpu"] == "0"
    assert http.post(PODS, json=gpu_pod("b", 8)).status_code == 201


def webhook(policy: str, **selector: Any) -> dict[str, Any]:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    service = {"name": "hook", "namespace": "kube-system", "path": "/mutate"}
    hook = {"name": "m.example.com", "rules": [rule], "clientConfig": {"service": service}, "failurePolicy": policy}
    return {"metadata": {"name": "hooks"}, "webhooks": [{**hook, "sideEffects": "None", "admissionReviewVersions": ["v1"], **selector}]}


def test_a_webhook_without_endpoints_refuses_until_its_pods_are_up(http: httpx2.Client) -> None:
    http.post(WEBHOOKS, json=webhook("Fail"))
    absent = http.post(MAPS, json=config_map()).json()
    assert (absent["code"], absent["reason"]) == (500, "InternalError")
    assert absent["message"].endswith('service "hook" not found')
    http.post("/api/v1/namespaces/kube-system/services", json={"metadata": {"name": "hook"}, "spec": {"ports": [{"port": 443}]}})
    assert http.post(MAPS, json=config_map()).json()["message"] == (
        'Internal error occurred: failed calling webhook "m.example.com": failed to call webhook: Post '
        '"https://hook.kube-system.svc:443/mutate?timeout=10s": no endpoints available for service "hook"'
    )
    endpoints = {"metadata": {"name": "hook"}, "subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 443}]}]}
    http.post("/api/v1/namespaces/kube-system/endpoints", json=endpoints)
    assert http.post(MAPS, json=config_map()).status_code == 201


def test_a_webhook_that_may_fail_or_does_not_match_lets_pass(http: httpx2.Client) -> None:
    http.post(WEBHOOKS, json=webhook("Ignore"))
    assert http.post(MAPS, json=config_map("a")).status_code == 201
    http.delete(f"{WEBHOOKS}/hooks")
    elsewhere = {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["default"]}]}
    http.post(WEBHOOKS, json=webhook("Fail", namespaceSelector=elsewhere))
    assert http.post(MAPS, json=config_map("b")).status_code == 201
    assert http.post("/api/v1/namespaces/kube-public/configmaps", json=config_map("b")).status_code == 500


def test_priority_classes_and_service_accounts_must_be_there(http: httpx2.Client) -> None:
    refused = http.post(PODS, json=pod(priorityClassName="none")).json()
    assert (refused["code"], refused["message"]) == (403, 'pods "a" is forbidden: no PriorityClass with name none was found')
    critical = http.post(PODS, json=pod("b", priorityClassName="system-node-critical")).json()
    assert critical["spec"]["priority"] == 2_000_001_000
    refused = http.post(PODS, json=pod(serviceAccountName="none")).json()
    assert refused["message"] == 'pods "a" is forbidden: error looking up service account default/none: serviceaccount "none" not found'
    bare = http.post(PODS, json=pod("c", automountServiceAccountToken=False)).json()
    assert "volumes" not in bare["spec"]


def test_a_claim_gets_the_default_class(http: httpx2.Client) -> None:
    claims = "/api/v1/namespaces/default/persistentvolumeclaims"
    body = {"metadata": {"name": "a"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}}}
    assert "storageClassName" not in http.post(claims, json=body).json()["spec"]
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    http.post(
        "/apis/storage.k8s.io/v1/storageclasses",
        json={"metadata": {"name": "gp3", "annotations": default}, "provisioner": "ebs.csi.aws.com"},
    )
    body["metadata"]["name"] = "b"  # type: ignore[index]
    made = http.post(claims, json=body).json()
    assert (made["spec"]["storageClassName"], made["spec"]["resources"]["requests"]["storage"]) == ("gp3", "1Gi")
    smaller = {"spec": {"accessModes": ["ReadWriteMany"]}}
    refused = http.patch(f"{claims}/b", json=smaller, headers=MERGE).json()
    assert (refused["code"], refused["details"]["causes"][0]["field"]) == (422, "spec")
