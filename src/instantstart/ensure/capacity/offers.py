"""What a region offers: zones, instance types, Kubernetes versions, quotas. From the APIs; unknown stays unknown.

Tables here are fallbacks for facts that no API tells, and are marked as such with their source.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from instantstart.aws.session import Aws
from instantstart.base import problems

#: FALLBACK, EKS user guide "VPC and subnet requirements": zone ids where EKS places no control plane.
#: No API lists them; EKS's own answer (UnsupportedAvailabilityZoneException) has the last word.
EKS_UNSUPPORTED_ZONE_IDS = frozenset({"use1-az3", "usw1-az2", "cac1-az3"})
#: FALLBACK, HyperPod "EKS prerequisites" page: Kubernetes versions HyperPod orchestrates. SageMaker has no API for it.
HYPERPOD_KUBERNETES = ("1.30", "1.31", "1.32", "1.33", "1.34", "1.35")
#: more than 1,500 entries behind a throttled API: read rarely; a raised quota shows within this time
_QUOTAS_KEPT_SECONDS = 300.0
#: every look of a subnet's stage asks which zone is meant; a zone that AWS takes out of use is seen within this time
_ZONES_KEPT_SECONDS = 60.0
_SPOT, _ON_DEMAND = "spot cluster usage", "cluster usage"


@dataclass(frozen=True)
class Zone:
    """An availability zone that this account can use. ``offers_type`` is None when it was not asked or cannot be told."""

    name: str
    zone_id: str
    eks_control_plane: bool
    offers_type: bool | None = None


@dataclass(frozen=True)
class InstanceOffer:
    """An instance type HyperPod knows. Numbers are None when EC2 does not describe the type; quota None is "unknown"."""

    name: str
    vcpus: int | None
    memory_gib: float | None
    accelerators: int | None
    accelerator: str | None
    network_cards: int | None
    efa_interfaces: int | None
    addresses_per_interface: int | None
    zones: tuple[str, ...] | None
    quota: float | None
    quota_name: str


def list_zones(aws: Aws, instance_type: str | None = None) -> list[Zone]:
    """The usable zones of the region: no local zones, none the account has not opted into."""
    told = aws.cached("zones", _ZONES_KEPT_SECONDS, lambda: _read_zones(aws))
    usable = [z for z in told if z["State"] == "available" and z.get("OptInStatus") != "not-opted-in"]
    offered = zones_of_type(aws, instance_type) if instance_type else None
    return [
        Zone(z["ZoneName"], z["ZoneId"], z["ZoneId"] not in EKS_UNSUPPORTED_ZONE_IDS, None if offered is None else z["ZoneId"] in offered)
        for z in sorted(usable, key=lambda z: str(z["ZoneName"]))
    ]


def _read_zones(aws: Aws) -> list[dict[str, Any]]:
    filters = [{"Name": "zone-type", "Values": ["availability-zone"]}]
    return list(aws.read("ec2", "describe_availability_zones", Filters=filters)["AvailabilityZones"])


def find_zone(aws: Aws, name_or_id: str) -> Zone | None:
    """The zone of that name or id, or None."""
    return next((z for z in list_zones(aws) if name_or_id in (z.name, z.zone_id)), None)


def other_zones(aws: Aws, instance_type: str, zone: str) -> list[str]:
    """The zones beside ``zone`` (name or id) that offer a type, for a person: ``us-west-2a (usw2-az1)``. May be ten minutes old."""
    known = aws.cached(f"zones/{instance_type}", 600, lambda: list_zones(aws, instance_type))
    return [f"{z.name} ({z.zone_id})" for z in known if z.offers_type and zone not in (z.name, z.zone_id)]


def zones_of_type(aws: Aws, instance_type: str) -> set[str] | None:
    """The zone ids where EC2 offers a type; None when EC2 does not know the type (necessary, not sufficient)."""
    name = instance_type.removeprefix("ml.")
    filters = [{"Name": "instance-type", "Values": [name]}]
    found = aws.pages(
        "ec2", "describe_instance_type_offerings", "InstanceTypeOfferings", LocationType="availability-zone-id", Filters=filters
    )
    if not found and describe_type(aws, instance_type) is None:
        return None
    return {o["Location"] for o in found}


def describe_type(aws: Aws, instance_type: str) -> dict[str, Any] | None:
    """EC2's facts about a type, or None when it has none."""
    try:
        return dict(aws.read("ec2", "describe_instance_types", InstanceTypes=[instance_type.removeprefix("ml.")])["InstanceTypes"][0])
    except (problems.Invalid, problems.NotFound, IndexError):
        return None


def nobody_knows(instance_type: str, described: bool, known: Sequence[str], quotas: Mapping[str, float] | None) -> str | None:
    """The refusal of a type that is a slip: EC2 does not describe it, SageMaker's model does not list it, and no quota bears its name.

    One of the three may be behind the others with a new type; None also while the quotas, which are never behind, cannot be read.
    """
    named = quotas is None or any(quota_name(instance_type, spot) in quotas for spot in (False, True))
    if described or named or not known or instance_type in known:
        return None
    near = ", ".join(difflib.get_close_matches(instance_type, known, n=3, cutoff=0.7))
    return f"There is no instance type {instance_type} for HyperPod{f'; those like it are {near}' if near else ''}."


def known_types(aws: Aws) -> list[str]:
    """Every instance type in SageMaker's own service model."""
    return list(aws.client("sagemaker").meta.service_model.shape_for("ClusterInstanceType").enum)


