"""The repository's own templates, as files: CloudFormation reads them, and the network and EKS one becomes a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Bench

ROOT = Path(__file__).parents[3]
TEMPLATES = sorted([*ROOT.glob("src/instantstart/**/templates/*.yaml"), *ROOT.glob("deploy/cloudformation/*.y*ml")])
EKS = ROOT / "src/instantstart/ensure/templates/eks.yaml"


@pytest.mark.parametrize("path", TEMPLATES, ids=[str(p.relative_to(ROOT)) for p in TEMPLATES])
def test_every_template_is_valid(bench: Bench, path: Path) -> None:
    assert "Parameters" in bench.cfn.validate_template(TemplateBody=path.read_text())


@pytest.mark.skipif(not EKS.exists(), reason="the product's EKS template is not there")
@pytest.mark.parametrize("existing", [False, True], ids=["new network", "existing network"])
def test_the_eks_template_makes_a_cluster_and_leaves_nothing(bench: Bench, existing: bool) -> None:
    ec2 = bench.client("ec2")
    zones = [z["ZoneName"] for z in ec2.describe_availability_zones()["AvailabilityZones"]][:2]
    values = {
        "ClusterName": "demo",
        "ClusterRoleName": "demo-role",
        "KubernetesVersion": _version(bench),
        "Zone1": zones[0],
        "Zone2": zones[1],
    }
    if existing:
        vpc = ec2.create_vpc(CidrBlock="10.1.0.0/16")["Vpc"]["VpcId"]
        subnets = [
            ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.1.{i}.0/24", AvailabilityZone=zone)["Subnet"]["SubnetId"]
            for i, zone in enumerate(zones)
        ]
        values |= {"ExistingVpcId": vpc, "ExistingSubnetIds": ",".join(subnets)}
    before = bench.leftovers()
    parameters = [{"ParameterKey": key, "ParameterValue": value} for key, value in values.items()]
    stack = bench.cfn.create_stack(
        StackName="eks", TemplateBody=EKS.read_text(), Parameters=parameters, Capabilities=["CAPABILITY_NAMED_IAM"]
    )
    assert bench.run("eks") == "CREATE_COMPLETE", bench.first_failure("eks")
    cluster = bench.client("eks").describe_cluster(name="demo")["cluster"]
    outputs = {o["OutputKey"]: o["OutputValue"] for o in bench.cfn.describe_stacks(StackName="eks")["Stacks"][0]["Outputs"]}
    assert outputs["ClusterArn"] == cluster["arn"]
    assert outputs["VpcId"] == cluster["resourcesVpcConfig"]["vpcId"]
    group = ec2.describe_security_groups(GroupIds=[outputs["ComputeSecurityGroupId"]])["SecurityGroups"][0]
    for rules in (group["IpPermissions"], group["IpPermissionsEgress"]):
        assert group["GroupId"] in [pair["GroupId"] for rule in rules for pair in rule["UserIdGroupPairs"]]
    bench.cfn.delete_stack(StackName="eks")
    assert bench.run(stack["StackId"]) == "DELETE_COMPLETE"
    assert bench.leftovers() == before


def _version(bench: Bench) -> str:
    versions = bench.client("eks").describe_cluster_versions()["clusterVersions"]
    return str(next(v["clusterVersion"] for v in versions if v["defaultVersion"]))
