"""A network, roles, a bucket and an EKS cluster: made, broken at every resource, and taken down without a trace."""

from __future__ import annotations

import pytest
import yaml
from botocore.exceptions import ClientError

from instantstart_sandbox.services.cloudformation.template import load

from .conftest import Bench
from .templates import NETWORK_AND_EKS

NAMES = sorted(load(NETWORK_AND_EKS)["Resources"])


def create(bench: Bench, name: str = "whole", **more: object) -> str:
    answer = bench.cfn.create_stack(StackName=name, TemplateBody=NETWORK_AND_EKS, Capabilities=["CAPABILITY_NAMED_IAM"], **more)
    return str(answer["StackId"])


def test_everything_is_made_in_order_and_deleted_without_a_trace(bench: Bench) -> None:
    before = bench.leftovers()
    stack_id = create(bench, Tags=[{"Key": "team", "Value": "ml"}])
    assert bench.run("whole") == "CREATE_COMPLETE"
    stack = bench.cfn.describe_stacks(StackName="whole")["Stacks"][0]
    outputs = {o["OutputKey"]: o["OutputValue"] for o in stack["Outputs"]}
    assert outputs["VpcId"].startswith("vpc-")
    assert outputs["Issuer"].startswith("https://oidc.eks.us-west-2.")
    events = bench.events("whole")
    made = {e["LogicalResourceId"]: e["Timestamp"] for e in events if e["ResourceStatus"] == "CREATE_COMPLETE"}
    assert set(NAMES) <= set(made)
    assert (made["Cluster"] - made["ClusterRole"]).total_seconds() > 300
    assert made["PrivateRoute"] > made["Nat"] > made["Address"]
    cluster = bench.client("eks").describe_cluster(name="demo")["cluster"]
    assert cluster["status"] == "ACTIVE"
    assert cluster["tags"]["team"] == "ml"
    assert cluster["tags"]["aws:cloudformation:stack-id"] == stack_id
    bench.cfn.delete_stack(StackName="whole")
    assert bench.run(stack_id) == "DELETE_COMPLETE"
    assert bench.leftovers() == before
    with pytest.raises(ClientError, match="Stack with id whole does not exist"):
        bench.cfn.describe_stacks(StackName="whole")


@pytest.mark.parametrize("when", [pytest.param("before", marks=pytest.mark.slow), "after"])
@pytest.mark.parametrize("name", NAMES)
def test_a_failure_at_any_resource_leaves_nothing_behind(bench: Bench, name: str, when: str) -> None:
    before = bench.leftovers()
    bench.world.faults.add(match=f"cloudformation:.*/{name}/Create", code="GeneralServiceException", message="asked for", when=when)
    stack_id = create(bench)
    assert bench.run("whole") == "ROLLBACK_COMPLETE"
    failure = bench.first_failure("whole")
    assert failure["LogicalResourceId"] == name
    assert 'Resource handler returned message: "asked for"' in failure["ResourceStatusReason"]
    assert bench.leftovers() == before
    with pytest.raises(ClientError, match="ROLLBACK_COMPLETE state and can not be updated"):
        bench.cfn.update_stack(StackName="whole", TemplateBody=NETWORK_AND_EKS, Capabilities=["CAPABILITY_NAMED_IAM"])
    bench.cfn.delete_stack(StackName="whole")
    assert bench.run(stack_id) == "DELETE_COMPLETE"


def test_the_template_is_what_aws_would_read() -> None:
    parsed = load(NETWORK_AND_EKS)
    assert parsed["Resources"]["ClusterRole"]["Properties"]["AssumeRolePolicyDocument"]["Version"] == "2012-10-17"
    assert len(parsed["Resources"]) >= 20
    with pytest.raises(yaml.YAMLError):
        yaml.safe_load(NETWORK_AND_EKS)
