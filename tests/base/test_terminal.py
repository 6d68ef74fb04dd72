"""Foreign text on a terminal: nothing of it acts, and what a person would have seen is what stays (cases 88, 89)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instantstart.base import terminal


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        ("step 1 loss=2.3", "step 1 loss=2.3"),
        ("\x1b]0;owned\x07\x1b[2J\x1b[1;1Hfake $ ", "fake $ "),
        ("\x1b]8;;https://evil.example\x1b\\click\x1b]8;;\x1b\\", "click"),
        ("\x1b[31mred\x1b[0m and \x1b[1;38;5;208mbold\x1b[m", "red and bold"),
        ("\x1bP+q544e\x1b\\answer back", "answer back"),
        ("\x9b2Jc1 \x9d0;t\x9cdone", "c1 done"),
        ("unfinished \x1b[31", "unfinished "),
        ("unfinished \x1b]0;title that never ends", "unfinished "),
        ("bell \x07 null \x00 tab\tstays", "bell \ufffd null \ufffd tab\tstays"),
        ("abc\u202etxt.exe", "abc\ufffdtxt.exe"),
        ("\rdownload 10%|#  |\rdownload 100%|###|", "download 100%|###|"),
        ("100%\r7", "700%"),
        ("long line\r\x1b[Kshort", "short"),
        ("windows line\r", "windows line"),
        ("spin |\b/\b-", "spin -"),
        ("größe 日本語 🚀", "größe 日本語 🚀"),
    ],
)
def test_a_line_is_shown_as_it_would_end_up(line: str, seen: str) -> None:
    assert terminal.shown(line) == seen


def test_colours_stay_when_they_are_wanted_and_end_with_the_line() -> None:
    told = terminal.shown("\x1b[31mred\x1b[2J\x1b]0;t\x07 more", colours=True)
    assert told == "\x1b[31mred more\x1b[0m"


@given(st.text(st.characters(codec="utf-8"), max_size=200))
def test_no_control_character_is_left(text: str) -> None:
    assert all(c.isprintable() or c == "\t" for c in terminal.shown(text) if c != "\ufffd")


@given(st.text(st.sampled_from("\x1b[]0123;mKHJ\x07\r\bab \x9b"), max_size=60))
def test_with_colours_only_colours_are_left(text: str) -> None:
    told = terminal.shown(text, colours=True)
    assert all(piece.startswith("[") and "m" in piece for piece in told.split("\x1b")[1:])
