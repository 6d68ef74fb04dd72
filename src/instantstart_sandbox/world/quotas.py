"""The account's quotas: default values by name, and what was changed for this account and region."""

from __future__ import annotations

from typing import Any

from instantstart_sandbox.world.types import default_cluster_quota

_FIXED = {
    ("vpc", "VPCs per Region"): 5.0,
    ("vpc", "Network interfaces per Region"): 5000.0,
    ("vpc", "NAT gateways per Availability Zone"): 5.0,
    ("ec2", "EC2-VPC Elastic IPs"): 5.0,
}


class Quotas:
    """``value("sagemaker", "ml.g5.xlarge for cluster usage", region)``; the values an account may have."""

    def __init__(self, state: dict[str, Any]) -> None:
        self._set: dict[str, float] = state

    def value(self, service_code: str, name: str, region: str) -> float:
        """The applied value of a quota, in its unit (a count)."""
        applied = self._set.get(f"{region}/{service_code}/{name}", self._set.get(f"*/{service_code}/{name}"))
        return self.default(service_code, name) if applied is None else applied

    def default(self, service_code: str, name: str) -> float:
        """AWS's default value (for this sandbox: enough for a demo, and finite)."""
        if service_code == "sagemaker":
            return default_cluster_quota(name)
        return _FIXED.get((service_code, name), 0.0)

    def set(self, service_code: str, name: str, value: float, region: str = "*") -> None:
        """Apply a value to one region or, with ``*``, to all."""
        self._set[f"{region}/{service_code}/{name}"] = float(value)

    def cluster_instances(self, instance_type: str, region: str, spot: bool = False) -> float:
        """How many instances of a type HyperPod clusters may have, on demand or spot."""
        kind = "spot cluster usage" if spot else "cluster usage"
        return self.value("sagemaker", f"{instance_type} for {kind}", region)

    def dump(self) -> dict[str, float]:
        """What was applied, as ``region/service/name``."""
        return dict(self._set)
