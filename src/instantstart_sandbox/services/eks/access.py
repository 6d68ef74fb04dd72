"""Access entries: which IAM principal is whom in Kubernetes.

An entry is ``{"view", "policies", "effective"}``; ``effective`` is the virtual second from which the authenticator
knows it (about ten seconds after the call, facts A5).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from instantstart_sandbox.services.arns import Arn
from instantstart_sandbox.services.eks.state import Record, find, in_use, invalid, listing, not_found, refused, short_uuid

if TYPE_CHECKING:
    from instantstart_sandbox.gateway.registry import Context

_ADMIN = "AmazonEKSClusterAdminPolicy"
_TYPES = frozenset({"STANDARD", "EC2_LINUX", "EC2_WINDOWS", "FARGATE_LINUX", "EC2", "HYBRID_LINUX", "HYPERPOD_LINUX"})
_NODE_TYPES = _TYPES - {"STANDARD"}


def with_entries(ctx: Context, name: str) -> Record:
    """The record of a cluster whose authentication mode knows access entries."""
    record = find(ctx, name)
    if record["view"]["accessConfig"]["authenticationMode"] == "CONFIG_MAP":
        message = "The cluster's authentication mode must be set to one of [API, API_AND_CONFIG_MAP] to perform this operation."
        raise refused(message, clusterName=name)
    return record


def entry_of(record: Record, principal: str) -> Record:
    """The entry of a principal; ResourceNotFoundException."""
    entry: Record | None = record["entries"].get(principal)
    if entry is None:
        raise not_found(
            "The specified principalArn could not be found. You can view your available access entries with 'list-access-entries'.",
            clusterName=record["view"]["name"],
        )
    return entry


def policy_arn(partition: str, name: str) -> str:
    """The ARN of one of EKS's access policies."""
    return f"arn:{partition}:eks::aws:cluster-access-policy/{name}"


def put_entry(ctx: Context, record: Record, principal: str, kind: str = "STANDARD", groups: tuple[str, ...] = ()) -> Record:
    """Make an entry for a principal unless it has one; used by EKS and HyperPod themselves."""
    if principal not in record["entries"]:
        record["entries"][principal] = _entry(ctx, record, {"principalArn": principal, "type": kind, "kubernetesGroups": list(groups)})
    entry: Record = record["entries"][principal]
    return entry


def admin_entry(ctx: Context, record: Record, principal: str) -> None:
    """The creator's entry: cluster admin, in effect at once."""
    entry = put_entry(ctx, record, principal)
    now = ctx.clock.utc()
    scope = {"type": "cluster", "namespaces": []}
    arn = policy_arn(ctx.partition, _ADMIN)
    entry["policies"][arn] = {"policyArn": arn, "accessScope": scope, "associatedAt": now, "modifiedAt": now, "effective": ctx.clock.now()}
    entry["effective"] = ctx.clock.now()


def _entry(ctx: Context, record: Record, params: dict[str, Any]) -> Record:
    principal, now, name = params["principalArn"], ctx.clock.utc(), record["view"]["name"]
    who = Arn.parse(principal)
    kind = who.resource.split("/")[0]
    view = {
        "clusterName": name,
        "principalArn": principal,
        "kubernetesGroups": params.get("kubernetesGroups") or [],
        "accessEntryArn": ctx.arn("eks", f"access-entry/{name}/{kind}/{who.account}/{who.name}/{short_uuid()}"),
        "createdAt": now,
        "modifiedAt": now,
        "tags": dict(params.get("tags") or {}),
        "username": params.get("username") or _username(who, params.get("type") or "STANDARD", principal),
        "type": params.get("type") or "STANDARD",
    }
    return {"view": view, "policies": {}, "effective": ctx.clock.now() + ctx.world.settings.access_entry_effective_seconds}


def _username(who: Arn, kind: str, principal: str) -> str:
    if kind in _NODE_TYPES:
        return "system:node:{{SessionName}}" if kind == "HYPERPOD_LINUX" else "system:node:{{EC2PrivateDNSName}}"
    if who.resource.startswith("role/"):
        return f"arn:{who.partition}:sts::{who.account}:assumed-role/{who.name}/{{{{SessionName}}}}"
    return principal


