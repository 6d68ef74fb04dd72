"""STS where moto is too kind: who a caller is, and whether a role lets itself be assumed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from instantstart_sandbox.gateway import policies
from instantstart_sandbox.gateway.errors import AwsError
from instantstart_sandbox.gateway.registry import Context, Proceed

if TYPE_CHECKING:
    from instantstart_sandbox.world.state import World


def install(world: World) -> None:
    """Own GetCallerIdentity; guard the AssumeRole calls."""
    world.registry.op("sts", "GetCallerIdentity")(get_caller_identity)
    world.registry.guard("sts", "AssumeRole")(_assume_role)
    world.registry.guard("sts", "AssumeRoleWithWebIdentity")(_assume_role_with_web_identity)


def get_caller_identity(ctx: Context) -> dict[str, Any]:
    """Works for everybody whose key exists, whatever the policies say."""
    caller = ctx.world.gateway.iam.caller(ctx.access_key, ctx.partition)
    if caller is None:
        return {"Account": ctx.account, "Arn": ctx.principal_arn, "UserId": ctx.account}
    return {"Account": ctx.account, "Arn": caller.session_arn, "UserId": caller.user_id}


def _assume_role(ctx: Context, params: dict[str, Any], proceed: Proceed) -> None:
    document = _trust(ctx, params["RoleArn"])
    root = f"arn:{ctx.partition}:iam::{ctx.account}:root"
    caller = ctx.world.gateway.iam.caller(ctx.access_key, ctx.partition)
    names = {ctx.principal_arn, root, ctx.account} | ({caller.session_arn} if caller else set())
    context = {"sts:externalid": [params["ExternalId"]]} if params.get("ExternalId") else {}
    if document is None or not policies.trusts(document, names, "sts:AssumeRole", context):
        raise _denied(f"User: {ctx.principal_arn}", "sts:AssumeRole", params["RoleArn"])


def _assume_role_with_web_identity(ctx: Context, params: dict[str, Any], proceed: Proceed) -> None:
    """The provider must be in the trust policy and exist; the token's own claims are the cluster's business."""
    document = _trust(ctx, params["RoleArn"])
    providers = set(ctx.world.gateway.iam.backend(ctx.partition).open_id_providers)
    conditions_apart = None if document is None else _without_conditions(document)
    if conditions_apart is None or not policies.trusts(conditions_apart, providers, "sts:AssumeRoleWithWebIdentity"):
        raise AwsError("AccessDenied", "Not authorized to perform sts:AssumeRoleWithWebIdentity", 403)


def _without_conditions(document: policies.Document) -> policies.Document:
    return {"Statement": [{k: v for k, v in s.items() if k != "Condition"} for s in policies.as_list(document["Statement"])]}


def _trust(ctx: Context, role_arn: str) -> policies.Document | None:
    """The trust policy of a role that exists and is visible by now; None otherwise, as STS tells nobody which."""
    if not ctx.world.iam_visible(role_arn):
        return None
    for role in ctx.world.gateway.iam.backend(ctx.partition).roles.values():
        if role.arn == role_arn:
            return policies.parse(role.assume_role_policy_document)
    return None


def _denied(who: str, action: str, resource: str) -> AwsError:
    return AwsError("AccessDenied", f"{who} is not authorized to perform: {action} on resource: {resource}", 403)
