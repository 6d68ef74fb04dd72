"""CreateCluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from instantstart_sandbox.gateway.errors import AwsError
from instantstart_sandbox.services import lookups
from instantstart_sandbox.services.hyperpod import entries, operations, received
from instantstart_sandbox.services.hyperpod.events import note
from instantstart_sandbox.services.hyperpod.group_checks import check_group, check_tiered
from instantstart_sandbox.services.hyperpod.placement_checks import check_eks, check_network, check_plan
from instantstart_sandbox.services.hyperpod.provision import reconcile
from instantstart_sandbox.services.hyperpod.quota import check_quota
from instantstart_sandbox.services.hyperpod.settle import GATE_SECONDS
from instantstart_sandbox.services.hyperpod.state import (
    RELEASES,
    Cluster,
    Group,
    clusters,
    continuous,
    eks_arn,
    in_region,
    invalid,
    network_of,
    new_cluster_id,
    nudge,
)

if TYPE_CHECKING:
    from instantstart_sandbox.gateway.registry import Context
    from instantstart_sandbox.world.state import World

#: part of the creation time after which the first instances are asked for
_NODES_AT = 0.2
_COUNTS = ("InstanceGroupName", "InstanceCount", "MinInstanceCount")


def create_cluster(ctx: Context, **params: Any) -> dict[str, Any]:
    """CreateCluster. It takes no token: a repeated call is ResourceInUse (facts A1.2)."""
    received.record(ctx, "CreateCluster", params)
    name = params["ClusterName"]
    if any(c["name"] == name for c in in_region(ctx.world, ctx.region)):
        raise AwsError("ResourceInUse", f"Cluster with name {name} already exists. Choose a different name.")
    cluster = _record(ctx, params)
    asked = [(g, False) for g in params.get("InstanceGroups") or []] + [(g, True) for g in params.get("RestrictedInstanceGroups") or []]
    if not asked:
        raise invalid("At least one of InstanceGroups and RestrictedInstanceGroups must be specified.")
    _check_cluster(ctx, cluster, asked)
    groups = {spec["InstanceGroupName"]: new_group(ctx.world, spec, restricted) for spec, restricted in asked}
    check_quota(ctx, None, list(groups.values()))
    cluster["groups"] = groups
    orchestrator = eks_arn(cluster)
    made = entries.make(ctx, orchestrator, roles_of(cluster)) if orchestrator else {}
    clusters(ctx.world)[cluster["arn"]] = cluster
    _begin(ctx, cluster, made)
    return {"ClusterArn": cluster["arn"]}


def _record(ctx: Context, params: dict[str, Any]) -> Cluster:
    scaling = params.get("AutoScaling")
    return {
        "arn": ctx.arn("sagemaker", f"cluster/{new_cluster_id()}"),
        "name": params["ClusterName"],
        "created": ctx.clock.utc(),
        "status": "Creating",
        "failure": "",
        "vpc": params.get("VpcConfig"),
        "orchestrator": params.get("Orchestrator"),
        "recovery": params.get("NodeRecovery") or "Automatic",
        "tiered": params.get("TieredStorageConfig"),
        "mode": params.get("NodeProvisioningMode"),
        "role": params.get("ClusterRole"),
        "autoscaling": scaling | {"Status": "Creating"} if scaling and scaling["Mode"] == "Enable" else None,
        "rig_config": params.get("RestrictedInstanceGroupsConfig"),
        "tags": list(params.get("Tags") or []),
        "groups": {},
        "nodes": {},
        "events": [],
        "operations": [],
        "adds": {},
        "built": False,
        "shortage": "",
        "before": None,
    }


def _check_cluster(ctx: Context, cluster: Cluster, asked: list[tuple[dict[str, Any], bool]]) -> None:
    names = [spec["InstanceGroupName"] for spec, _ in asked]
    if len(set(names)) != len(names):
        raise invalid("Instance group names must be unique within a cluster.")
    check_tiered(cluster["tiered"])
    vpc = None
    arn = eks_arn(cluster)
    if arn is not None:
        vpc = check_eks(ctx, arn)["resourcesVpcConfig"]["vpcId"]
        if not cluster["vpc"]:
            raise invalid("VpcConfig is required for clusters orchestrated by Amazon EKS.")
    elif continuous(cluster):
        raise invalid("NodeProvisioningMode Continuous is only supported for clusters orchestrated by Amazon EKS.")
    check_autoscaling(ctx, cluster)
    if cluster["vpc"]:
        check_network(ctx, cluster["vpc"], vpc)
    for spec, restricted in asked:
        check_placed_group(ctx, cluster, spec, vpc, restricted)


def check_placed_group(ctx: Context, cluster: Cluster, spec: dict[str, Any], vpc: str | None, restricted: bool) -> None:
    """All the rules about one group of a cluster, for CreateCluster and UpdateCluster."""
    check_group(ctx, spec, continuous(cluster), restricted)
    if spec.get("OverrideVpcConfig"):
        check_network(ctx, spec["OverrideVpcConfig"], vpc)
    check_plan(ctx, spec, network_of(cluster, {"spec": spec}), (cluster["arn"], spec["InstanceGroupName"]))


def check_autoscaling(ctx: Context, cluster: Cluster) -> None:
    """Managed Karpenter needs Continuous, a ClusterRole that trusts HyperPod, and automatic recovery (facts A12)."""
    if cluster["autoscaling"] is None:
        return
    if not continuous(cluster):
        raise invalid("AutoScaling is only supported with NodeProvisioningMode Continuous.")
    if cluster["recovery"] != "Automatic":
        raise invalid("AutoScaling requires NodeRecovery Automatic.")
    if not cluster["role"]:
        raise invalid("AutoScaling requires ClusterRole.")
    if not lookups.role_trusts(ctx.world, cluster["role"], ctx.region, "hyperpod.sagemaker"):
        raise invalid(f"SageMaker HyperPod cannot assume the cluster role {cluster['role']}.")


def new_group(world: World, spec: dict[str, Any], restricted: bool) -> Group:
    """A group as asked for, with no node yet."""
    kubernetes = spec.get("KubernetesConfig") or {}
    return {
        "name": spec["InstanceGroupName"],
        "spec": {k: v for k, v in spec.items() if k not in _COUNTS and v is not None},
        "target": spec["InstanceCount"],
        "min": spec.get("MinInstanceCount"),
        "status": "Creating",
        "restricted": restricted,
        "labels": dict(kubernetes.get("Labels") or {}),
        "taints": list(kubernetes.get("Taints") or []),
        "image": spec.get("ImageReleaseVersion") or RELEASES[-1],
        "image_id": spec.get("ImageId") or "default",
        "software": "",
        "gated": bool(spec.get("MinInstanceCount")),
        "ready_at": world.clock.now(),
        "before": None,
    }


def _begin(ctx: Context, cluster: Cluster, entries_made: dict[str, Any]) -> None:
    seconds = ctx.world.settings.cluster_create_seconds
    metadata = {"Cluster": entries_made} if entries_made else None
    note(ctx.world, cluster, f"Creation of cluster {cluster['name']} has started.", "Info", metadata)
    operations.start_scaling(ctx.world, cluster, {n: {"CurrentCount": 0, "TargetCount": 0, "MinCount": 0} for n in cluster["groups"]})
    for group in cluster["groups"].values():
        reconcile(ctx.world, cluster, group, seconds * _NODES_AT)
        set_gate(ctx.world, cluster, group)
    ctx.clock.after(seconds, "hyperpod.cluster.built", arn=cluster["arn"])
    if cluster["autoscaling"]:
        ctx.clock.after(seconds, "hyperpod.autoscaling", arn=cluster["arn"])
    nudge(ctx.world, cluster)


def roles_of(cluster: Cluster) -> list[str]:
    """The execution roles of a cluster's groups, each once."""
    return sorted({g["spec"]["ExecutionRole"] for g in cluster["groups"].values()})


def set_gate(world: World, cluster: Cluster, group: Group) -> None:
    """Give a group that waits for MinInstanceCount its three hours."""
    if group["gated"]:
        data = {"arn": cluster["arn"], "name": group["name"], "ready_at": group["ready_at"]}
        world.clock.after(GATE_SECONDS, "hyperpod.group.gate", **data)


OPERATIONS = {"CreateCluster": create_cluster}
