"""CreateCluster of HyperPod: what it refuses, what it makes, how it shows."""

from __future__ import annotations

import json
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from .conftest import REGION, Account, code


def _refused(account: Account, request: dict[str, Any]) -> tuple[str, str]:
    with pytest.raises(ClientError) as refused:
        account.sagemaker.create_cluster(**request)
    return code(refused), str(refused.value.response["Error"]["Message"])


PLAN = "arn:aws:sagemaker:us-west-2:123456789012:training-plan/none"
TAINT = {"Key": "team", "Value": "a", "Effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("group", "sentence"),
    [
        ({"InstanceRequirements": {"InstanceTypes": ["ml.g5.xlarge"]}}, "exactly one of InstanceType and InstanceRequirements"),
        ({"InstanceType": None}, "exactly one of InstanceType and InstanceRequirements"),
        ({"CapacityRequirements": {"Spot": {}}, "TrainingPlanArn": PLAN}, "TrainingPlanArn cannot be specified for Spot"),
        ({"CapacityRequirements": {"Spot": {}, "OnDemand": {}}}, "exactly one of Spot and OnDemand"),
        ({"CapacityRequirements": {}}, "exactly one of Spot and OnDemand"),
        ({"MinInstanceCount": 3}, "MinInstanceCount must not exceed"),
        ({"OnStartDeepHealthChecks": ["InstanceStress"], "KubernetesConfig": {"Taints": [TAINT]}}, "custom taints"),
        ({"KubernetesConfig": {"Labels": {"sagemaker.amazonaws.com/x": "y"}}}, "reserved prefix"),
        ({"KubernetesConfig": {"Labels": {"node-role.kubernetes.io/x": "y"}}}, "reserved prefix"),
        ({"NetworkInterface": {"InterfaceType": "efa-only"}}, "one network card"),
        ({"LifeCycleConfig": None}, "LifeCycleConfig with SourceS3Uri and OnCreate is required"),
        ({"LifeCycleConfig": {"SourceS3Uri": "s3://sagemaker-scripts/lcs/", "OnCreate": "no.sh"}}, "does not exist"),
        ({"LifeCycleConfig": {"SourceS3Uri": "s3://no-such-bucket-here/lcs/", "OnCreate": "on_create.sh"}}, "does not exist"),
        ({"ExecutionRole": "arn:aws:iam::123456789012:role/nobody"}, "cannot assume the execution role"),
        ({"TrainingPlanArn": PLAN}, "the training plan .* does not exist"),
    ],
)
def test_bad_groups_are_refused(hyperpod_account: Account, group: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ClientError, match=sentence) as refused:
        hyperpod_account.sagemaker.create_cluster(**hyperpod_account.request(hyperpod_account.group(**group)))
    assert code(refused) == "ValidationException"
    assert hyperpod_account.sagemaker.list_clusters()["ClusterSummaries"] == []


@pytest.mark.parametrize(
    "group",
    [
        {"CapacityRequirements": {"Spot": {}}},
        {"MinInstanceCount": 1},
        {"InstanceType": None, "InstanceRequirements": {"InstanceTypes": ["ml.g5.xlarge"]}},
    ],
)
def test_some_groups_need_continuous_provisioning(hyperpod_account: Account, group: dict[str, Any]) -> None:
    request = hyperpod_account.request(hyperpod_account.group(**group), NodeProvisioningMode=None)
    assert "NodeProvisioningMode Continuous" in _refused(hyperpod_account, request)[1]


def test_a_fresh_execution_role_is_refused_for_ten_seconds(hyperpod_account: Account) -> None:
    fresh = hyperpod_account.role("fresh", "sagemaker.amazonaws.com")
    request = hyperpod_account.request(hyperpod_account.group(ExecutionRole=fresh))
    kind, message = _refused(hyperpod_account, request)
    assert kind == "ValidationException"
    assert "cannot assume the execution role" in message
    hyperpod_account.warp(11)
    assert hyperpod_account.sagemaker.create_cluster(**request)["ClusterArn"]


