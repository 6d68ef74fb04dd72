"""UpdateClusterConfig, UpdateClusterVersion, DescribeUpdate, ListUpdates. One update at a time (facts A5)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from instantstart_sandbox.services.eks.checks import check_groups, check_subnets
from instantstart_sandbox.services.eks.state import Record, clusters, find, in_use, invalid, listing, new_update, not_found
from instantstart_sandbox.services.eks.versions import BY_NAME, minor

if TYPE_CHECKING:
    from instantstart_sandbox.gateway.registry import Context
    from instantstart_sandbox.world.state import World

#: (request field, update type, update parameter); a call may carry one of them
_CONFIGS = (
    ("logging", "LoggingUpdate", "ClusterLogging"),
    ("accessConfig", "AccessConfigUpdate", "AuthenticationMode"),
    ("upgradePolicy", "UpgradePolicyUpdate", "UpgradePolicy"),
    ("zonalShiftConfig", "ZonalShiftConfigUpdate", "ZonalShiftConfig"),
    ("deletionProtection", "DeletionProtectionUpdate", "DeletionProtection"),
    ("controlPlaneScalingConfig", "ControlPlaneScalingConfigUpdate", "UpdatedTier"),
    ("remoteNetworkConfig", "RemoteNetworkConfigUpdate", "RemoteNetworkConfig"),
    ("kubernetesNetworkConfig", "AutoModeUpdate", "KubernetesNetworkConfig"),
)
#: authentication modes in the only order in which they may change
_MODES = ("CONFIG_MAP", "API_AND_CONFIG_MAP", "API")
_ENDPOINT = ("endpointPublicAccess", "endpointPrivateAccess", "publicAccessCidrs")


def _updatable(ctx: Context, name: str) -> Record:
    record = find(ctx, name)
    status = record["view"]["status"]
    if status != "ACTIVE" or any(u["status"] == "InProgress" for u in record["updates"].values()):
        what = "currently has an update in progress" if status in ("ACTIVE", "UPDATING") else f"is currently in {status} state"
        raise in_use(f"Cannot update because cluster {name} {what}", clusterName=name)
    return record


def update_cluster_config(ctx: Context, **params: Any) -> dict[str, Any]:
    """UpdateClusterConfig: exactly one kind of change, which must change something."""
    name = params["name"]
    record = _updatable(ctx, name)
    network = params.get("resourcesVpcConfig")
    asked = [entry for entry in _CONFIGS if params.get(entry[0]) is not None]
    if len(asked) + (network is not None) != 1:
        raise invalid("Only one type of update can be allowed.", clusterName=name)
    if network is not None:
        kind, change = _network_change(ctx, record, network)
    else:
        field, kind, _ = asked[0]
        change = _config_change(record, field, params[field])
    shown = {_parameter(k): v if isinstance(v, str) else json.dumps(v) for k, v in change.items()}
    return {"update": _start(ctx, record, kind, shown, change)}


def _parameter(field: str) -> str:
    names = {entry[0]: entry[2] for entry in _CONFIGS}
    names |= {"subnetIds": "Subnets", "securityGroupIds": "SecurityGroups", "accessConfig": "AuthenticationMode"}
    return names.get(field, field[0].upper() + field[1:])


def _config_change(record: Record, field: str, value: Any) -> dict[str, Any]:
    view, name = record["view"], record["view"]["name"]
    if field == "accessConfig":
        _check_mode(name, view["accessConfig"]["authenticationMode"], value.get("authenticationMode"))
    if view.get(field) == value:
        raise invalid(f"The cluster is already at the desired configuration with {field}: {json.dumps(value)}", clusterName=name)
    return {field: value}


def _check_mode(cluster: str, before: str, after: str | None) -> None:
    if after not in _MODES or _MODES.index(after) < _MODES.index(before):
        raise invalid(f"Unsupported authentication mode update from {before} to {after}", clusterName=cluster)
    if before == after:
        raise invalid(f"The cluster is already at the desired configuration with authenticationMode: {after}", clusterName=cluster)


def _network_change(ctx: Context, record: Record, asked: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    now, name = record["view"]["resourcesVpcConfig"], record["view"]["name"]
    change = {k: v for k, v in asked.items() if v is not None and k in now}
    if all(now[k] == v for k, v in change.items()):
        raise invalid(f"The cluster is already at the desired configuration with {json.dumps(change)}", clusterName=name)
    placement = {"subnetIds", "securityGroupIds"} & set(change)
    if placement and set(change) & set(_ENDPOINT):
        raise invalid("Only one type of update can be allowed.", clusterName=name)
    if "subnetIds" in change:
        found = check_subnets(ctx, name, change["subnetIds"])
        if any(s["VpcId"] != now["vpcId"] for s in found.values()):
            raise invalid("Provided subnets belong to a different VPC than the cluster's", clusterName=name)
    check_groups(ctx, name, change.get("securityGroupIds", []))
    merged = now | change
    if not merged["endpointPublicAccess"] and not merged["endpointPrivateAccess"]:
        raise invalid("Private and public endpoint access cannot be false", clusterName=name)
    return ("VpcConfigUpdate" if placement else "EndpointAccessUpdate"), change


def _start(ctx: Context, record: Record, kind: str, shown: dict[str, str], change: dict[str, Any]) -> dict[str, Any]:
    update = new_update(ctx, record, kind, shown)
    record["view"]["status"] = "UPDATING"
    data = {"arn": record["view"]["arn"], "update": update["id"], "change": change}
    ctx.clock.after(ctx.world.settings.eks_update_seconds, "eks.update.done", **data)
    return update


def update_cluster_version(ctx: Context, **params: Any) -> dict[str, Any]:
    """UpdateClusterVersion: one minor version up."""
    name, version = params["name"], params["version"]
    record = _updatable(ctx, name)
    before = record["view"]["version"]
    if version not in BY_NAME:
        raise invalid(f"unsupported Kubernetes version {version}", clusterName=name)
    if minor(version) != minor(before) + 1:
        raise invalid(f"Unsupported Kubernetes minor version update from {before} to {version}", clusterName=name)
    shown = {"Version": version, "PlatformVersion": BY_NAME[version].platform}
    return {"update": _start(ctx, record, "VersionUpdate", shown, {"version": version, "platformVersion": BY_NAME[version].platform})}


def finish(world: World, arn: str, update: str, change: dict[str, Any]) -> None:
    """The change has been made: the cluster is ACTIVE again."""
    record = clusters(world).get(arn)
    if record is None or record["view"]["status"] != "UPDATING":
        return
    view = record["view"]
    for field, value in change.items():
        if field in view["resourcesVpcConfig"]:
            view["resourcesVpcConfig"][field] = value
        elif isinstance(view.get(field), dict) and isinstance(value, dict):
            view[field] = view[field] | value
        else:
            view[field] = value
    view["status"] = "ACTIVE"
    record["updates"][update]["status"] = "Successful"
    if "version" in change:
        world.kubernetes.create_cluster(arn, view["name"], arn.split(":")[3], view["version"])
    world.kubernetes.nudge(arn)
    world.changed()


def _updates(record: Record, params: dict[str, Any]) -> dict[str, Any]:
    """The updates of a cluster, an add-on of it, or a node group of it (of which there are none)."""
    addon, name = params.get("addonName"), record["view"]["name"]
    if params.get("nodegroupName"):
        return {}
    if addon is None:
        found: dict[str, Any] = record["updates"]
        return found
    if addon not in record["addons"]:
        raise not_found(f"No addon: {addon} found in cluster: {name}", clusterName=name, addonName=addon)
    of_addon: dict[str, Any] = record["addons"][addon]["updates"]
    return of_addon


def describe_update(ctx: Context, **params: Any) -> dict[str, Any]:
    """DescribeUpdate of a cluster or an add-on."""
    update = _updates(find(ctx, params["name"]), params).get(params["updateId"])
    if update is None:
        raise not_found(f"No update found for ID: {params['updateId']}", clusterName=params["name"])
    return {"update": update}


def list_updates(ctx: Context, **params: Any) -> dict[str, Any]:
    """ListUpdates of a cluster or an add-on, oldest first."""
    return listing("updateIds", list(_updates(find(ctx, params["name"]), params)), params)


OPERATIONS = {
    "UpdateClusterConfig": update_cluster_config,
    "UpdateClusterVersion": update_cluster_version,
    "DescribeUpdate": describe_update,
    "ListUpdates": list_updates,
}
TIMERS = {"eks.update.done": finish}
