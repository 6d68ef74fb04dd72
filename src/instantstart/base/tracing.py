"""Spans for OpenTelemetry, from the request to the AWS call. Off unless an endpoint is set; then nothing of the SDK is imported.

Attributes are names, ids, codes and counts: no body, no header, no text of an error. The SDK's own variables
(``OTEL_EXPORTER_OTLP_HEADERS``, ``OTEL_EXPORTER_OTLP_CERTIFICATE``) say how the collector is spoken to.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from instantstart.base import log, trail

if TYPE_CHECKING:
    from instantstart.base.spans import Exporting

Value = str | int | float | bool
#: https://www.w3.org/TR/trace-context/#traceparent-header
_TRACEPARENT = re.compile(r"00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})")
_exporting: Exporting | None = None


@dataclass(frozen=True)
class Parent:
    """A place in a trace: 32 and 16 hexadecimal digits."""

    trace_id: str
    span_id: str
    sampled: bool = True

    def __str__(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{'01' if self.sampled else '00'}"


class Span:
    """A span that is not recorded; spans.Recorded is one that is."""

    def note(self, **attributes: Value | None) -> None:
        """Add attributes; in a name ``__`` stands for a dot."""

    def named(self, name: str) -> None:
        """Call it otherwise."""

    def failed(self, kind: str) -> None:
        """It ended badly: a code or a class's name, never a text."""

    @property
    def place(self) -> Parent | None:
        """Where it is in its trace."""
        return None


_NOTHING = Span()
_NO_SPAN = contextlib.nullcontext(_NOTHING)


def parse(traceparent: str | None) -> Parent | None:
    """What a ``traceparent`` header says; None when it says nothing that can be used."""
    found = _TRACEPARENT.fullmatch(traceparent or "")
    return Parent(found[1], found[2], bool(int(found[3], 16) & 1)) if found else None


def configure(endpoint: str | None, ratio: float = 1.0, *, version: str, replica: str) -> None:
    """Send spans to the OTLP collector at ``endpoint`` (http://host:4318), or to nobody. ``ratio``: of traces that begin here."""
    global _exporting
    close()
    if endpoint:
        from instantstart.base.spans import Exporting

        _exporting = Exporting(endpoint, ratio, version=version, replica=replica)
        log.get(__name__).info("traces are sent", extra={"facts": {"endpoint": endpoint}})


def close() -> None:
    """Send what is left, for a few seconds at most."""
    global _exporting
    if _exporting is not None:
        _exporting.close()
        _exporting = None


def is_on() -> bool:
    """Whether spans are made."""
    return _exporting is not None


def entered(
    name: str, parent: Parent | None, *, served: bool = False, **attributes: Value | None
) -> contextlib.AbstractContextManager[Span]:
    """Work that came from outside of this thread: a request (``served``), a look of a stage."""
    if _exporting is None:
        return _NO_SPAN
    return _exporting.entered(name, parent, served=served, attributes=attributes)


def calling(name: str, **attributes: Value | None) -> contextlib.AbstractContextManager[Span]:
    """A call to somebody else, inside of a span; where there is none, it is not told."""
    if _exporting is None:
        return _NO_SPAN
    return _exporting.calling(name, attributes)


def told_afterwards(name: str, place: Parent, parent: Parent | None, times: tuple[dt.datetime, dt.datetime], **facts: Value | None) -> None:
    """A span that other processes may have begun: made when it is over, at a place that was known before."""
    if _exporting is not None:
        _exporting.afterwards(name, place, parent, times, facts)


def origin_of_now() -> dict[str, str]:
    """What is kept of the present request with what it began: its id, and its place in a trace when it has one."""
    told = trail.facts()
    origin = {"request_id": told["request_id"]} if "request_id" in told else {}
    if "trace_id" in told:
        origin["traceparent"] = str(Parent(told["trace_id"], told["span_id"], told.get("trace_flags") == "01"))
    return origin


def place_of(operation: str, origin: Parent | None) -> Parent:
    """The place of an operation's own span: the same in every process, and after every restart."""
    digest = hashlib.sha256(f"operation/{operation}".encode()).hexdigest()
    return Parent(origin.trace_id if origin else digest[:32], digest[32:48], origin.sampled if origin else True)
