"""What must hold before a cluster is made, and in which order its stages come. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from instantstart.base import names, problems
from instantstart.capabilities.clusters.reads import Facts
from instantstart.ensure import eks
from instantstart.ensure.capacity import offers
from instantstart.ensure.findings import Finding
from instantstart.ensure.networking import cidr
from instantstart.ensure.sites import Site
from instantstart.store.records import ClusterRow

_QUOTA_HINT = "Request an increase in Service Quotas; approval takes hours to days."
#: what runs on every node before any job: CNI, kube-proxy, pod identity, health agent, device and EFA plugins, CSI node, two checks
PODS_PER_NODE = 9
#: what runs once: CoreDNS twice, the training and MPI operators, job restart, the S3 driver's controller; cert-manager adds three
PODS_ONCE, PODS_CERT_MANAGER = 6, 3


Check = Callable[[Any, Facts], Finding | None]


def check_identity(_: Any, facts: Facts) -> Finding:
    """Which account, region and identity would be used: a wrong one is seen here or never (case 84)."""
    return Finding("identity", "ok", f"Account {facts.account}, region {facts.region}, as {facts.principal_arn}.")


def check_permissions(_: Any, facts: Facts) -> Finding:
    """Whether the identity may make the calls of the pipeline, by IAM's own simulation."""
    if facts.denied is None:
        return Finding(
            "permissions",
            "unknown",
            "IAM would not simulate this identity's permissions.",
            "Allow iam:SimulatePrincipalPolicy to know before acting.",
        )
    if facts.denied:
        return Finding(
            "permissions",
            "fail",
            f"This identity may not: {', '.join(facts.denied)}.",
            "Attach the control-plane policy of docs/how-to/permissions.md.",
        )
    return Finding("permissions", "ok", "Every needed action is allowed (organisation policies are only partly seen).")


def check_network_quota(ask: Any, facts: Facts) -> Finding | None:
    """VPC and address quotas, when a new VPC is to be made."""
    if ask.vpc_id or (facts.stack and not facts.stack.is_leftover):
        return None
    if facts.vpcs is None:
        return Finding("vpc_quota", "unknown", f"The VPCs in {facts.region} cannot be read.", "Allow ec2:DescribeVpcs to see them.")
    if facts.vpc_quota is not None and facts.vpcs >= facts.vpc_quota:
        told = f"VPC quota {facts.vpcs}/{facts.vpc_quota:.0f} in {facts.region}: no new VPC can be made."
        return Finding("vpc_quota", "fail", told, "Request an increase, delete a VPC, or reuse one with vpc_id.")
    if facts.address_quota is not None and facts.addresses is not None and facts.addresses >= facts.address_quota:
        told = f"Elastic IP quota {facts.addresses}/{facts.address_quota:.0f} in {facts.region}: the NAT gateway needs one."
        return Finding("address_quota", "fail", told, "Release an address or request an increase.")
    if facts.vpc_quota is None:
        return Finding("vpc_quota", "unknown", f"{facts.vpcs} VPCs in {facts.region}; the quota cannot be read.")
    return Finding("vpc_quota", "ok", f"{facts.vpcs} of {facts.vpc_quota:.0f} VPCs used in {facts.region}.")


def check_vpc_range(ask: Any, facts: Facts) -> Finding | None:
    """The range of a new VPC, when a person chose it."""
    wrong = cidr.check_vpc(ask.vpc_cidr) if ask.vpc_cidr else None
    if wrong:
        return Finding("vpc_cidr", "fail", wrong.message)
    if ask.vpc_id and not ask.subnet_ids:
        return Finding("vpc_id", "fail", "With vpc_id, give subnet_ids too: private subnets in two zones for the control plane.")
    if ask.vpc_id and ask.vpc_cidr:
        return Finding("vpc_cidr", "fail", "Give vpc_id or vpc_cidr, not both: an existing VPC keeps its range.")
    return _check_given_subnets(ask, facts) if ask.vpc_id else None


