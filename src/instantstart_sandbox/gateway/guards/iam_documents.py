"""IAM documents and limits that moto lets pass."""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any

from instantstart_sandbox.gateway import policies
from instantstart_sandbox.gateway.errors import AwsError
from instantstart_sandbox.gateway.guarding import refuse_if
from instantstart_sandbox.gateway.registry import Context, Proceed

if TYPE_CHECKING:
    from instantstart_sandbox.world.state import World

_INLINE_TOTAL = {"role": 10_240, "user": 2_048, "group": 5_120}
_MANAGED_SIZE = 6_144
_MANAGED_PER_OWNER = 10


def install(world: World) -> None:
    """Register the guards."""
    guard = world.registry.guard
    guard("iam", "CreateRole")(functools.partial(_trust, "AssumeRolePolicyDocument"))
    guard("iam", "UpdateAssumeRolePolicy")(functools.partial(_trust, "PolicyDocument"))
    guard("iam", "PutRolePolicy")(functools.partial(_inline, "role", "RoleName"))
    guard("iam", "PutUserPolicy")(functools.partial(_inline, "user", "UserName"))
    guard("iam", "PutGroupPolicy")(functools.partial(_inline, "group", "GroupName"))
    guard("iam", "CreatePolicy", "CreatePolicyVersion")(_managed)
    guard("iam", "AttachRolePolicy")(_attach)


def _trust(parameter: str, ctx: Context, params: dict[str, Any], proceed: Proceed) -> None:
    text = params.get(parameter, "")
    try:
        document = json.loads(text)
    except ValueError as error:
        raise AwsError("MalformedPolicyDocument", "This policy contains invalid Json") from error
    try:
        policies.parse(document)
    except ValueError as error:
        raise AwsError("MalformedPolicyDocument", f"Syntax errors in policy: {error}") from error
    for statement in policies.as_list(document["Statement"]):
        refuse_if("Resource" in statement, "MalformedPolicyDocument", "Has prohibited field Resource")
        refuse_if("Principal" not in statement, "MalformedPolicyDocument", "Missing required field Principal")
        _check_principals(ctx, statement["Principal"])


def _check_principals(ctx: Context, principal: Any) -> None:
    """A user or role of this account that is named must exist."""
    if isinstance(principal, str):
        refuse_if(principal != "*", "MalformedPolicyDocument", f'Invalid principal in policy: "{principal}"')
        return
    backend = ctx.world.gateway.iam.backend(ctx.partition)
    known = {r.arn for r in backend.roles.values()} | {u.arn for u in backend.users.values()}
    mine = f"arn:{ctx.partition}:iam::{ctx.account}:"
    for name in policies.as_list(principal.get("AWS", [])):
        lost = name.startswith((mine + "role/", mine + "user/")) and name not in known
        refuse_if(lost, "MalformedPolicyDocument", f'Invalid principal in policy: "AWS":"{name}"')


def _size(text: str) -> int:
    """IAM does not count white space."""
    return len("".join(text.split()))


def _inline(kind: str, parameter: str, ctx: Context, params: dict[str, Any], proceed: Proceed) -> None:
    backend = ctx.world.gateway.iam.backend(ctx.partition)
    owners: dict[str, Any] = {r.name: r for r in backend.roles.values()}
    if kind != "role":
        owners = backend.users if kind == "user" else backend.groups
    owner = owners.get(params[parameter])
    others = [text for name, text in owner.policies.items() if name != params["PolicyName"]] if owner is not None else []
    total = sum(_size(text) for text in (*others, params["PolicyDocument"]))
    limit = _INLINE_TOTAL[kind]
    refuse_if(total > limit, "LimitExceeded", f"Maximum policy size of {limit} bytes exceeded for {kind} {params[parameter]}")


def _managed(ctx: Context, params: dict[str, Any], proceed: Proceed) -> None:
    refuse_if(_size(params["PolicyDocument"]) > _MANAGED_SIZE, "LimitExceeded", f"Cannot exceed quota for PolicySize: {_MANAGED_SIZE}")


def _attach(ctx: Context, params: dict[str, Any], proceed: Proceed) -> None:
    backend = ctx.world.gateway.iam.backend(ctx.partition)
    role = next((r for r in backend.roles.values() if r.name == params["RoleName"]), None)
    if role is not None and params["PolicyArn"] not in role.managed_policies:
        full = len(role.managed_policies) >= _MANAGED_PER_OWNER
        refuse_if(full, "LimitExceeded", f"Cannot exceed quota for PoliciesPerRole: {_MANAGED_PER_OWNER}")
