"""Pod identity associations: one per (namespace, service account)."""

from __future__ import annotations

import secrets
import string
from typing import TYPE_CHECKING, Any

from instantstart_sandbox.services import lookups
from instantstart_sandbox.services.eks.state import Record, active, find, in_use, invalid, listing, not_found

if TYPE_CHECKING:
    from instantstart_sandbox.gateway.registry import Context

_ALPHABET = string.ascii_lowercase + string.digits
_SUMMARY = ("clusterName", "namespace", "serviceAccount", "associationArn", "associationId", "ownerArn")


def create_pod_identity_association(ctx: Context, **params: Any) -> dict[str, Any]:
    """CreatePodIdentityAssociation; the same clientRequestToken again answers the first association."""
    name = params["clusterName"]
    record = active(ctx, name, "create a pod identity association")
    existing = held(record, params["namespace"], params["serviceAccount"])
    if existing is not None:
        if params.get("clientRequestToken") and existing.get("token") == params["clientRequestToken"]:
            return {"association": existing["view"]}
        raise in_use(f"Association already exists: {existing['view']['associationId']}", clusterName=name)
    return {"association": associate(ctx, record, params)["view"]}


def held(record: Record, namespace: str, service_account: str) -> Record | None:
    """The association of a service account, if there is one."""
    views = record["associations"].values()
    return next((a for a in views if (a["view"]["namespace"], a["view"]["serviceAccount"]) == (namespace, service_account)), None)


def associate(ctx: Context, record: Record, params: dict[str, Any], owner: str | None = None) -> Record:
    """Make an association, for the caller or (``owner``: its ARN) for an add-on."""
    name, now = record["view"]["name"], ctx.clock.utc()
    check_role(ctx, name, params["roleArn"])
    association_id = "a-" + "".join(secrets.choice(_ALPHABET) for _ in range(17))
    view = {
        "clusterName": name,
        "namespace": params["namespace"],
        "serviceAccount": params["serviceAccount"],
        "roleArn": params["roleArn"],
        "associationArn": ctx.arn("eks", f"podidentityassociation/{name}/{association_id}"),
        "associationId": association_id,
        "tags": dict(params.get("tags") or {}),
        "createdAt": now,
        "modifiedAt": now,
        "disableSessionTags": bool(params.get("disableSessionTags")),
    }
    view |= {k: params[k] for k in ("targetRoleArn", "policy") if params.get(k)}
    if params.get("targetRoleArn"):
        view["externalId"] = secrets.token_hex(16)
    if owner:
        view["ownerArn"] = owner
    effective = ctx.clock.now() + ctx.world.settings.pod_identity_visible_seconds
    made = {"view": view, "token": params.get("clientRequestToken"), "effective": effective}
    record["associations"][association_id] = made
    ctx.world.kubernetes.nudge(record["view"]["arn"])
    return made


def check_role(ctx: Context, cluster: str, role_arn: str) -> None:
    """The role must be seen and must let ``pods.eks`` both assume it and tag the session (facts A8.3)."""
    for action in ("sts:AssumeRole", "sts:TagSession"):
        if not lookups.role_trusts(ctx.world, role_arn, ctx.region, "pods.eks", action):
            message = f"Trust policy of IAM role {role_arn} is not valid for EKS Pod Identity: no such role, or no action {action}"
            raise invalid(message, clusterName=cluster)


def _find(ctx: Context, params: dict[str, Any]) -> tuple[Record, Record]:
    record = find(ctx, params["clusterName"])
    association = record["associations"].get(params["associationId"])
    if association is None:
        raise not_found(f"No association found with id: {params['associationId']}", clusterName=params["clusterName"])
    return record, association


def _not_owned(association: Record, cluster: str, act: str) -> None:
    if association["view"].get("ownerArn"):
        raise invalid(f"Cannot {act} the association: it is owned by {association['view']['ownerArn']}", clusterName=cluster)


def describe_pod_identity_association(ctx: Context, **params: Any) -> dict[str, Any]:
    """DescribePodIdentityAssociation."""
    return {"association": _find(ctx, params)[1]["view"]}


def update_pod_identity_association(ctx: Context, **params: Any) -> dict[str, Any]:
    """UpdatePodIdentityAssociation; a field that is absent stays."""
    _, association = _find(ctx, params)
    _not_owned(association, params["clusterName"], "update")
    if params.get("roleArn"):
        check_role(ctx, params["clusterName"], params["roleArn"])
    for field in ("roleArn", "disableSessionTags", "targetRoleArn", "policy"):
        if params.get(field) is not None:
            association["view"][field] = params[field]
    association["view"]["modifiedAt"] = ctx.clock.utc()
    return {"association": association["view"]}


def delete_pod_identity_association(ctx: Context, **params: Any) -> dict[str, Any]:
    """DeletePodIdentityAssociation."""
    record, association = _find(ctx, params)
    _not_owned(association, params["clusterName"], "delete")
    del record["associations"][params["associationId"]]
    ctx.world.kubernetes.nudge(record["view"]["arn"])
    return {"association": association["view"]}


def list_pod_identity_associations(ctx: Context, **params: Any) -> dict[str, Any]:
    """ListPodIdentityAssociations, by namespace and service account if asked."""
    views = [a["view"] for a in find(ctx, params["clusterName"])["associations"].values()]
    for field in ("namespace", "serviceAccount"):
        if params.get(field):
            views = [v for v in views if v[field] == params[field]]
    return listing("associations", [{k: v[k] for k in _SUMMARY if k in v} for v in views], params)


OPERATIONS = {
    "CreatePodIdentityAssociation": create_pod_identity_association,
    "DescribePodIdentityAssociation": describe_pod_identity_association,
    "UpdatePodIdentityAssociation": update_pod_identity_association,
    "DeletePodIdentityAssociation": delete_pod_identity_association,
    "ListPodIdentityAssociations": list_pod_identity_associations,
}