def _check_given_subnets(ask: Any, facts: Facts) -> Finding | None:
    """The control-plane subnets a person gave: in that VPC, in two zones where EKS works."""
    if facts.subnets is None:
        return Finding("subnet_ids", "unknown", f"The subnets of {ask.vpc_id} cannot be read.")
    mine = {s.subnet_id: s for s in facts.subnets}
    strangers = [s for s in ask.subnet_ids if s not in mine]
    if strangers:
        told = f"{', '.join(strangers)} is not in {ask.vpc_id}, in account {facts.account}, region {facts.region}."
        return Finding("subnet_ids", "fail", told, f"Subnets of that VPC: {', '.join(sorted(mine)) or 'none'}.")
    usable = {z.zone_id for z in facts.zones if z.eks_control_plane}
    wrong = [f"{s} ({mine[s].zone_id})" for s in ask.subnet_ids if mine[s].zone_id not in usable]
    if wrong:
        return Finding("subnet_ids", "fail", f"EKS places no control plane in the zone of {', '.join(wrong)}.", "Choose other subnets.")
    if len({mine[s].zone_id for s in ask.subnet_ids}) < 2:
        return Finding("subnet_ids", "fail", "The subnets are all in one zone; an EKS control plane needs two.", "Add one of another zone.")
    return Finding("subnet_ids", "ok", f"{len(ask.subnet_ids)} subnets of {ask.vpc_id}, in two zones or more.")


def check_version(ask: Any, facts: Facts) -> Finding:
    """Whether EKS offers, and HyperPod orchestrates, the asked Kubernetes version."""
    if ask.kubernetes_version and ask.kubernetes_version not in facts.versions:
        return Finding(
            "kubernetes_version",
            "fail",
            f"Kubernetes {ask.kubernetes_version} is not offered here; choose one of {', '.join(facts.versions)}.",
        )
    return Finding("kubernetes_version", "ok", f"Kubernetes {ask.kubernetes_version or facts.versions[0]}.")


def check_zone(ask: Any, facts: Facts) -> Finding:
    """The zone exists for this account, and EC2 offers the type there."""
    if facts.zone is None:
        having = [z for z in facts.zones if facts.type_zones is None or z.zone_id in facts.type_zones] or facts.zones
        told = ", ".join(f"{z.name} ({z.zone_id})" for z in having)
        return Finding("zone", "fail", f"{ask.zone} is no zone this account can use in {facts.region}.", f"Choose one of: {told}.")
    if facts.type_zones is None:
        return Finding("zone", "unknown", f"EC2 does not describe {ask.instance_type}, so its zones cannot be told; SageMaker decides.")
    if facts.zone.zone_id not in facts.type_zones:
        others = ", ".join(f"{z.name} ({z.zone_id})" for z in facts.zones if z.zone_id in facts.type_zones)
        hint = f"Zones that have it: {others}." if others else f"No zone of {facts.region} has it."
        return Finding("zone", "fail", f"{ask.instance_type} is not offered in {facts.zone.name} ({facts.zone.zone_id}).", hint)
    return Finding("zone", "ok", f"{ask.instance_type} is offered in {facts.zone.name} ({facts.zone.zone_id}).")


def check_type(ask: Any, facts: Facts) -> Finding | None:
    """A type that nobody knows is a slip; one that only some do not know yet is SageMaker's to judge."""
    told = offers.nobody_knows(ask.instance_type, facts.type_facts is not None, facts.known_types, facts.quotas)
    return Finding("instance_type", "fail", told, "List the instance types of the region.") if told else None


def check_bucket(ask: Any, facts: Facts) -> Finding | None:
    """The bucket that was named is there."""
    if facts.bucket_found is not False:
        return None
    return Finding("bucket", "fail", f"There is no bucket {ask.bucket}.", "Check its name, or leave it out: one is made.")


