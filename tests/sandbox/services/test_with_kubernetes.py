"""The whole sandbox: an EKS token opens the API server, nodes join, coredns heals, a restart loses nothing."""

from __future__ import annotations

import base64
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from botocore.exceptions import ClientError
from botocore.signers import RequestSigner

from instantstart_sandbox.compose import build
from instantstart_sandbox.world.null_kubernetes import NullKubernetes

from .conftest import REGION, Account

ADDONS = ("vpc-cni", "kube-proxy", "coredns")
AGENT: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "DaemonSet",
    "metadata": {"name": "health-monitoring-agent", "namespace": "aws-hyperpod"},
    "spec": {
        "selector": {"matchLabels": {"app": "agent"}},
        "template": {"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [{"name": "agent", "image": "agent:1"}]}},
    },
}
WAIT_SECONDS = 60.0


def _token(account: Account) -> str:
    client = account.client("sts")
    keys = client._request_signer._credentials
    signer = RequestSigner(client.meta.service_model.service_id, REGION, "sts", "v4", keys, client.meta.events)
    request = {
        "method": "GET",
        "url": f"{account.endpoint}/?Action=GetCallerIdentity&Version=2011-06-15",
        "body": {},
        "headers": {"x-k8s-aws-id": "demo"},
        "context": {},
    }
    url = signer.generate_presigned_url(request, region_name=REGION, expires_in=60, operation_name="")
    return "k8s-aws-v1." + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")


def _kubernetes(account: Account) -> httpx2.Client:
    cluster = account.eks.describe_cluster(name="demo")["cluster"]
    authority = base64.b64decode(cluster["certificateAuthority"]["data"]).decode()
    headers = {"Authorization": f"Bearer {_token(account)}"}
    return httpx2.Client(base_url=cluster["endpoint"], verify=ssl.create_default_context(cadata=authority), headers=headers)


def _soon(account: Account, holds: Callable[[], bool]) -> None:
    """Kubernetes runs in its own thread: let a minute of virtual time pass at a time until the thing holds."""
    until = time.monotonic() + WAIT_SECONDS
    while not holds():
        assert time.monotonic() < until
        account.warp(60)
        time.sleep(0.5)


def _ready(kubernetes: httpx2.Client) -> int:
    nodes = kubernetes.get("/api/v1/nodes").json()["items"]
    conditions = [c for n in nodes for c in n["status"].get("conditions", []) if c["type"] == "Ready"]
    return sum(c["status"] == "True" for c in conditions)


def test_nodes_join_and_a_restart_loses_nothing(tmp_path: Path) -> None:
    sandbox = build(tmp_path, rate=60.0)
    account = Account(sandbox.world, sandbox.start(0), NullKubernetes())
    account.network()
    account.prepare_hyperpod()
    kubernetes = _kubernetes(account)
    with pytest.raises(ClientError, match="health-monitoring-agent was not found"):
        account.hyperpod()
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "aws-hyperpod"}}
    assert kubernetes.post("/api/v1/namespaces", json=space).status_code == 201
    assert kubernetes.post("/apis/apps/v1/namespaces/aws-hyperpod/daemonsets", json=AGENT).status_code == 201
    time.sleep(1)
    for name in ADDONS:
        account.eks.create_addon(clusterName="demo", addonName=name, resolveConflicts="OVERWRITE")
    status = {"coredns": ""}

    def coredns_is(wanted: str) -> bool:
        status["coredns"] = account.eks.describe_addon(clusterName="demo", addonName="coredns")["addon"]["status"]
        return status["coredns"] == wanted

    _soon(account, lambda: coredns_is("DEGRADED"))
    account.hyperpod(account.group(instance_type="ml.m5.2xlarge"))
    _soon(account, lambda: _ready(kubernetes) == 2)
    _soon(account, lambda: coredns_is("ACTIVE"))
    endpoint, before = kubernetes.base_url, account.describe()
    sandbox.stop()

    sandbox = build(tmp_path, rate=60.0)
    account = Account(sandbox.world, sandbox.start(0), NullKubernetes())
    kubernetes = _kubernetes(account)
    assert kubernetes.base_url == endpoint
    assert account.describe()["InstanceGroups"] == before["InstanceGroups"]
    assert len(kubernetes.get("/api/v1/nodes").json()["items"]) == 2
    account.sagemaker.delete_cluster(ClusterName="hp")
    _soon(account, lambda: not account.sagemaker.list_clusters()["ClusterSummaries"])
    _soon(account, lambda: kubernetes.get("/api/v1/nodes").json()["items"] == [])
    assert sandbox.world.journal.crashes() == []
    sandbox.stop()
