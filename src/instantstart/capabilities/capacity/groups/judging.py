"""What must hold before an instance group that stands is changed, grown or deleted. Pure but for who owns it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from instantstart.base import problems
from instantstart.capabilities.capacity.groups import specs
from instantstart.capabilities.capacity.groups.rules import Checked, Facts, check_addresses, check_capacity, check_quota
from instantstart.ensure.capacity import groups, hyperpod, karpenter, labels, scaling
from instantstart.ensure.findings import Finding
from instantstart.kube.client import KubeCluster


def check_standing(have: Mapping[str, Any]) -> None:
    """Raise Conflict when a group is being deleted: nothing may be asked of it any more."""
    if have["Status"] == "Deleting":
        name = have["InstanceGroupName"]
        raise problems.Conflict(
            "instance_group.being_deleted", f"The group {name} is being deleted.", hint="Wait until it is gone, or use another name."
        )


def check_not_last(cluster: Mapping[str, Any], name: str) -> None:
    """Raise Conflict when a cluster would be left without a group: SageMaker keeps at least one."""
    others = [
        g
        for kind in ("InstanceGroups", "RestrictedInstanceGroups")
        for g in cluster.get(kind, ())
        if g["InstanceGroupName"] != name and g.get("Status") != "Deleting"
    ]
    if not others:
        raise problems.Conflict(
            "instance_group.last",
            f"{name} is the last instance group of the cluster, and a cluster keeps at least one.",
            hint="Scale it to 0, add another group first, or delete the cluster.",
        )


def check_owner(kube: KubeCluster, name: str, done: str) -> None:
    """Raise Conflict when Karpenter owns the group: what is done to it by hand is undone (case 35)."""
    owner = karpenter.karpenter_owner(kube, name)
    if owner is not None:
        raise problems.Conflict(
            "instance_group.karpenter_owned",
            f"The group {name} belongs to Karpenter (node class {owner}) and is not {done} by hand.",
            hint=f"Change the limits of its node pool, or take the group out of the node class {owner} first.",
            evidence={"group": name, "node_class": owner},
        )


#: what matters when a group that stands gets more nodes
GROWTH_RULES = (check_capacity, check_quota, check_addresses)


def growth_findings(ask: specs.AddInstanceGroup, facts: Facts) -> list[Finding]:
    """The findings about more nodes for a group that stands; ``ask`` is the group with as many nodes as are added."""
    return [found for rule in GROWTH_RULES for found in rule(ask, facts)]


def more_of(cluster: Mapping[str, Any], have: Mapping[str, Any], more: int) -> specs.AddInstanceGroup:
    """A group that stands, as the wish for ``more`` nodes of its kind: what the checks of a new group take. Pure."""
    types = groups.to_request(have).get("InstanceRequirements", {}).get("InstanceTypes") or [have["InstanceType"]]
    network_of = have.get("OverrideVpcConfig") or cluster["VpcConfig"]
    return specs.AddInstanceGroup.model_construct(
        name=have["InstanceGroupName"],
        instance_type=types[0],
        instance_count=more,
        capacity_type=hyperpod.capacity_type(dict(have)),  # type: ignore[arg-type]
        training_plan_arn=have.get("TrainingPlanArn"),
        network_interface=interface_of(have),
        subnet_id=network_of["Subnets"][0],
    )


def interface_of(have: Mapping[str, Any]) -> specs.InterfaceMode:
    """The network interface mode of a group."""
    return "efa_only" if (have.get("NetworkInterface") or {}).get("InterfaceType") == "efa-only" else "standard"


def volume_of(have: Mapping[str, Any]) -> int | None:
    """The size of the extra volume of a group's nodes in GiB, or None."""
    volumes = [c["EbsVolumeConfig"] for c in have.get("InstanceStorageConfigs", ()) if "EbsVolumeConfig" in c]
    return next((v.get("VolumeSizeInGB") for v in volumes if not v.get("RootVolume")), None)


def check_change(cluster: Mapping[str, Any], have: Mapping[str, Any], ask: specs.UpdateInstanceGroup, owner: str | None) -> Checked:
    """What stands in the way of changing a group: what is fixed for its life, and what SageMaker would refuse. Pure."""
    told, found = groups.to_request(have), _check_fixed(have, ask)
    kubernetes = told.get("KubernetesConfig", {})
    checks = told.get("OnStartDeepHealthChecks", []) if ask.deep_health_checks is None else ask.deep_health_checks
    taints = [labels.show_taint(t) for t in kubernetes.get("Taints", ())] if ask.taints is None else ask.taints
    found += labels.findings(ask.labels, taints, bool(checks))
    if ask.min_instance_count is not None and ask.min_instance_count > have["TargetCount"]:
        told_min = f"min_instance_count must not exceed the group's count, which is {have['TargetCount']}."
        found.append(Finding("min_instance_count", "fail", told_min))
    if ask.min_instance_count and not scaling.is_continuous(cluster):
        found.append(Finding("min_instance_count", "fail", "min_instance_count is only for clusters that provision continuously."))
    if ask.lifecycle_script and not (ask.lifecycle_uri or told.get("LifeCycleConfig")):
        found.append(Finding("lifecycle_uri", "fail", "lifecycle_script needs lifecycle_uri: the folder it is in."))
    if ask.deep_health_checks and owner:
        refused = (
            f"Deep health checks do not go with a group that Karpenter owns (node class {owner}): pods would stay pending for an hour."
        )
        found.append(Finding("deep_health_checks", "fail", refused))
    return found


def _check_fixed(have: Mapping[str, Any], ask: specs.UpdateInstanceGroup) -> Checked:
    stands = {
        "instance_type": have.get("InstanceType"),
        "volume_gib": volume_of(have),
        "capacity_type": hyperpod.capacity_type(dict(have)),
        "training_plan_arn": have.get("TrainingPlanArn"),
        "network_interface": interface_of(have),
        "subnet_id": next(iter((have.get("OverrideVpcConfig") or {}).get("Subnets", ())), None),
    }
    wrong = {field: value for field, value in stands.items() if getattr(ask, field) not in (None, value)}
    hint = "Make a new group with it, move the work there, and delete this one."
    return [
        Finding(f, "fail", f"{f} is fixed for the life of a group; it is {value or 'not set'} here.", hint) for f, value in wrong.items()
    ]