def check_subnet(ask: Any, facts: Facts) -> Finding | None:
    """The compute subnet that was named is there, in the zone that was asked for, in the network that the cluster gets."""
    if not ask.subnet_id:
        return None
    if facts.subnet is None:
        return Finding("subnet_id", "fail", f"The subnet {ask.subnet_id} is not in account {facts.account}, region {facts.region}.")
    if facts.zone is not None and facts.subnet.zone_id != facts.zone.zone_id:
        told = f"The subnet {ask.subnet_id} is in {facts.subnet.zone} ({facts.subnet.zone_id}), not in {facts.zone.name}."
        return Finding("subnet_id", "fail", told, "Choose a subnet of the zone, or the zone of the subnet.")
    home = facts.eks["resourcesVpcConfig"].get("vpcId") if facts.eks else ask.vpc_id
    if home != facts.subnet.vpc_id:
        where = home or "a new one, which vpc_id would forgo"
        told = f"The subnet {ask.subnet_id} is in {facts.subnet.vpc_id}; the cluster's network is {where}."
        return Finding("subnet_id", "fail", told, "Leave subnet_id out, or give the vpc_id it is in.")
    return Finding("subnet_id", "ok", f"The subnet {ask.subnet_id} is in {facts.subnet.zone}.")


def check_type_quota(ask: Any, facts: Facts) -> Finding | None:
    """The quota of the type, by its exact name; unreadable is unknown, never zero (case 37)."""
    if ask.capacity_type == "training_plan":
        return None
    name = offers.quota_name(ask.instance_type, ask.capacity_type == "spot")
    if facts.quotas is None or name not in facts.quotas:
        return Finding(
            "instance_quota", "unknown", f'The quota "{name}" cannot be read.', "Allow servicequotas:ListServiceQuotas to see it."
        )
    limit, used = facts.quotas[name], facts.used or 0
    if used + ask.instance_count > limit:
        return Finding(
            "instance_quota", "fail", f'Quota "{name}" is {limit:.0f} with {used} in use; {ask.instance_count} more are asked.', _QUOTA_HINT
        )
    return Finding("instance_quota", "ok", f'Quota "{name}": {used} of {limit:.0f} in use, {ask.instance_count} asked.')


def check_capacity(ask: Any, facts: Facts) -> Finding | None:
    """Exactly one way to pay, and a training plan that really fits (case 39)."""
    has_plan = ask.training_plan_arn is not None
    if has_plan != (ask.capacity_type == "training_plan"):
        told = (
            "training_plan needs training_plan_arn."
            if not has_plan
            else f"training_plan_arn does not go with capacity_type {ask.capacity_type}."
        )
        return Finding("capacity_type", "fail", told, "Choose on_demand, spot, or training_plan with its ARN.")
    if not has_plan:
        return None
    if facts.plan is None:
        return Finding(
            "training_plan", "fail", f"The training plan {ask.training_plan_arn} is not in account {facts.account}, region {facts.region}."
        )
    return _check_plan(ask, facts, facts.plan)


def _check_plan(ask: Any, facts: Facts, plan: dict[str, Any]) -> Finding:
    reserved = plan.get("ReservedCapacitySummaries", [])
    zones = {r.get("AvailabilityZoneId") for r in reserved} | {r.get("AvailabilityZone") for r in reserved}
    types = {r["InstanceType"] for r in reserved}
    ends = plan.get("EndTime")
    left = (ends.timestamp() - facts.now) if ends else None
    for wrong, told in (
        (plan["Status"] not in ("Active", "Scheduled"), f"The plan is {plan['Status']}."),
        (left is not None and left <= 0, f"The plan ended at {ends}."),
        ("hyperpod-cluster" not in plan.get("TargetResources", ["hyperpod-cluster"]), "The plan is not for HyperPod clusters."),
        (ask.instance_type not in types, f"The plan holds {', '.join(sorted(types))}, not {ask.instance_type}."),
        (
            ask.zone not in zones and (facts.zone is None or facts.zone.zone_id not in zones),
            f"The plan is in {', '.join(sorted(map(str, zones)))}, not in {ask.zone}.",
        ),
        (
            plan.get("AvailableInstanceCount", 0) < ask.instance_count,
            f"The plan has {plan.get('AvailableInstanceCount', 0)} instances left; {ask.instance_count} are asked.",
        ),
    ):
        if wrong:
            return Finding("training_plan", "fail", told, "Change zone, type or count to what the plan holds.")
    if plan["Status"] == "Scheduled":
        return Finding("training_plan", "warn", f"The plan starts at {plan.get('StartTime')}; no node arrives before.")
    return Finding("training_plan", "ok", f"The plan is active until {ends}; nodes are taken away then.")


