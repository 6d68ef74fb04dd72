"""AWS::IAM types."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from instantstart_sandbox.services.cloudformation.resources.handler import Failure, Handler, Request
from instantstart_sandbox.services.cloudformation.resources.shapes import shape


def document(value: Any) -> str:
    """A policy document as IAM takes it."""
    return value if isinstance(value, str) else json.dumps(value)


def _differ(old: list[Any], new: list[Any]) -> tuple[list[Any], list[Any]]:
    """(gone, come) of two lists."""
    return [x for x in old if x not in new], [x for x in new if x not in old]


class Role(Handler):
    """AWS::IAM::Role, with its inline and attached policies."""

    type = "AWS::IAM::Role"
    name_property = "RoleName"
    poll_seconds = 3.0
    shape = shape(
        "AssumeRolePolicyDocument* Description ManagedPolicyArns[] MaxSessionDuration Path! PermissionsBoundary Policies[] "
        "RoleName! Tags[]",
        Policies="PolicyDocument* PolicyName*",
    )
    #: CloudFormation holds a role back until it is visible elsewhere
    seconds = 17.0

    def create(self, request: Request) -> None:
        """CreateRole, then its policies."""
        name = request.get("RoleName") or request.name(64)
        asked = request.only("Description", "MaxSessionDuration", "Path", "PermissionsBoundary")
        trust = document(request.get("AssumeRolePolicyDocument"))
        request.call("iam", "CreateRole", RoleName=name, AssumeRolePolicyDocument=trust, Tags=request.tag_list(), **asked)
        request.physical = name
        self._policies(request, {})

    def ready(self, request: Request) -> bool:
        """Whether other services can see the role."""
        return request.iam_visible(request.call("iam", "GetRole", RoleName=request.physical)["Role"]["Arn"])

    def _policies(self, request: Request, old: dict[str, Any]) -> None:
        role = {"RoleName": request.physical}
        gone, come = _differ(old.get("ManagedPolicyArns") or [], request.get("ManagedPolicyArns") or [])
        for arn in gone:
            request.call("iam", "DetachRolePolicy", **role, PolicyArn=arn)
        for arn in come:
            request.call("iam", "AttachRolePolicy", **role, PolicyArn=arn)
        gone, come = _differ(old.get("Policies") or [], request.get("Policies") or [])
        kept = {policy["PolicyName"] for policy in request.get("Policies") or []}
        for policy in gone:
            if policy["PolicyName"] not in kept:
                request.call("iam", "DeleteRolePolicy", **role, PolicyName=policy["PolicyName"])
        for policy in come:
            request.call("iam", "PutRolePolicy", **role, PolicyName=policy["PolicyName"], PolicyDocument=document(policy["PolicyDocument"]))

    def update(self, request: Request, old: dict[str, Any]) -> None:
        """Trust, description, boundary, tags and policies."""
        role = {"RoleName": request.physical}
        if request.get("AssumeRolePolicyDocument") != old.get("AssumeRolePolicyDocument"):
            request.call("iam", "UpdateAssumeRolePolicy", **role, PolicyDocument=document(request.get("AssumeRolePolicyDocument")))
        if any(request.get(key) != old.get(key) for key in ("Description", "MaxSessionDuration")):
            duration = request.get("MaxSessionDuration", 3600)
            request.call("iam", "UpdateRole", **role, Description=request.get("Description", ""), MaxSessionDuration=duration)
        boundary = request.get("PermissionsBoundary")
        if boundary != old.get("PermissionsBoundary"):
            if boundary:
                request.call("iam", "PutRolePermissionsBoundary", **role, PermissionsBoundary=boundary)
            else:
                request.call("iam", "DeleteRolePermissionsBoundary", **role)
        removed = {t["Key"] for t in old.get("Tags") or []} - set(request.tags())
        if removed:
            request.call("iam", "UntagRole", **role, TagKeys=sorted(removed))
        request.call("iam", "TagRole", **role, Tags=request.tag_list())
        self._policies(request, old)

    def delete(self, request: Request) -> None:
        """Take off the policies that this resource put on, then DeleteRole; foreign policies make it fail, as on AWS."""
        role = {"RoleName": request.physical}
        attached = {p["PolicyArn"] for p in request.call("iam", "ListAttachedRolePolicies", **role)["AttachedPolicies"]}
        for arn in attached & set(request.get("ManagedPolicyArns") or []):
            request.call("iam", "DetachRolePolicy", **role, PolicyArn=arn)
        present = set(request.call("iam", "ListRolePolicies", **role)["PolicyNames"])
        for policy in request.get("Policies") or []:
            if policy["PolicyName"] in present:
                request.call("iam", "DeleteRolePolicy", **role, PolicyName=policy["PolicyName"])
        request.call("iam", "DeleteRole", **role)

    def attributes(self, request: Request) -> dict[str, Any]:
        """The ARN and the unique id."""
        role = request.call("iam", "GetRole", RoleName=request.physical)["Role"]
        return {"Arn": role["Arn"], "RoleId": role["RoleId"]}


#: the kinds of principal a policy is given to: property, argument name, and the word in the operation
_PRINCIPALS = (("Roles", "RoleName", "Role"), ("Users", "UserName", "User"), ("Groups", "GroupName", "Group"))


def _principals(properties: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(word, argument, name) for member, argument, word in _PRINCIPALS for name in properties.get(member) or []]


def _unless_gone(act: Callable[[], Any]) -> None:
    """Do it, unless the thing (or its principal) is not there any more."""
    try:
        act()
    except Failure as failure:
        if failure.code != "NotFound":
            raise


class Policy(Handler):
    """AWS::IAM::Policy: one inline policy on roles, users or groups."""

    type = "AWS::IAM::Policy"
    shape = shape("Groups[] PolicyDocument* PolicyName* Roles[] Users[]")
    seconds = 15.0

    def create(self, request: Request) -> None:
        """Put the policy on each principal."""
        if not _principals(request.properties):
            raise Failure("At least one of [Groups,Roles,Users] must be non-empty.", "InvalidRequest")
        request.physical = request.name(24)
        self._put(request)

    def _put(self, request: Request) -> None:
        body = {"PolicyName": request.get("PolicyName"), "PolicyDocument": document(request.get("PolicyDocument"))}
        for word, argument, name in _principals(request.properties):
            request.call("iam", f"Put{word}Policy", **{argument: name}, **body)

    def update(self, request: Request, old: dict[str, Any]) -> None:
        """Put it anew, and take it from those that are no longer named."""
        self._put(request)
        renamed = old["PolicyName"] != request.get("PolicyName")
        for word, argument, name in _principals(old):
            if renamed or (word, argument, name) not in _principals(request.properties):
                self._take(request, word, {argument: name}, old["PolicyName"])

    def _take(self, request: Request, word: str, principal: dict[str, str], policy: str) -> None:
        _unless_gone(lambda: request.call("iam", f"Delete{word}Policy", **principal, PolicyName=policy))

    def delete(self, request: Request) -> None:
        """Take the policy from each principal."""
        for word, argument, name in _principals(request.properties):
            self._take(request, word, {argument: name}, request.get("PolicyName"))

    def attributes(self, request: Request) -> dict[str, Any]:
        """The id."""
        return {"Id": request.physical}


class ManagedPolicy(Handler):
    """AWS::IAM::ManagedPolicy. Ref is the ARN."""

    type = "AWS::IAM::ManagedPolicy"
    name_property = "ManagedPolicyName"
    shape = shape("Description! Groups[] ManagedPolicyName! Path! PolicyDocument* Roles[] Users[]")
    seconds = 15.0

    def create(self, request: Request) -> None:
        """CreatePolicy, then attach it."""
        made = request.call(
            "iam",
            "CreatePolicy",
            PolicyName=request.get("ManagedPolicyName") or request.name(128),
            PolicyDocument=document(request.get("PolicyDocument")),
            **request.only("Description", "Path"),
        )
        request.physical = made["Policy"]["Arn"]
        for word, argument, name in _principals(request.properties):
            request.call("iam", f"Attach{word}Policy", **{argument: name}, PolicyArn=request.physical)

    def update(self, request: Request, old: dict[str, Any]) -> None:
        """A new default version, the oldest one dropped at five; attachments as now asked."""
        if request.get("PolicyDocument") != old.get("PolicyDocument"):
            versions = request.call("iam", "ListPolicyVersions", PolicyArn=request.physical)["Versions"]
            spare = [v["VersionId"] for v in versions if not v["IsDefaultVersion"]]
            if len(versions) >= 5:
                oldest = min(spare, key=lambda v: int(v.removeprefix("v")))
                request.call("iam", "DeletePolicyVersion", PolicyArn=request.physical, VersionId=oldest)
            body = document(request.get("PolicyDocument"))
            request.call("iam", "CreatePolicyVersion", PolicyArn=request.physical, PolicyDocument=body, SetAsDefault=True)
        gone, come = _differ(_principals(old), _principals(request.properties))
        for word, argument, name in come:
            request.call("iam", f"Attach{word}Policy", **{argument: name}, PolicyArn=request.physical)
        for word, argument, name in gone:
            self._detach(request, word, {argument: name})

    def _detach(self, request: Request, word: str, principal: dict[str, str]) -> None:
        _unless_gone(lambda: request.call("iam", f"Detach{word}Policy", **principal, PolicyArn=request.physical))

    def delete(self, request: Request) -> None:
        """Detach it from whom this resource attached it, drop old versions, DeletePolicy."""
        for word, argument, name in _principals(request.properties):
            self._detach(request, word, {argument: name})
        for version in request.call("iam", "ListPolicyVersions", PolicyArn=request.physical)["Versions"]:
            if not version["IsDefaultVersion"]:
                request.call("iam", "DeletePolicyVersion", PolicyArn=request.physical, VersionId=version["VersionId"])
        request.call("iam", "DeletePolicy", PolicyArn=request.physical)

    def attributes(self, request: Request) -> dict[str, Any]:
        """The ARN and id."""
        policy = request.call("iam", "GetPolicy", PolicyArn=request.physical)["Policy"]
        return {
            "PolicyArn": policy["Arn"],
            "PolicyId": policy["PolicyId"],
            "DefaultVersionId": policy["DefaultVersionId"],
            "AttachmentCount": policy.get("AttachmentCount", 0),
        }


class InstanceProfile(Handler):
    """AWS::IAM::InstanceProfile."""

    type = "AWS::IAM::InstanceProfile"
    name_property = "InstanceProfileName"
    shape = shape("InstanceProfileName! Path! Roles*[]")
    #: two minutes: CloudFormation waits until EC2 can see the profile
    seconds = 120.0

    def create(self, request: Request) -> None:
        """CreateInstanceProfile, then its role."""
        name = request.get("InstanceProfileName") or request.name(128)
        request.call("iam", "CreateInstanceProfile", InstanceProfileName=name, **request.only("Path"))
        request.physical = name
        for role in request.get("Roles"):
            request.call("iam", "AddRoleToInstanceProfile", InstanceProfileName=name, RoleName=role)

    def update(self, request: Request, old: dict[str, Any]) -> None:
        """Exchange the role."""
        for role in old.get("Roles") or []:
            request.call("iam", "RemoveRoleFromInstanceProfile", InstanceProfileName=request.physical, RoleName=role)
        for role in request.get("Roles"):
            request.call("iam", "AddRoleToInstanceProfile", InstanceProfileName=request.physical, RoleName=role)

    def delete(self, request: Request) -> None:
        """Take the roles out, DeleteInstanceProfile."""
        profile = request.call("iam", "GetInstanceProfile", InstanceProfileName=request.physical)["InstanceProfile"]
        for role in profile["Roles"]:
            request.call("iam", "RemoveRoleFromInstanceProfile", InstanceProfileName=request.physical, RoleName=role["RoleName"])
        request.call("iam", "DeleteInstanceProfile", InstanceProfileName=request.physical)

    def attributes(self, request: Request) -> dict[str, Any]:
        """The ARN."""
        return {"Arn": request.call("iam", "GetInstanceProfile", InstanceProfileName=request.physical)["InstanceProfile"]["Arn"]}


class OidcProvider(Handler):
    """AWS::IAM::OIDCProvider. Ref is the ARN."""

    type = "AWS::IAM::OIDCProvider"
    shape = shape("ClientIdList[] Tags[] ThumbprintList[] Url!")

    def create(self, request: Request) -> None:
        """CreateOpenIDConnectProvider."""
        made = request.call(
            "iam",
            "CreateOpenIDConnectProvider",
            Url=request.get("Url"),
            ClientIDList=request.get("ClientIdList"),
            ThumbprintList=request.get("ThumbprintList"),
            Tags=request.tag_list(),
        )
        request.physical = made["OpenIDConnectProviderArn"]

    def update(self, request: Request, old: dict[str, Any]) -> None:
        """Client ids, thumbprints and tags."""
        provider = {"OpenIDConnectProviderArn": request.physical}
        gone, come = _differ(old.get("ClientIdList") or [], request.get("ClientIdList") or [])
        for client_id in gone:
            request.call("iam", "RemoveClientIDFromOpenIDConnectProvider", **provider, ClientID=client_id)
        for client_id in come:
            request.call("iam", "AddClientIDToOpenIDConnectProvider", **provider, ClientID=client_id)
        if request.get("ThumbprintList") and request.get("ThumbprintList") != old.get("ThumbprintList"):
            request.call("iam", "UpdateOpenIDConnectProviderThumbprint", **provider, ThumbprintList=request.get("ThumbprintList"))
        request.call("iam", "TagOpenIDConnectProvider", **provider, Tags=request.tag_list())

    def delete(self, request: Request) -> None:
        """DeleteOpenIDConnectProvider."""
        request.call("iam", "DeleteOpenIDConnectProvider", OpenIDConnectProviderArn=request.physical)

    def attributes(self, request: Request) -> dict[str, Any]:
        """The ARN."""
        return {"Arn": request.physical}


HANDLERS: tuple[type[Handler], ...] = (Role, Policy, ManagedPolicy, InstanceProfile, OidcProvider)
