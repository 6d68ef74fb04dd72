"""Kubernetes versions that this EKS offers, and DescribeClusterVersions.

Dates are those of AWS's release calendar as far as known at the end of 2026; 1.35's later dates are extrapolated.
The support status is fixed, not computed from the date, so that a scenario does not change with the calendar.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from instantstart_sandbox.services.eks.state import listing

if TYPE_CHECKING:
    from instantstart_sandbox.gateway.registry import Context


@dataclass(frozen=True)
class KubernetesVersion:
    """One minor version: its dates, and whether standard support goes on."""

    name: str
    released: dt.date
    standard_until: dt.date
    extended_until: dt.date
    standard: bool
    platform: str
    patch: str


VERSIONS = (
    KubernetesVersion("1.35", dt.date(2026, 1, 27), dt.date(2027, 3, 27), dt.date(2028, 3, 27), True, "eks.6", "1.35.4"),
    KubernetesVersion("1.34", dt.date(2025, 10, 2), dt.date(2026, 12, 2), dt.date(2027, 12, 2), True, "eks.14", "1.34.7"),
    KubernetesVersion("1.33", dt.date(2025, 5, 29), dt.date(2026, 7, 29), dt.date(2027, 7, 29), True, "eks.25", "1.33.11"),
    KubernetesVersion("1.32", dt.date(2025, 1, 23), dt.date(2026, 3, 23), dt.date(2027, 3, 23), False, "eks.32", "1.32.13"),
    KubernetesVersion("1.31", dt.date(2024, 9, 26), dt.date(2025, 11, 26), dt.date(2026, 11, 26), False, "eks.48", "1.31.14"),
    KubernetesVersion("1.30", dt.date(2024, 5, 23), dt.date(2025, 7, 23), dt.date(2026, 7, 23), False, "eks.56", "1.30.14"),
)
DEFAULT_VERSION = "1.34"
BY_NAME = {v.name: v for v in VERSIONS}


def minor(version: str) -> int:
    """``1.33`` -> 33."""
    return int(version.split(".")[1])


def describe_cluster_versions(ctx: Context, **params: Any) -> dict[str, Any]:
    """DescribeClusterVersions; filters by version, default and support status."""
    wanted = params.get("clusterVersions") or [v.name for v in VERSIONS]
    status = (params.get("versionStatus") or params.get("status") or "").replace("-", "_").upper()
    chosen = [
        v
        for v in VERSIONS
        if v.name in wanted and (not params.get("defaultOnly") or v.name == DEFAULT_VERSION) and status in ("", _status(v))
    ]
    return listing("clusterVersions", [_view(v) for v in chosen], params)


def _status(version: KubernetesVersion) -> str:
    return "STANDARD_SUPPORT" if version.standard else "EXTENDED_SUPPORT"


def _view(version: KubernetesVersion) -> dict[str, Any]:
    return {
        "clusterVersion": version.name,
        "clusterType": "eks",
        "defaultPlatformVersion": version.platform,
        "defaultVersion": version.name == DEFAULT_VERSION,
        "releaseDate": _midnight(version.released),
        "endOfStandardSupportDate": _midnight(version.standard_until),
        "endOfExtendedSupportDate": _midnight(version.extended_until),
        "status": _status(version).lower().replace("_", "-"),
        "versionStatus": _status(version),
        "kubernetesPatchVersion": version.patch,
    }


def _midnight(day: dt.date) -> dt.datetime:
    return dt.datetime.combine(day, dt.time(), dt.UTC)


OPERATIONS = {"DescribeClusterVersions": describe_cluster_versions}
