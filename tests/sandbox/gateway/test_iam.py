"""Roles become visible late, documents are checked, policies decide when enforcement is on, and EKS tokens are verified."""

from __future__ import annotations

import json
import time
from typing import Any

import boto3
import pytest
from botocore.signers import RequestSigner

from instantstart_sandbox.gateway import policies


def trust(service: str = "eks.amazonaws.com", **principal: str) -> str:
    statement = {"Effect": "Allow", "Principal": principal or {"Service": service}, "Action": "sts:AssumeRole"}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def policy(*actions: str, effect: str = "Allow", resource: str = "*", condition: dict[str, Any] | None = None) -> str:
    statement = {"Effect": effect, "Action": list(actions), "Resource": resource} | ({"Condition": condition} if condition else {})
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


@pytest.fixture
def user(sandbox: Any) -> Any:
    """A user without any policy: (client maker, put policy)."""
    iam = sandbox.client("iam")
    iam.create_user(UserName="ann")
    key = iam.create_access_key(UserName="ann")["AccessKey"]

    def client(service: str, region: str = "us-west-2") -> Any:
        return sandbox.client(service, region, aws_access_key_id=key["AccessKeyId"], aws_secret_access_key=key["SecretAccessKey"])

    def allow(document: str, name: str = "p") -> None:
        iam.put_user_policy(UserName="ann", PolicyName=name, PolicyDocument=document)

    return client, allow


def test_a_role_is_seen_by_other_services_after_a_while(sandbox: Any) -> None:
    arn = sandbox.client("iam").create_role(RoleName="late", AssumeRolePolicyDocument=trust())["Role"]["Arn"]
    assert not sandbox.world.iam_visible(arn)
    sandbox.admin("warp", seconds=11)
    assert sandbox.world.iam_visible(arn)
    assert not sandbox.world.iam_visible(arn + "x")


@pytest.mark.parametrize("document", ["{", "{}", '{"Statement": [{"Effect": "Perhaps", "Action": "x"}]}', policy("sts:AssumeRole")])
def test_a_malformed_trust_policy_is_refused(sandbox: Any, refused: Any, document: Any) -> None:
    iam = sandbox.client("iam")
    assert refused(iam.create_role, RoleName="r", AssumeRolePolicyDocument=document) == "MalformedPolicyDocument"


def test_a_trust_policy_cannot_name_a_role_that_is_not_there(sandbox: Any, refused: Any) -> None:
    document = trust(AWS="arn:aws:iam::123456789012:role/nobody")
    assert refused(sandbox.client("iam").create_role, RoleName="r", AssumeRolePolicyDocument=document) == "MalformedPolicyDocument"


def test_the_managed_policies_of_hyperpod_exist_in_every_partition(sandbox: Any) -> None:
    for region, partition in (("us-west-2", "aws"), ("cn-north-1", "aws-cn"), ("us-gov-west-1", "aws-us-gov")):
        iam = sandbox.client("iam", region)
        iam.create_role(RoleName="node", AssumeRolePolicyDocument=trust("sagemaker.amazonaws.com"))
        for name in (
            "AmazonSageMakerClusterInstanceRolePolicy",
            "AmazonEKS_CNI_Policy",
            "AmazonEKSClusterPolicy",
            "AmazonS3ReadOnlyAccess",
        ):
            iam.attach_role_policy(RoleName="node", PolicyArn=f"arn:{partition}:iam::aws:policy/{name}")
        assert len(iam.list_attached_role_policies(RoleName="node")["AttachedPolicies"]) == 4


def test_inline_policies_have_a_total_size(sandbox: Any, refused: Any) -> None:
    iam = sandbox.client("iam")
    iam.create_role(RoleName="r", AssumeRolePolicyDocument=trust())
    long = policy(*(f"ec2:Describe{'X' * 50}{n}" for n in range(100)))
    iam.put_role_policy(RoleName="r", PolicyName="a", PolicyDocument=long)
    assert refused(iam.put_role_policy, RoleName="r", PolicyName="b", PolicyDocument=long) == "LimitExceeded"


def test_an_unknown_key_is_refused_in_each_service_s_way(sandbox: Any, refused: Any) -> None:
    keys = {"aws_access_key_id": "AKIAAAAAAAAAAAAAAAAA", "aws_secret_access_key": "x"}
    codes = {
        s: refused(getattr(sandbox.client(s, **keys), c))
        for s, c in (("ec2", "describe_vpcs"), ("sts", "get_caller_identity"), ("s3", "list_buckets"), ("eks", "list_clusters"))
    }
    assert codes == {"ec2": "AuthFailure", "sts": "InvalidClientTokenId", "s3": "InvalidAccessKeyId", "eks": "UnrecognizedClientException"}


