"""Translate what AWS says into Problems. The one place that knows AWS error codes; the original stays chained.

Codes as botocore reports them in ``error.response["Error"]["Code"]``. Three SageMaker codes have no "Exception"
suffix, IAM's query protocol drops it, EKS keeps it, hence the folding in :func:`_fold`.
"""

from __future__ import annotations

import re
from typing import Any

from botocore import exceptions

from instantstart.base import problems

_THROTTLE = frozenset(
    {
        "Throttling",
        "ThrottledException",
        "TooManyRequests",
        "RequestLimitExceeded",
        "RequestThrottled",
        "SlowDown",
        "PriorRequestNotComplete",
        "BandwidthLimitExceeded",
    }
)
_SERVER = frozenset(
    {
        "InternalFailure",
        "InternalError",
        "InternalServerError",
        "InternalServer",
        "ServiceUnavailable",
        "Unavailable",
        "Server",
        "RequestTimeout",
    }
)
#: the last one: the answer to a HEAD has no body, so that its status is all there is
_DENIED = frozenset({"AccessDenied", "UnauthorizedOperation", "Forbidden", "AuthFailure", "NotAuthorized", "403"})
#: what IAM calls the operations whose refusal cannot say it
_ACTION_OF_HEAD = {"s3:head_bucket": "s3:ListBucket", "s3:head_object": "s3:GetObject"}
#: our signatures are older, or younger, than AWS allows: five minutes (S3, EC2 by code, the others by their sentence)
_CLOCK = frozenset({"RequestTimeTooSkewed", "RequestExpired"})
_CLOCK_WORDS = re.compile(r"(?i)signature (expired|not yet current)")
_CREDENTIALS = frozenset(
    {
        "ExpiredToken",
        "UnrecognizedClient",
        "InvalidClientTokenId",
        "SignatureDoesNotMatch",
        "InvalidAccessKeyId",
        "IncompleteSignature",
        "InvalidSignature",
    }
)
_NOT_FOUND = frozenset(
    {
        "ResourceNotFound",
        "NoSuchEntity",
        "NoSuchBucket",
        "NoSuchKey",
        "NotFound",
        "404",
        "NoSuchTagSet",
        "NoSuchBucketPolicy",
        "NoSuchResource",
    }
)
_EXISTS = frozenset(
    {"ResourceInUse", "EntityAlreadyExists", "AlreadyExists", "BucketAlreadyExists", "BucketAlreadyOwnedByYou", "ResourceAlreadyExists"}
)
_QUOTA = frozenset(
    {
        "ResourceLimitExceeded",
        "LimitExceeded",
        "ServiceQuotaExceeded",
        "VpcLimitExceeded",
        "AddressLimitExceeded",
        "SubnetLimitExceeded",
        "NatGatewayLimitExceeded",
    }
)
#: somebody else changes the same thing at this moment: the service itself says to try again
_MOMENTARY = frozenset({"ConcurrentModification", "OperationAborted", "OperationInProgress"})
_CONFLICT = frozenset({"Conflict", "DeleteConflict", "DependencyViolation", "InvalidRequest", "BucketNotEmpty"})
#: sentences that mean "a role was made a moment ago and is not visible yet"; only these are retried (case 13)
_PROPAGATION = re.compile(
    r"(?i)(cannot (be )?assume|could not (be )?assume|not authorized to perform: sts:AssumeRole|unable to assume"
    r"|role .* is not (yet )?visible|error in role params|invalid principal in policy"
    r"|role .*(is invalid or cannot be assumed|cannot be assumed))"
)
_CAPACITY = re.compile(
    r"(?i)(insufficient|not have sufficient|sufficient) .*capacity|InsufficientInstanceCapacity|ReservationCapacityExceeded"
)
_ACTION = re.compile(r"not authorized to perform:? ([\w-]+:\w+)(?: on resource:? (\S+))?")
_DENY_TYPE = re.compile(r"(?i)explicit deny in an? ([\w ]+? policy)|no ([\w-]+ policy) allows")


def translate(error: Exception, service: str, operation: str) -> problems.Problem:
    """The Problem that a botocore error means."""
    if isinstance(error, exceptions.ClientError):
        return _client_error(error, service, operation)
    evidence = {"service": service, "operation": operation, "error": type(error).__name__}
    if isinstance(error, (exceptions.NoCredentialsError, exceptions.PartialCredentialsError, exceptions.NoRegionError)):
        return problems.Denied(
            "aws.no_credentials",
            f"No usable AWS credentials: {error}",
            hint="Give the process a role or a profile and a region.",
            evidence=evidence,
        )
    if isinstance(error, exceptions.ParamValidationError):
        return problems.Broken(
            "aws.request_invalid", f"InstantStart built a wrong {service}:{operation} request: {error}", evidence=evidence
        )
    if isinstance(error, exceptions.EndpointConnectionError) and service:
        return problems.Unreachable(
            "aws.endpoint_unreachable",
            f"The endpoint of {service} does not answer: {error}",
            hint="Check network egress, and that this region offers the service.",
            evidence=evidence,
        )
    return problems.Unreachable("aws.no_answer", f"No answer from {service}:{operation}: {error}", evidence=evidence)


