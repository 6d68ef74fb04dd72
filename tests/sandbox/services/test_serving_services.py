"""Models behind AWS's doors: a SageMaker endpoint that is invoked, a balancer that answers by its name, a workspace that is queried."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from instantstart_sandbox.compose import build
from instantstart_sandbox.services.aws_world import EmulatedAws
from instantstart_sandbox.world.null_kubernetes import NullKubernetes

from .conftest import REGION, Account
from .test_with_kubernetes import ADDONS, AGENT, _kubernetes, _ready, _soon

MODEL = "Qwen/Qwen2.5-0.5B-Instruct"
BODY = {"model": MODEL, "messages": [{"role": "user", "content": "hello"}], "max_tokens": 8}


def deploy(kubernetes: httpx2.Client) -> None:
    """A server that needs no GPU, its Service with a load balancer, and one named as the inference operator names it."""
    probe = {"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 2}
    container: dict[str, Any] = {"name": "main", "image": "vllm/vllm-openai-cpu:v0.11.0", "args": ["--model", MODEL]}
    container["readinessProbe"] = probe
    container["ports"] = [{"name": "http", "containerPort": 8000}]
    notes = {"sandbox.instantstart.dev/serving": "load=0.1"}
    template = {"metadata": {"labels": {"app": "qwen"}, "annotations": notes}, "spec": {"containers": [container]}}
    spec = {"selector": {"matchLabels": {"app": "qwen"}}, "template": template}
    objects: list[tuple[str, Any]] = [("/apis/apps/v1/namespaces/default/deployments", {"metadata": {"name": "qwen"}, "spec": spec})]
    for name, kind in (("qwen-service", "ClusterIP"), ("qwen", "LoadBalancer")):
        ports = [{"name": "http", "port": 80, "targetPort": 8000}]
        wanted = {"type": kind, "selector": {"app": "qwen"}, "ports": ports}
        if kind == "LoadBalancer":
            wanted["loadBalancerSourceRanges"] = ["10.1.0.0/16"]
        objects.append(("/api/v1/namespaces/default/services", {"metadata": {"name": name}, "spec": wanted}))
    for path, body in objects:
        answer = kubernetes.post(path, json=body)
        assert answer.status_code == 201, answer.text


@pytest.mark.slow
def test_a_model_is_reached_through_sagemaker_a_balancer_and_its_metrics(tmp_path: Path) -> None:  # noqa: PLR0915 - one story
    sandbox = build(tmp_path, rate=60.0)
    account = Account(sandbox.world, sandbox.start(0), NullKubernetes())
    account.network()
    account.ec2.create_tags(Resources=account.subnets, Tags=[{"Key": "kubernetes.io/role/elb", "Value": "1"}])
    account.prepare_hyperpod()
    kubernetes = _kubernetes(account)
    kubernetes.post("/api/v1/namespaces", json={"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "aws-hyperpod"}})
    kubernetes.post("/apis/apps/v1/namespaces/aws-hyperpod/daemonsets", json=AGENT)
    time.sleep(1)
    for name in ADDONS:
        account.eks.create_addon(clusterName="demo", addonName=name, resolveConflicts="OVERWRITE")
    account.hyperpod(account.group(instance_type="ml.m5.2xlarge"))
    _soon(account, lambda: _ready(kubernetes) == 2)
    deploy(kubernetes)
    core = "/api/v1/namespaces/default"
    _soon(account, lambda: bool((kubernetes.get(f"{core}/endpoints/qwen-service").json().get("subsets") or [{}])[0].get("addresses")))
    # SageMaker
    aws, about = EmulatedAws(sandbox.world), {"namespace": "default", "endpoint": "qwen", "path": "v1/chat/completions"}
    assert aws.register_endpoint(account.eks_arn, "Qwen", account.node_role, about)["state"] == "CreationInProgress"
    runtime = account.client("sagemaker-runtime")
    _soon(account, lambda: aws.register_endpoint(account.eks_arn, "Qwen", account.node_role, about)["state"] == "CreationCompleted")
    told = runtime.invoke_endpoint(EndpointName="Qwen", Body=json.dumps(BODY), ContentType="application/json")
    assert json.loads(told["Body"].read())["usage"]["completion_tokens"] == 8
    assert account.sagemaker.describe_endpoint(EndpointName="Qwen")["EndpointStatus"] == "InService"
    with pytest.raises(ClientError, match="Received client error"):
        runtime.invoke_endpoint(EndpointName="Qwen", Body=b"{}", ContentType="application/json")
    asked_for = {"namespace": "AWS/SageMaker", "metricName": "Invocations", "metricStat": "Sum"}
    asked_for |= {"dimensionName": "EndpointName", "dimensionValue": "Qwen"}
    assert aws.metric(account.eks_arn, asked_for, 0.0) == 2
    aws.deregister_endpoint(account.eks_arn, "Qwen")
    with pytest.raises(ClientError, match="not found"):
        runtime.invoke_endpoint(EndpointName="Qwen", Body=b"{}", ContentType="application/json")
    # the load balancer
    _soon(account, lambda: bool(kubernetes.get(f"{core}/services/qwen").json()["status"]["loadBalancer"].get("ingress")))
    host = kubernetes.get(f"{core}/services/qwen").json()["status"]["loadBalancer"]["ingress"][0]["hostname"]
    answer = httpx2.post(f"{account.endpoint}/v1/chat/completions", json=BODY, headers={"Host": host}, timeout=30)
    assert answer.json()["usage"]["completion_tokens"] == 8
    groups = account.ec2.describe_security_groups(Filters=[{"Name": "group-name", "Values": ["k8s-elb-*"]}])["SecurityGroups"]
    assert groups[0]["IpPermissions"][0]["IpRanges"] == [{"CidrIp": "10.1.0.0/16"}]
    # its metrics, asked of a workspace
    workspace = account.client("amp").create_workspace(alias="w")["workspaceId"]
    query = f'sum(vllm:request_success_total{{model_name="{MODEL}"}})'
    _soon(account, lambda: asked(account, workspace, query) == "2")
    with pytest.raises(AssertionError, match="404"):
        asked(account, "ws-00000000-0000-0000-0000-000000000000", query)
    assert sandbox.world.journal.crashes() == []
    sandbox.stop()


def asked(account: Account, workspace: str, query: str) -> str:
    """The first value of a query, signed for ``aps``."""
    url = f"{account.endpoint}/workspaces/{workspace}/api/v1/query"
    request = AWSRequest("GET", url, params={"query": query})
    SigV4Auth(Credentials(account.keys["access_key_id"], account.keys["secret_access_key"]), "aps", REGION).add_auth(request)
    answer = httpx2.get(url, params={"query": query}, headers=dict(request.headers))
    assert answer.status_code == 200, f"{answer.status_code} {answer.text}"
    result = answer.json()["data"]["result"]
    return str(result[0]["value"][1]) if result else ""
