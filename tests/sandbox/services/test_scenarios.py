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


def test_a_failing_lifecycle_script_says_so_in_the_event_and_in_the_log(hyperpod_account: Account) -> None:
    hyperpod_account.sagemaker.create_cluster(**hyperpod_account.request(hyperpod_account.group(count=1)))
    _post(hyperpod_account, "lifecycle-failure", cluster="hp", group="workers")
    failed: list[dict[str, Any]] = []
    for _ in range(300):  # by steps: a failed node is soon replaced, and the machine's own time counts, too
        hyperpod_account.warp(10)
        failed = [n for n in hyperpod_account.nodes() if n["InstanceStatus"]["Status"] == "Failure"]
        if failed:
            break
    assert failed, (hyperpod_account.describe(), hyperpod_account.nodes())
    node = failed[0]
    assert "Lifecycle scripts did not run successfully" in node["InstanceStatus"]["Message"]
    client = hyperpod_account.sagemaker
    event = next(e for e in client.list_cluster_events(ClusterName="hp", NodeId=node["InstanceId"])["Events"] if e["EventLevel"] == "Error")
    details = client.describe_cluster_event(ClusterName="hp", EventId=event["EventId"])["EventDetails"]
    assert details["EventDetails"]["EventMetadata"]["Instance"]["LcsExecutionState"] == "Failed"
    group = f"/aws/sagemaker/Clusters/hp/{hyperpod_account.describe()['ClusterArn'].rsplit('/', 1)[-1]}"
    stream = f"LifecycleConfig/workers/{node['InstanceId']}"
    lines = hyperpod_account.client("logs").get_log_events(logGroupName=group, logStreamName=stream)["events"]
    assert "on_create.sh exited with status 1" in lines[-1]["message"]
    _post(hyperpod_account, "lifecycle-failure", cluster="hp", group="workers", on=False)
    hyperpod_account.warp(900)
    assert hyperpod_account.described_group()["CurrentCount"] == 1