def list_offers(aws: Aws, zone_id: str | None, contains: str, spot: bool) -> list[InstanceOffer]:
    """The types of the service model whose name contains a text, with EC2's facts, zones and quotas."""
    wanted = [t for t in known_types(aws) if contains in t]
    facts = _describe_all(aws, wanted)
    zones = _offerings(aws, wanted)
    quotas = cluster_quotas(aws)
    offers = [_offer(t, facts.get(t), zones.get(t), quotas, spot) for t in wanted]
    return [o for o in offers if zone_id is None or o.zones is None or zone_id in o.zones]


def cluster_quotas(aws: Aws) -> dict[str, float] | None:
    """Every SageMaker quota by its exact name, applied values over defaults; None when they cannot be read (never zero)."""
    try:
        return aws.cached("sagemaker-quotas", _QUOTAS_KEPT_SECONDS, lambda: _read_quotas(aws))
    except problems.Problem:
        return None


def _read_quotas(aws: Aws) -> dict[str, float]:
    """Twenty pages each: the defaults are read only when an applied value that we use is missing."""
    applied = aws.pages("service-quotas", "list_service_quotas", "Quotas", ServiceCode="sagemaker", MaxResults=100)
    known = {q["QuotaName"]: float(q["Value"]) for q in applied}
    if all(quota_name(kind, spot) in known for kind in known_types(aws) for spot in (False, True)):
        return known
    defaults = aws.pages("service-quotas", "list_aws_default_service_quotas", "Quotas", ServiceCode="sagemaker", MaxResults=100)
    return {q["QuotaName"]: float(q["Value"]) for q in defaults} | known


def quota_name(instance_type: str, spot: bool) -> str:
    """The exact name of the quota that counts a type in HyperPod clusters."""
    return f"{instance_type} for {_SPOT if spot else _ON_DEMAND}"


def service_quota(aws: Aws, service: str, code: str) -> float | None:
    """One quota by its code; None when it cannot be read."""
    try:
        return float(aws.read("service-quotas", "get_service_quota", ServiceCode=service, QuotaCode=code)["Quota"]["Value"])
    except problems.NotFound:
        try:
            return float(aws.read("service-quotas", "get_aws_default_service_quota", ServiceCode=service, QuotaCode=code)["Quota"]["Value"])
        except problems.Problem:
            return None
    except problems.Problem:
        return None


def list_kubernetes_versions(aws: Aws) -> list[str]:
    """Versions EKS offers now and HyperPod orchestrates, newest first; the fallback table when EKS cannot be asked."""
    try:
        told = aws.pages("eks", "describe_cluster_versions", "clusterVersions")
    except problems.Problem:
        return list(reversed(HYPERPOD_KUBERNETES))
    offered = {v["clusterVersion"] for v in told if v.get("versionStatus", "STANDARD_SUPPORT") != "UNSUPPORTED"}
    newest = max(HYPERPOD_KUBERNETES, key=_version)
    return sorted((v for v in offered if _version(HYPERPOD_KUBERNETES[0]) <= _version(v) <= _version(newest)), key=_version, reverse=True)


def addresses_per_node(facts: dict[str, Any] | None, pods: int = 30) -> int:
    """Addresses one node takes in its subnet with standard interfaces: its cards, and its pods (aws-facts A6, A14)."""
    cards = len((facts or {}).get("NetworkInfo", {}).get("NetworkCards", ())) or 1
    return cards + pods + 1


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def _describe_all(aws: Aws, types: list[str]) -> dict[str, dict[str, Any]]:
    names = sorted({t.removeprefix("ml.") for t in types})
    if not names:
        return {}
    filters = [{"Name": "instance-type", "Values": names[i : i + 150]} for i in range(0, len(names), 150)]
    found = [f for each in filters for f in aws.pages("ec2", "describe_instance_types", "InstanceTypes", Filters=[each])]
    return {"ml." + f["InstanceType"]: f for f in found}


def _offerings(aws: Aws, types: list[str]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    names = sorted({t.removeprefix("ml.") for t in types})
    for i in range(0, len(names), 150):
        filters = [{"Name": "instance-type", "Values": names[i : i + 150]}]
        for o in aws.pages(
            "ec2", "describe_instance_type_offerings", "InstanceTypeOfferings", LocationType="availability-zone-id", Filters=filters
        ):
            found.setdefault("ml." + o["InstanceType"], set()).add(o["Location"])
    return found


def _offer(name: str, facts: dict[str, Any] | None, zones: set[str] | None, quotas: dict[str, float] | None, spot: bool) -> InstanceOffer:
    quota = quota_name(name, spot)
    value = None if quotas is None else quotas.get(quota)
    if facts is None:
        return InstanceOffer(name, None, None, None, None, None, None, None, None, value, quota)
    network = facts.get("NetworkInfo", {})
    gpus = facts.get("GpuInfo", {}).get("Gpus", []) or facts.get("NeuronInfo", {}).get("NeuronDevices", [])
    return InstanceOffer(
        name=name,
        vcpus=facts["VCpuInfo"]["DefaultVCpus"],
        memory_gib=round(facts["MemoryInfo"]["SizeInMiB"] / 1024, 1),
        accelerators=sum(g.get("Count", 0) for g in gpus),
        accelerator=gpus[0].get("Name") if gpus else None,
        network_cards=network.get("MaximumNetworkCards"),
        efa_interfaces=network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0),
        addresses_per_interface=network.get("Ipv4AddressesPerInterface"),
        zones=tuple(sorted(zones or ())),
        quota=value,
        quota_name=quota,
    )
