"""Which versions of which add-ons EKS offers for a Kubernetes version, and how versions compare. One call for all, kept for an hour."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from instantstart.aws.session import Aws
from instantstart.base import problems

_KEPT_SECONDS = 3600.0


@dataclass(frozen=True)
class Offer:
    """An add-on's versions, newest first, and the one that EKS takes by default."""

    versions: tuple[str, ...]
    default: str


def read(aws: Aws, kubernetes_version: str) -> dict[str, Offer]:
    """What EKS offers for a Kubernetes version, by add-on."""
    key = f"addon offers {kubernetes_version}"
    return aws.cached(key, _KEPT_SECONDS, lambda: _read(aws, kubernetes_version))


def _read(aws: Aws, kubernetes_version: str) -> dict[str, Offer]:
    listed = aws.pages("eks", "describe_addon_versions", "addons", kubernetesVersion=kubernetes_version)
    return {addon["addonName"]: _offer(addon["addonVersions"]) for addon in listed if addon.get("addonVersions")}


def _offer(told: list[dict[str, Any]]) -> Offer:
    preferred = [v["addonVersion"] for v in told if any(c.get("defaultVersion") for c in v.get("compatibilities", ()))]
    versions = tuple(sorted((v["addonVersion"] for v in told), key=rank, reverse=True))
    return Offer(versions, preferred[0] if preferred else versions[0])


def choose(offers: Mapping[str, Offer], addon: str, minimum: str = "") -> str:
    """The default version, or the newest when the default is older than a minimum. Raises NotFound, Conflict."""
    offer = offers.get(addon)
    if offer is None:
        raise problems.NotFound("addon.no_version", f"EKS offers no version of {addon} for this cluster's Kubernetes version.")
    best = offer.default if not is_older(offer.default, minimum) else offer.versions[0]
    if is_older(best, minimum):
        raise problems.Conflict("addon.too_old", f"The newest {addon} that EKS offers here is {best}; {minimum} or newer is needed.")
    return best


def rank(version: str) -> tuple[int, ...]:
    """``v1.18.2-eksbuild.2`` as numbers that compare."""
    return tuple(int(part) for part in re.findall(r"\d+", version))


def is_older(version: str, than: str) -> bool:
    """Whether a version is older than another; nothing is older than an empty one. A copy of others has no build of EKS to compare."""
    least = rank(than) if "eksbuild" in version else rank(than.partition("-eksbuild")[0])
    return bool(than) and rank(version) < least


def takes_inline_identity(aws: Aws, addon: str, version: str) -> bool:
    """Whether this version of an add-on takes pod identity associations within its own request (DescribeAddonConfiguration)."""
    key = f"addon configuration {addon} {version}"
    asked = {"addonName": addon, "addonVersion": version}
    told = aws.cached(key, _KEPT_SECONDS, lambda: aws.read("eks", "describe_addon_configuration", **asked))
    return bool(told.get("podIdentityConfiguration"))


def schema(aws: Aws, addon: str, version: str) -> dict[str, Any]:
    """The JSON schema of an add-on's configuration values; empty when EKS tells none."""
    key = f"addon configuration {addon} {version}"
    asked = {"addonName": addon, "addonVersion": version}
    told = aws.cached(key, _KEPT_SECONDS, lambda: aws.read("eks", "describe_addon_configuration", **asked))
    found: dict[str, Any] = json.loads(told.get("configurationSchema") or "{}")
    return found
