"""What there is to read about add-ons: DescribeAddonVersions, DescribeAddonConfiguration, DescribeAddon, ListAddons."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from instantstart_sandbox.services.eks.catalog import BY_NAME, KINDS, AddonKind
from instantstart_sandbox.services.eks.state import Record, find, invalid, listing, not_found
from instantstart_sandbox.services.eks.versions import VERSIONS

if TYPE_CHECKING:
    from instantstart_sandbox.gateway.registry import Context

_DRAFT = "http://json-schema.org/draft-07/schema#"


def describe_addon_versions(ctx: Context, **params: Any) -> dict[str, Any]:
    """DescribeAddonVersions, by name, Kubernetes version, type, owner and publisher."""
    name, kubernetes = params.get("addonName"), params.get("kubernetesVersion")
    if name is not None and name not in BY_NAME:
        raise not_found(f"Addon {name} not found", addonName=name)
    views = [_versions(kind, kubernetes) for kind in KINDS if name in (None, kind.name)]
    for field, key in (("types", "type"), ("owners", "owner"), ("publishers", "publisher")):
        if params.get(field):
            views = [v for v in views if v[key] in params[field]]
    return listing("addons", [v for v in views if v["addonVersions"]], params)


def _versions(kind: AddonKind, kubernetes: str | None) -> dict[str, Any]:
    wanted = [v.name for v in VERSIONS if kubernetes in (None, v.name)]
    return {
        "addonName": kind.name,
        "type": kind.category,
        "addonVersions": [v for v in (_version(kind, version, wanted) for version, _, _ in kind.versions) if v["compatibilities"]],
        "publisher": kind.publisher,
        "owner": kind.owner,
        "defaultNamespace": kind.namespace,
    }


def _version(kind: AddonKind, version: str, wanted: list[str]) -> dict[str, Any]:
    fitting = [k for k in wanted if kind.compatible(version, k)]
    return {
        "addonVersion": version,
        "architecture": ["amd64", "arm64"],
        "computeTypes": ["ec2", "hybrid"],
        "compatibilities": [
            {"clusterVersion": k, "platformVersions": ["*"], "defaultVersion": kind.default(k) == version} for k in fitting
        ],
        "requiresConfiguration": kind.requires_configuration,
        "requiresIamPermissions": kind.requires_iam,
    }


def describe_addon_configuration(ctx: Context, **params: Any) -> dict[str, Any]:
    """DescribeAddonConfiguration."""
    name, version = params["addonName"], params["addonVersion"]
    kind = BY_NAME.get(name)
    if kind is None:
        raise not_found(f"Addon {name} not found", addonName=name)
    if version not in {v for v, _, _ in kind.versions}:
        raise invalid("Addon version specified is not supported", addonName=name)
    identities = {} if version in kind.no_inline_identity else kind.identities
    policies = f"arn:{ctx.partition}:iam::aws:policy/"
    return {
        "addonName": name,
        "addonVersion": version,
        "configurationSchema": json.dumps({"$schema": _DRAFT, **kind.schema}),
        "podIdentityConfiguration": [
            {"serviceAccount": account, "recommendedManagedPolicies": [policies + p for p in recommended]}
            for account, recommended in identities.items()
        ],
    }


def addon_of(record: Record, name: str) -> Record:
    """The record of an add-on of a cluster; ResourceNotFoundException."""
    cluster = record["view"]["name"]
    addon: Record | None = record["addons"].get(name)
    if addon is None:
        raise not_found(f"No addon: {name} found in cluster: {cluster}", clusterName=cluster, addonName=name)
    return addon


def describe_addon(ctx: Context, **params: Any) -> dict[str, Any]:
    """DescribeAddon."""
    return {"addon": addon_of(find(ctx, params["clusterName"]), params["addonName"])["view"]}


def list_addons(ctx: Context, **params: Any) -> dict[str, Any]:
    """ListAddons: EKS add-ons only, never the self-managed copies."""
    return listing("addons", sorted(find(ctx, params["clusterName"])["addons"]), params)


OPERATIONS = {
    "DescribeAddonVersions": describe_addon_versions,
    "DescribeAddonConfiguration": describe_addon_configuration,
    "DescribeAddon": describe_addon,
    "ListAddons": list_addons,
}
