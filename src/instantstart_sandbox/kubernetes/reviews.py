"""What is asked and not kept: access reviews, token reviews, rules, "who am I"."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from instantstart_sandbox.kubernetes.access import Attributes, Authorizer
from instantstart_sandbox.kubernetes.errors import ApiError, no_such_path
from instantstart_sandbox.world.seams import Identity

Object = dict[str, Any]
Authenticate = Callable[[str], Awaitable[Identity | None]]


def _attributes(spec: Object) -> Attributes:
    if spec.get("nonResourceAttributes"):
        about = spec["nonResourceAttributes"]
        return Attributes(about.get("verb", ""), path=about.get("path", "/"))
    about = spec.get("resourceAttributes")
    if not about:
        raise ApiError(
            422, "Invalid", "spec.resourceAttributes: exactly one of nonResourceAttributes or resourceAttributes must be specified", {}
        )
    return Attributes(
        about.get("verb", ""),
        about.get("group", ""),
        about.get("resource", ""),
        about.get("subresource", ""),
        about.get("namespace") or None,
        about.get("name", ""),
    )


def user_info(who: Identity) -> Object:
    """An identity as reviews show it."""
    extra = {"arn": [who.arn], "canonicalArn": [who.arn]} if who.arn else {}
    groups = list(who.groups)
    if who.username != "system:anonymous" and "system:authenticated" not in groups:
        groups.append("system:authenticated")
    return {"username": who.username, "groups": groups, **({"extra": extra} if extra else {})}


class Reviews:
    """Answers reviews of one cluster."""

    def __init__(self, authorizer: Authorizer, authenticate: Authenticate) -> None:
        self.authorizer, self.authenticate = authorizer, authenticate

    async def answer(self, plural: str, obj: Object, who: Identity) -> Object:
        """The review with its status."""
        spec = obj.get("spec") or {}
        match plural:
            case "selfsubjectaccessreviews":
                status = self._access(who, spec)
            case "subjectaccessreviews" | "localsubjectaccessreviews":
                asked = Identity(arn="", username=spec.get("user", ""), groups=tuple(spec.get("groups") or ()))
                status = self._access(asked, spec)
            case "selfsubjectrulesreviews":
                status = self._rules(who, spec.get("namespace", "default"))
            case "selfsubjectreviews":
                status = {"userInfo": user_info(who)}
            case "tokenreviews":
                found = await self.authenticate(spec.get("token", ""))
                status = {"authenticated": True, "user": user_info(found)} if found else {"user": {}, "error": "invalid bearer token"}
            case _:
                raise no_such_path()
        return {**obj, "metadata": obj.get("metadata") or {}, "status": status}

    def _access(self, who: Identity, spec: Object) -> Object:
        if self.authorizer.allowed(who, _attributes(spec)):
            return {"allowed": True, "reason": "EKS Access Policy: allowed" if who.policies else "RBAC: allowed"}
        return {"allowed": False}

    def _rules(self, who: Identity, namespace: str) -> Object:
        rules = list(self.authorizer.rules(who, namespace))
        return {
            "resourceRules": [r for r in rules if "resources" in r],
            "nonResourceRules": [r for r in rules if "nonResourceURLs" in r],
            "incomplete": False,
        }