def create_access_entry(ctx: Context, **params: Any) -> dict[str, Any]:
    """CreateAccessEntry; the principal must exist in IAM."""
    name, principal = params["clusterName"], params["principalArn"]
    record = with_entries(ctx, name)
    if principal in record["entries"]:
        raise in_use("The specified access entry resource is already in use on this cluster.", clusterName=name)
    if not _principal_exists(ctx, principal):
        raise invalid("The specified principalArn is invalid: invalid principal.", clusterName=name)
    _check(name, params)
    record["entries"][principal] = _entry(ctx, record, params)
    ctx.world.kubernetes.nudge(record["view"]["arn"])
    return {"accessEntry": record["entries"][principal]["view"]}


def _check(cluster: str, params: dict[str, Any]) -> None:
    kind = params.get("type") or "STANDARD"
    if kind not in _TYPES:
        raise invalid(f"The specified type {kind} is invalid. It must be one of {sorted(_TYPES)}", clusterName=cluster)
    if kind in _NODE_TYPES and (params.get("kubernetesGroups") or params.get("username")):
        raise invalid(f"An access entry of type {kind} takes neither kubernetesGroups nor a username", clusterName=cluster)
    for group in params.get("kubernetesGroups") or []:
        if group.startswith("system:"):
            raise invalid(f"The kubernetes group name {group} is invalid, it cannot start with system:", clusterName=cluster)


def _principal_exists(ctx: Context, principal: str) -> bool:
    try:
        who = Arn.parse(principal)
    except ValueError:
        return False
    iam = ctx.world.client("iam", ctx.region)
    kind = who.resource.split("/")[0]
    if who.service != "iam" or kind not in ("role", "user"):
        return who.service == "iam" and who.resource == "root"
    try:
        found = iam.get_role(RoleName=who.name)["Role"] if kind == "role" else iam.get_user(UserName=who.name)["User"]
    except ClientError:
        return False
    return bool(found["Arn"] == principal)


def describe_access_entry(ctx: Context, **params: Any) -> dict[str, Any]:
    """DescribeAccessEntry."""
    return {"accessEntry": entry_of(with_entries(ctx, params["clusterName"]), params["principalArn"])["view"]}


def update_access_entry(ctx: Context, **params: Any) -> dict[str, Any]:
    """UpdateAccessEntry: groups and user name; a field that is absent stays."""
    record = with_entries(ctx, params["clusterName"])
    entry = entry_of(record, params["principalArn"])
    _check(params["clusterName"], params | {"type": "STANDARD"})
    for field in ("kubernetesGroups", "username"):
        if params.get(field) is not None:
            entry["view"][field] = params[field]
    entry["view"]["modifiedAt"] = ctx.clock.utc()
    ctx.world.kubernetes.nudge(record["view"]["arn"])
    return {"accessEntry": entry["view"]}


def delete_access_entry(ctx: Context, **params: Any) -> dict[str, Any]:
    """DeleteAccessEntry."""
    record = with_entries(ctx, params["clusterName"])
    entry_of(record, params["principalArn"])
    del record["entries"][params["principalArn"]]
    ctx.world.kubernetes.nudge(record["view"]["arn"])
    return {}


def list_access_entries(ctx: Context, **params: Any) -> dict[str, Any]:
    """ListAccessEntries, by associated policy if asked."""
    record, policy = with_entries(ctx, params["clusterName"]), params.get("associatedPolicyArn")
    return listing("accessEntries", sorted(p for p, e in record["entries"].items() if not policy or policy in e["policies"]), params)


OPERATIONS = {
    "CreateAccessEntry": create_access_entry,
    "DescribeAccessEntry": describe_access_entry,
    "UpdateAccessEntry": update_access_entry,
    "DeleteAccessEntry": delete_access_entry,
    "ListAccessEntries": list_access_entries,
}
