"""Admission policies refuse what their expressions refuse, to whom they are meant for; a ReplicaSet weighs the cost of deleting."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.sandbox.kubernetes.loops_bench import Bench, on_bench, workload

from instantstart_sandbox.kubernetes.errors import ApiError

Object = dict[str, Any]
GROUP = "admissionregistration.k8s.io"
COST = "controller.kubernetes.io/pod-deletion-cost"


def policy(expression: str, operations: list[str], **spec: Any) -> list[tuple[str, Object]]:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": operations, "resources": ["pods"]}
    rules = {"resourceRules": [rule], "objectSelector": spec.pop("selector", {})}
    body = {"matchConstraints": rules, "validations": [{"expression": expression, "message": "kept", "reason": "Forbidden"}], **spec}
    made = {"apiVersion": f"{GROUP}/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "p"}, "spec": body}
    bound = {"policyName": "p", "validationActions": ["Deny"]}
    binding = {"apiVersion": f"{GROUP}/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "p"}, "spec": bound}
    return [(f"validatingadmissionpolicies.{GROUP}", made), (f"validatingadmissionpolicybindings.{GROUP}", binding)]


async def put(bench: Bench, resources: list[tuple[str, Object]]) -> None:
    for resource, body in resources:
        await bench.client.create(resource, body)


def living(bench: Bench) -> list[str]:
    return sorted(p["metadata"]["name"] for p in bench.pods() if not p["metadata"].get("deletionTimestamp"))


def test_a_replica_set_takes_the_cheap_pods_first(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.machine(kind="ml.m5.4xlarge")
        await bench.client.create("deployments.apps", workload("Deployment", "web", replicas=4))
        await bench.wait(10)
        names = living(bench)
        for name, cost in zip(names, ("100", "-5", "0", "100"), strict=True):
            await bench.client.patch("pods", name, {"metadata": {"annotations": {COST: cost}}}, "default")
        await bench.client.patch("deployments.apps", "web", {"spec": {"replicas": 2}}, "default")
        await bench.wait(2)
        assert living(bench) == [names[0], names[3]]

    on_bench(tmp_path, test)


def test_a_policy_keeps_a_replica_set_from_a_pod_and_lets_others_delete_it(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.machine(kind="ml.m5.4xlarge")
        await bench.client.create("deployments.apps", workload("Deployment", "web", replicas=3))
        await bench.wait(10)
        kept, *_ = living(bench)
        await bench.client.patch("pods", kept, {"metadata": {"labels": {"business": "chat"}}}, "default")
        by = {"name": "by", "expression": "request.userInfo.username == 'system:serviceaccount:kube-system:replicaset-controller'"}
        refuse = "oldObject.metadata.labels['business'] != 'chat'"
        chosen = {"matchExpressions": [{"key": "business", "operator": "Exists"}]}
        await put(bench, policy(refuse, ["DELETE"], matchConditions=[by], selector=chosen))
        await bench.client.patch("deployments.apps", "web", {"spec": {"replicas": 0}}, "default")
        await bench.wait(30)
        assert living(bench) == [kept]
        told = [text for reason, text in bench.events() if reason == "FailedDelete"]
        assert "ValidatingAdmissionPolicy 'p' with binding 'p' denied request: kept" in told[0]
        await bench.client.delete("pods", kept, "default")
        await bench.wait(40)
        assert living(bench) == []

    on_bench(tmp_path, test)


@pytest.mark.parametrize(
    ("expression", "more", "refused"),
    [
        ("object.metadata.name != 'a'", {}, "kept"),
        ("variables.name != 'a'", {"variables": [{"name": "name", "expression": "object.metadata.name"}]}, "kept"),
        ("object.metadata.name == 'a'", {}, None),
        ("object.spec.nowhere == 'a'", {}, "resulted in error"),
        ("object.spec.nowhere == 'a'", {"failurePolicy": "Ignore"}, None),
        ("false", {"matchConditions": [{"name": "no", "expression": "request.operation == 'DELETE'"}]}, None),
    ],
)
def test_expressions_judge_what_is_made(tmp_path: Path, expression: str, more: Object, refused: str | None) -> None:
    async def test(bench: Bench) -> None:
        await put(bench, policy(expression, ["CREATE"], **more))
        body = {"metadata": {"name": "a", "namespace": "default"}, "spec": {"containers": [{"name": "c", "image": "busybox:1"}]}}
        if refused is None:
            await bench.client.create("pods", body)
            return
        with pytest.raises(ApiError) as error:
            await bench.client.create("pods", body)
        assert refused in error.value.message

    on_bench(tmp_path, test)