def test_enforcement_denies_what_is_not_allowed_and_names_the_action(sandbox: Any, user: Any) -> None:
    client, allow = user
    sandbox.admin("iam_enforcement", on=True)
    for service, call, named in (
        ("ec2", "describe_vpcs", "ec2:DescribeVpcs"),
        ("eks", "list_clusters", "eks:ListClusters"),
        ("s3", "list_buckets", "s3:ListAllMyBuckets"),
        ("iam", "list_roles", "iam:ListRoles"),
    ):
        with pytest.raises(boto3.client(service, "us-west-2").exceptions.ClientError) as caught:
            getattr(client(service), call)()
        error = caught.value.response["Error"]
        assert error["Code"] in ("UnauthorizedOperation", "AccessDeniedException", "AccessDenied")
        assert named in error["Message"]
    allow(policy("ec2:Describe*", "eks:ListClusters"))
    assert client("ec2").describe_vpcs()["Vpcs"]
    assert client("eks").list_clusters()["clusters"] == []
    assert client("sts").get_caller_identity()["Arn"].endswith("user/ann")


def test_an_explicit_deny_and_a_resource_pattern_decide(sandbox: Any, user: Any, refused: Any) -> None:
    client, allow = user
    admin = sandbox.client("s3")
    for bucket in ("sagemaker-one", "other-one"):
        admin.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
    allow(policy("s3:PutObject", resource="arn:aws:s3:::sagemaker-*/*"))
    sandbox.admin("iam_enforcement", on=True)
    s3 = client("s3")
    s3.put_object(Bucket="sagemaker-one", Key="a/b c", Body=b"1")
    assert refused(s3.put_object, Bucket="other-one", Key="a", Body=b"1") == "AccessDenied"
    allow(policy("s3:*", effect="Deny", resource="arn:aws:s3:::sagemaker-one/a/*"), "deny")
    assert refused(s3.put_object, Bucket="sagemaker-one", Key="a/b c", Body=b"1") == "AccessDenied"


def test_a_wrong_secret_is_refused_under_enforcement(sandbox: Any, refused: Any) -> None:
    sandbox.admin("iam_enforcement", on=True)
    keys = {"aws_access_key_id": sandbox.keys["access_key_id"], "aws_secret_access_key": "wrong"}
    assert refused(sandbox.client("eks", **keys).list_clusters) == "SignatureDoesNotMatch"
    assert refused(sandbox.client("s3", **keys).list_buckets) == "SignatureDoesNotMatch"
    assert sandbox.client("s3").list_buckets()["Buckets"] == []


def test_passing_a_role_needs_pass_role(sandbox: Any, user: Any, refused: Any) -> None:
    client, allow = user
    arn = sandbox.client("iam").create_role(RoleName="eks", AssumeRolePolicyDocument=trust())["Role"]["Arn"]
    allow(policy("eks:*"))
    sandbox.admin("iam_enforcement", on=True)
    call = {"name": "c", "roleArn": arn, "resourcesVpcConfig": {"subnetIds": []}}
    with pytest.raises(client("eks").exceptions.ClientError, match="iam:PassRole"):
        client("eks").create_cluster(**call)


def test_the_simulator_agrees_with_the_policies(sandbox: Any, user: Any) -> None:
    _, allow = user
    allow(policy("eks:*", resource="arn:aws:eks:*:*:cluster/mine"))
    iam = sandbox.client("iam")
    answer = iam.simulate_principal_policy(
        PolicySourceArn="arn:aws:iam::123456789012:user/ann",
        ActionNames=["eks:DescribeCluster", "sagemaker:CreateCluster"],
        ResourceArns=["arn:aws:eks:us-west-2:123456789012:cluster/mine"],
    )
    assert [r["EvalDecision"] for r in answer["EvaluationResults"]] == ["allowed", "implicitDeny"]
    custom = iam.simulate_custom_policy(PolicyInputList=[policy("s3:*", effect="Deny")], ActionNames=["s3:GetObject"])
    assert custom["EvaluationResults"][0]["EvalDecision"] == "explicitDeny"


def test_a_role_is_assumed_only_by_whom_it_trusts_and_its_session_works(sandbox: Any, refused: Any) -> None:
    iam, sts = sandbox.client("iam"), sandbox.client("sts")
    closed = iam.create_role(RoleName="closed", AssumeRolePolicyDocument=trust())["Role"]["Arn"]
    open_ = iam.create_role(RoleName="open", AssumeRolePolicyDocument=trust(AWS="arn:aws:iam::123456789012:root"))["Role"]["Arn"]
    assert refused(sts.assume_role, RoleArn=open_, RoleSessionName="me") == "AccessDenied"  # not visible yet
    sandbox.admin("warp", seconds=11)
    assert refused(sts.assume_role, RoleArn=closed, RoleSessionName="me") == "AccessDenied"
    keys = sts.assume_role(RoleArn=open_, RoleSessionName="me")["Credentials"]
    session = {
        "aws_access_key_id": keys["AccessKeyId"],
        "aws_secret_access_key": keys["SecretAccessKey"],
        "aws_session_token": keys["SessionToken"],
    }
    assert sandbox.client("sts", **session).get_caller_identity()["Arn"] == "arn:aws:sts::123456789012:assumed-role/open/me"
    sandbox.admin("warp", seconds=3700)
    assert refused(sandbox.client("sts", **session).get_caller_identity) == "ExpiredToken"


