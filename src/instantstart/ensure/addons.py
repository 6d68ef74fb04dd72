"""EKS add-ons: asked for with a pinned version, removed and made again after CREATE_FAILED, DEGRADED told truly.

Facts: aws-facts A5 (add-ons), A9. DEGRADED for want of replicas is normal before the first node; it is neither
success nor failure, and nothing is deleted for it (case 24).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from instantstart.aws.session import Aws
from instantstart.base import problems
from instantstart.base.outcome import Done, Outcome, Wait

_NEEDS_NODES = "InsufficientNumberOfReplicas"


@dataclass(frozen=True)
class Addon:
    """An add-on we want. ``configuration`` is stored as canonical JSON: EKS compares it as a string."""

    name: str
    role_arn: str | None = None
    configuration: dict[str, Any] = field(default_factory=dict)
    overwrite: bool = False


def find(aws: Aws, cluster: str, name: str) -> dict[str, Any] | None:
    """The add-on as DescribeAddon tells it, or None."""
    try:
        told: dict[str, Any] = aws.read("eks", "describe_addon", clusterName=cluster, addonName=name)["addon"]
    except problems.NotFound:
        return None
    return told


def default_version(aws: Aws, name: str, kubernetes_version: str) -> str:
    """The default version of an add-on for a Kubernetes version, else the newest compatible. Raises NotFound."""
    versions = [
        version
        for addon in aws.pages("eks", "describe_addon_versions", "addons", addonName=name, kubernetesVersion=kubernetes_version)
        for version in addon["addonVersions"]
    ]
    if not versions:
        raise problems.NotFound("addon.no_version", f"EKS offers no version of {name} for Kubernetes {kubernetes_version} in {aws.region}.")
    preferred = [v for v in versions if any(c.get("defaultVersion") for c in v.get("compatibilities", ()))]
    return str((preferred or versions)[0]["addonVersion"])


def request(aws: Aws, cluster: str, kubernetes_version: str, want: Addon, tags: dict[str, str], token: str) -> Outcome:
    """Move one step towards the add-on being asked for. Done learns ``version`` and ``status``; it may still be CREATING."""
    have = find(aws, cluster, want.name)
    if have is None:
        return _create(aws, cluster, kubernetes_version, want, tags, token)
    status = have["status"]
    if status == "CREATE_FAILED":
        _check_conflict(have)
        aws.write("eks", "delete_addon", clusterName=cluster, addonName=want.name, preserve=False)
        return Wait(5, f"{want.name} had failed and is being removed, to be made again")
    if status == "DELETING":
        return Wait(5, f"An older {want.name} is being removed")
    if want.role_arn and have.get("serviceAccountRoleArn") != want.role_arn and status in ("ACTIVE", "DEGRADED"):
        aws.write(
            "eks", "update_addon", clusterName=cluster, addonName=want.name, serviceAccountRoleArn=want.role_arn, clientRequestToken=token
        )
        return Wait(3, f"Gave {want.name} its role")
    return Done({"addon": want.name, "version": have["addonVersion"], "status": status}, already=status == "ACTIVE")


def _create(aws: Aws, cluster: str, kubernetes_version: str, want: Addon, tags: dict[str, str], token: str) -> Outcome:
    params: dict[str, Any] = {
        "clusterName": cluster,
        "addonName": want.name,
        "addonVersion": default_version(aws, want.name, kubernetes_version),
        "resolveConflicts": "OVERWRITE" if want.overwrite else "NONE",
        "tags": tags,
        "clientRequestToken": token,
    }
    if want.role_arn:
        params["serviceAccountRoleArn"] = want.role_arn
    if want.configuration:
        params["configurationValues"] = json.dumps(want.configuration, sort_keys=True, separators=(",", ":"))
    try:
        aws.write("eks", "create_addon", **params)
    except problems.Conflict:
        return Wait(2, f"{want.name} appeared a moment ago")
    return Wait(0, f"Asked EKS for {want.name} {params['addonVersion']}")


def observe(aws: Aws, cluster: str, name: str) -> dict[str, Any]:
    """``{name, status, version, issues, waiting_for_nodes}``; status ABSENT when it is not there."""
    have = find(aws, cluster, name)
    if have is None:
        return {"name": name, "status": "ABSENT", "version": None, "issues": [], "waiting_for_nodes": False}
    issues = have.get("health", {}).get("issues", [])
    lacking = have["status"] in ("DEGRADED", "CREATING") and any(i.get("code") == _NEEDS_NODES for i in issues)
    told = [f"{i.get('code')}: {i.get('message')}" for i in issues]
    return {"name": name, "status": have["status"], "version": have["addonVersion"], "issues": told, "waiting_for_nodes": lacking}


def _check_conflict(have: dict[str, Any]) -> None:
    for issue in have.get("health", {}).get("issues", ()):
        if issue.get("code") == "ConfigurationConflict":
            raise problems.Conflict(
                "addon.conflicts",
                f"{have['addonName']} collides with objects that somebody else installed: {issue.get('message')}",
                hint="Ask again with overwrite_conflicts to take them over, or remove them first.",
                evidence={"addon": have["addonName"], "issues": have["health"]["issues"]},
            )
