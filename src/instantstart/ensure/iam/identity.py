"""Identity chains: roles of ours, the OIDC provider of a cluster, access entries. A role that is not ours is never changed."""

from __future__ import annotations

import json
import urllib.parse
from dataclasses import dataclass
from typing import Any

from instantstart.aws.session import Aws
from instantstart.base import names, problems
from instantstart.base.outcome import Done, Outcome, Wait
from instantstart.ensure.iam import principals

_ADMIN_POLICY = "AmazonEKSClusterAdminPolicy"
_AUDIENCE = principals.service("sts")


@dataclass(frozen=True)
class Role:
    """A role we want: its trust, managed policies by name, inline policies by name."""

    name: str
    trust: dict[str, Any]
    managed: tuple[str, ...]
    inline: dict[str, dict[str, Any]]
    #: ARN of the permissions boundary that an organisation asks for on every role, or None
    boundary: str | None = None


def find_role(aws: Aws, name: str) -> dict[str, Any] | None:
    """The role as GetRole tells it, its trust decoded, or None."""
    try:
        told: dict[str, Any] = aws.read("iam", "get_role", RoleName=name)["Role"]
    except problems.NotFound:
        return None
    document = told["AssumeRolePolicyDocument"]
    told["AssumeRolePolicyDocument"] = json.loads(urllib.parse.unquote(document)) if isinstance(document, str) else document
    return told


def ensure_role(aws: Aws, want: Role, tags: dict[str, str]) -> Outcome:
    """Move one step towards the role. Done learns ``role_arn``. A same-named role without our tag is a Conflict."""
    have = find_role(aws, want.name)
    if have is None:
        more = {"PermissionsBoundary": want.boundary} if want.boundary else {}
        made = aws.create(
            "iam", "create_role", RoleName=want.name, AssumeRolePolicyDocument=json.dumps(want.trust), Tags=_tag_list(tags), **more
        )
        if made is None:
            return Wait(2, f"The role {want.name} appeared a moment ago")
        return Wait(0, f"Made the role {want.name}")
    _check_ours(aws, have, tags)
    if not principals.same(have["AssumeRolePolicyDocument"], want.trust):
        aws.write("iam", "update_assume_role_policy", RoleName=want.name, PolicyDocument=json.dumps(want.trust))
        return Wait(0, f"Corrected the trust of {want.name}")
    step = _managed_step(aws, want) or _inline_step(aws, want)
    return step or Done({"role_arn": have["Arn"], "role_name": want.name})


def _managed_step(aws: Aws, want: Role) -> Wait | None:
    attached = {p["PolicyName"] for p in aws.pages("iam", "list_attached_role_policies", "AttachedPolicies", RoleName=want.name)}
    for policy in want.managed:
        if policy not in attached:
            aws.write("iam", "attach_role_policy", RoleName=want.name, PolicyArn=f"arn:{aws.partition}:iam::aws:policy/{policy}")
            return Wait(0, f"Attached {policy} to {want.name}")
    return None


def _inline_step(aws: Aws, want: Role) -> Wait | None:
    for name, document in want.inline.items():
        if not principals.same(inline_policy(aws, want.name, name), document):
            aws.write("iam", "put_role_policy", RoleName=want.name, PolicyName=name, PolicyDocument=json.dumps(document))
            return Wait(0, f"Wrote the policy {name} of {want.name}")
    return None


def inline_policy(aws: Aws, role: str, name: str) -> Any:
    """An inline policy of a role, decoded, or None."""
    try:
        document = aws.read("iam", "get_role_policy", RoleName=role, PolicyName=name)["PolicyDocument"]
    except problems.NotFound:
        return None
    return json.loads(urllib.parse.unquote(document)) if isinstance(document, str) else document


def remove_role(aws: Aws, name: str, tag: str) -> Wait | None:
    """Move one step towards the role being gone; None when it is. A role that is not ours is left alone."""
    if not is_our_role(aws, name, tag):
        return None
    for policy in aws.pages("iam", "list_attached_role_policies", "AttachedPolicies", RoleName=name):
        aws.remove("iam", "detach_role_policy", RoleName=name, PolicyArn=policy["PolicyArn"])
        return Wait(0, f"Detached {policy['PolicyName']} from {name}")
    for policy in aws.pages("iam", "list_role_policies", "PolicyNames", RoleName=name):
        aws.remove("iam", "delete_role_policy", RoleName=name, PolicyName=policy)
        return Wait(0, f"Removed the policy {policy} of {name}")
    held = aws.remove("iam", "delete_role", RoleName=name)
    return Wait(10, f"The role {name} cannot be removed yet: {held}") if held else Wait(0, f"Removed the role {name}")


def is_our_role(aws: Aws, name: str, tag: str) -> bool:
    """Whether there is a role of that name, and it carries our cluster tag."""
    have = find_role(aws, name)
    return have is not None and _role_tags(aws, have).get(names.CLUSTER_TAG) == tag


def _role_tags(aws: Aws, role: dict[str, Any]) -> dict[str, str]:
    return {t["Key"]: t["Value"] for t in role.get("Tags") or aws.read("iam", "list_role_tags", RoleName=role["RoleName"])["Tags"]}


def _check_ours(aws: Aws, role: dict[str, Any], tags: dict[str, str]) -> None:
    if _role_tags(aws, role).get(names.CLUSTER_TAG) != tags[names.CLUSTER_TAG]:
        raise problems.Conflict(
            "role.not_ours",
            f"The role {role['RoleName']} exists and was not made for this cluster; it is not changed.",
            hint="Rename that role, or choose another tag.",
            evidence={"role_arn": role["Arn"]},
        )


