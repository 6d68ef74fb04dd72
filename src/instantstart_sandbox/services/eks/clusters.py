"""CreateCluster, DescribeCluster, ListClusters, DeleteCluster."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from instantstart_sandbox.services.eks.access import admin_entry
from instantstart_sandbox.services.eks.checks import check_create
from instantstart_sandbox.services.eks.state import Record, cluster_arn, clusters, find, in_use, listing, refused
from instantstart_sandbox.services.eks.versions import BY_NAME, DEFAULT_VERSION

if TYPE_CHECKING:
    from instantstart_sandbox.gateway.registry import Context
    from instantstart_sandbox.world.state import World

#: part of the creation time after which the control plane's network exists
_NETWORK_AT = 0.3
#: what EKS installs itself unless bootstrapSelfManagedAddons is false
_SELF_MANAGED = ("vpc-cni", "kube-proxy", "coredns")
_KUBERNETES_NETWORK = {"serviceIpv4Cidr": "172.20.0.0/16", "ipFamily": "ipv4", "elasticLoadBalancing": {"enabled": False}}
#: given back as they were sent
_OPTIONAL = (
    "encryptionConfig",
    "computeConfig",
    "storageConfig",
    "zonalShiftConfig",
    "remoteNetworkConfig",
    "controlPlaneScalingConfig",
)


def create_cluster(ctx: Context, **params: Any) -> dict[str, Any]:
    """CreateCluster; the same clientRequestToken again answers the cluster of the first call."""
    name, arn = params["name"], cluster_arn(ctx, params["name"])
    existing = clusters(ctx.world).get(arn)
    if existing is not None:
        if params.get("clientRequestToken") and existing["token"] == params["clientRequestToken"]:
            return {"cluster": existing["view"]}
        raise in_use(f"Cluster already exists with name: {name}", clusterName=name)
    subnets = check_create(ctx, params)
    record: Record = {
        "view": _view(ctx, params, next(iter(subnets.values()))["VpcId"]),
        "token": params.get("clientRequestToken"),
        "creator": ctx.principal_arn,
        "self_managed": [] if params.get("bootstrapSelfManagedAddons") is False else list(_SELF_MANAGED),
    }
    record |= {"interfaces": [], "updates": {}, "addons": {}, "entries": {}, "associations": {}, "nodegroups": {}}
    clusters(ctx.world)[arn] = record
    if _creator_is_admin(params) and record["view"]["accessConfig"]["authenticationMode"] != "CONFIG_MAP":
        admin_entry(ctx, record, ctx.principal_arn)
    seconds = _creation_seconds(ctx.world, arn)
    ctx.clock.after(seconds * _NETWORK_AT, "eks.cluster.network", arn=arn)
    ctx.clock.after(seconds, "eks.cluster.active", arn=arn)
    return {"cluster": record["view"]}


def _creation_seconds(world: World, arn: str) -> float:
    settings = world.settings
    spread = random.Random(f"{settings.seed}{arn}").uniform(-1.0, 1.0)
    return settings.eks_create_seconds * (1.0 + settings.eks_create_jitter * spread)


def _creator_is_admin(params: dict[str, Any]) -> bool:
    flag = (params.get("accessConfig") or {}).get("bootstrapClusterCreatorAdminPermissions")
    return True if flag is None else bool(flag)


def _view(ctx: Context, params: dict[str, Any], vpc: str) -> dict[str, Any]:
    version = BY_NAME[params.get("version") or DEFAULT_VERSION]
    view = {
        "name": params["name"],
        "arn": cluster_arn(ctx, params["name"]),
        "createdAt": ctx.clock.utc(),
        "version": version.name,
        "roleArn": params["roleArn"],
        "resourcesVpcConfig": _network(params["resourcesVpcConfig"], vpc),
        "kubernetesNetworkConfig": _KUBERNETES_NETWORK | (params.get("kubernetesNetworkConfig") or {}),
        "logging": _logging(params.get("logging")),
        "status": "CREATING",
        "certificateAuthority": {},
        "platformVersion": version.platform,
        "tags": dict(params.get("tags") or {}),
        "health": {"issues": []},
        "accessConfig": {
            "bootstrapClusterCreatorAdminPermissions": _creator_is_admin(params),
            # the API's own default; HyperPod refuses such a cluster
            "authenticationMode": (params.get("accessConfig") or {}).get("authenticationMode") or "CONFIG_MAP",
        },
        "upgradePolicy": params.get("upgradePolicy") or {"supportType": "EXTENDED"},
        "deletionProtection": bool(params.get("deletionProtection")),
    }
    if params.get("clientRequestToken"):
        view["clientRequestToken"] = params["clientRequestToken"]
    return view | {field: params[field] for field in _OPTIONAL if params.get(field)}


def _network(asked: dict[str, Any], vpc: str) -> dict[str, Any]:
    public = asked.get("endpointPublicAccess") is not False
    return {
        "subnetIds": asked["subnetIds"],
        "securityGroupIds": asked.get("securityGroupIds") or [],
        "vpcId": vpc,
        "endpointPublicAccess": public,
        "endpointPrivateAccess": bool(asked.get("endpointPrivateAccess")),
        "publicAccessCidrs": asked.get("publicAccessCidrs") or (["0.0.0.0/0"] if public else []),
    }


def _logging(asked: dict[str, Any] | None) -> dict[str, Any]:
    if asked and asked.get("clusterLogging"):
        return asked
    return {"clusterLogging": [{"types": ["api", "audit", "authenticator", "controllerManager", "scheduler"], "enabled": False}]}


def describe_cluster(ctx: Context, **params: Any) -> dict[str, Any]:
    """DescribeCluster."""
    return {"cluster": find(ctx, params["name"])["view"]}


def list_clusters(ctx: Context, **params: Any) -> dict[str, Any]:
    """ListClusters of the region."""
    prefix = cluster_arn(ctx, "")
    return listing("clusters", sorted(arn.removeprefix(prefix) for arn in clusters(ctx.world) if arn.startswith(prefix)), params)


def delete_cluster(ctx: Context, **params: Any) -> dict[str, Any]:
    """DeleteCluster. Refused with node groups, while it is created or updated, and under deletion protection.

    HyperPod clusters, load balancers and interfaces of others do not hold it back: they stay, orphaned, as on AWS.
    """
    name, record = params["name"], find(ctx, params["name"])
    view = record["view"]
    if view["deletionProtection"]:
        raise refused(f"Cannot delete cluster {name} because deletion protection is enabled", clusterName=name)
    if record["nodegroups"]:
        raise in_use("Cluster has nodegroups attached", clusterName=name)
    if view["status"] == "CREATING":
        raise in_use(f"Cannot delete because cluster {name} is currently being created", clusterName=name)
    if any(u["status"] == "InProgress" for u in record["updates"].values()):
        raise in_use(f"Cannot delete because cluster {name} currently has an update in progress", clusterName=name)
    if view["status"] == "DELETING":
        raise in_use(f"Cannot delete because cluster {name} is already being deleted", clusterName=name)
    view["status"] = "DELETING"
    ctx.clock.after(ctx.world.settings.eks_delete_seconds, "eks.cluster.gone", arn=view["arn"])
    return {"cluster": view}


OPERATIONS = {
    "CreateCluster": create_cluster,
    "DescribeCluster": describe_cluster,
    "ListClusters": list_clusters,
    "DeleteCluster": delete_cluster,
}