def test_a_public_subnet_is_refused(hyperpod_account: Account) -> None:
    ec2, public = hyperpod_account.ec2, hyperpod_account.subnet(4, "a")
    gateway = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=hyperpod_account.vpc)
    table = ec2.create_route_table(VpcId=hyperpod_account.vpc)["RouteTable"]["RouteTableId"]
    ec2.create_route(RouteTableId=table, DestinationCidrBlock="0.0.0.0/0", GatewayId=gateway)
    ec2.associate_route_table(RouteTableId=table, SubnetId=public)
    network = {"SecurityGroupIds": [hyperpod_account.group_id], "Subnets": [public]}
    assert "is public" in _refused(hyperpod_account, hyperpod_account.request(VpcConfig=network))[1]


def test_a_subnet_of_another_vpc_is_refused(hyperpod_account: Account) -> None:
    other = hyperpod_account.ec2.create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]
    subnet = hyperpod_account.ec2.create_subnet(VpcId=other, CidrBlock="10.9.0.0/20")["Subnet"]["SubnetId"]
    network = {"SecurityGroupIds": [hyperpod_account.group_id], "Subnets": [subnet]}
    assert "is not in the VPC" in _refused(hyperpod_account, hyperpod_account.request(VpcConfig=network))[1]


def test_a_config_map_cluster_is_refused(hyperpod_account: Account) -> None:
    arn = hyperpod_account.eks_cluster("old", mode="CONFIG_MAP")
    request = hyperpod_account.request(Orchestrator={"Eks": {"ClusterArn": arn}})
    assert "must be API or API_AND_CONFIG_MAP" in _refused(hyperpod_account, request)[1]


def test_without_the_dependency_chart_it_is_refused(hyperpod_account: Account) -> None:
    hyperpod_account.kubernetes.ready = False
    assert "health-monitoring-agent was not found" in _refused(hyperpod_account, hyperpod_account.request())[1]


def test_the_quota_has_aws_s_sentence(hyperpod_account: Account) -> None:
    request = hyperpod_account.request(hyperpod_account.group(instance_type="ml.p5.48xlarge", count=3))
    kind, message = _refused(hyperpod_account, request)
    assert kind == "ResourceLimitExceeded"
    assert "'ml.p5.48xlarge for cluster usage' is 2 Instances, with current utilization of 0 Instances" in message
    assert "a request delta of 3 Instances" in message


def test_a_name_is_taken_once(hyperpod_account: Account) -> None:
    hyperpod_account.sagemaker.create_cluster(**hyperpod_account.request())
    assert _refused(hyperpod_account, hyperpod_account.request())[0] == "ResourceInUse"


def test_a_cluster_shows_as_the_model_says(hyperpod_account: Account) -> None:
    group = hyperpod_account.group(
        MinInstanceCount=1,
        KubernetesConfig={"Labels": {"team": "a"}, "Taints": [TAINT]},
        NetworkInterface={"InterfaceType": "efa"},
        CapacityRequirements={"OnDemand": {}},
        ImageReleaseVersion="1.1.0",
    )
    hyperpod_account.hyperpod(group, Tags=[{"Key": "SageMaker", "Value": "true"}], TieredStorageConfig={"Mode": "Enable"})
    cluster = hyperpod_account.describe()
    assert (cluster["ClusterStatus"], cluster["NodeProvisioningMode"], cluster["NodeRecovery"]) == ("InService", "Continuous", "Automatic")
    assert "Tags" not in cluster
    shown = cluster["InstanceGroups"][0]
    assert (shown["CurrentCount"], shown["TargetCount"], shown["MinCount"]) == (2, 2, 1)
    assert "InstanceCount" not in shown
    assert "Labels" not in shown["KubernetesConfig"]
    assert shown["KubernetesConfig"]["DesiredLabels"] == shown["KubernetesConfig"]["CurrentLabels"] == {"team": "a"}
    assert shown["KubernetesConfig"]["DesiredTaints"] == [TAINT]
    assert (shown["DesiredImageReleaseVersion"], shown["ImageVersionStatus"]) == ("1.1.0", "UpdateAvailable")
    tags = hyperpod_account.sagemaker.list_tags(ResourceArn=cluster["ClusterArn"])["Tags"]
    assert tags == [{"Key": "SageMaker", "Value": "true"}]