def provider_arn(aws: Aws, issuer: str) -> str:
    """The ARN of the IAM OIDC provider of an issuer URL."""
    return aws.arn("iam", f"oidc-provider/{issuer.removeprefix('https://')}", regional=False)


def ensure_oidc_provider(aws: Aws, issuer: str, tags: dict[str, str]) -> Outcome:
    """Register the cluster's issuer with IAM. Done learns ``provider_arn``."""
    arn = provider_arn(aws, issuer)
    try:
        have = aws.read("iam", "get_open_id_connect_provider", OpenIDConnectProviderArn=arn)
    except problems.NotFound:
        if aws.create("iam", "create_open_id_connect_provider", Url=issuer, ClientIDList=[_AUDIENCE], Tags=_tag_list(tags)) is None:
            return Wait(2, "The OIDC provider appeared a moment ago")
        return Wait(0, "Registered the OIDC provider of the cluster")
    if _AUDIENCE not in have.get("ClientIDList", ()):
        aws.write("iam", "add_client_id_to_open_id_connect_provider", OpenIDConnectProviderArn=arn, ClientID=_AUDIENCE)
        return Wait(0, "Added the audience of the OIDC provider")
    return Done({"provider_arn": arn, "issuer": issuer})


def remove_oidc_provider(aws: Aws, arn: str, tag: str) -> Wait | None:
    """Remove a provider that carries our tag; None when it is gone or not ours."""
    try:
        have = aws.read("iam", "get_open_id_connect_provider", OpenIDConnectProviderArn=arn)
    except problems.NotFound:
        return None
    if {t["Key"]: t["Value"] for t in have.get("Tags", ())}.get(names.CLUSTER_TAG) != tag:
        return None
    aws.remove("iam", "delete_open_id_connect_provider", OpenIDConnectProviderArn=arn)
    return Wait(0, "Removed the OIDC provider of the cluster")


def has_oidc_provider(aws: Aws, issuer: str) -> bool:
    """Whether IAM knows a cluster's issuer, whoever registered it."""
    listed = aws.read("iam", "list_open_id_connect_providers")["OpenIDConnectProviderList"]
    return provider_arn(aws, issuer) in {item["Arn"] for item in listed}


def access_policies(aws: Aws, cluster: str, principal_arn: str) -> tuple[str, ...] | str | None:
    """The policies of a principal's access entry; None when it has no entry, ``unknown`` when that cannot be read."""
    entry = {"clusterName": cluster, "principalArn": principal_arn}
    try:
        aws.read("eks", "describe_access_entry", **entry)
        return tuple(p["policyArn"] for p in aws.pages("eks", "list_associated_access_policies", "associatedAccessPolicies", **entry))
    except problems.NotFound:
        return None
    except (problems.Denied, problems.Invalid, problems.Conflict):  # not ours to read, or a cluster whose mode knows no entries
        return "unknown"


def list_our_oidc_providers(aws: Aws, tag: str) -> list[str]:
    """The ARNs of OIDC providers that carry our cluster tag."""
    ours = []
    for item in aws.read("iam", "list_open_id_connect_providers")["OpenIDConnectProviderList"]:
        try:
            have = aws.read("iam", "get_open_id_connect_provider", OpenIDConnectProviderArn=item["Arn"])
        except problems.NotFound:
            continue
        if {t["Key"]: t["Value"] for t in have.get("Tags", ())}.get(names.CLUSTER_TAG) == tag:
            ours.append(item["Arn"])
    return ours


def ensure_access_entry(aws: Aws, cluster: str, principal_arn: str, tags: dict[str, str], token: str) -> Outcome:
    """Let our own principal administer the cluster. Done learns ``principal_arn``."""
    entry = {"clusterName": cluster, "principalArn": principal_arn}
    try:
        aws.read("eks", "describe_access_entry", **entry)
    except problems.NotFound:
        if aws.create("eks", "create_access_entry", **entry, type="STANDARD", tags=tags, clientRequestToken=token) is None:
            return Wait(2, "The access entry appeared a moment ago")
        return Wait(0, f"Made the access entry of {principal_arn}")
    policy = f"arn:{aws.partition}:eks::aws:cluster-access-policy/{_ADMIN_POLICY}"
    associated = aws.pages("eks", "list_associated_access_policies", "associatedAccessPolicies", **entry)
    if policy not in {p["policyArn"] for p in associated}:
        aws.write("eks", "associate_access_policy", **entry, policyArn=policy, accessScope={"type": "cluster"})
        return Wait(0, f"Gave {principal_arn} the policy {_ADMIN_POLICY}")
    return Done({"principal_arn": principal_arn})


def _tag_list(tags: dict[str, str]) -> list[dict[str, str]]:
    return [{"Key": k, "Value": v} for k, v in tags.items()]


def allowed_buckets(aws: Aws, role: str, policy: str) -> list[str]:
    """The buckets that an inline policy of a role already lets it reach; empty when there is none yet."""
    document = inline_policy(aws, role, policy)
    if not document:
        return []
    resources = [r for s in document["Statement"] for r in ([s["Resource"]] if isinstance(s["Resource"], str) else s["Resource"])]
    return sorted({r.split(":::")[1].split("/")[0] for r in resources})
