"""What EC2 does with every request: DryRun, filters it does not know, pages, client tokens."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

from instantstart_sandbox.gateway import wire
from instantstart_sandbox.gateway.errors import AwsError
from instantstart_sandbox.gateway.guarding import refuse_if
from instantstart_sandbox.gateway.registry import Context, Proceed

if TYPE_CHECKING:
    from instantstart_sandbox.world.state import World

_FILTER_NAMES = re.compile(r"<li>\s*<p>\s*<code>([^<]+)</code>")
_PAGE = "sandbox:"
#: EC2 remembers a client token for at least a day
_TOKEN_SECONDS = 86_400.0


def install(world: World) -> None:
    """Register for every operation of EC2 that has the parameter in question."""
    model = wire.service_model("ec2")
    for name in model.operation_names:
        members = _members(name)
        if "DryRun" in members:
            world.registry.guard("ec2", name)(_dry_run)
        if members & {"Filters", "Filter"} and name.startswith("Describe"):
            world.registry.guard("ec2", name)(functools.partial(_known_filters, name))
        if {"MaxResults", "NextToken"} <= members and name.startswith("Describe"):
            world.registry.guard("ec2", name)(functools.partial(_pages, name))
        if "ClientToken" in members and not name.startswith("Describe"):
            world.registry.guard("ec2", name)(functools.partial(_once, name))


@functools.cache
def _members(operation: str) -> frozenset[str]:
    shape = wire.service_model("ec2").operation_model(operation).input_shape
    return frozenset(shape.members) if shape is not None else frozenset()


def _dry_run(ctx: Context, params: dict[str, Any], proceed: Proceed) -> None:
    """The permissions have been checked by now; nothing else is, and nothing is done."""
    if params.get("DryRun"):
        raise AwsError("DryRunOperation", "Request would have succeeded, but DryRun flag is set.", 412)


@functools.cache
def filter_names(operation: str) -> frozenset[str]:
    """The filters of a Describe operation, from the model's documentation; empty when it lists none."""
    shape = wire.service_model("ec2").operation_model(operation).input_shape
    member = shape.members.get("Filters") or shape.members["Filter"]
    return frozenset(_FILTER_NAMES.findall(member.documentation))


def _known_filters(operation: str, ctx: Context, params: dict[str, Any], proceed: Proceed) -> None:
    known = filter_names(operation)
    for entry in params.get("Filters") or params.get("Filter") or []:
        name = str(entry.get("Name", ""))
        plain = name in known or name.startswith("tag:") or any("&lt;" in k and name.startswith(k.split("&lt;")[0]) for k in known)
        refuse_if(known and not plain, "InvalidParameterValue", f"The filter '{name}' is invalid")


def _pages(operation: str, ctx: Context, params: dict[str, Any], proceed: Proceed) -> dict[str, Any] | None:
    """moto ignores MaxResults in most operations and answers everything at once."""
    size, token = params.get("MaxResults"), params.get("NextToken")
    if size is None and token is None:
        return None
    ids = [name for name in params if name.endswith(("Ids", "Names")) and params[name]]
    if size is not None and ids and operation not in ("DescribeInstanceTypes", "DescribeVpcEndpointServices"):
        raise AwsError("InvalidParameterCombination", f"The parameter {ids[0]} cannot be used with the parameter maxResults")
    answer = proceed()
    if answer.get("NextToken"):  # this one moto can do
        return None
    name = next((n for n, v in answer.items() if isinstance(v, list)), None)
    if name is None:
        return None
    start = _offset(token) if token else 0
    size = size or 1000
    items = answer[name]
    following = {"NextToken": _token(start + size)} if start + size < len(items) else {}
    return {**answer, name: items[start : start + size], **following}


def _token(offset: int) -> str:
    return base64.urlsafe_b64encode(f"{_PAGE}{offset}".encode()).decode()


def _offset(token: str) -> int:
    try:
        text = base64.urlsafe_b64decode(token.encode()).decode()
        if text.startswith(_PAGE):
            return int(text.removeprefix(_PAGE))
    except ValueError:
        pass
    raise AwsError("InvalidParameterValue", f"Unable to parse pagination token: {token}")


def _once(operation: str, ctx: Context, params: dict[str, Any], proceed: Proceed) -> dict[str, Any] | None:
    """The same client token gives the same answer; with other parameters it is a mistake."""
    token = params.get("ClientToken")
    if not token:
        return None
    known = ctx.world.section("ec2_client_tokens")
    now = ctx.clock.now()
    for key in [key for key, entry in known.items() if now - entry["at"] > _TOKEN_SECONDS]:
        del known[key]
    key = f"{ctx.region}/{operation}/{token}"
    digest = hashlib.sha256(json.dumps(params, sort_keys=True, default=str).encode()).hexdigest()[:16]
    entry = known.get(key)
    if entry is not None:
        refuse_if(
            entry["digest"] != digest, "IdempotentParameterMismatch", f"Arguments on this idempotent request are inconsistent: {token}"
        )
        answer: dict[str, Any] = entry["answer"]
        return answer
    answer = proceed()
    known[key] = {"at": now, "digest": digest, "answer": answer}
    return None
