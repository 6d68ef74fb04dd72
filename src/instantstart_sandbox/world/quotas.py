"""The account's quotas: the catalogue with AWS's default values, and what was applied to this account and region."""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass
from typing import Any

from instantstart_sandbox.world.types import cluster_instance_types, default_cluster_quota

SERVICE_NAMES = {
    "cloudformation": "AWS CloudFormation",
    "ec2": "Amazon Elastic Compute Cloud (Amazon EC2)",
    "eks": "Amazon Elastic Kubernetes Service (Amazon EKS)",
    "iam": "AWS Identity and Access Management (IAM)",
    "sagemaker": "Amazon SageMaker",
    "vpc": "Amazon Virtual Private Cloud (Amazon VPC)",
}


@dataclass(frozen=True)
class Quota:
    """One entry of the catalogue. ``code`` is AWS's where AWS documents it; for SageMaker it is derived from the name."""

    service: str
    code: str
    name: str
    default: float
    unit: str = "None"
    adjustable: bool = True


_VPC = (
    ("L-F678F1CE", "VPCs per Region", 5.0),
    ("L-DF5E4CA3", "Network interfaces per Region", 5000.0),
    ("L-407747CB", "Subnets per VPC", 200.0),
    ("L-FE5A380F", "NAT gateways per Availability Zone", 5.0),
    ("L-A4707A72", "Internet gateways per Region", 5.0),
    ("L-29B6F2EB", "Interface VPC endpoints per VPC", 50.0),
    ("L-1B52E74A", "Gateway VPC endpoints per Region", 20.0),
    ("L-0EA8095F", "Inbound or outbound rules per security group", 60.0),
    ("L-E79EC296", "VPC security groups per Region", 2500.0),
    ("L-589F43AA", "Route tables per VPC", 200.0),
    ("L-83CA0A9D", "IPv4 CIDR blocks per VPC", 5.0),
)
_OTHERS = (
    Quota("ec2", "L-0263D0A3", "EC2-VPC Elastic IPs", 5.0),
    Quota("eks", "L-1194D53C", "Clusters", 100.0),
    Quota("cloudformation", "L-0485CB21", "Stack count", 2000.0),
    Quota("iam", "L-FE177D64", "Roles per account", 1000.0),
)
#: SageMaker counts each type once for every kind of use; only the cluster ones matter here, the others make the list long
_USES = (
    "cluster usage",
    "spot cluster usage",
    "training job usage",
    "spot training job usage",
    "training warm pool usage",
    "processing job usage",
    "transform job usage",
    "endpoint usage",
    "notebook instance usage",
)
_CLUSTER_WIDE = (
    ("Maximum number instances allowed per SageMaker HyperPod cluster", 100.0),
    ("Total number of instances allowed across SageMaker HyperPod clusters", 200.0),
    ("Maximum size of EBS volume in GB for a SageMaker HyperPod cluster instance", 16384.0),
)


def _sagemaker(name: str, default: float) -> Quota:
    return Quota("sagemaker", "L-" + hashlib.sha256(name.encode()).hexdigest()[:8].upper(), name, default)


@functools.cache
def catalogue() -> dict[str, dict[str, Quota]]:
    """Service code -> quota code -> quota; SageMaker alone has over 1,500."""
    every = [Quota("vpc", *entry) for entry in _VPC] + list(_OTHERS)
    every += [_sagemaker(name, default) for name, default in _CLUSTER_WIDE]
    for instance_type in cluster_instance_types():
        names = [f"{instance_type} for {use}" for use in _USES]
        every += [_sagemaker(name, default_cluster_quota(name)) for name in names]
    found: dict[str, dict[str, Quota]] = {}
    for quota in every:
        found.setdefault(quota.service, {})[quota.code] = quota
    return found


@functools.cache
def _by_name() -> dict[tuple[str, str], Quota]:
    return {(q.service, q.name): q for quotas in catalogue().values() for q in quotas.values()}


class Quotas:
    """The applied values: ``value("sagemaker", "ml.g5.xlarge for cluster usage", region)``."""

    def __init__(self, state: dict[str, Any]) -> None:
        self._set: dict[str, float] = state

    def value(self, service_code: str, name: str, region: str) -> float:
        """The applied value of a quota, in its unit (a count); 0 for one that is not in the catalogue."""
        applied = self._set.get(f"{region}/{service_code}/{name}", self._set.get(f"*/{service_code}/{name}"))
        if applied is not None:
            return applied
        quota = _by_name().get((service_code, name))
        return quota.default if quota else 0.0

    def set(self, service_code: str, name: str, value: float, region: str = "*") -> None:
        """Apply a value to one region or, with ``*``, to all that have none of their own. ValueError for an unknown quota."""
        if (service_code, name) not in _by_name():
            raise ValueError(f"{service_code} has no quota named {name!r}")
        self._set[f"{region}/{service_code}/{name}"] = float(value)

    def cluster_instances(self, instance_type: str, region: str, spot: bool = False) -> float:
        """How many instances of a type HyperPod clusters may have, on demand or spot."""
        kind = "spot cluster usage" if spot else "cluster usage"
        return self.value("sagemaker", f"{instance_type} for {kind}", region)

    def dump(self) -> dict[str, float]:
        """What was applied, as ``region/service/name``."""
        return dict(self._set)