def check_addresses(ask: Any, facts: Facts) -> Finding:
    """Addresses the nodes will take against those that are free (case 43)."""
    each = offers.addresses_per_node(facts.type_facts)
    need = each * ask.instance_count
    free = facts.subnet.free_addresses if facts.subnet else 2 ** (32 - cidr.COMPUTE_PREFIX) - 5
    where = facts.subnet.subnet_id if facts.subnet else f"a new /{cidr.COMPUTE_PREFIX} compute subnet"
    if ask.subnet_id and facts.subnet is None:
        return Finding("addresses", "unknown", f"{ask.subnet_id} cannot be read.")
    if need > free:
        hint = "Fewer nodes, a larger subnet, or the network interface mode efa-only."
        return Finding("addresses", "fail", f"{ask.instance_count} x {ask.instance_type} take {need} addresses; {where} has {free}.", hint)
    return Finding("addresses", "ok", f"{need} addresses needed, {free} free in {where}.")


def check_room_for_pods(ask: Any, facts: Facts) -> Finding | None:
    """Whether the system's own pods fit on the asked nodes (case 23)."""
    slots = max_pods(ask.instance_type, facts.type_facts)
    if ask.instance_count == 0:
        return Finding("system_pods", "warn", "No node is asked for: add-ons that need one stay waiting_for_nodes until a group has nodes.")
    if slots is None:
        return None
    need = PODS_PER_NODE * ask.instance_count + PODS_ONCE + (PODS_CERT_MANAGER if getattr(ask, "cert_manager", False) else 0)
    total = slots * ask.instance_count
    if total < need:
        told = f"{ask.instance_count} x {ask.instance_type}: {total} pod slots, {need} needed by the system's own pods, before any job."
        return Finding("system_pods", "warn", told, "Add a CPU group (ml.m5.2xlarge or larger) for system pods, or choose a larger type.")
    return None


def max_pods(instance_type: str, facts: dict[str, Any] | None) -> int | None:
    """Pod slots HyperPod fixes for a type. FALLBACK, aws-facts A10 (HyperPod user guide): by size, 14 to 49; None: not known."""
    size = instance_type.rsplit(".", 1)[-1]
    if facts is None:
        return None
    small = {"medium": 3, "large": 9, "xlarge": 14, "2xlarge": 14, "4xlarge": 29, "8xlarge": 29}
    return small.get(size, 49)


def check_not_imported(row: ClusterRow | None) -> None:
    """Raise Conflict when the tag is an imported cluster's: its network and EKS cluster are there, and not ours to make."""
    if row is not None and row.origin == "imported":
        raise problems.Conflict(
            "cluster.imported",
            f"{row.tag} is the imported EKS cluster {row.eks_name} in {row.region}: its network and control plane are there already.",
            hint="Configure dependencies and create HyperPod on it, or choose another tag for a new cluster.",
            evidence={"eks_cluster": row.eks_name, "region": row.region},
        )


