"""One step of an identity chain, forward or backward. Each looks first and acts at most once; None means that nothing is left to do.

What bears our name and not our tag is told, not changed. A shared role is extended by statement and never removed here.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from instantstart.base import problems
from instantstart.base.outcome import Done, Wait
from instantstart.ensure.iam import identity, roles, trusts
from instantstart.ensure.identity_chains import chain_links
from instantstart.ensure.identity_chains.chain_links import ANNOTATION, Association
from instantstart.ensure.identity_chains.chains import REMEMBERED, Account, Chain, Via
from instantstart.ensure.installs.releases import BUNDLE, MANAGED_BY, MANAGER
from instantstart.ensure.sites import Site
from instantstart.kube.client import KubeCluster

#: an association is in force some seconds after it was made: a pod that is made before would be late again
_RESTART_SECONDS = 8.0
#: a role that was just made is not seen by EKS for some seconds (facts A7: 10-15)
_PROPAGATION_SECONDS = 180.0
#: the label of what a chain makes in Kubernetes: ``bundle`` of a chain
_MARK = "identity-"


@dataclass(frozen=True)
class Hands:
    """With what a chain is worked: the place, its Kubernetes, and what makes a call repeatable."""

    where: Site
    kube: KubeCluster
    token: Callable[[str], str]
    #: seconds that this stage has waited
    waited_seconds: float = 0.0


def role_step(hands: Hands, chain: Chain) -> Wait | None:
    """One step towards provider, role, trust and policies. Raises Conflict ``role.not_ours``."""
    aws, where = hands.where.aws, hands.where
    if chain.issuer is not None:
        outcome = identity.ensure_oidc_provider(aws, chain.issuer, where.tags)
        if isinstance(outcome, Wait):
            return outcome
    have = roles.find(aws, chain.role)
    if have is None:
        return _make_role(where, chain)
    if not have.is_of(where.tag):
        raise problems.Conflict(
            "role.not_ours",
            f"The role {chain.role} exists and was not made for this cluster; it is not changed.",
            hint="Rename or remove that role, then retry.",
            evidence={"role_arn": have.arn},
        )
    if trusts.flaw(have.trust, chain.trust):
        document = trusts.extended(have.trust, chain.trust)
        aws.write("iam", "update_assume_role_policy", RoleName=chain.role, PolicyDocument=json.dumps(document))
        return Wait(0, f"Corrected the trust of {chain.role}")
    return _policy_step(where, chain, have)


def _make_role(where: Site, chain: Chain) -> Wait:
    tags = {**where.tags, **{REMEMBERED + key: value for key, value in chain.remembers.items()}}
    more = {"PermissionsBoundary": where.boundary} if where.boundary else {}
    made = where.aws.create(
        "iam", "create_role", RoleName=chain.role, AssumeRolePolicyDocument=json.dumps(trusts.extended(None, chain.trust)),
        Tags=[{"Key": k, "Value": v} for k, v in tags.items()], **more,
    )  # fmt: skip
    return Wait(0, f"Made the role {chain.role}") if made else Wait(2, f"The role {chain.role} appeared a moment ago")


def _policy_step(where: Site, chain: Chain, have: roles.SeenRole) -> Wait | None:
    """What is remembered comes first: two that add to one role side by side then read each other's choice before they write the policy.

    The other way round each would write a policy without the other's, and neither would ever come to remembering.
    """
    aws = where.aws
    remembered = {REMEMBERED + key: value for key, value in chain.remembers.items()}
    if any(have.tags.get(key) != value for key, value in remembered.items()):
        aws.write("iam", "tag_role", RoleName=chain.role, Tags=[{"Key": k, "Value": v} for k, v in remembered.items()])
        return Wait(0, f"Noted the choices on {chain.role}")
    for policy in chain.managed:
        if policy not in have.managed:
            aws.write("iam", "attach_role_policy", RoleName=chain.role, PolicyArn=f"arn:{aws.partition}:iam::aws:policy/{policy}")
            return Wait(0, f"Attached {policy} to {chain.role}")
    for name, grants in chain.inline.items():
        document = have.inline.get(name)
        if not all(trusts.allows(document, grant) for grant in grants):
            kept = document if chain.shared else None
            text = json.dumps(trusts.granted(kept, grants))
            aws.write("iam", "put_role_policy", RoleName=chain.role, PolicyName=name, PolicyDocument=text)
            return Wait(0, f"Wrote the policy {name} of {chain.role}")
    return None


def choices(role: roles.SeenRole | None) -> dict[str, str]:
    """What a role remembers of the person's choices."""
    tags = role.tags if role else {}
    return {key.removeprefix(REMEMBERED): value for key, value in tags.items() if key.startswith(REMEMBERED)}


