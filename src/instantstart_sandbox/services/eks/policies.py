"""Access policies and their association with access entries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from instantstart_sandbox.services.eks.access import entry_of, policy_arn, with_entries
from instantstart_sandbox.services.eks.state import invalid, listing, not_found

if TYPE_CHECKING:
    from instantstart_sandbox.gateway.registry import Context
    from instantstart_sandbox.world.state import World

#: the policies EKS documents, and those HyperPod adds (facts A5)
NAMES = (
    "AmazonEKSAdminPolicy",
    "AmazonEKSAdminViewPolicy",
    "AmazonEKSAutoNodePolicy",
    "AmazonEKSClusterAdminPolicy",
    "AmazonEKSEditPolicy",
    "AmazonEKSViewPolicy",
    "AmazonSagemakerHyperpodClusterPolicy",
    "AmazonSagemakerHyperpodControllerPolicy",
    "AmazonSagemakerHyperpodInferenceMonitoringPolicy",
    "AmazonSagemakerHyperpodSystemNamespacePolicy",
)


def list_access_policies(ctx: Context, **params: Any) -> dict[str, Any]:
    """ListAccessPolicies."""
    return listing("accessPolicies", [{"name": n, "arn": policy_arn(ctx.partition, n)} for n in NAMES], params)


def associate_access_policy(ctx: Context, **params: Any) -> dict[str, Any]:
    """AssociateAccessPolicy; a second association of the same policy replaces its scope."""
    name, arn, scope = params["clusterName"], params["policyArn"], params["accessScope"]
    record = with_entries(ctx, name)
    entry = entry_of(record, params["principalArn"])
    if entry["view"]["type"] not in ("STANDARD", "EC2"):
        raise invalid(f"The access entry is of type {entry['view']['type']}, to which no access policy can be associated", clusterName=name)
    if arn not in {policy_arn(ctx.partition, n) for n in NAMES}:
        raise not_found("The specified policyArn could not be found.", clusterName=name)
    if (scope.get("type") == "namespace") != bool(scope.get("namespaces")):
        raise invalid("The accessScope needs namespaces exactly when its type is namespace", clusterName=name)
    now = ctx.clock.utc()
    before = entry["policies"].get(arn, {})
    entry["policies"][arn] = {
        "policyArn": arn,
        "accessScope": {"type": scope["type"], "namespaces": scope.get("namespaces") or []},
        "associatedAt": before.get("associatedAt", now),
        "modifiedAt": now,
        "effective": ctx.clock.now() + ctx.world.settings.access_entry_effective_seconds,
    }
    ctx.world.kubernetes.nudge(record["view"]["arn"])
    ctx.clock.after(ctx.world.settings.access_entry_effective_seconds, "eks.access.in_force", arn=record["view"]["arn"])
    return {"clusterName": name, "principalArn": params["principalArn"], "associatedAccessPolicy": _view(entry["policies"][arn])}


def _in_force(world: World, arn: str) -> None:
    """The authenticator forgets whom it knew: a caller it saw between entry and policy would stay without rights for a while longer."""
    world.kubernetes.nudge(arn)


def _view(policy: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in policy.items() if k != "effective"}


def disassociate_access_policy(ctx: Context, **params: Any) -> dict[str, Any]:
    """DisassociateAccessPolicy."""
    record = with_entries(ctx, params["clusterName"])
    entry = entry_of(record, params["principalArn"])
    if entry["policies"].pop(params["policyArn"], None) is None:
        raise not_found("The specified policyArn could not be found.", clusterName=params["clusterName"])
    ctx.world.kubernetes.nudge(record["view"]["arn"])
    return {}


def list_associated_access_policies(ctx: Context, **params: Any) -> dict[str, Any]:
    """ListAssociatedAccessPolicies."""
    entry = entry_of(with_entries(ctx, params["clusterName"]), params["principalArn"])
    answer = listing("associatedAccessPolicies", [_view(p) for _, p in sorted(entry["policies"].items())], params)
    return answer | {"clusterName": params["clusterName"], "principalArn": params["principalArn"]}


OPERATIONS = {
    "ListAccessPolicies": list_access_policies,
    "AssociateAccessPolicy": associate_access_policy,
    "DisassociateAccessPolicy": disassociate_access_policy,
    "ListAssociatedAccessPolicies": list_associated_access_policies,
}
TIMERS = {"eks.access.in_force": _in_force}
