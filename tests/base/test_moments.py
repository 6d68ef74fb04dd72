"""Moments and durations as people say them."""

from __future__ import annotations

import datetime as dt

import pytest

from instantstart.base import moments
from instantstart.base.counting import counted, plural

ZONE = dt.timezone(dt.timedelta(hours=2))
NOW = dt.datetime(2026, 11, 30, 14, 30, tzinfo=ZONE)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("now", NOW),
        ("today", NOW.replace(hour=0, minute=0)),
        ("Yesterday", dt.datetime(2026, 11, 29, tzinfo=ZONE)),
        ("2h", NOW - dt.timedelta(hours=2)),
        ("1d12h ago", NOW - dt.timedelta(days=1.5)),
        ("2026-11-01", dt.datetime(2026, 11, 1, tzinfo=ZONE)),
        ("2026-11-01 08:00", dt.datetime(2026, 11, 1, 8, tzinfo=ZONE)),
        ("2026-11-01T08:00:00z", dt.datetime(2026, 11, 1, 8, tzinfo=dt.UTC)),
        ("2026-11-01T08:00:00+05:00", dt.datetime(2026, 11, 1, 3, tzinfo=dt.UTC)),
    ],
)
def test_a_moment(said: str, meant: dt.datetime) -> None:
    found = moments.read(said, NOW)
    assert found == meant
    assert found.tzinfo is not None


@pytest.mark.parametrize("said", ["", "soon", "2026-13-01", "20261101", "99999999w", "2h3", "-2h"])
def test_what_is_no_moment_is_told_with_an_example(said: str) -> None:
    with pytest.raises(ValueError, match="is no moment: write a moment such as 2026-11-30T12:00:00Z"):
        moments.read(said, NOW)


def test_a_duration() -> None:
    assert [moments.seconds(said) for said in ("90", "90s", "10m", "1h30m", "2d", "1W")] == [90, 90, 600, 5400, 172_800, 604_800]
    for said in ("", "x", "1.5h", "h", "-1"):
        with pytest.raises(ValueError, match="is no duration: write 90s, 10m"):
            moments.seconds(said)


def test_numbers_of_things() -> None:
    assert [counted(n, "pod") for n in (0, 1, 2)] == ["0 pods", "1 pod", "2 pods"]
    assert counted(2, "entry", "entries") == "2 entries"
    assert (plural(1, "runs", "run"), plural(2, "runs", "run")) == ("runs", "run")
