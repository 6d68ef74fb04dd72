"""What people do beside the product before a workflow is asked for: clusters of their own, capacity that comes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.clusters.test_network import own_vpc
from tests.clusters.worlds import REGION

from instantstart.capabilities.capacity.karpenter import plans as pools
from instantstart.capabilities.capacity.karpenter.specs import AddNodePool
from instantstart.store.records import ClusterRow

if TYPE_CHECKING:
    from tests.weather.ground import Ground

FOREIGN = "research"
#: a type that training plans are sold for
PLAN_TYPE = "ml.p5.48xlarge"


def make_foreign_eks(ground: Ground) -> None:
    """An EKS cluster that somebody else made, in a VPC of theirs; our identity has made it, so it is let in."""
    network, iam = own_vpc(ground.sandbox), ground.sandbox.client("iam")
    statement = {"Effect": "Allow", "Principal": {"Service": "eks.amazonaws.com"}, "Action": "sts:AssumeRole"}
    role = iam.create_role(RoleName="theirs", AssumeRolePolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [statement]}))
    ground.sandbox.warp(20)
    ground.sandbox.client("eks").create_cluster(
        name=FOREIGN,
        version="1.34",
        roleArn=role["Role"]["Arn"],
        resourcesVpcConfig={"subnetIds": network["subnet_ids"]},
        accessConfig={"authenticationMode": "API_AND_CONFIG_MAP"},
    )
    ground.sandbox.warp(400)
    arn = ground.sandbox.client("eks").describe_cluster(name=FOREIGN)["cluster"]["arn"]
    ground.room.store.clusters.upsert(ClusterRow(tag=ground.tag, region=REGION, origin="imported", eks_name=FOREIGN, eks_arn=arn))


def foreign_eks(ground: Ground) -> dict[str, Any]:
    """How it is asked for."""
    told = ground.sandbox.client("eks").describe_cluster(name=FOREIGN)["cluster"]
    switches = {"make_access_entry": True, "install_dependencies": True}
    return {"eks_cluster": FOREIGN, "eks_arn": told["arn"], **switches}


def instances(ground: Ground, group: str) -> tuple[str, ...]:
    """The ids of a group's instances, in order."""
    listed = ground.sandbox.client("sagemaker").list_cluster_nodes(ClusterName=ground.site.hyperpod_cluster)["ClusterNodeSummaries"]
    return tuple(sorted(str(n["InstanceId"]) for n in listed if n["InstanceGroupName"] == group))


def offering(ground: Ground) -> dict[str, Any]:
    """A training plan that is offered, as the door would put it to the purchase."""
    found = ground.sandbox.client("sagemaker").search_training_plan_offerings(
        InstanceType=PLAN_TYPE, InstanceCount=1, DurationHours=24, TargetResources=["hyperpod-cluster"]
    )["TrainingPlanOfferings"][0]
    fee, currency = str(found["UpfrontFee"]), str(found["CurrencyCode"])
    asked = {"instance_type": PLAN_TYPE, "instance_count": 1, "upfront_fee": fee, "currency": currency, "window": "a day"}
    return {"name": "weather-plan", "offering_id": found["TrainingPlanOfferingId"], **asked}


def another_version(ground: Ground) -> dict[str, Any]:
    """A version of the FSx driver that is offered and not the present one."""
    eks, name, addon = ground.sandbox.client("eks"), ground.site.eks_cluster, "aws-fsx-csi-driver"
    present = eks.describe_addon(clusterName=name, addonName=addon)["addon"]["addonVersion"]
    version = eks.describe_cluster(name=name)["cluster"]["version"]
    offered = eks.describe_addon_versions(addonName=addon, kubernetesVersion=version)["addons"][0]["addonVersions"]
    return {"feature": "fsx_csi", "version": next(o["addonVersion"] for o in offered if o["addonVersion"] != present)}


def break_a_role(ground: Ground) -> None:
    """Somebody takes the policies of the FSx driver's role away."""
    iam, role = ground.sandbox.client("iam"), ground.site.names.fsx_csi_role
    for policy in iam.list_attached_role_policies(RoleName=role)["AttachedPolicies"]:
        iam.detach_role_policy(RoleName=role, PolicyArn=policy["PolicyArn"])
    for name in iam.list_role_policies(RoleName=role)["PolicyNames"]:
        iam.delete_role_policy(RoleName=role, PolicyName=name)


def pool(name: str, group: str) -> Callable[[Ground], dict[str, Any]]:
    """A node pool as the door would put it: with types, limits, and the nodes that it takes over."""

    def asked(ground: Ground) -> dict[str, Any]:
        found: dict[str, Any] = pools.prepare_add(
            ground.room, ground.site, AddNodePool(name=name, instance_groups=[group])
        ).target.model_dump()
        return found

    return asked


def tracking(kind: str, name: str) -> Callable[[Ground], dict[str, Any]]:
    """A tracking server or app as the door would settle it."""

    def asked(ground: Ground) -> dict[str, Any]:
        store = f"s3://{ground.site.names.data_bucket}/mlflow/{name}"
        return {"kind": kind, "name": name, "artifact_store": store, "namespaces": ["default"]}

    return asked


def tracked(kind: str, name: str) -> Callable[[Ground], dict[str, Any]]:
    """The one that is there, by its ARN."""

    def asked(ground: Ground) -> dict[str, Any]:
        summaries = ground.sandbox.client("sagemaker").list_mlflow_apps()["Summaries"]
        return {"kind": kind, "name": name, "arn": next(s["Arn"] for s in summaries if s["Name"] == name)}

    return asked
