"""Trouble of other kinds: conflicts, modes, policies, partitions, an API server that is away, a stack that takes for ever."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.clusters.conftest import TYPE, Job, asked
from tests.clusters.crank import Crank
from tests.clusters.worlds import REGION, SandboxProcess, inventory

from instantstart.base import problems
from instantstart.capabilities.clusters import specs, workflows
from instantstart.ensure import eks
from instantstart.ensure.installs import addons

PLUGIN = "nvidia-device-plugin-daemonset"


def _kube(job: Job, region: str = REGION) -> Any:
    where = job.site
    return job.crank.room.kube.cluster(eks.ref(eks.get_cluster(where.aws, where.names.eks_cluster), region))


@pytest.fixture
def connected(job: Job) -> Job:
    """An EKS cluster, connected, with nothing installed."""
    crank = job.crank
    assert crank.run(workflows.CREATE_EKS, asked(specs.EksTarget, tag=job.tag, region=REGION)).status == "succeeded"
    assert crank.run(workflows.CONNECT, asked(specs.ConnectTarget, tag=job.tag, region=REGION)).status == "succeeded"
    return job


def _helm_plugin(kube: Any) -> None:
    """A device plugin that somebody installed with Helm, in a namespace of its own."""
    kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gpu-operator"}})
    labels = {"app": PLUGIN}
    kube.apply(
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {
                "name": PLUGIN,
                "namespace": "gpu-operator",
                "labels": {"app.kubernetes.io/managed-by": "Helm"},
                "annotations": {"meta.helm.sh/release-name": "gpu-operator"},
            },
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "plugin", "image": "images.example/nvidia/k8s-device-plugin:v0.17.0"}]},
                },
            },
        }
    )


def test_a_copy_that_somebody_installed_is_named_and_never_doubled(connected: Job, crank: Crank, sandbox: SandboxProcess) -> None:
    kube = _kube(connected)
    _helm_plugin(kube)
    refused = crank.run(workflows.CONFIGURE_DEPENDENCIES, asked(specs.DependenciesTarget, tag="demo", region=REGION))
    assert (refused.status, refused.stopped_at) == ("failed", "bundles")
    assert refused.problem is not None
    assert "gpu-operator" in refused.problem.detail
    assert refused.problem.hint
    plugins = [d for d in kube.list("DaemonSet") if "device-plugin" in json.dumps(d["spec"]) and "nvidia" in d["metadata"]["name"]]
    assert [d["metadata"]["namespace"] for d in plugins] == ["gpu-operator"]
    again = asked(specs.DependenciesTarget, tag="demo", region=REGION, overwrite_conflicts=True)
    done = crank.run(workflows.CONFIGURE_DEPENDENCIES, again)
    assert done.status == "succeeded", done.problem
    plugins = [d for d in kube.list("DaemonSet") if "device-plugin" in json.dumps(d["spec"]) and "nvidia" in d["metadata"]["name"]]
    assert len(plugins) == 1


class _Scripted:
    """AWS's verbs with answers from a list: what no sandbox does by itself, an add-on that collides."""

    region = REGION

    def __init__(self, addon: dict[str, Any]) -> None:
        self.addon, self.removed = addon, 0

    def read(self, service: str, operation: str, **_: Any) -> dict[str, Any]:
        assert (service, operation) == ("eks", "describe_addon")
        return {"addon": self.addon}

    def remove(self, service: str, operation: str, **_: Any) -> None:
        assert (service, operation) == ("eks", "delete_addon")
        self.removed += 1


CLASH = {"code": "ConfigurationConflict", "message": "DaemonSet.apps s3-csi-node - .spec is managed by helm"}