def presign(sandbox: Any, cluster: str, secret: str = "") -> str:
    session = boto3.Session(sandbox.keys["access_key_id"], secret or sandbox.keys["secret_access_key"])
    client = session.client("sts", "us-west-2", endpoint_url=sandbox.endpoint)
    signer = RequestSigner(client.meta.service_model.service_id, "us-west-2", "sts", "v4", session.get_credentials(), session.events)
    request = {
        "method": "GET",
        "url": f"{sandbox.endpoint}/?Action=GetCallerIdentity&Version=2011-06-15",
        "body": {},
        "headers": {"x-k8s-aws-id": cluster},
        "context": {},
    }
    return str(signer.generate_presigned_url(request, region_name="us-west-2", expires_in=60, operation_name=""))


def test_an_eks_token_is_verified_with_the_key_s_secret_and_the_cluster_s_name(sandbox: Any) -> None:
    url = presign(sandbox, "one")
    assert sandbox.world.verify_presigned(url, "one") == "arn:aws:iam::123456789012:user/instantstart-admin"
    assert sandbox.world.verify_presigned(url, "two") is None
    assert sandbox.world.verify_presigned(presign(sandbox, "one", secret="wrong"), "one") is None
    assert sandbox.world.verify_presigned(url.replace("GetCallerIdentity", "GetSessionToken"), "one") is None
    assert sandbox.world.verify_presigned("not a url", "one") is None


def test_an_eks_token_can_be_aged_by_the_virtual_clock(sandbox: Any) -> None:
    url = presign(sandbox, "one")
    sandbox.admin("settings", token_clock="both")
    assert sandbox.world.verify_presigned(url, "one")
    sandbox.admin("warp", seconds=901)
    assert sandbox.world.verify_presigned(url, "one") is None
    time.sleep(1.1)  # within one second the client signs the same token again
    assert sandbox.world.verify_presigned(presign(sandbox, "one"), "one") is not None


def test_a_presigned_identity_reaches_sts_and_not_s3(sandbox: Any) -> None:
    import urllib.request

    request = urllib.request.Request(presign(sandbox, "one"), headers={"x-k8s-aws-id": "one"})
    with urllib.request.urlopen(request, timeout=10) as reply:
        assert b"user/instantstart-admin" in reply.read()


def test_conditions_hold_by_their_operators() -> None:
    context = {"aws:requestedregion": ["us-west-2"], "aws:tagkeys": ["a", "b"]}
    assert policies.conditions_hold({"StringEquals": {"aws:RequestedRegion": ["eu-west-1", "us-west-2"]}}, context)
    assert not policies.conditions_hold({"StringNotEquals": {"aws:RequestedRegion": "us-west-2"}}, context)
    assert policies.conditions_hold({"ForAllValues:StringEquals": {"aws:TagKeys": ["a", "b", "c"]}}, context)
    assert not policies.conditions_hold({"ForAllValues:StringEquals": {"aws:TagKeys": ["a"]}}, context)
    assert not policies.conditions_hold({"StringEquals": {"aws:Absent": "x"}}, context)
    assert policies.conditions_hold({"StringEqualsIfExists": {"aws:Absent": "x"}}, context)
    assert policies.conditions_hold({"Null": {"aws:Absent": "true"}}, context)
    assert not policies.conditions_hold({"DateGreaterThan": {"aws:RequestedRegion": "x"}}, context)


def test_a_tag_of_the_resource_decides(sandbox: Any, user: Any, refused: Any) -> None:
    client, allow = user
    ec2 = sandbox.client("ec2")
    mine, other = (ec2.create_vpc(CidrBlock=f"10.{n}.0.0/16")["Vpc"]["VpcId"] for n in range(2))
    ec2.create_tags(Resources=[mine], Tags=[{"Key": "owner", "Value": "ann"}])
    allow(policy("ec2:DeleteVpc", condition={"StringEquals": {"aws:ResourceTag/owner": "ann"}}))
    sandbox.admin("iam_enforcement", on=True)
    assert refused(client("ec2").delete_vpc, VpcId=other) == "UnauthorizedOperation"
    client("ec2").delete_vpc(VpcId=mine)
