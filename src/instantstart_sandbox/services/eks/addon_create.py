"""CreateAddon, UpdateAddon, DeleteAddon. What follows with time is in addon_health."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from instantstart_sandbox.services.eks import pod_identity
from instantstart_sandbox.services.eks.addon_views import addon_of
from instantstart_sandbox.services.eks.catalog import BY_NAME, AddonKind
from instantstart_sandbox.services.eks.schema_check import violations
from instantstart_sandbox.services.eks.state import Record, active, in_use, invalid, new_update, refused, short_uuid

if TYPE_CHECKING:
    from instantstart_sandbox.gateway.registry import Context


def create_addon(ctx: Context, **params: Any) -> dict[str, Any]:
    """CreateAddon; a CREATE_FAILED add-on of the name has to be deleted first (facts A5)."""
    cluster, name = params["clusterName"], params["addonName"]
    record = active(ctx, cluster, "create an addon")
    kind = BY_NAME.get(name)
    if kind is None:
        raise invalid(f"Addon {name} specified is not supported", clusterName=cluster, addonName=name)
    existing = record["addons"].get(name)
    if existing is not None:
        if params.get("clientRequestToken") and existing["token"] == params["clientRequestToken"]:
            return {"addon": existing["view"]}
        raise in_use("Addon already exists.", clusterName=cluster, addonName=name)
    version = params.get("addonVersion") or kind.default(record["view"]["version"])
    _check(record, kind, version, params)
    namespace = (params.get("namespaceConfig") or {}).get("namespace") or kind.namespace
    if namespace != kind.namespace and not kind.movable:
        raise invalid(f"Addon {name} does not support a custom namespace", clusterName=cluster, addonName=name)
    view = _view(ctx, kind, version, namespace, params)
    view["podIdentityAssociations"] = _associate(ctx, record, view, params.get("podIdentityAssociations") or [])
    record["addons"][name] = {
        "view": view,
        "token": params.get("clientRequestToken"),
        "updates": {},
        "resolve": params.get("resolveConflicts") or "NONE",
        "installed": False,
    }
    ctx.clock.after(ctx.world.settings.addon_create_seconds, "eks.addon.settle", arn=record["view"]["arn"], name=name)
    ctx.world.kubernetes.nudge(record["view"]["arn"])
    return {"addon": view}


def _view(ctx: Context, kind: AddonKind, version: str | None, namespace: str, params: dict[str, Any]) -> dict[str, Any]:
    cluster, now = params["clusterName"], ctx.clock.utc()
    view = {
        "addonName": kind.name,
        "clusterName": cluster,
        "status": "CREATING",
        "addonVersion": version,
        "health": {"issues": []},
        "addonArn": ctx.arn("eks", f"addon/{cluster}/{kind.name}/{short_uuid()}"),
        "createdAt": now,
        "modifiedAt": now,
        "tags": dict(params.get("tags") or {}),
        "publisher": kind.publisher,
        "owner": kind.owner,
        "namespaceConfig": {"namespace": namespace},
    }
    return view | {k: params[k] for k in ("serviceAccountRoleArn", "configurationValues") if params.get(k)}


def _check(record: Record, kind: AddonKind, version: str | None, params: dict[str, Any]) -> None:
    where = {"clusterName": record["view"]["name"], "addonName": kind.name}
    if version is None or not kind.compatible(version, record["view"]["version"]):
        raise invalid("Addon version specified is not supported", **where)
    configuration = params.get("configurationValues")
    if configuration:
        found = _problems(configuration, kind)
        if found:
            text = f"Json schema validation failed with error: [{', '.join(found)}]"
            raise invalid(f"ConfigurationValue provided in request is not supported: {text}", **where)
    if params.get("podIdentityAssociations") and version in kind.no_inline_identity:
        raise invalid(f"Pod Identity feature is not supported for addon version {version}", **where)
    for association in params.get("podIdentityAssociations") or []:
        if association["serviceAccount"] not in kind.identities:
            raise invalid(f"Service account {association['serviceAccount']} is not supported by addon {kind.name}", **where)


def _problems(configuration: str, kind: AddonKind) -> list[str]:
    try:
        return list(violations(json.loads(configuration), kind.schema))
    except json.JSONDecodeError as error:
        return [f"$: is not valid JSON ({error})"]


def _associate(ctx: Context, record: Record, view: dict[str, Any], asked: list[dict[str, str]]) -> list[str]:
    """Make the add-on's own associations; a foreign one of the same service account is in the way."""
    namespace, cluster = view["namespaceConfig"]["namespace"], record["view"]["name"]
    for one in asked:
        pod_identity.check_role(ctx, cluster, one["roleArn"])
        other = pod_identity.held(record, namespace, one["serviceAccount"])
        if other is not None and other["view"].get("ownerArn") != view["addonArn"]:
            raise in_use(f"Association already exists: {other['view']['associationId']}", clusterName=cluster, addonName=view["addonName"])
    _dissociate(record, view)
    made = (pod_identity.associate(ctx, record, one | {"namespace": namespace}, view["addonArn"]) for one in asked)
    return [a["view"]["associationArn"] for a in made]


