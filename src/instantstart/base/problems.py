"""The one error of the house: a Problem, told the same way through every door (RFC 9457).

The subclasses are *kinds*: they say what a caller, and the engine, should do::

    Problem
    ├── Invalid      422  what was asked is wrong; ``fields`` points at every violation
    ├── NotFound     404
    ├── Conflict     409  the world, or another operation, stands in the way
    ├── Denied       403
    ├── Unauthenticated 401
    ├── OutOfQuota   409  an account limit; a person asks for more
    ├── NoCapacity   409  AWS has none now; a stage waits within its deadline, then blocks
    ├── Blocked      409  a person must decide or mend something; the operation keeps its place
    ├── Busy         503  come back; carries ``retry_after_seconds``
    ├── Unreachable  502  could not be read: neither yes nor no
    └── Broken       500  our own fault
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

MEDIA_TYPE = "application/problem+json"


@dataclass(frozen=True)
class Violation:
    """One wrong field: ``pointer`` is a JSON pointer into the request body, ``message`` a sentence for a person."""

    pointer: str
    message: str


class Problem(Exception):  # noqa: N818 - the house calls it by RFC 9457's own noun
    """What went wrong, why, and what to do next. ``code`` is ``noun.fact`` and is documented in docs/problems.md."""

    status: ClassVar[int] = 500
    kind: ClassVar[str] = "problem"
    retryable: ClassVar[bool] = False

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        title: str | None = None,
        hint: str | None = None,
        fields: Sequence[Violation] = (),
        evidence: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.title = title or _title_of(code)
        self.hint = hint
        self.fields = tuple(fields)
        self.evidence = dict(evidence or {})

    def document(self) -> dict[str, Any]:
        """The RFC 9457 document: stable keys, empty ones left out."""
        body: dict[str, Any] = {
            "type": f"urn:instantstart:problem:{self.code}",
            "title": self.title,
            "status": self.status,
            "kind": self.kind,
            "code": self.code,
            "detail": self.detail,
            "retryable": self.retryable,
        }
        if self.hint:
            body["hint"] = self.hint
        if self.fields:
            body["fields"] = [{"pointer": f.pointer, "message": f.message} for f in self.fields]
        if self.evidence:
            body["evidence"] = self.evidence
        return body


class Invalid(Problem):
    status, kind = 422, "invalid"


class NotFound(Problem):
    status, kind = 404, "not_found"


class Conflict(Problem):
    status, kind = 409, "conflict"


class Unauthenticated(Problem):
    status, kind = 401, "unauthenticated"


class Denied(Problem):
    status, kind = 403, "denied"


class OutOfQuota(Problem):
    status, kind = 409, "out_of_quota"


class NoCapacity(Problem):
    status, kind, retryable = 409, "no_capacity", True


class Blocked(Problem):
    status, kind = 409, "blocked"


class Busy(Problem):
    status, kind, retryable = 503, "busy", True
    retry_after_seconds = 5


class Unreachable(Problem):
    status, kind, retryable = 502, "unreachable", True


class Broken(Problem):
    status, kind = 500, "broken"


KINDS: dict[str, type[Problem]] = {
    each.kind: each
    for each in (Invalid, NotFound, Conflict, Unauthenticated, Denied, OutOfQuota, NoCapacity, Blocked, Busy, Unreachable, Broken)
}


def from_document(document: Mapping[str, Any]) -> Problem:
    """The Problem that a document tells; an unknown kind becomes Broken. Inverse of :meth:`Problem.document`."""
    kind = KINDS.get(str(document.get("kind")), Broken)
    return kind(
        str(document.get("code", "problem.unknown")),
        str(document.get("detail", "")),
        title=document.get("title"),
        hint=document.get("hint"),
        fields=[Violation(f["pointer"], f["message"]) for f in document.get("fields", ())],
        evidence=document.get("evidence"),
    )


def _title_of(code: str) -> str:
    noun, _, fact = code.partition(".")
    words = f"{noun} {fact}".replace("_", " ").strip()
    return words[:1].upper() + words[1:]
