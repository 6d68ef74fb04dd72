"""The admin door's verbs for what no AWS call makes happen."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import pytest

from .conftest import Account


def _post(account: Account, verb: str, **body: Any) -> Any:
    request = urllib.request.Request(f"{account.endpoint}/_sandbox/scenario/{verb}", data=json.dumps(body).encode(), method="POST")
    with urllib.request.urlopen(request, timeout=30) as reply:
        return json.load(reply)


def test_a_foreign_cluster_and_a_node_group_are_put_in(account: Account) -> None:
    arn = account.eks_cluster()
    made = _post(account, "foreign-cluster", name="slurm", status="Failed", failure="no capacity")["ClusterArn"]
    assert account.sagemaker.describe_cluster(ClusterName=made)["FailureMessage"] == "no capacity"
    _post(account, "nodegroup", cluster_arn=arn, name="old", role_arn="arn:aws:iam::123456789012:role/x")
    assert account.eks.list_nodegroups(clusterName="demo")["nodegroups"] == ["old"]


def test_a_spot_instance_is_interrupted_and_asked_for_again(hyperpod_account: Account) -> None:
    hyperpod_account.hyperpod(hyperpod_account.group(count=1, CapacityRequirements={"Spot": {}}))
    before = hyperpod_account.nodes(IncludeNodeLogicalIds=True)[0]
    details = hyperpod_account.sagemaker.describe_cluster_node(ClusterName="hp", NodeId=before["InstanceId"])["NodeDetails"]
    assert details["CapacityType"] == "Spot"
    _post(hyperpod_account, "interrupt", instance=before["InstanceId"])
    hyperpod_account.warp(60)
    assert hyperpod_account.nodes()[0]["InstanceStatus"]["Status"] == "Running"
    hyperpod_account.warp(700)
    after = hyperpod_account.nodes(IncludeNodeLogicalIds=True)[0]
    assert after["NodeLogicalId"] == before["NodeLogicalId"]
    assert after["InstanceId"] not in ("", before["InstanceId"])


def test_an_unknown_instance_is_refused(account: Account) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        _post(account, "injure", instance="i-0123456789abcdef0")
    assert refused.value.code == 400
