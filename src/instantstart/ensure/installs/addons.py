"""EKS add-ons: asked for with a pinned version, removed and made again after CREATE_FAILED, DEGRADED told truly.

Facts: aws-facts A5 (add-ons), A9. DEGRADED for want of replicas is normal before the first node; it is neither
success nor failure, and nothing is deleted for it (case 24).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from instantstart.aws.session import Aws
from instantstart.base import names, problems
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


def foreign_role(aws: Aws, cluster: str, name: str, tag: str) -> str | None:
    """The role of an add-on that was not made for ``tag``; None when it is ours, absent or without a role."""
    have = find(aws, cluster, name)
    ours = have is None or have.get("tags", {}).get(names.CLUSTER_TAG) == tag
    return None if ours or have is None else have.get("serviceAccountRoleArn")


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
    """Move one step towards the add-on being asked for. Done learns ``version`` and ``status``; it may still be CREATING.

    ``tags`` carries the operation's try: a CREATE_FAILED add-on of this very try is told, one of an earlier try is made again.
    Raises Conflict ``addon.conflicts`` (somebody else's objects are in the way) and ``addon.failed``.
    """
    have = find(aws, cluster, want.name)
    if have is None:
        return _create(aws, cluster, kubernetes_version, want, tags, token)
    status = have["status"]
    if status == "CREATE_FAILED":
        if have.get("tags", {}).get(names.OPERATION_TAG) == tags.get(names.OPERATION_TAG):
            raise failure(have)
        aws.remove("eks", "delete_addon", clusterName=cluster, addonName=want.name, preserve=False)
        return Wait(5, f"{want.name} had failed and is being removed, to be made again")
    if status == "DELETING":
        return Wait(5, f"An older {want.name} is being removed")
    if want.role_arn and have.get("serviceAccountRoleArn") != want.role_arn:
        return _give_role(aws, cluster, have, want, token)
    return Done({"addon": want.name, "version": have["addonVersion"], "status": status}, already=status == "ACTIVE")


def _give_role(aws: Aws, cluster: str, have: dict[str, Any], want: Addon, token: str) -> Outcome:
    """An update drops the configuration that it is not given (sandbox-services.md, EKS), so both are sent."""
    if have["status"] not in ("ACTIVE", "DEGRADED"):
        return Wait(5, f"{want.name} is {have['status']} and gets its role after that")
    params = {"clusterName": cluster, "addonName": want.name, "serviceAccountRoleArn": want.role_arn, "clientRequestToken": token}
    if have.get("configurationValues"):
        params["configurationValues"] = have["configurationValues"]
    aws.write("eks", "update_addon", **params)
    return Wait(3, f"Gave {want.name} its role")


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
    if aws.create("eks", "create_addon", **params) is None:
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


def failure(have: dict[str, Any]) -> problems.Conflict:
    """Why an add-on could not be made: somebody else's objects in its way (case 25), or EKS's own sentence."""
    issues = have.get("health", {}).get("issues", [])
    told = "; ".join(f"{i.get('code')}: {i.get('message')}" for i in issues) or "no reason told"
    evidence = {"service": "eks", "addon": have["addonName"], "addon_arn": have.get("addonArn"), "issues": issues}
    if any(issue.get("code") == "ConfigurationConflict" for issue in issues):
        return problems.Conflict(
            "addon.conflicts",
            f"{have['addonName']} collides with objects that somebody else installed: {told}",
            hint="Remove them and retry, or ask again with overwrite_conflicts to take them over.",
            evidence=evidence,
        )
    return problems.Conflict(
        "addon.failed",
        f"EKS could not install {have['addonName']}: {told}",
        hint="Mend the cause and retry: the failed add-on is removed and made again.",
        evidence=evidence,
    )
