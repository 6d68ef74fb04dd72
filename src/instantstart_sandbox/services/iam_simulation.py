"""IAM's policy simulator: SimulatePrincipalPolicy and SimulateCustomPolicy, by the evaluator that enforcement uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from instantstart_sandbox.gateway import policies
from instantstart_sandbox.gateway.errors import AwsError
from instantstart_sandbox.gateway.registry import Context
from instantstart_sandbox.services.paging import page

if TYPE_CHECKING:
    from instantstart_sandbox.world.state import World

Documents = list[tuple[str, policies.Document]]


def install(world: World) -> None:
    """Own the two operations."""
    world.registry.op("iam", "SimulatePrincipalPolicy")(simulate_principal)
    world.registry.op("iam", "SimulateCustomPolicy")(simulate_custom)


def simulate_principal(ctx: Context, PolicySourceArn: str, ActionNames: list[str], **params: Any) -> dict[str, Any]:
    """By the policies of a user, group or role, and further ones that are given."""
    iam = ctx.world.gateway.iam
    backend = iam.backend(ctx.partition)
    known = {o.arn for owners in (backend.users, backend.groups, backend.roles) for o in owners.values()}
    if PolicySourceArn not in known:
        raise AwsError("NoSuchEntity", f"The policy source {PolicySourceArn} cannot be found.", 404)
    return _simulate(iam.documents(PolicySourceArn) + _given(params), ActionNames, params)


def simulate_custom(ctx: Context, PolicyInputList: list[str], ActionNames: list[str], **params: Any) -> dict[str, Any]:
    """By the policies that are given, and no others."""
    return _simulate(_given({"PolicyInputList": PolicyInputList}), ActionNames, params)


def _given(params: dict[str, Any]) -> Documents:
    found = []
    for number, text in enumerate(params.get("PolicyInputList") or [], 1):
        try:
            found.append((f"PolicyInputList.{number}", policies.parse(text)))
        except ValueError as error:
            raise AwsError("InvalidInput", f"PolicyInputList.{number}: {error}") from error
    return found


def _simulate(documents: Documents, actions: list[str], params: dict[str, Any]) -> dict[str, Any]:
    context = {e["ContextKeyName"].lower(): [str(v) for v in e.get("ContextKeyValues", [])] for e in params.get("ContextEntries") or []}
    results = []
    for action in actions:
        if ":" not in action:
            raise AwsError("InvalidInput", f"Invalid action name: {action}")
        for resource in params.get("ResourceArns") or ["*"]:
            verdict = policies.decide(documents, policies.Question(action, resource, context))
            results.append(
                {
                    "EvalActionName": action,
                    "EvalResourceName": resource,
                    "EvalDecision": str(verdict.decision),
                    "MatchedStatements": [{"SourcePolicyId": name} for name in verdict.matched],
                    "MissingContextValues": list(verdict.missing_keys),
                }
            )
    found, marker = page(results, params.get("Marker"), params.get("MaxItems"), "InvalidInput")
    return {"EvaluationResults": found, "IsTruncated": marker is not None, **({"Marker": marker} if marker else {})}