@pytest.mark.parametrize(("issue", "code"), [(CLASH, "addon.conflicts"), ({"code": "InternalFailure", "message": "x"}, "addon.failed")])
def test_a_failed_addon_of_this_try_is_told_and_one_of_an_earlier_try_is_made_again(issue: dict[str, str], code: str) -> None:
    aws: Any = _Scripted(
        {
            "addonName": "s3",
            "addonVersion": "v1",
            "status": "CREATE_FAILED",
            "tags": {"instantstart.dev/operation": "op-1"},
            "health": {"issues": [issue]},
        }
    )
    with pytest.raises(problems.Conflict) as refused:
        addons.request(aws, "eks-demo", "1.34", addons.Addon("s3"), {"instantstart.dev/operation": "op-1"}, "token")
    assert refused.value.code == code
    assert issue["message"] in refused.value.detail
    assert refused.value.hint
    assert aws.removed == 0
    again = addons.request(aws, "eks-demo", "1.34", addons.Addon("s3", overwrite=True), {"instantstart.dev/operation": "op-2"}, "token")
    assert "to be made again" in str(again)
    assert aws.removed == 1


def test_degraded_addons_wait_for_the_first_node_and_are_not_made_again(connected: Job, crank: Crank, sandbox: SandboxProcess) -> None:
    done = crank.run(workflows.CONFIGURE_DEPENDENCIES, asked(specs.DependenciesTarget, tag="demo", region=REGION, cert_manager=True))
    assert done.status == "succeeded", done.problem
    assert done.result["waiting_for_nodes"]
    states = {c["name"]: c["state"] for c in done.result["components"]}
    assert "waiting_for_nodes" in states.values()
    assert "ready" not in {states[name] for name in done.result["waiting_for_nodes"]}
    sandbox.warp(1800)
    name = connected.site.names.eks_cluster
    assert not [c for c in sandbox.calls() if c["operation"] == "DeleteAddon"]
    statuses = {a: sandbox.client("eks").describe_addon(clusterName=name, addonName=a)["addon"]["status"] for a in ("cert-manager",)}
    assert statuses == {"cert-manager": "DEGRADED"}


def _foreign_eks(sandbox: SandboxProcess, mode: str, version: str) -> None:
    """An EKS cluster of our name and tag, made by other hands in another mode."""
    from tests.clusters.test_network import own_vpc

    network, iam = own_vpc(sandbox), sandbox.client("iam")
    statement = {"Effect": "Allow", "Principal": {"Service": "eks.amazonaws.com"}, "Action": "sts:AssumeRole"}
    role = iam.create_role(RoleName="old", AssumeRolePolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [statement]}))
    sandbox.warp(20)
    sandbox.client("eks").create_cluster(
        name="eks-demo",
        version=version,
        roleArn=role["Role"]["Arn"],
        resourcesVpcConfig={"subnetIds": network["subnet_ids"]},
        accessConfig={"authenticationMode": mode},
        tags={"instantstart.dev/cluster": "demo"},
    )
    sandbox.warp(200)


def test_an_eks_cluster_in_config_map_mode_is_refused_with_the_command_that_mends_it(
    job: Job, crank: Crank, sandbox: SandboxProcess
) -> None:
    _foreign_eks(sandbox, "CONFIG_MAP", "1.34")
    refused = crank.run(workflows.CONNECT, asked(specs.ConnectTarget, tag="demo", region=REGION))
    assert refused.problem is not None
    assert refused.problem.code == "eks.does_not_fit"
    assert "CONFIG_MAP" in refused.problem.detail
    assert "authenticationMode=API_AND_CONFIG_MAP" in (refused.problem.hint or "")
    whole = job.create()
    assert (whole.status, whole.stopped_at) == ("failed", "account")
    assert not [c for c in sandbox.calls() if c["service"] == "sagemaker" and c["operation"].startswith("Create")]


