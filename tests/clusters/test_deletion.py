"""A deletion ends with an empty account, or names each thing that is in its way and why that is not ours to delete.

What a creation that was cut short leaves is in tests/weather/test_partial.py.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.clusters.conftest import asked
from tests.clusters.crank import Crank, Turned
from tests.clusters.worlds import SandboxProcess, inventory

from instantstart.capabilities.clusters import specs, workflows
from instantstart.ensure import eks


def ended(turned: Turned) -> tuple[str, str, Any]:
    """For an assertion's words."""
    return turned.status, turned.stopped_at, turned.problem and turned.problem.document()


def test_a_failed_creation_is_deleted_and_made_again_though_no_eks_cluster_ever_stood(job: Any, sandbox: SandboxProcess) -> None:
    empty = inventory(sandbox)
    sandbox.fault("cloudformation:.*/Vpc/Create", code="VpcLimitExceeded", message="The maximum number of VPCs has been reached.")
    failed = job.create()
    assert (failed.status, failed.stopped_at, failed.problem.kind) == ("blocked", "stack", "out_of_quota"), ended(failed)
    assert "maximum number of VPCs" in failed.problem.detail
    stacks = sandbox.client("cloudformation").describe_stacks()["Stacks"]
    assert [s["StackStatus"] for s in stacks] == ["ROLLBACK_COMPLETE"]
    gone = job.delete()
    assert gone.status == "succeeded", ended(gone)
    assert inventory(sandbox) == empty


def test_a_retry_removes_the_failed_stack_and_goes_on(job: Any, crank: Crank, sandbox: SandboxProcess) -> None:
    sandbox.fault("cloudformation:.*/NatGateway/Create", code="InternalFailure", message="the gateway could not be made")
    failed = job.create(until="stack")
    assert (failed.status, failed.problem.code) == ("failed", "stack.failed"), ended(failed)
    assert "AWS::EC2::NatGateway NatGateway could not be made" in failed.problem.detail
    assert failed.problem.evidence["last_event"]["resource"] == "NatGateway"
    again = crank.retry(failed, until="stack")
    assert again.learned["stack"]["stack"] == job.site.names.stack
    assert "is being removed, to be made again" in again.sentences("stack")


@pytest.fixture
def standing(job: Any) -> Any:
    """A finished cluster."""
    made = job.create()
    assert made.status == "succeeded", ended(made)
    return job


def _kube(job: Any) -> Any:
    where = job.site
    return job.crank.room.kube.cluster(eks.ref(eks.get_cluster(where.aws, where.names.eks_cluster), where.aws.region))


def _interface(sandbox: SandboxProcess, job: Any, **tags: str) -> str:
    """A network interface in the cluster's compute subnet with the compute group, as a dead plugin or a stranger leaves one."""
    ec2 = sandbox.client("ec2")
    mine = [{"Name": "tag:instantstart.dev/role", "Values": ["compute-subnet"]}]
    subnet = ec2.describe_subnets(Filters=mine)["Subnets"][0]
    group = next(g for g in ec2.describe_security_groups()["SecurityGroups"] if "ComputeSecurityGroup" in g["GroupName"])
    made = ec2.create_network_interface(
        SubnetId=subnet["SubnetId"],
        Groups=[group["GroupId"]],
        Description="a file server of another team" if not tags else "aws-K8S-i-0abc",
        TagSpecifications=[{"ResourceType": "network-interface", "Tags": [{"Key": k, "Value": v} for k, v in tags.items()]}]
        if tags
        else [],
    )
    return str(made["NetworkInterface"]["NetworkInterfaceId"])


