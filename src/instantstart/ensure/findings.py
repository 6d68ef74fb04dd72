"""What a check found before anything is changed: good, doubtful, in the way, or not to be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from instantstart.base import problems

#: where a check's answer belongs in a request, when it is not called as the field is; "" is the whole request
POINTERS: Mapping[str, str] = {
    "identity": "",
    "permissions": "",
    "eks": "",
    "vpc_quota": "/vpc_id",
    "address_quota": "/vpc_id",
    "instance_quota": "/instance_count",
    "addresses": "/instance_count",
    "training_plan": "/training_plan_arn",
    "names": "/tag",
}

Level = Literal["ok", "warn", "fail", "unknown"]


@dataclass(frozen=True)
class Finding:
    """One answer of a check. ``unknown`` means it could not be read: neither good nor bad."""

    check: str
    level: Level
    detail: str
    hint: str | None = None


def refusal(found: Sequence[Finding]) -> problems.Problem | None:
    """The Problem that failing findings mean, or None."""
    failing = [f for f in found if f.level == "fail"]
    if not failing:
        return None
    quota = all(f.check.endswith("_quota") for f in failing)
    denied = any(f.check == "permissions" for f in failing)
    kind = problems.Denied if denied else problems.OutOfQuota if quota else problems.Invalid
    hints = " ".join(f.hint for f in failing if f.hint)
    return kind(
        "preflight.quota_too_low" if quota else "preflight.failed",
        " ".join(f.detail for f in failing),
        hint=hints or None,
        fields=[problems.Violation(POINTERS.get(f.check, f"/{f.check}"), f.detail) for f in failing],
    )


def invalid(found: Sequence[Finding], code: str) -> problems.Invalid | None:
    """Every failing finding as a violation of the request, at the field that its ``check`` names; None when none fails."""
    failing = [f for f in found if f.level == "fail"]
    if not failing:
        return None
    told = " ".join(dict.fromkeys(f.detail for f in failing))
    hints = " ".join(dict.fromkeys(f.hint for f in failing if f.hint))
    return problems.Invalid(code, told, hint=hints or None, fields=[problems.Violation(f"/{f.check}", f.detail) for f in failing])