@pytest.mark.slow
def test_a_stack_that_takes_ninety_minutes_is_waited_for_and_never_called_failed(job: Job, crank: Crank, sandbox: SandboxProcess) -> None:
    sandbox.admin("settings", eks_create_seconds=90 * 60.0, eks_create_jitter=0.0)
    begun = job.create(until="network")
    halfway = crank.turn(begun, ticks=120)
    assert halfway.status == "running", halfway.problem
    assert "AWS::EKS::Cluster" in halfway.sentences("stack")
    done = crank.turn(begun, until="access")
    assert "access" in done.learned, (done.stopped_at, done.problem)
    assert done.seconds > 5000
    assert sum(c["operation"] == "CreateStack" for c in sandbox.calls()) == 1
    assert sum(c["operation"] == "CreateAccessEntry" for c in sandbox.calls()) == 1


SCP = "with an explicit deny in a service control policy"


@pytest.mark.parametrize(
    ("match", "stage", "action"),
    [
        ("iam:CreateRole", "node_role", "iam:CreateRole"),
        ("iam:CreateOpenIDConnectProvider", "oidc", "iam:CreateOpenIDConnectProvider"),
        ("sagemaker:CreateCluster", "hyperpod", "iam:PassRole"),
    ],
)
def test_a_denied_action_blocks_with_action_resource_and_deny_type_and_a_retry_goes_on(
    job: Job, crank: Crank, sandbox: SandboxProcess, match: str, stage: str, action: str
) -> None:
    words = f"User: arn:aws:iam::1:user/x is not authorized to perform: {action} on resource: arn:aws:thing/y {SCP}"
    sandbox.fault(match, code="AccessDenied", message=words, status=403)
    stuck = job.create()
    assert (stuck.status, stuck.stopped_at, stuck.problem and stuck.problem.kind) == ("blocked", stage, "denied")
    assert stuck.problem is not None
    assert stuck.problem.evidence["action"] == action
    assert stuck.problem.evidence["resource"] == "arn:aws:thing/y"
    assert stuck.problem.evidence["deny"] == "service control policy"
    assert crank.retry(stuck, until=stage).stages[stage].done


def test_an_organisations_tags_and_boundary_are_on_what_we_make(job: Job, crank: Crank, sandbox: SandboxProcess) -> None:
    boundary = sandbox.client("iam").create_policy(
        PolicyName="edge",
        PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}),
    )["Policy"]["Arn"]
    import dataclasses

    chosen = crank.room.settings.model_copy(update={"tags": "CostCenter=4711,Team=ml", "permissions_boundary": boundary})
    ours = Job(Crank(dataclasses.replace(crank.room, settings=chosen), sandbox))
    assert ours.create(until="csi_role").status == "cancelled"
    iam, derived = sandbox.client("iam"), ours.site.names
    for name in (derived.execution_role, derived.s3_csi_role, derived.eks_role):
        role = iam.get_role(RoleName=name)["Role"]
        assert role["PermissionsBoundary"]["PermissionsBoundaryArn"] == boundary
        assert {"Key": "CostCenter", "Value": "4711"} in iam.list_role_tags(RoleName=name)["Tags"]
    assert sandbox.client("eks").describe_cluster(name=derived.eks_cluster)["cluster"]["tags"]["Team"] == "ml"
    tags = sandbox.client("s3").get_bucket_tagging(Bucket=derived.scripts_bucket)["TagSet"]
    assert {"Key": "CostCenter", "Value": "4711"} in tags


