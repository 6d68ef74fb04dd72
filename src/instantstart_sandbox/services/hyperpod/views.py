"""A cluster, a group and a node as DescribeCluster, ListClusterNodes and DescribeClusterNode show them (facts A1.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from instantstart_sandbox.services.arns import Arn
from instantstart_sandbox.services.hyperpod import plan_state
from instantstart_sandbox.services.hyperpod.state import RELEASES, Cluster, Group, Node, current_count, nodes_of, spot

if TYPE_CHECKING:
    from instantstart_sandbox.world.state import World

#: fields of a group that Describe gives back as they were sent
_ECHOED = (
    "InstanceType",
    "LifeCycleConfig",
    "ExecutionRole",
    "ThreadsPerCore",
    "InstanceStorageConfigs",
    "OnStartDeepHealthChecks",
    "TrainingPlanArn",
    "OverrideVpcConfig",
    "ScheduledUpdateConfig",
    "SlurmConfig",
    "CapacityRequirements",
    "NetworkInterface",
)
_ECHOED_RESTRICTED = (
    "InstanceType",
    "ExecutionRole",
    "ThreadsPerCore",
    "InstanceStorageConfigs",
    "OnStartDeepHealthChecks",
    "TrainingPlanArn",
    "OverrideVpcConfig",
    "ScheduledUpdateConfig",
    "EnvironmentConfig",
)


def cluster_view(world: World, cluster: Cluster) -> dict[str, Any]:
    """DescribeCluster's answer. It holds no tags."""
    groups = cluster["groups"].values()
    view = {
        "ClusterArn": cluster["arn"],
        "ClusterName": cluster["name"],
        "ClusterStatus": cluster["status"],
        "CreationTime": cluster["created"],
        "FailureMessage": cluster["failure"],
        "InstanceGroups": [_group_view(world, cluster, g) for g in groups if not g["restricted"]],
        "RestrictedInstanceGroups": [_restricted_view(world, cluster, g) for g in groups if g["restricted"]],
        "RestrictedInstanceGroupsConfig": _rig_config(cluster["rig_config"]),
        "VpcConfig": cluster["vpc"],
        "Orchestrator": cluster["orchestrator"],
        "TieredStorageConfig": cluster["tiered"],
        "NodeRecovery": cluster["recovery"],
        "NodeProvisioningMode": cluster["mode"],
        "ClusterRole": cluster["role"],
        "AutoScaling": cluster["autoscaling"],
    }
    return {k: v for k, v in view.items() if v or k == "InstanceGroups"}


def _rig_config(asked: dict[str, Any] | None) -> dict[str, Any] | None:
    if not asked:
        return None
    shared = asked["SharedEnvironmentConfig"]
    lustre, policy = shared["FSxLustreConfig"], shared["FSxLustreDeletionPolicy"]
    view = {"CurrentFSxLustreConfig": lustre, "DesiredFSxLustreConfig": lustre}
    return {"SharedEnvironmentConfig": view | {"CurrentFSxLustreDeletionPolicy": policy, "DesiredFSxLustreDeletionPolicy": policy}}


def _group_view(world: World, cluster: Cluster, group: Group) -> dict[str, Any]:
    spec, current = group["spec"], current_count(cluster, group["name"])
    view = {"InstanceGroupName": group["name"], "CurrentCount": current, "TargetCount": group["target"], "Status": group["status"]}
    view |= {field: spec[field] for field in _ECHOED if field in spec}
    if group["min"] is not None:
        view["MinCount"] = group["min"]
    if "InstanceRequirements" in spec:
        types = spec["InstanceRequirements"]["InstanceTypes"]
        used = sorted({n["type"] for n in nodes_of(cluster, group["name"])}) or types
        view["InstanceRequirements"] = {"CurrentInstanceTypes": used, "DesiredInstanceTypes": types}
        view["InstanceTypeDetails"] = [_type_detail(cluster, group, t) for t in types]
    if current != group["target"]:
        view["ActiveOperations"] = {"Scaling": 1}
    if "TrainingPlanArn" in spec:
        view["TrainingPlanStatus"] = plan_state.status_of(world, spec["TrainingPlanArn"])
    return view | _kubernetes(group) | _software(group)


def _type_detail(cluster: Cluster, group: Group, instance_type: str) -> dict[str, Any]:
    nodes = cluster["nodes"].values()
    running = sum(1 for n in nodes if n["group"] == group["name"] and n["type"] == instance_type and n["status"] == "Running")
    detail = {"InstanceType": instance_type, "CurrentCount": running}
    return detail | ({"ThreadsPerCore": group["spec"]["ThreadsPerCore"]} if "ThreadsPerCore" in group["spec"] else {})