def check_names(where: Site, facts: Facts) -> Finding | None:
    """A stack or EKS cluster of a derived name that is not ours stands in the way."""
    taken = {f"A stack named {facts.stack.name}": facts.stack.tags} if facts.stack else {}
    foreign = facts.eks is not None and not where.imported
    taken |= {f"An EKS cluster named {facts.eks['name']}": facts.eks.get("tags", {})} if facts.eks and foreign else {}
    for told, tags in taken.items():
        if tags.get(names.CLUSTER_TAG) != where.tag:
            return Finding("names", "fail", f"{told} exists and was not made for {where.tag}.", "Choose another tag.")
    return None


def check_eks(_: Any, facts: Facts) -> Finding | None:
    """An EKS cluster that stands: its authentication mode and version must be what HyperPod takes (case 12)."""
    if facts.eks is None:
        return None
    told = eks.misfit(facts.eks, facts.versions)
    return Finding("eks", "fail", told[0], told[1]) if told else Finding("eks", "ok", f"EKS cluster {facts.eks['name']} fits HyperPod.")


RULES: tuple[Check, ...] = (
    check_identity,
    check_permissions,
    check_network_quota,
    check_vpc_range,
    check_version,
    check_type,
    check_zone,
    check_subnet,
    check_capacity,
    check_type_quota,
    check_addresses,
    check_bucket,
    check_room_for_pods,
    check_eks,
)
#: the rules about an instance group in a cluster that stands
GROUP_RULES: tuple[Check, ...] = (
    check_eks,
    check_type,
    check_zone,
    check_subnet,
    check_capacity,
    check_type_quota,
    check_addresses,
    check_room_for_pods,
    check_bucket,
)
#: the rules that say something before any instance group is known (eks.create alone)
EKS_RULES: tuple[Check, ...] = (check_identity, check_permissions, check_network_quota, check_vpc_range, check_version)


def rules_for(facts: Facts, *, whole: bool) -> tuple[Check, ...]:
    """The rules that still matter: about the network only while there is no EKS cluster, about the group only when one is asked for."""
    if facts.eks is not None:
        return GROUP_RULES if whole else (check_eks,)
    return RULES if whole else EKS_RULES


def findings(where: Site, ask: Any, facts: Facts, rules: tuple[Check, ...] = RULES) -> list[Finding]:
    """Every finding, in the order of the rules."""
    found = [rule(ask, facts) for rule in rules] + [check_names(where, facts)]
    return [f for f in found if f is not None]


@dataclass(frozen=True)
class Steps:
    """Which stages of a cluster are true now, read from the world."""

    eks: bool
    connection: bool
    dependencies: bool
    hyperpod: bool
    why: dict[str, str] = field(default_factory=dict)


#: what each stage rests on; whoever calls by tools finds the tool in the evidence
ORDER: dict[str, tuple[str, ...]] = {
    "connection": ("eks",),
    "dependencies": ("eks", "connection"),
    "hyperpod": ("eks", "connection", "dependencies"),
    "storage": ("eks", "connection", "dependencies", "hyperpod"),
    "verify": ("eks",),
}
_TOOLS = {"eks": "eks_create", "connection": "cluster_select", "dependencies": "dependencies_configure", "hyperpod": "hyperpod_create"}
_ACTS = {
    "eks": "Create the EKS cluster",
    "connection": "Select the cluster, which connects to it,",
    "dependencies": "Configure the dependencies",
    "hyperpod": "Create the HyperPod cluster",
}


def check_order(stage: str, steps: Steps) -> problems.Conflict | None:
    """Why ``stage`` may not be asked for yet, naming the missing one; None when it may. The order is the server's."""
    for needed in ORDER[stage]:
        if not getattr(steps, needed):
            why = steps.why.get(needed, "it has not been done")
            return problems.Conflict(
                "cluster.stage_missing",
                f"The stage {stage} rests on {needed}, and that is missing: {why}.",
                hint=f"{_ACTS[needed]} first, and wait for its end.",
                evidence={"asked": stage, "missing": needed, "tool": _TOOLS[needed]},
            )
    return None
