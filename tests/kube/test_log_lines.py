"""Places in a log: wherever a stream is cut, going on from the place tells each line once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instantstart.kube.log_lines import LONGEST_LINE, Position, Resuming, Sieve, reached, text_of, tidy


def at(second: int, text: str) -> bytes:
    return f"2026-11-30T12:00:{second:02d}.000000000Z {text}\n".encode()


@given(st.lists(st.integers(0, 5), min_size=1, max_size=30), st.data())
def test_no_line_is_lost_or_told_twice_wherever_a_stream_is_cut(seconds: list[int], data: st.DataObject) -> None:
    whole = [at(second, f"line {number}") for number, second in enumerate(sorted(seconds))]
    cut = data.draw(st.integers(1, len(whole)))
    place = None
    for start in range(0, cut, 3):  # in blocks, as they come
        place = reached(b"".join(whole[start : min(start + 3, cut)]), place)
    assert place is not None
    again = b"".join(line for line in whole if line.split(b" ")[0].decode() >= place.at)  # what sinceTime gives
    assert Resuming(place).cut(again) == b"".join(whole[cut:])


@given(st.lists(st.integers(0, 5), min_size=1, max_size=30), st.integers(1, 7))
def test_what_is_left_out_may_come_in_any_pieces(seconds: list[int], size: int) -> None:
    whole = [at(second, f"line {number}") for number, second in enumerate(sorted(seconds))]
    place = reached(b"".join(whole[: len(whole) // 2 + 1]), None)
    resuming, told = Resuming(place), b""
    for start in range(0, len(whole), size):
        told += resuming.cut(b"".join(whole[start : start + size])) if not resuming.over else b"".join(whole[start : start + size])
    assert told == b"".join(whole[len(whole) // 2 + 1 :])
    assert resuming.met


def test_a_tail_that_begins_among_lines_of_one_time_counts_all_of_them() -> None:
    block = at(1, "b") + at(1, "c")  # "a", of the same time, was cut off by the tail
    place = reached(block, None, begun_inside=True)
    assert place.count == 0
    assert Resuming(place).cut(at(1, "a") + block + at(2, "d")) == at(2, "d")


def test_a_place_is_text_and_back() -> None:
    place = reached(at(1, "a") + at(1, "b"), None)
    assert Position.parse(str(place)) == place == Position("2026-11-30T12:00:01.000000000Z", 2)
    assert [Position.parse(text) for text in ("", "x#1", "2026-11-30T12:00:01Z", "2026-11-30T12:00:01Z#-1")] == [None] * 4


def test_lines_without_a_time_or_too_long_are_mended() -> None:
    last = Position("2026-11-30T12:00:01Z", 1)
    block = at(1, "a") + b"failed to watch the file\n" + at(2, "x" * (LONGEST_LINE + 10)) + b"\n"
    told = tidy(block, last).split(b"\n")
    assert told[1] == at(1, "failed to watch the file")[:-1]
    assert told[2].endswith(b"... [10 bytes more]")
    assert tidy(at(1, ""), None) == at(1, "")


def test_torn_characters_and_secrets_do_not_get_through() -> None:
    assert text_of(at(1, "a")[:-1] + b"\xe6\x97\n").endswith("a\ufffd\n")
    assert "hf_abcdefghijklmnopqrstuvwxyz" not in text_of(at(1, "token hf_abcdefghijklmnopqrstuvwxyz"))


def test_a_search_keeps_context_and_each_line_once() -> None:
    sieve = Sieve("ERROR", 1)
    lines = [f"t {n}" for n in range(4)] + ["t an \x1b[31merr\x1b[0mor", "t another error"] + [f"t {n}" for n in range(4, 8)]
    kept = sieve.keep(lines[:5]) + sieve.keep(lines[5:])
    assert kept == ["t 3", *lines[4:6], "t 4"]


@pytest.mark.parametrize("cut", range(1, 9))
def test_a_character_torn_between_two_reads_is_whole(cut: int) -> None:
    line = at(1, "日本語")
    pieces, rest = [], b""
    for piece in (line[: -1 - cut], line[-1 - cut :]):
        rest += piece
        end = rest.rfind(b"\n") + 1
        pieces.append(text_of(rest[:end]))
        rest = rest[end:]
    assert "".join(pieces).endswith("日本語\n")
