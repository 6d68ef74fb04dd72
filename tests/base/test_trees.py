"""Nested mappings: what a patch changes, it changes; what it leaves out, stays."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from instantstart.base import trees

LEAVES = st.one_of(st.integers(0, 3), st.text("ab", max_size=2), st.lists(st.integers(0, 2), max_size=2))
TREES = st.recursive(
    st.dictionaries(st.sampled_from("abc"), LEAVES, max_size=3),
    lambda inner: st.dictionaries(st.sampled_from("abc"), st.one_of(LEAVES, inner), max_size=3),
    max_leaves=8,
)


def pruned(tree: dict[str, Any]) -> dict[str, Any]:
    """Without groups that hold nothing: a merge leaves none."""
    made = {key: pruned(value) if isinstance(value, dict) else value for key, value in tree.items()}
    return {key: value for key, value in made.items() if value != {}}


@given(TREES, TREES)
def test_the_patch_between_two_trees_makes_the_one_of_the_other(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert pruned(trees.merge(one, trees.patch_between(one, other))) == pruned(other)


@given(TREES)
def test_nothing_is_patched_between_equals(tree: dict[str, Any]) -> None:
    assert trees.patch_between(tree, tree) == {}
    assert trees.differences(tree, tree) == {}
    assert trees.missing(tree, tree) == {}


def test_a_merge_keeps_what_is_left_out_and_takes_away_what_is_null() -> None:
    before = {"a": {"b": 1, "c": 2}, "d": 3}
    assert trees.merge(before, {"a": {"b": None, "e": 4}}) == {"a": {"c": 2, "e": 4}, "d": 3}
    assert trees.merge(before, {"a": None}) == {"d": 3}
    assert trees.merge({"env": {"x": "1"}}, {"env": {"y": "2"}}, {"env"}) == {"env": {"y": "2"}}


def test_places_are_dotted() -> None:
    tree: dict[str, Any] = {}
    trees.put(tree, "a.b.c", 1)
    assert tree == {"a": {"b": {"c": 1}}}
    assert trees.get(tree, "a.b.c") == 1
    assert trees.get(tree, "a.x.c") is None
    assert trees.get({"a": 1}, "a.b") is None
    trees.drop(tree, "a.b.c")
    trees.drop(tree, "a.nothing.there")
    trees.drop(tree, "a")
    assert tree == {}
    assert trees.flat({"a": {"b": None, "c": [1]}, "env": {"x": "y"}}, {"env"}) == {"a.c": [1], "env": {"x": "y"}}


def test_what_is_missing_is_told_with_both_sides_and_more_is_no_matter() -> None:
    assert trees.missing({"a": {"b": 1}, "c": 2}, {"a": {"b": 3, "more": 1}}) == {"a.b": (1, 3), "c": (2, None)}
    assert trees.differences({"a": 1, "b": {"c": 2}}, {"a": 1, "b": {"c": 3}, "d": 4}) == {"b.c": (2, 3), "d": (None, 4)}