def account_step(hands: Hands, chain: Chain, *, late: bool, again: bool = False) -> Wait | None:
    """One step towards every account having the role. ``late``: accounts that the component brings, so after it; else those before it.

    ``again``: also annotations that a component wrote by itself and somebody changed since.
    """
    for account in chain.accounts:
        is_late = account.via is Via.annotation and not account.made
        if is_late is not late or (account.written and not again):
            continue
        step = _associate(hands, chain, account) if account.via is Via.association else _annotate(hands, chain, account)
        if step is not None:
            return step
    return None


def _role_arn(hands: Hands, chain: Chain) -> str:
    return hands.where.aws.arn("iam", f"role/{chain.role}", regional=False)


def _annotate(hands: Hands, chain: Chain, account: Account) -> Wait | None:
    """The annotation is patched and not applied, so that the component's own manifests never take it away again."""
    arn, kube = _role_arn(hands, chain), hands.kube
    live = kube.find("ServiceAccount", account.name, account.namespace)
    if live is None:
        if not account.made:
            return Wait(3, f"The service account {account.label} is not there yet")
        kube.apply(_service_account(chain, account, arn))
        return Wait(0, f"Made the service account {account.label}")
    if (live["metadata"].get("annotations") or {}).get(ANNOTATION) == arn:
        return None
    patch = {"metadata": {"annotations": {ANNOTATION: arn}}}
    kube.patch("ServiceAccount", account.name, patch, namespace=account.namespace)
    return Wait(0, f"Annotated {account.label} with {chain.role}")


def _service_account(chain: Chain, account: Account, arn: str) -> dict[str, Any]:
    labels = {MANAGED_BY: MANAGER, BUNDLE: _MARK + chain.name.replace("_", "-")}
    metadata = {"name": account.name, "namespace": account.namespace, "labels": labels, "annotations": {ANNOTATION: arn}}
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}


def _associate(hands: Hands, chain: Chain, account: Account) -> Wait | None:
    """Made alone and before the add-on: every version takes that, the newest take nothing else (facts A9, C29)."""
    where, arn = hands.where, _role_arn(hands, chain)
    have = find_association(where, account)
    if have is None:
        fields = {"namespace": account.namespace, "serviceAccount": account.name, "roleArn": arn}
        asked = {"clusterName": where.eks_cluster, **fields, "tags": where.tags}
        token = hands.token(f"associate-{account.label}-{int(hands.waited_seconds // 60)}")
        return _propagating(hands, chain, lambda: _made(where, asked, token, account))
    if have.role_arn == arn:
        return None
    if have.owner is not None:
        raise problems.Conflict(
            "identity.association_not_ours",
            f"{account.label} is associated with {have.role_arn} by the add-on {have.owner}.",
            hint="Take that association out of the add-on, then retry.",
            evidence={"association_id": have.id, "role_arn": have.role_arn},
        )
    change = {"clusterName": where.eks_cluster, "associationId": have.id, "roleArn": arn}
    return _propagating(hands, chain, lambda: where.aws.write("eks", "update_pod_identity_association", **change), "Corrected")


def _made(where: Site, asked: dict[str, Any], token: str, account: Account) -> None:
    if where.aws.create("eks", "create_pod_identity_association", **asked, clientRequestToken=token) is None:
        return


def _propagating(hands: Hands, chain: Chain, act: Any, verb: str = "Made") -> Wait:
    """EKS refuses a role that it does not see yet: that passes within seconds."""
    try:
        act()
    except problems.Invalid as problem:
        if hands.waited_seconds > _PROPAGATION_SECONDS:
            raise
        return Wait(3, f"EKS does not see {chain.role} yet: {problem.detail}")
    return Wait(0, f"{verb} the pod identity association of {chain.role}")


