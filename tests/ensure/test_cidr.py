"""Address arithmetic: nothing overlaps, and compute always has room."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instantstart.base import problems
from instantstart.ensure.networking import cidr

Network = ipaddress.IPv4Network
private = st.tuples(st.integers(0, 255), st.integers(14, 28)).map(lambda t: Network((f"10.{t[0]}.0.0", t[1]), strict=False))


@settings(deadline=None)
@given(st.lists(private, max_size=30), st.text(max_size=8))
def test_a_chosen_vpc_never_overlaps(taken: list[Network], tag: str) -> None:
    try:
        chosen = cidr.choose_vpc(taken, tag)
    except problems.Conflict:
        return
    assert cidr.overlaps(chosen, taken) is None
    assert chosen.prefixlen == 16


def test_clusters_asked_for_at_once_choose_apart() -> None:
    chosen = [cidr.choose_vpc([], f"team-{number}") for number in range(12)]
    alike = len(chosen) - len(set(chosen))
    assert alike <= 1, "by their tags, of which none knows the others"
    assert chosen[0] == cidr.choose_vpc([], "team-0"), "a look again finds the same"
    assert cidr.choose_vpc(chosen, "team-0") not in chosen


def test_no_free_range_is_told() -> None:
    with pytest.raises(problems.Conflict, match="overlaps"):
        cidr.choose_vpc([Network("10.0.0.0/8")])


@pytest.mark.parametrize("text", ["10.0.0.0/16", "10.0.0.0/17", "172.31.0.0/18", "192.168.0.0/19"])
def test_a_layout_stays_inside_and_leaves_a_20_for_compute(text: str) -> None:
    cut = cidr.layout(Network(text))
    small = [*cut.public, *cut.control_plane]
    assert all(n.subnet_of(cut.vpc) for n in small)
    assert all(not a.overlaps(b) for i, a in enumerate(small) for b in small[i + 1 :])
    free = cidr.free_slots([cut.vpc], small)
    assert free
    assert all(n.prefixlen == 20 for n in free)


@settings(deadline=None)
@given(st.lists(private, max_size=4), st.lists(private, max_size=12))
def test_free_slots_are_free_and_inside(blocks: list[Network], taken: list[Network]) -> None:
    for slot in cidr.free_slots(blocks, taken)[:64]:
        assert cidr.overlaps(slot, taken) is None
        assert any(slot.subnet_of(b) for b in blocks)


@pytest.mark.parametrize(
    "text", ["10.0.0.0/15", "10.0.0.0/20", "8.8.0.0/16", "10.0.0.1/16", "10.100.0.0/16", "999.0.0.0/16", "10.0.0.0/33"]
)
def test_a_bad_vpc_range_is_refused(text: str) -> None:
    assert cidr.check_vpc(text) is not None


def test_a_good_vpc_range_is_taken() -> None:
    assert cidr.check_vpc("10.20.0.0/16") is None