def _fold(code: str) -> str:
    return code.removesuffix("Exception").removesuffix("Fault").removesuffix("Error") if code != "InternalError" else code


def _client_error(error: exceptions.ClientError, service: str, operation: str) -> problems.Problem:
    told: dict[str, Any] = error.response.get("Error", {})
    code, message = str(told.get("Code", "")), str(told.get("Message", "")) or str(error)
    meta = error.response.get("ResponseMetadata", {})
    evidence = {"service": service, "operation": operation, "aws_code": code, "request_id": meta.get("RequestId", ""), "message": message}
    folded = _fold(code)
    passing = _passing(folded, message, int(meta.get("HTTPStatusCode") or 0), evidence)
    if passing is not None:
        return passing
    for codes, make in _BY_CODE:
        if folded in codes:
            return make(message, evidence)
    if folded.endswith("NotFound") or folded.startswith("NoSuch"):
        return _not_found(message, evidence)
    if folded.endswith(("Duplicate", "AlreadyExists", "AlreadyAssociated", ".InUse")):
        return _exists(message, evidence)
    if _CAPACITY.search(message) or _CAPACITY.search(code):
        return problems.NoCapacity("aws.no_capacity", message, evidence=evidence)
    if folded == "Validation" and "does not exist" in message and service == "cloudformation":
        return _not_found(message, evidence)
    return problems.Invalid("aws.refused", f"{service}:{operation} was refused: {message}", evidence=evidence)


def _passing(folded: str, message: str, status: int, evidence: dict[str, Any]) -> problems.Busy | None:
    """What goes over by itself: throttling, AWS's own errors, another change under way, a role made a moment ago."""
    call = f"{evidence['service']}:{evidence['operation']}"
    if folded in _THROTTLE:
        return problems.Busy("aws.throttled", f"{call} is throttled; AWS limits requests for the whole account.", evidence=evidence)
    if folded in _SERVER or status >= 500:
        return problems.Busy("aws.unavailable", f"{call} answered an internal error: {message}", evidence=evidence)
    if folded in _MOMENTARY:
        return problems.Busy("aws.changing", f"{call} must wait for another change: {message}", evidence=evidence)
    if _PROPAGATION.search(message) and (folded not in _DENIED or "sts:AssumeRole" in message):
        told = f"A new role is not visible to {evidence['service']} yet: {message}"
        return problems.Busy("aws.role_not_visible_yet", told, evidence=evidence)
    return None


def _denied(message: str, evidence: dict[str, Any]) -> problems.Problem:
    action = _ACTION.search(message)
    deny = _DENY_TYPE.search(message)
    call = f"{evidence['service']}:{evidence['operation']}"
    name = action[1] if action else _ACTION_OF_HEAD.get(call, call)
    evidence |= {"action": name, "resource": action[2] if action else None, "deny": (deny[1] or deny[2]) if deny else None}
    why = f" ({evidence['deny']})" if evidence["deny"] else ""
    return problems.Denied(
        "aws.denied",
        f"This identity may not {name}{why}: {message}",
        hint=f"Allow {name} for it, or ask whoever owns the policy.",
        evidence=evidence,
    )


def _clock(message: str, evidence: dict[str, Any]) -> problems.Problem:
    return problems.Denied(
        "aws.clock_off",
        f"AWS refuses our signatures because the clock of this machine is off: {message}",
        hint="Set the clock of the machine (or let NTP do it), then retry.",
        evidence=evidence,
    )


def _credentials(message: str, evidence: dict[str, Any]) -> problems.Problem:
    if _CLOCK_WORDS.search(message):
        return _clock(message, evidence)
    return problems.Denied(
        "aws.credentials_rejected",
        f"AWS rejected the credentials: {message}",
        hint="Renew them; check the clock of this machine.",
        evidence=evidence,
    )


def _not_found(message: str, evidence: dict[str, Any]) -> problems.Problem:
    return problems.NotFound("aws.not_found", message, evidence=evidence)


def _exists(message: str, evidence: dict[str, Any]) -> problems.Problem:
    return problems.Conflict("aws.already_exists", message, evidence=evidence)


def _quota(message: str, evidence: dict[str, Any]) -> problems.Problem:
    return problems.OutOfQuota(
        "aws.out_of_quota", message, hint="Request an increase in Service Quotas, or free what is not needed.", evidence=evidence
    )


def _conflict(message: str, evidence: dict[str, Any]) -> problems.Problem:
    return problems.Conflict("aws.conflict", message, evidence=evidence)


_BY_CODE = (
    (_DENIED, _denied),
    (_CLOCK, _clock),
    (_CREDENTIALS, _credentials),
    (_NOT_FOUND, _not_found),
    (_EXISTS, _exists),
    (_QUOTA, _quota),
    (_CONFLICT, _conflict),
)


def aws_code(problem: problems.Problem) -> str:
    """The AWS code a translated Problem came from, or an empty string."""
    return str(problem.evidence.get("aws_code", ""))
