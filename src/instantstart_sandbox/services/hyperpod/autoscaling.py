"""Managed Karpenter as HyperPod runs it: switched on and off, and what its controller sees and does through the cluster role.

The controller itself is in ``kubernetes/karpenter``; here is the AWS side of it (facts A12). Whether UpdateCluster looks at the
role's permissions is not known: here a role that lacks one makes AutoScaling Failed with the reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from instantstart_sandbox.gateway import policies
from instantstart_sandbox.services import lookups
from instantstart_sandbox.services.arns import Arn
from instantstart_sandbox.services.hyperpod.events import note
from instantstart_sandbox.services.hyperpod.state import Cluster, Group, clusters, eks_arn, network_of, nudge, spot, types_of
from instantstart_sandbox.world.seams import AskedNode, Autoscaler, ScalableGroup, ScalingRefusedError

if TYPE_CHECKING:
    from instantstart_sandbox.world.state import World

#: what the cluster role must allow (facts A8.3)
_ACTIONS = ("sagemaker:BatchAddClusterNodes", "sagemaker:BatchDeleteClusterNodes")


def ready(world: World, arn: str) -> None:
    """Managed Karpenter has been set up, could not be, or has been taken down."""
    cluster = clusters(world).get(arn)
    scaling = cluster["autoscaling"] if cluster else None
    if cluster is None or scaling is None:
        return
    if scaling["Status"] == "Creating":
        fault = role_fault(world, cluster)
        scaling |= {"Status": "Failed", "FailureMessage": fault} if fault else {"Status": "InService"}
        if fault:
            note(world, cluster, "AutoScaling could not be enabled.", "Error", {"Cluster": {"FailureMessage": fault}})
    elif scaling["Status"] == "Deleting":
        cluster["autoscaling"] = None
    nudge(world, cluster)


def role_fault(world: World, cluster: Cluster) -> str:
    """Why the cluster role cannot scale the cluster; empty when it can."""
    role, arn = cluster["role"], Arn.parse(cluster["arn"])
    if not lookups.role_trusts(world, role, arn.region, "hyperpod.sagemaker"):
        return f"SageMaker HyperPod cannot assume the cluster role {role}."
    context = {"aws:resourceaccount": [arn.account], "aws:principalaccount": [arn.account]}
    documents = world.gateway.iam.documents(role)
    for action in _ACTIONS:
        decision = policies.decide(documents, policies.Question(action, cluster["arn"], context)).decision
        if decision is not policies.Decision.ALLOWED:
            return f"The cluster role {role} is not authorized to perform: {action} on resource: {cluster['arn']}"
    return ""


def _scaled(world: World, eks: str) -> Cluster | None:
    """The HyperPod cluster on an EKS cluster whose AutoScaling is InService."""
    found = (c for c in clusters(world).values() if eks_arn(c) == eks and (c["autoscaling"] or {}).get("Status") == "InService")
    return next(found, None)


def view(world: World, eks: str) -> Autoscaler | None:
    """What the controller of an EKS cluster sees; None while AutoScaling is not InService."""
    cluster = _scaled(world, eks)
    if cluster is None or cluster["status"] == "Deleting":
        return None
    groups = tuple(_group(world, cluster, g) for g in cluster["groups"].values() if g["status"] != "Deleting")
    fields = ("logical", "group", "id", "type", "zone", "zone_id", "status", "message")
    nodes = tuple(AskedNode(*(n[f] for f in fields)) for n in cluster["nodes"].values())
    return Autoscaler(cluster["name"], groups, nodes)


def _group(world: World, cluster: Cluster, group: Group) -> ScalableGroup:
    wanted = group["spec"].get("KubernetesConfig") or {}
    region = Arn.parse(cluster["arn"]).region
    return ScalableGroup(
        name=group["name"],
        instance_types=tuple(types_of(group)),
        subnets=tuple(_subnet(world, region, s) for s in network_of(cluster, group)["Subnets"]),
        capacity_type="Spot" if spot(group) else "OnDemand",
        labels=dict(wanted.get("Labels") or {}),
        taints=tuple((t["Key"], t.get("Value", ""), t["Effect"]) for t in wanted.get("Taints") or []),
        obstacle=_obstacle(group),
    )


def _obstacle(group: Group) -> str:
    """Why Karpenter may not use a group (facts A12)."""
    if group["restricted"]:
        return "it is a restricted instance group"
    if group["spec"].get("TrainingPlanArn"):
        return "it uses a training plan"
    return "it has OnStartDeepHealthChecks" if group["spec"].get("OnStartDeepHealthChecks") else ""


def _subnet(world: World, region: str, subnet: str) -> tuple[str, str, str]:
    """(id, zone, zone id); a subnet that is gone has no zone."""
    found = lookups.subnets(world, region, [subnet]).get(subnet)
    return (subnet, found["AvailabilityZone"], found["AvailabilityZoneId"]) if found else (subnet, "", "")


def add_node(world: World, eks: str, wish: tuple[str, str, str], token: str) -> str:
    """One more node of (group, type, zone), asked for with the cluster role; its logical id.

    Raises ScalingRefusedError with the code and sentence of whoever refuses.
    """
    cluster, (name, instance_type, zone) = _acting(world, eks), wish
    asked: dict[str, Any] = {"InstanceGroupName": name, "IncrementTargetCountBy": 1, "AvailabilityZones": [zone]}
    if len(types_of(cluster["groups"].get(name) or {"spec": {"InstanceType": ""}})) > 1:
        asked["InstanceTypes"] = [instance_type]
    try:
        answer = _client(world, cluster).batch_add_cluster_nodes(ClusterName=cluster["name"], ClientToken=token, NodesToAdd=[asked])
    except ClientError as error:
        raise ScalingRefusedError(error.response["Error"]["Code"], error.response["Error"]["Message"]) from error
    for failure in answer["Failed"]:
        raise ScalingRefusedError(failure["ErrorCode"], failure["Message"])
    return str(answer["Successful"][0]["NodeLogicalId"])


def delete_node(world: World, eks: str, logical: str) -> None:
    """Give a node up, with the cluster role; a node that is gone or going already is none to give up."""
    cluster = _acting(world, eks)
    node = cluster["nodes"].get(logical)
    if node is None or node["status"] == "ShuttingDown":
        return
    try:
        _client(world, cluster).batch_delete_cluster_nodes(ClusterName=cluster["name"], NodeLogicalIds=[logical])
    except ClientError as error:
        raise ScalingRefusedError(error.response["Error"]["Code"], error.response["Error"]["Message"]) from error


def _acting(world: World, eks: str) -> Cluster:
    """The scaled cluster, after the role's permissions were looked at as IAM would."""
    cluster = _scaled(world, eks)
    if cluster is None:
        raise ScalingRefusedError("ResourceNotFound", "AutoScaling is not in service.")
    if fault := role_fault(world, cluster):
        raise ScalingRefusedError("AccessDeniedException", fault)
    return cluster


def _client(world: World, cluster: Cluster) -> Any:
    return world.client("sagemaker", Arn.parse(cluster["arn"]).region, cluster["role"])


TIMERS = {"hyperpod.autoscaling": ready}