def _dissociate(record: Record, view: dict[str, Any]) -> None:
    owned = [i for i, a in record["associations"].items() if a["view"].get("ownerArn") == view["addonArn"]]
    for association in owned:
        del record["associations"][association]


def update_addon(ctx: Context, **params: Any) -> dict[str, Any]:
    """UpdateAddon. ``podIdentityAssociations`` left out stay, ``[]`` removes them; a configuration left out is reset.

    EKS keeps no field but the associations: version, role and configuration are those of the call.
    """
    cluster, name = params["clusterName"], params["addonName"]
    record = active(ctx, cluster, "update an addon")
    addon, kind = addon_of(record, name), BY_NAME[name]
    view = addon["view"]
    if view["status"] in ("CREATING", "UPDATING", "DELETING"):
        raise in_use(f"Addon {name} cannot be updated as it is currently in {view['status']} state", clusterName=cluster, addonName=name)
    if view["status"] == "CREATE_FAILED":
        raise refused(f"Addon {name} cannot be updated as it is currently in CREATE_FAILED state", clusterName=cluster, addonName=name)
    version = params.get("addonVersion") or view["addonVersion"]
    _check(record, kind, version, params)
    if params.get("podIdentityAssociations") is not None:
        view["podIdentityAssociations"] = _associate(ctx, record, view, params["podIdentityAssociations"])
    shown = {"AddonVersion": version, "ResolveConflicts": params.get("resolveConflicts") or "NONE"}
    if params.get("configurationValues"):
        shown["ConfigurationValues"] = params["configurationValues"]
    update = new_update(ctx, addon, "AddonUpdate", shown)
    view |= {"status": "UPDATING", "addonVersion": version, "modifiedAt": ctx.clock.utc()}
    for field in ("serviceAccountRoleArn", "configurationValues"):
        _set(view, field, params.get(field))
    ctx.clock.after(ctx.world.settings.addon_create_seconds, "eks.addon.settle", arn=record["view"]["arn"], name=name, update=update["id"])
    ctx.world.kubernetes.nudge(record["view"]["arn"])
    return {"update": update}


def _set(view: dict[str, Any], field: str, value: str | None) -> None:
    if value:
        view[field] = value
    else:
        view.pop(field, None)


def delete_addon(ctx: Context, **params: Any) -> dict[str, Any]:
    """DeleteAddon; ``preserve`` leaves its objects in the cluster, self-managed from then on."""
    record = active(ctx, params["clusterName"], "delete an addon")
    addon = addon_of(record, params["addonName"])
    view = addon["view"]
    if view["status"] == "DELETING":
        return {"addon": view}
    view["status"] = "DELETING"
    addon["preserve"] = bool(params.get("preserve"))
    _dissociate(record, view)
    ctx.clock.after(ctx.world.settings.addon_delete_seconds, "eks.addon.gone", arn=record["view"]["arn"], name=params["addonName"])
    ctx.world.kubernetes.nudge(record["view"]["arn"])
    return {"addon": view}


OPERATIONS = {"CreateAddon": create_addon, "UpdateAddon": update_addon, "DeleteAddon": delete_addon}