def _kubernetes(group: Group) -> dict[str, Any]:
    desired = group["spec"].get("KubernetesConfig") or {}
    view = {
        "CurrentLabels": group["labels"],
        "DesiredLabels": desired.get("Labels"),
        "CurrentTaints": group["taints"],
        "DesiredTaints": desired.get("Taints"),
    }
    view = {k: v for k, v in view.items() if v}
    return {"KubernetesConfig": view} if view else {}


def _software(group: Group) -> dict[str, Any]:
    spec = group["spec"]
    view: dict[str, Any] = {
        "CurrentImageId": group["image_id"],
        "CurrentImageReleaseVersion": group["image"],
        "ImageVersionStatus": _freshness(group["image"]),
    }
    if "ImageId" in spec:
        view["DesiredImageId"] = spec["ImageId"]
    if "ImageReleaseVersion" in spec:
        view["DesiredImageReleaseVersion"] = spec["ImageReleaseVersion"]
    if group["software"]:
        view["SoftwareUpdateStatus"] = group["software"]
    if group.get("rolling"):
        view["ActiveSoftwareUpdateConfig"] = group["rolling"]
    if patch := spec.get("AutoPatchConfig"):
        schedule = patch.get("PatchSchedule")
        view["AutoPatchConfig"] = {k: v for k, v in patch.items() if k != "PatchSchedule"}
        if schedule:
            view["AutoPatchConfig"] |= {"CurrentPatchSchedule": schedule, "DesiredPatchSchedule": schedule}
    return view


def _freshness(release: str) -> str:
    return "UpToDate" if release == RELEASES[-1] else "UpdateAvailable"


def _restricted_view(world: World, cluster: Cluster, group: Group) -> dict[str, Any]:
    view = {
        "InstanceGroupName": group["name"],
        "CurrentCount": current_count(cluster, group["name"]),
        "TargetCount": group["target"],
        "Status": group["status"],
    }
    return view | {field: group["spec"][field] for field in _ECHOED_RESTRICTED if field in group["spec"]}


def _status(node: Node) -> dict[str, str]:
    return {"Status": node["status"], "Message": node["message"]}


def _hostname(cluster: Cluster, node: Node) -> str:
    """EC2's private DNS name; us-east-1 has its own zone."""
    region = Arn.parse(cluster["arn"]).region
    zone = "ec2.internal" if region == "us-east-1" else f"{region}.compute.internal"
    return f"ip-{node['ip'].replace('.', '-')}.{zone}"


def node_summary(cluster: Cluster, node: Node, with_logical: bool) -> dict[str, Any]:
    """One entry of ListClusterNodes. A node without an instance has an empty InstanceId (facts A1.6)."""
    view = {
        "InstanceGroupName": node["group"],
        "InstanceId": node["id"],
        "InstanceType": node["type"],
        "LaunchTime": node["launched"],
        "InstanceStatus": _status(node),
    }
    if with_logical:
        view["NodeLogicalId"] = node["logical"]
    return view | _common(cluster, node)


def _common(cluster: Cluster, node: Node) -> dict[str, Any]:
    view: dict[str, Any] = {}
    if node["ip"]:
        view["PrivateDnsHostname"] = _hostname(cluster, node)
    if node["image"]:
        view |= {"CurrentImageReleaseVersion": node["image"], "ImageVersionStatus": _freshness(node["image"])}
    if node["updated"]:
        view["LastSoftwareUpdateTime"] = node["updated"]
    return view


def node_details(cluster: Cluster, node: Node) -> dict[str, Any]:
    """DescribeClusterNode's NodeDetails."""
    group = cluster["groups"][node["group"]]
    spec = group["spec"]
    view = {
        "InstanceGroupName": node["group"],
        "InstanceId": node["id"],
        "NodeLogicalId": node["logical"],
        "InstanceStatus": _status(node),
        "InstanceType": node["type"],
        "LaunchTime": node["launched"],
        "CapacityType": "Spot" if spot(group) else "OnDemand",
    }
    echoed = ("LifeCycleConfig", "OverrideVpcConfig", "ThreadsPerCore", "InstanceStorageConfigs", "NetworkInterface")
    view |= {field: spec[field] for field in echoed if field in spec}
    if node["ip"]:
        view |= {"PrivatePrimaryIp": node["ip"], "Placement": {"AvailabilityZone": node["zone"], "AvailabilityZoneId": node["zone_id"]}}
    if node["image"]:
        view["CurrentImageId"] = group["image_id"]
    shown = _kubernetes(group | {"labels": node["labels"], "taints": node["taints"]})
    return view | _common(cluster, node) | shown
