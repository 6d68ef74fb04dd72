"""The sentences of CloudFormation, in one place, and the errors that carry them.

The wordings are those of AWS's documentation and of public bug reports; they were not compared with a live account.
"""

from __future__ import annotations

import re

from instantstart_sandbox.gateway.errors import AwsError

CANCELLED = "Resource creation cancelled"
UPDATE_CANCELLED = "Resource update cancelled"
NO_UPDATES = "No updates are to be performed."
REPLACING = "Requested update requires the creation of a new physical resource; hence creating one."
USER_INITIATED = "User Initiated"
ELIGIBLE_FOR_CHECK = "Resource creation Initiated"

#: error code of a service -> HandlerErrorCode of the resource handler contract; the first pattern that matches wins
_HANDLER_CODES = (
    (r".*LimitExceeded(Exception|Fault)?|.*QuotaExceeded.*|TooManyBuckets|LimitExceeded", "ServiceLimitExceeded"),
    (r".*AlreadyExists.*|.*AlreadyOwnedByYou|.*\.Duplicate|ResourceInUse(Exception)?|RouteAlreadyExists", "AlreadyExists"),
    (r".*NotFound(Exception)?|NoSuch.*|ParameterNotFound", "NotFound"),
    (r"AccessDenied.*|Unauthorized.*|.*Forbidden.*", "AccessDenied"),
    (r"Throttl.*|RequestLimitExceeded|TooManyRequests.*|SlowDown", "Throttling"),
    (r"DependencyViolation|DeleteConflict|Conflict.*|.*\.Conflict|BucketNotEmpty|Resource\.AlreadyAssociated", "ResourceConflict"),
    (r"Invalid.*|Validation.*|Malformed.*|Missing.*", "InvalidRequest"),
    (r"Internal.*|ServiceUnavailable|Server.*", "ServiceInternalError"),
)
#: the other codes of the contract, which only handlers themselves give
_OWN_CODES = frozenset({"NotUpdatable", "NotStabilized", "InternalFailure", "NetworkFailure", "InvalidCredentials", "ServiceInternalError"})


def invalid(message: str) -> AwsError:
    """A ``ValidationError``: what CloudFormation answers to almost every bad request."""
    return AwsError("ValidationError", message)


def constraint(value: object, member: str, rule: str) -> AwsError:
    """The answer to a request member outside the service model's limits."""
    return invalid(f"1 validation error detected: Value '{value}' at '{member}' failed to satisfy constraint: Member must {rule}")


def handler_code(error_code: str) -> str:
    """The HandlerErrorCode for a service's error code (or itself); ``GeneralServiceException`` when it is not known."""
    if error_code in _OWN_CODES:
        return error_code
    return next((code for pattern, code in _HANDLER_CODES if re.fullmatch(pattern, error_code)), "GeneralServiceException")


def handler_message(message: str, token: str, code: str) -> str:
    """The reason of a failed resource, as a registry handler reports it."""
    return f'Resource handler returned message: "{message}" (RequestToken: {token}, HandlerErrorCode: {code})'


def names(logical_ids: list[str]) -> str:
    """``[A, B]``, as in the stack's own status reason."""
    return "[" + ", ".join(logical_ids) + "]"
