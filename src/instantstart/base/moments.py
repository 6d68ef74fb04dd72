"""Moments and durations as a person says them: ``2h`` (ago), ``yesterday``, ``today``, a date, or a full ISO moment."""

from __future__ import annotations

import datetime as dt
import re

EXAMPLE = "2026-11-30T12:00:00Z"
#: what is understood, for a hint
FORMS = f"a moment such as {EXAMPLE}, a date such as 2026-11-30, a time ago such as 90m, 2h or 3d, or now, today or yesterday"
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_DURATION = re.compile(r"(?:\d{1,9}[smhdw])+", re.ASCII)
_PART = re.compile(r"(\d+)([smhdw])", re.ASCII)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


def seconds(text: str) -> int:
    """A duration: ``90``, ``90s``, ``10m``, ``1h30m``, ``2d``. Raises ValueError with a sentence for what is none."""
    said = text.strip().lower()
    if said.isascii() and said.isdigit() and len(said) < 10:
        return int(said)
    if not _DURATION.fullmatch(said):
        raise ValueError(f"{text!r} is no duration: write 90s, 10m, 1h30m or 2d")
    return sum(int(count) * _UNITS[unit] for count, unit in _PART.findall(said))


def read(text: str, now: dt.datetime) -> dt.datetime:
    """The moment that is meant, with its zone; what names none is in the zone of ``now``. Raises ValueError with a sentence."""
    said = text.strip().lower()
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    known = {"now": now, "today": midnight, "yesterday": midnight - dt.timedelta(days=1)}
    if said in known:
        return known[said]
    ago = said.removesuffix("ago").strip()
    try:
        if _DURATION.fullmatch(ago):
            return now - dt.timedelta(seconds=seconds(ago))
        if not _DATE.match(said):
            raise ValueError(said)
        found = dt.datetime.fromisoformat(text.strip().upper().replace("Z", "+00:00"))
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{text!r} is no moment: write {FORMS}") from error
    return found if found.tzinfo else found.replace(tzinfo=now.tzinfo)