@pytest.mark.slow
@pytest.mark.parametrize(("region", "partition"), [("cn-north-1", "aws-cn"), ("us-gov-west-1", "aws-us-gov")])
def test_another_partition_sees_no_arn_of_ours_with_the_wrong_one(
    crank: Crank, sandbox: SandboxProcess, monkeypatch: pytest.MonkeyPatch, region: str, partition: str
) -> None:
    monkeypatch.setattr(crank.room.aws, "default_region", region)
    zones = sandbox.client("ec2", region).describe_availability_zones()["AvailabilityZones"]
    job = Job(crank, tag="far", region=region, zone=zones[0]["ZoneId"])
    offered = sandbox.client("ec2", region).describe_instance_type_offerings(
        LocationType="availability-zone-id", Filters=[{"Name": "location", "Values": [zones[0]["ZoneId"]]}]
    )
    kinds = {f"ml.{o['InstanceType']}" for o in offered["InstanceTypeOfferings"]}
    kind = next(k for k in (TYPE, "ml.g4dn.xlarge", "ml.m5.2xlarge", "ml.m5.xlarge") if k in kinds)
    sandbox.admin("quota", service_code="sagemaker", name=f"{kind} for cluster usage", value=4)
    made = job.create(instance_type=kind)
    assert made.status == "succeeded", (made.stopped_at, made.problem)
    seen = json.dumps([made.learned, made.said])
    assert f"arn:{partition}:" in seen
    assert "arn:aws:" not in seen
    iam = sandbox.client("iam", region)
    for role in (job.site.names.execution_role, job.site.names.s3_csi_role, job.site.names.eks_role):
        documents = [iam.get_role(RoleName=role)["Role"]["AssumeRolePolicyDocument"]]
        documents += [
            iam.get_role_policy(RoleName=role, PolicyName=p)["PolicyDocument"] for p in iam.list_role_policies(RoleName=role)["PolicyNames"]
        ]
        documents += iam.list_attached_role_policies(RoleName=role)["AttachedPolicies"]
        assert "arn:aws:" not in json.dumps(documents)
    policy = sandbox.client("s3", region).get_bucket_policy(Bucket=job.site.names.scripts_bucket)["Policy"]
    assert f"arn:{partition}:s3:::" in policy
    objects = [o for kind in ("DaemonSet", "Deployment", "ServiceAccount") for o in _kube(job, region).list(kind)]
    assert "arn:aws:" not in json.dumps(objects)
    gone = job.delete()
    assert gone.status == "succeeded", (gone.stopped_at, gone.problem)
    assert not [
        line for line in inventory(sandbox, region) if line.startswith(("vpc ", "eks ", "hyperpod ", "stack ", "role instantstart"))
    ]


def test_three_minutes_of_throttling_lose_no_operation_and_no_status(job: Job, crank: Crank, sandbox: SandboxProcess) -> None:
    begun = job.create(until="network")
    crank.turn(begun, ticks=3)
    rule = {"code": "throttle", "count": None}
    sandbox.fault("cloudformation:.*|ec2:.*|iam:.*|s3:.*", **rule)
    before = begun.seconds
    while begun.seconds < before + 180:
        crank.turn(begun, ticks=1)
        assert begun.status == "running", begun.problem
    assert "is throttled" in begun.sentences("stack")
    sandbox.clear()
    assert crank.turn(begun, until="access").learned["access"]


def test_an_incomplete_script_set_is_completed_before_the_cluster_is_asked_for(job: Job, crank: Crank, sandbox: SandboxProcess) -> None:
    begun = job.create(until="network")
    bucket = job.site.names.scripts_bucket
    while not begun.stages["scripts"].done:
        crank.turn(begun, ticks=1)
    sandbox.client("s3").put_object(Bucket=bucket, Key="lifecycle/on_create.sh", Body=b"changed by hand")
    begun.stages["scripts"].done = False  # as a retry would look again
    crank.turn(begun, until="scripts")
    body = sandbox.client("s3").get_object(Bucket=bucket, Key="lifecycle/on_create.sh")["Body"].read()
    assert body.startswith(b"#!/bin/bash")


def test_a_bucket_or_role_of_that_name_that_is_not_ours_is_never_taken(job: Job, sandbox: SandboxProcess) -> None:
    s3, bucket = sandbox.client("s3"), job.site.names.scripts_bucket
    s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
    s3.put_object(Bucket=bucket, Key="theirs", Body=b"x")
    refused = job.create()
    assert (refused.status, refused.problem and refused.problem.code) == ("failed", "bucket.not_ours")
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 1
    with pytest.raises(s3.exceptions.ClientError):
        s3.get_bucket_tagging(Bucket=bucket)