def test_nodes_have_instance_ids_addresses_and_interfaces(hyperpod_account: Account) -> None:
    hyperpod_account.hyperpod()
    node = hyperpod_account.nodes()[0]
    assert len(node["InstanceId"]) == 19
    details = hyperpod_account.sagemaker.describe_cluster_node(ClusterName="hp", NodeId=node["InstanceId"])["NodeDetails"]
    assert details["InstanceStatus"]["Status"] == "Running"
    assert details["Placement"]["AvailabilityZoneId"].startswith("usw2-az")
    held = hyperpod_account.ec2.describe_network_interfaces(
        Filters=[{"Name": "addresses.private-ip-address", "Values": [details["PrivatePrimaryIp"]]}]
    )["NetworkInterfaces"][0]
    assert held["RequesterManaged"] is True
    by_logical = hyperpod_account.sagemaker.describe_cluster_node(ClusterName="hp", NodeLogicalId=details["NodeLogicalId"])
    assert by_logical["NodeDetails"]["InstanceId"] == node["InstanceId"]


def test_a_node_with_efa_takes_an_address_for_each_card(hyperpod_account: Account) -> None:
    efa = hyperpod_account.group("efa", "ml.g6e.48xlarge", 1, NetworkInterface={"InterfaceType": "efa"})
    only = hyperpod_account.group("only", "ml.g6e.48xlarge", 1, NetworkInterface={"InterfaceType": "efa-only"})
    before = sum(s["AvailableIpAddressCount"] for s in hyperpod_account.ec2.describe_subnets(SubnetIds=hyperpod_account.subnets)["Subnets"])
    hyperpod_account.hyperpod(efa, only)
    after = sum(s["AvailableIpAddressCount"] for s in hyperpod_account.ec2.describe_subnets(SubnetIds=hyperpod_account.subnets)["Subnets"])
    assert before - after == 4 + 1


def test_hyperpod_makes_its_access_entries(hyperpod_account: Account) -> None:
    hyperpod_account.hyperpod()
    entries = hyperpod_account.eks.list_access_entries(clusterName="demo")["accessEntries"]
    assert hyperpod_account.node_role in entries
    assert any(e.endswith("/AWSServiceRoleForSageMakerHyperPod") for e in entries)
    events = hyperpod_account.sagemaker.list_cluster_events(ClusterName="hp", ResourceType="Cluster", SortOrder="Ascending")["Events"]
    event = hyperpod_account.sagemaker.describe_cluster_event(ClusterName="hp", EventId=events[0]["EventId"])["EventDetails"]
    assert event["EventDetails"]["EventMetadata"]["Cluster"]["EksRoleAccessEntries"]


def test_the_entries_are_made_with_the_callers_own_rights(hyperpod_account: Account) -> None:
    iam = hyperpod_account.iam
    iam.create_user(UserName="half")
    statements = [
        {"Effect": "Allow", "Action": ["sagemaker:*", "iam:PassRole"], "Resource": "*"},
        {"Effect": "Allow", "Action": ["eks:Describe*"], "Resource": "*"},
    ]
    document = json.dumps({"Version": "2012-10-17", "Statement": statements})
    iam.put_user_policy(UserName="half", PolicyName="half", PolicyDocument=document)
    key = iam.create_access_key(UserName="half")["AccessKey"]
    keys = {"aws_access_key_id": key["AccessKeyId"], "aws_secret_access_key": key["SecretAccessKey"]}
    client = boto3.client("sagemaker", region_name=REGION, endpoint_url=hyperpod_account.endpoint, **keys)
    hyperpod_account.world.settings.iam_enforcement = True
    with pytest.raises(ClientError, match="eks:CreateAccessEntry") as denied:
        client.create_cluster(**hyperpod_account.request())
    assert code(denied) == "AccessDeniedException"
    assert client.list_clusters()["ClusterSummaries"] == []
    hyperpod_account.world.settings.iam_enforcement = False
    assert client.create_cluster(**hyperpod_account.request())["ClusterArn"]


def test_a_cluster_of_another_region_is_not_seen(hyperpod_account: Account) -> None:
    hyperpod_account.hyperpod()
    elsewhere = hyperpod_account.client("sagemaker", "us-east-1")
    assert elsewhere.list_clusters()["ClusterSummaries"] == []
    with pytest.raises(ClientError) as unknown:
        elsewhere.describe_cluster(ClusterName="hp")
    assert code(unknown) == "ResourceNotFound"
