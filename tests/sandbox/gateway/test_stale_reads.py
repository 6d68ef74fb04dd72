"""With stale reads on, what was just made is not seen yet; it is there all the same."""

from __future__ import annotations

from typing import Any


def test_a_new_subnet_and_its_id_are_not_seen_for_a_while(sandbox: Any, vpc: Any, refused: Any) -> None:
    ec2 = sandbox.client("ec2")
    sandbox.admin("stale_reads", seconds=20)
    new = ec2.create_subnet(VpcId=vpc["vpc"], CidrBlock="10.0.64.0/20")["Subnet"]["SubnetId"]
    of_vpc = [{"Name": "vpc-id", "Values": [vpc["vpc"]]}]
    assert {s["SubnetId"] for s in ec2.describe_subnets(Filters=of_vpc)["Subnets"]} == {vpc["subnet"], vpc["other_subnet"]}
    assert refused(ec2.describe_subnets, SubnetIds=[new]) == "InvalidSubnetID.NotFound"
    assert ec2.describe_vpcs(VpcIds=[vpc["vpc"]])["Vpcs"]
    assert refused(ec2.create_subnet, VpcId=vpc["vpc"], CidrBlock="10.0.64.0/20") == "InvalidSubnet.Conflict"
    sandbox.admin("warp", seconds=21)
    assert ec2.describe_subnets(SubnetIds=[new])["Subnets"]


def test_a_new_role_is_not_listed_and_not_found(sandbox: Any, refused: Any) -> None:
    iam = sandbox.client("iam")
    sandbox.admin("stale_reads", seconds=20)
    trust = (
        '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}'
    )
    iam.create_role(RoleName="young", AssumeRolePolicyDocument=trust)
    assert refused(iam.get_role, RoleName="young") == "NoSuchEntity"
    assert "young" not in [r["RoleName"] for r in iam.list_roles()["Roles"]]
    assert refused(iam.create_role, RoleName="young", AssumeRolePolicyDocument=trust) == "EntityAlreadyExists"
    sandbox.admin("warp", seconds=21)
    assert iam.get_role(RoleName="young")["Role"]["RoleName"] == "young"


def test_a_new_eks_cluster_is_not_seen_either(sandbox: Any, refused: Any) -> None:
    def create(ctx: Any, name: str, **_: Any) -> dict[str, Any]:
        return {"cluster": {"name": name}}

    sandbox.world.registry.op("eks", "CreateCluster")(create)
    sandbox.world.registry.op("eks", "DescribeCluster")(lambda ctx, name: {"cluster": {"name": name}})
    sandbox.world.registry.op("eks", "ListClusters")(lambda ctx, **_: {"clusters": ["old", "young"]})
    sandbox.admin("stale_reads", seconds=20)
    eks = sandbox.client("eks")
    eks.create_cluster(name="young", roleArn="arn:aws:iam::123456789012:role/r", resourcesVpcConfig={})
    assert eks.list_clusters()["clusters"] == ["old"]
    assert refused(eks.describe_cluster, name="young") == "ResourceNotFoundException"
    assert eks.describe_cluster(name="old")["cluster"]["name"] == "old"
    sandbox.admin("warp", seconds=21)
    assert eks.list_clusters()["clusters"] == ["old", "young"]
