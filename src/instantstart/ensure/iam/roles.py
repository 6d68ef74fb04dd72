"""IAM roles as read: trust, managed and inline policies, tags; all roles of the account in one call where that is allowed."""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from instantstart.aws.session import Aws
from instantstart.base import names, problems
from instantstart.ensure.iam import identity

#: one page of GetAccountAuthorizationDetails holds at most so many entries (IAM API reference)
_PAGE = 1000
_READERS = 8


@dataclass(frozen=True)
class SeenRole:
    """A role. ``managed`` are names of attached policies; ``inline`` are documents by name."""

    name: str
    arn: str
    trust: Mapping[str, Any]
    managed: frozenset[str] = frozenset()
    inline: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)

    def is_of(self, tag: str) -> bool:
        """Whether it carries our tag of that cluster."""
        return self.tags.get(names.CLUSTER_TAG) == tag


def find(aws: Aws, name: str) -> SeenRole | None:
    """One role with its policies, or None."""
    told = identity.find_role(aws, name)
    if told is None:
        return None
    attached = aws.pages("iam", "list_attached_role_policies", "AttachedPolicies", RoleName=name)
    inline = {p: identity.inline_policy(aws, name, p) or {} for p in aws.pages("iam", "list_role_policies", "PolicyNames", RoleName=name)}
    tags = {t["Key"]: t["Value"] for t in told.get("Tags") or aws.read("iam", "list_role_tags", RoleName=name)["Tags"]}
    trust = told["AssumeRolePolicyDocument"]
    return SeenRole(name, told["Arn"], trust, frozenset(p["PolicyName"] for p in attached), inline, tags)


def read(aws: Aws, wanted: Collection[str]) -> dict[str, SeenRole]:
    """Those of the wanted roles that exist. One paged call for the whole account; role by role when that one is denied."""
    try:
        listed = aws.pages("iam", "get_account_authorization_details", "RoleDetailList", Filter=["Role"], MaxItems=_PAGE)
    except problems.Denied:
        with ThreadPoolExecutor(_READERS) as pool:
            return {role.name: role for role in pool.map(lambda name: find(aws, name), wanted) if role is not None}
    return {role["RoleName"]: _seen(role) for role in listed if role["RoleName"] in wanted}


def _seen(told: Mapping[str, Any]) -> SeenRole:
    inline = {p["PolicyName"]: _document(p["PolicyDocument"]) for p in told.get("RolePolicyList", ())}
    managed = frozenset(p["PolicyName"] for p in told.get("AttachedManagedPolicies", ()))
    tags = {t["Key"]: t["Value"] for t in told.get("Tags", ())}
    return SeenRole(told["RoleName"], told["Arn"], _document(told["AssumeRolePolicyDocument"]), managed, inline, tags)


def _document(value: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(urllib.parse.unquote(value)) if isinstance(value, str) else value
    return found
