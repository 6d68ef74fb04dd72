"""A whole HyperPod cluster from a template, changed by updates, and taken down."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import Bench
from .templates import HYPERPOD


def prepare(bench: Bench) -> None:
    s3 = bench.client("s3")
    s3.create_bucket(Bucket="sagemaker-scripts", CreateBucketConfiguration={"LocationConstraint": bench.region})
    s3.put_object(Bucket="sagemaker-scripts", Key="lcs/on_create.sh", Body=b"#!/bin/bash\n")


def update(bench: Bench, **values: str) -> str:
    parameters = [{"ParameterKey": key, "ParameterValue": value} for key, value in values.items()]
    bench.cfn.update_stack(StackName="hp", UsePreviousTemplate=True, Parameters=parameters, Capabilities=["CAPABILITY_IAM"])
    return bench.run("hp")


def groups(bench: Bench) -> dict[str, Any]:
    name = bench.client("sagemaker").list_clusters()["ClusterSummaries"][0]["ClusterName"]
    return {g["InstanceGroupName"]: g for g in bench.client("sagemaker").describe_cluster(ClusterName=name)["InstanceGroups"]}


def test_a_hyperpod_cluster_is_made_changed_and_deleted(bench: Bench) -> None:
    prepare(bench)
    before = bench.leftovers()
    stack = bench.cfn.create_stack(StackName="hp", TemplateBody=HYPERPOD, Capabilities=["CAPABILITY_IAM"])["StackId"]
    assert bench.run("hp") == "CREATE_COMPLETE", bench.first_failure("hp")
    eks, cluster = bench.client("eks"), bench.client("eks").list_clusters()["clusters"][0]
    assert cluster.startswith("hp-Cluster-")
    assert eks.describe_addon(clusterName=cluster, addonName="eks-pod-identity-agent")["addon"]["status"] == "ACTIVE"
    assert len(eks.list_pod_identity_associations(clusterName=cluster)["associations"]) == 1
    entries = eks.list_access_entries(clusterName=cluster)["accessEntries"]
    assert any("hp-PodRole-" in arn for arn in entries)
    assert groups(bench)["workers"]["TargetCount"] == 2

    assert update(bench, Count="3", Second="yes") == "UPDATE_COMPLETE"
    assert groups(bench)["workers"]["TargetCount"] == 3
    assert groups(bench)["more"]["TargetCount"] == 1
    assert update(bench, Count="3", Second="no") == "UPDATE_COMPLETE"
    bench.world.clock.warp(600)
    assert set(groups(bench)) == {"workers"}

    bench.cfn.delete_stack(StackName="hp")
    assert bench.run(stack) == "DELETE_COMPLETE"
    assert bench.leftovers() == before


def test_a_hyperpod_cluster_that_cannot_be_made_takes_the_stack_back(bench: Bench) -> None:
    before = bench.leftovers()
    bench.cfn.create_stack(StackName="hp", TemplateBody=HYPERPOD, Capabilities=["CAPABILITY_IAM"])
    assert bench.run("hp") == "ROLLBACK_COMPLETE"
    failure = bench.first_failure("hp")
    assert failure["LogicalResourceId"] == "HyperPod"
    assert "does not exist" in failure["ResourceStatusReason"]
    assert "HandlerErrorCode: InvalidRequest" in failure["ResourceStatusReason"]
    assert bench.leftovers() == before


def test_an_update_that_hyperpod_refuses_is_taken_back(bench: Bench) -> None:
    prepare(bench)
    bench.cfn.create_stack(StackName="hp", TemplateBody=HYPERPOD, Capabilities=["CAPABILITY_IAM"])
    assert bench.run("hp") == "CREATE_COMPLETE", bench.first_failure("hp")
    text = HYPERPOD.replace("ml.g5.8xlarge", "ml.g5.4xlarge")
    bench.cfn.update_stack(StackName="hp", TemplateBody=text, Capabilities=["CAPABILITY_IAM"])
    assert bench.run("hp") == "UPDATE_ROLLBACK_COMPLETE"
    assert groups(bench)["workers"]["InstanceType"] == "ml.g5.8xlarge"


@pytest.mark.parametrize("name", ["Cluster", "Agent", "Admin", "Identity", "HyperPod", "Provider", "NodePolicy", "PodPolicy", "Wider"])
def test_a_failure_after_any_of_its_resources_leaves_nothing_behind(bench: Bench, name: str) -> None:
    prepare(bench)
    before = bench.leftovers()
    bench.world.faults.add(match=f"cloudformation:.*/{name}/Create", code="GeneralServiceException", message="asked for", when="after")
    bench.cfn.create_stack(StackName="hp", TemplateBody=HYPERPOD, Capabilities=["CAPABILITY_IAM"])
    assert bench.run("hp") == "ROLLBACK_COMPLETE"
    assert bench.first_failure("hp")["LogicalResourceId"] == name
    assert bench.leftovers() == before
    assert bench.client("sagemaker").list_clusters()["ClusterSummaries"] == []
