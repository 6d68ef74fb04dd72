"""The Plan: what every dry run answers, whichever slice makes it."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from instantstart.ensure.findings import Finding


@dataclass(frozen=True)
class Plan:
    """What a request would do. ``approval`` is single-use, for this caller and this exact request."""

    make: tuple[str, ...] = ()
    change: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    warnings: tuple[str, ...] = ()
    approval: str | None = None
    approval_expires_at: dt.datetime | None = None