def test_load_balancers_and_dangling_interfaces_of_kubernetes_go_first(standing: Any, sandbox: SandboxProcess) -> None:
    kube = _kube(standing)
    port = {"port": 80, "targetPort": 80}
    service = {"type": "LoadBalancer", "selector": {"app": "web"}, "ports": [port]}
    kube.apply({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"}, "spec": service})
    for _ in range(30):
        sandbox.warp(10)
        if sandbox.client("elbv2").describe_load_balancers()["LoadBalancers"]:
            break
    assert sandbox.client("elbv2").describe_load_balancers()["LoadBalancers"]
    _interface(sandbox, standing, **{"node.k8s.amazonaws.com/instance_id": "i-0abc"})
    gone = standing.delete()
    assert gone.status == "succeeded", ended(gone)
    assert "Service default/web" in gone.sentences("services")
    assert "network plugin left behind" in gone.sentences("leftovers") + gone.sentences("subnets")
    assert not sandbox.client("elbv2").describe_load_balancers()["LoadBalancers"]
    assert not any(line.startswith(("vpc ", "interface", "security-group")) for line in inventory(sandbox))


def test_a_strangers_interface_is_named_and_a_second_try_resumes(standing: Any, crank: Crank, sandbox: SandboxProcess) -> None:
    stranger = _interface(sandbox, standing)
    stuck = standing.delete()
    assert (stuck.status, stuck.problem.code) == ("blocked", "cluster.delete_blocked"), ended(stuck)
    assert stranger in stuck.problem.detail
    assert "a file server of another team" in stuck.problem.detail
    assert stuck.problem.hint
    assert "retry" in stuck.problem.hint
    assert sandbox.client("ec2").describe_network_interfaces(NetworkInterfaceIds=[stranger])["NetworkInterfaces"]
    sandbox.client("ec2").delete_network_interface(NetworkInterfaceId=stranger)
    done = crank.retry(stuck)
    assert done.status == "succeeded", ended(done)
    assert not any(line.startswith(("vpc ", "eks ", "hyperpod ", "stack ")) for line in inventory(sandbox))


@pytest.mark.slow
def test_a_security_group_that_is_held_for_a_while_is_asked_for_again(standing: Any, sandbox: SandboxProcess) -> None:
    sandbox.fault("cloudformation:.*/ComputeSecurityGroup/Delete", code="DependencyViolation", message="has a dependent object", count=3)
    gone = standing.delete()
    assert gone.status == "succeeded", ended(gone)


@pytest.mark.slow
def test_a_deletion_ends_though_the_api_server_is_away(standing: Any, sandbox: SandboxProcess) -> None:
    entry = sandbox.client("eks").list_access_entries(clusterName=standing.site.names.eks_cluster)["accessEntries"]
    for principal in entry:
        sandbox.client("eks").delete_access_entry(clusterName=standing.site.names.eks_cluster, principalArn=principal)
    sandbox.warp(60)
    gone = standing.delete()
    assert gone.status == "succeeded", ended(gone)
    assert "looked for by tag instead" in gone.sentences("services")


def test_data_is_kept_and_named_unless_its_loss_is_asked_for(standing: Any, sandbox: SandboxProcess) -> None:
    bucket = standing.site.names.data_bucket
    sandbox.client("s3").put_object(Bucket=bucket, Key="weights/step-1", Body=b"x")
    gone = standing.delete()
    assert gone.status == "succeeded", ended(gone)
    assert gone.result["kept"] == [f"bucket {bucket}"]
    assert [line for line in inventory(sandbox) if line.startswith("bucket")] == [f"bucket {bucket} ['weights/step-1']"]
    rest = standing.crank.run(workflows.DELETE_CLUSTER, asked(specs.DeleteTarget, standing.tag, delete_data=True))
    assert rest.status == "succeeded", ended(rest)
    assert not [line for line in inventory(sandbox) if line.startswith("bucket")]


def test_what_an_organisation_forbids_to_delete_is_told_not_hidden(standing: Any, crank: Crank, sandbox: SandboxProcess) -> None:
    words = (
        "You are not authorized to perform: ec2:DeleteSubnet on resource: arn:aws:ec2:us-west-2:111122223333:subnet/x "
        "with an explicit deny in a service control policy"
    )
    sandbox.fault("ec2:DeleteSubnet", code="UnauthorizedOperation", message=words, status=403)
    stuck = standing.delete()
    assert (stuck.status, stuck.stopped_at, stuck.problem.kind) == ("blocked", "subnets", "denied"), ended(stuck)
    assert stuck.problem.evidence["action"] == "ec2:DeleteSubnet"
    assert stuck.problem.evidence["deny"] == "service control policy"
    assert crank.retry(stuck).status == "succeeded"


def test_a_strangers_cluster_of_our_name_is_refused_and_left_alone_by_a_deletion(job: Any, sandbox: SandboxProcess) -> None:
    name = job.site.names.hyperpod_cluster
    assert job.create(until="stack").status == "cancelled"
    sandbox.admin("scenario/foreign-cluster", name=name, region=job.region)
    refused = job.create()
    assert (refused.status, refused.stopped_at, refused.problem and refused.problem.code) == ("failed", "account", "hyperpod.not_ours")
    gone = job.delete()
    assert gone.status == "succeeded", ended(gone)
    assert "is left alone" in gone.sentences("hyperpod")
    assert [c["ClusterName"] for c in sandbox.client("sagemaker").list_clusters()["ClusterSummaries"]] == [name]


def test_older_load_balancers_and_groups_that_name_each_other_go_and_a_stranger_in_the_stacks_subnet_is_named(
    standing: Any, crank: Crank, sandbox: SandboxProcess
) -> None:
    ec2, owned = sandbox.client("ec2"), {f"kubernetes.io/cluster/{standing.site.names.eks_cluster}": "owned"}
    tags = [{"Key": k, "Value": v} for k, v in owned.items()]
    cluster = sandbox.client("eks").describe_cluster(name=standing.site.names.eks_cluster)["cluster"]["resourcesVpcConfig"]
    public = ec2.describe_subnets(Filters=[{"Name": "tag:kubernetes.io/role/elb", "Values": ["1"]}])["Subnets"][0]
    listener = {"Protocol": "TCP", "LoadBalancerPort": 80, "InstanceProtocol": "TCP", "InstancePort": 30080}
    spec = [{"ResourceType": "security-group", "Tags": tags}]
    group = ec2.create_security_group(GroupName="k8s-elb-a1b2", Description="x", VpcId=cluster["vpcId"], TagSpecifications=spec)["GroupId"]
    sandbox.client("elb").create_load_balancer(
        LoadBalancerName="a1b2", Listeners=[listener], Subnets=[public["SubnetId"]], SecurityGroups=[group], Tags=tags
    )
    left_over = ec2.create_security_group(GroupName="default_of_a_team", Description="x", VpcId=cluster["vpcId"])["GroupId"]
    pair = {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]}
    ec2.authorize_security_group_ingress(GroupId=cluster["clusterSecurityGroupId"], IpPermissions=[pair])
    stranger = ec2.create_network_interface(SubnetId=public["SubnetId"], Description="somebody's proxy")["NetworkInterface"]
    stuck = standing.delete()
    assert (stuck.status, stuck.stopped_at, stuck.problem.code) == ("blocked", "stack", "cluster.delete_blocked"), ended(stuck)
    assert "a1b2" in stuck.sentences("leftovers")
    assert group in stuck.sentences("leftovers")
    named = {b["resource"] for b in stuck.problem.evidence["blockers"]}
    assert named == {stranger["NetworkInterfaceId"], left_over}
    assert "somebody's proxy" in stuck.problem.detail
    assert "CloudFormation says" in stuck.problem.detail
    ec2.delete_network_interface(NetworkInterfaceId=stranger["NetworkInterfaceId"])
    ec2.delete_security_group(GroupId=left_over)
    done = crank.retry(stuck)
    assert done.status == "succeeded", ended(done)
    assert not any(line.startswith(("vpc ", "eks ", "stack ")) for line in inventory(sandbox))