def find_association(where: Site, account: Account) -> Association | None:
    """The association of a service account, with its role, or None."""
    asked = {"clusterName": where.eks_cluster, "namespace": account.namespace, "serviceAccount": account.name}
    listed = where.aws.pages("eks", "list_pod_identity_associations", "associations", **asked)
    return get_association(where, listed[0]) if listed else None


def get_association(where: Site, summary: dict[str, Any]) -> Association | None:
    """An association of a list, with its role (the list does not tell it); None when it has just gone."""
    asked = {"clusterName": where.eks_cluster, "associationId": summary["associationId"]}
    try:
        told = where.aws.read("eks", "describe_pod_identity_association", **asked)["association"]
    except problems.NotFound:
        return None
    return Association(told["associationId"], told["roleArn"], told.get("ownerArn"))


def restart_step(hands: Hands, chain: Chain) -> Wait | None:
    """One step towards every pod of the chain's components having started with the role: one late pod is evicted, and made anew.

    Not by a rollout: that wants room for one more pod, which a full node does not have (C36), and writes into what EKS owns. Disruption
    budgets are kept. A person's own jobs, and pods that nobody would make again, are never touched.
    """
    arn = _role_arn(hands, chain)
    for account in chain.accounts:
        pods = [] if account.made else pods_of(hands.kube, account)
        late = [p for p in pods if chain_links.is_running(p) and not chain_links.sees(p, account, arn) and _is_made_again(p)]
        if not late:
            continue
        ending = [p["metadata"]["name"] for p in pods if p["metadata"].get("deletionTimestamp")]
        if ending:
            return Wait(3, f"{ending[0]} is being replaced by one that gets {chain.role}")
        name = late[0]["metadata"]["name"]
        hands.kube.evict(name, account.namespace)
        return Wait(_RESTART_SECONDS, f"Restarted {account.namespace}/{name}: it started before its role was given")
    return None


def _is_made_again(pod: dict[str, Any]) -> bool:
    """Whether a controller makes another in its place."""
    return any(reference.get("controller") for reference in pod["metadata"].get("ownerReferences") or ())


def pods_of(kube: KubeCluster, account: Account) -> list[dict[str, Any]]:
    """The pods that run under a service account."""
    return kube.list("Pod", account.namespace, fields=f"spec.serviceAccountName={account.name}")


def remove_step(hands: Hands, chain: Chain) -> Wait | None:
    """One step backward: association or annotation, account, policies, role. The OIDC provider stays: the S3 driver rests on it."""
    for account in chain.accounts:
        step = _dissociate(hands, chain, account) if account.via is Via.association else _clear(hands, account)
        if step is not None:
            return step
    return None if chain.shared else identity.remove_role(hands.where.aws, chain.role, hands.where.tag)


def _dissociate(hands: Hands, chain: Chain, account: Account) -> Wait | None:
    have = find_association(hands.where, account)
    if have is None or have.owner is not None or have.role_arn != _role_arn(hands, chain):
        return None
    asked = {"clusterName": hands.where.eks_cluster, "associationId": have.id}
    hands.where.aws.remove("eks", "delete_pod_identity_association", **asked)
    return Wait(0, f"Removed the pod identity association of {account.label}")


def _clear(hands: Hands, account: Account) -> Wait | None:
    live = hands.kube.find("ServiceAccount", account.name, account.namespace)
    if live is None or account.written:
        return None
    metadata = live["metadata"]
    if account.made and (metadata.get("labels") or {}).get(MANAGED_BY) == MANAGER:
        if metadata.get("deletionTimestamp"):
            return Wait(2, f"The service account {account.label} is going")
        hands.kube.delete("ServiceAccount", account.name, account.namespace, uid=metadata["uid"])
        return Wait(0, f"Removed the service account {account.label}")
    if ANNOTATION not in (metadata.get("annotations") or {}):
        return None
    hands.kube.patch("ServiceAccount", account.name, {"metadata": {"annotations": {ANNOTATION: None}}}, namespace=account.namespace)
    return Wait(0, f"Took the role off {account.label}")


def note(outcome: Wait | None, **learned: Any) -> Wait | Done:
    """A step as a stage's outcome: done, with what was learned, when nothing is left to do."""
    return outcome if outcome is not None else Done(learned)
