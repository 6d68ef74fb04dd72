"""The gate of every test against a sandbox: what its ledgers must say at the end, and what a journal of calls must be like."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from typing import Any, Protocol

import botocore.session

#: what Run.token makes (FSx takes 63 of its 64 characters); botocore's own inventions are UUIDs
_OURS = re.compile(r"[0-9a-f]{63,64}")
#: answers of moto's that break the model and may: the real service breaks it in the same way. This list may only shrink.
KNOWN_BREACHES = {
    "ec2:CreateVpcEndpoint": "EC2 answers states in small letters (its API reference); the model's enum has capitals",
    "ec2:DescribeVpcEndpoints": "the same",
    "ec2:DescribeInternetGateways": "an attached gateway is available (API_InternetGatewayAttachment, boto3#3724), the enum has no such",
}
#: SageMaker's model has a pattern for zones that no zone of GovCloud fits; its answers name them all the same
_GOV_ZONE = re.compile(
    r"breaks the service model: \[\"Value '(us-gov-[a-z]+-\d[a-z]|usg[ew]\d-az\d)' at '[\w.]*AvailabilityZone(Id)?' failed [^,]*\"\]$"
)
#: how the product's clients name themselves (aws/session.py)
PRODUCT = "instantstart"
_TOKEN_NAMES = frozenset({"clienttoken", "clientrequesttoken"})


class Asks(Protocol):
    """Whatever reads the sandbox's admin door."""

    def ask(self, verb: str) -> Any:
        """One reading verb."""


def check(sandbox: Asks) -> None:
    """No call was unsupported, none crashed (or had an answer that its model forbids), no request broke its model.

    And whatever the product made that its model has a client token for, it made with one of its own.
    """
    crashes = [(c["service"], c["operation"], c["error"]) for c in sandbox.ask("crashes") if not _GOV_ZONE.search(c["error"])]
    assert crashes == [], crashes
    # the values are told by hand: pytest explains no assertion outside of test modules
    unsupported, careless = sandbox.ask("unsupported"), habits(sandbox)["tokens"]
    malformed = [(m["service"], m["operation"], m["why"][:300]) for m in sandbox.ask("malformed") if not _asks_for_a_new_type(m)]
    assert unsupported == {}, unsupported
    assert malformed == [], malformed
    strange = set(sandbox.ask("breaches")) - set(KNOWN_BREACHES)
    assert strange == set(), strange
    assert careless == {}, careless


def _asks_for_a_new_type(found: dict[str, str]) -> bool:
    """EC2 is asked about instance types by name: one that is newer than the SDK's list is no mistake of the caller's."""
    about = re.match(r"Value '[a-z0-9.-]+' at 'InstanceTypes.\d+.member' failed to satisfy constraint: .* enum value set", found["why"])
    return found["operation"] == "DescribeInstanceTypes" and about is not None


def habits(sandbox: Asks) -> dict[str, dict[str, str]]:
    """What the product (and nobody else who speaks to the sandbox) does badly without an error."""
    found: dict[str, dict[str, str]] = sandbox.ask("habits").get(PRODUCT, {"tokens": {}, "unread": {}})
    return found


def check_tokens(calls: Iterable[dict[str, Any]]) -> int:
    """Every call whose model has a client token carries one of ours, not one that botocore made up; how many such calls there were."""
    with_token = [c for c in calls if takes_token(c["service"], c["operation"])]
    strangers = [(c["service"], c["operation"], c["client_token"]) for c in with_token if not _OURS.fullmatch(c["client_token"] or "")]
    assert strangers == []
    return len(with_token)


@functools.cache
def takes_token(service: str, operation: str) -> bool:
    """Whether the service model gives an operation an idempotency token."""
    if operation == "?":
        return False
    shape = botocore.session.get_session().get_service_model(service).operation_model(operation).input_shape
    if shape is None:
        return False
    return bool(shape.metadata.get("idempotencyToken") or _token_members(shape))


def _token_members(shape: Any) -> list[str]:
    return [name for name, member in shape.members.items() if name.lower() in _TOKEN_NAMES or member.metadata.get("idempotencyToken")]


def foreign_arns(texts: Iterable[str], partition: str) -> list[str]:
    """The texts that name an ARN of another partition."""
    other = re.compile(rf"arn:(?!{re.escape(partition)}:)aws[a-z-]*:")
    return [text for text in texts if other.search(text)]
