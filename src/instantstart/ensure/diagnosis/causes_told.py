"""What the words of AWS mean: reasons of stacks, clusters, groups and nodes, told as causes with their next steps. Pure.

The texts are AWS's (aws-facts A1.10, A7): only what a pattern knows becomes our sentence, the words themselves stay evidence.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from instantstart.ensure.capacity.lifecycle_logs import ScriptLog
from instantstart.ensure.diagnosis.findings import (
    Confidence,
    DiagnosisCause,
    DiagnosisEvidence,
    DiagnosisStep,
    look,
    renew,
    restart,
    seen,
)

_RETRY = restart("When that is mended, let the operation go on at the stage where it stopped.", "operation_retry")


@dataclass(frozen=True)
class Meaning:
    """What one kind of reason means. ``sentence`` may hold ``{what}``: the subject of the reason."""

    code: str
    sentence: str
    steps: tuple[DiagnosisStep, ...]


LIFECYCLE = Meaning(
    "lifecycle.script_failed",
    "The lifecycle script failed on new instances of {what}.",
    (
        look(
            "Read the log of the script: the evidence has its end, or its log group with a stream for each instance.",
            "hyperpod_events",
        ),
        restart("Mend the script where it is stored: HyperPod runs it again on the next instance it takes.", "instance_group_update"),
        renew("Replace the nodes on which it failed, when it is mended.", "node_replace"),
    ),
)


def script(log: ScriptLog) -> DiagnosisEvidence:
    """The end of what a lifecycle script wrote, as evidence."""
    return seen("log", log.place, f"The end of what the lifecycle script wrote on {log.instance_id}.", log.at, log.text)


CAPACITY = Meaning(
    "capacity.exhausted",
    "AWS has no capacity for {what} now.",
    (
        look("See which zones offer the type, and which types have quota.", "instance_type_list"),
        restart("Wait: HyperPod keeps asking; an operation that gave up goes on by a retry.", "operation_retry"),
        renew("Add a group in another zone, of another type, of Spot, or of a training plan.", "instance_group_add"),
    ),
)
QUOTA = Meaning(
    "quota.too_low",
    "A quota of the account is too low for {what}.",
    (
        look("See the quota of each type; the evidence names the one that was reached.", "instance_type_list"),
        look("Ask AWS to raise it (Service Quotas), or use less of it."),
        _RETRY,
        renew("Use a type that has quota.", "instance_group_add"),
    ),
)
DENIED = Meaning(
    "permissions.missing",
    "A permission is missing for {what}.",
    (look("Give the role in the evidence the action that it names (docs/how-to/permissions.md).", "preflight_run"), _RETRY),
)
ROLE = Meaning(
    "role.not_assumable",
    "SageMaker cannot assume the execution role of {what}.",
    (look("Look at the trust policy of the role, and at the organisation's policies."), _RETRY),
)
ADDRESSES = Meaning(
    "network.no_addresses",
    "The subnet of {what} has no free addresses, or cannot be used.",
    (
        look("See the free addresses of the subnet.", "cluster_get"),
        _RETRY,
        renew("Add a group in another subnet; efa-only interfaces take fewer addresses.", "instance_group_add"),
    ),
)
EFA_CHECK = Meaning(
    "health_check.efa_failed",
    "The EFA health check failed on instances of {what}.",
    (
        look("See whether the security group lets its own members through, both ways.", "diagnosis_get"),
        restart("Check the nodes again: it is often transient.", "node_check"),
        renew("Replace the nodes that fail again.", "node_replace"),
    ),
)
CHECK = Meaning(
    "health_check.failed",
    "A deep health check failed on instances of {what}.",
    (
        look("Read the node's events: they name the test.", "node_get"),
        restart("Check them again.", "node_check"),
        renew("Replace the nodes that fail again.", "node_replace"),
    ),
)
ZONE = Meaning(
    "eks.zone_unsupported",
    "EKS does not take one of the zones.",
    (look("The evidence names the zones that it takes.", "zone_list"), _RETRY),
)
#: the first pattern that fits
_PATTERNS: tuple[tuple[str, Meaning], ...] = (
    (r"[Ll]ifecycle script", LIFECYCLE),
    (r"UnsupportedAvailabilityZone|choose from these availability zones", ZONE),
    (r"EFA health check", EFA_CHECK),
    (r"health check", CHECK),
    (r"cannot assume|not assumable|unable to assume", ROLE),
    (r"AccessDenied|not authorized|UnauthorizedOperation|explicit deny|does not have permission|is not allowed to", DENIED),
    (r"LimitExceeded|QuotaExceeded|[Ss]ervice limit|account-level|[Qq]uota|maximum number|has been reached", QUOTA),
    (r"(?i)insufficient.*capacity|sufficient capacity|InsufficientInstanceCapacity|no .{0,40}capacity|capacity\.exhausted", CAPACITY),
    (r"[Ff]ree addresses|InsufficientFreeAddresses|enough (?:free )?(?:IP )?addresses|InsufficientCidr", ADDRESSES),
)


def meaning(text: str) -> Meaning | None:
    """What a reason of AWS means; None for one that no pattern knows."""
    return next((known for pattern, known in _PATTERNS if re.search(pattern, text)), None)


def cause(known: Meaning, what: str, confidence: Confidence, evidence: Sequence[DiagnosisEvidence]) -> DiagnosisCause:
    """The cause that a meaning is, about ``what``."""
    return DiagnosisCause(known.code, known.sentence.format(what=what), confidence, tuple(evidence), known.steps)
