"""What requirements leave is judged as every single value would be."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from instantstart.ensure.capacity import node_pools

WORDS = ("1", "2", "3")
REQUIREMENTS = st.lists(
    st.one_of(
        st.fixed_dictionaries({"operator": st.sampled_from(["In", "NotIn"]), "values": st.lists(st.sampled_from(WORDS), min_size=1)}),
        st.fixed_dictionaries(
            {"operator": st.sampled_from(["Gt", "Lt"]), "values": st.lists(st.sampled_from(WORDS), min_size=1, max_size=1)}
        ),
        st.fixed_dictionaries({"operator": st.sampled_from(["Exists", "DoesNotExist"])}),
    ).map(lambda r: {"key": "k", **r}),
    max_size=4,
)


def _meets(value: str, requirement: dict[str, Any]) -> bool:
    values = requirement.get("values", [])
    told: dict[str, bool] = {
        "In": value in values,
        "NotIn": value not in values,
        "Gt": value > (values or [""])[0],
        "Lt": value < (values or [""])[0],
        "Exists": True,
        "DoesNotExist": False,
    }
    return told[str(requirement["operator"])]


@given(REQUIREMENTS, st.sets(st.sampled_from(WORDS), min_size=1))
def test_a_requirement_is_told_exactly_when_no_known_value_is_left(requirements: list[dict[str, Any]], known: set[str]) -> None:
    left = [value for value in known if all(_meets(value, each) for each in requirements)]
    assert bool(list(node_pools.unmeetable(requirements, {"k": known}))) is (not left)


def test_of_unknown_keys_only_a_contradiction_is_told() -> None:
    one = [{"key": "team", "operator": "In", "values": ["a"]}, {"key": "team", "operator": "NotIn", "values": ["b"]}]
    assert list(node_pools.unmeetable(one, {})) == []
    two = [*one, {"key": "team", "operator": "DoesNotExist", "values": []}, {"key": "team", "operator": "Exists", "values": []}]
    assert list(node_pools.unmeetable(two, {})) == [2]
