"""Trusts extended by statement: once is twice, what others wrote stays, what is wanted is there; add-on values merged without loss."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from instantstart.ensure.iam import trusts
from instantstart.ensure.installs import addon_offers, configurations

ISSUER = "https://oidc.eks.us-west-2.amazonaws.com/id/LIVE"
PROVIDER = "arn:x:iam::1:oidc-provider/oidc.eks.us-west-2.amazonaws.com/id/LIVE"
WANTED = (trusts.web_identity(PROVIDER, ISSUER, "ns", "account"), trusts.service("sagemaker"))
THEIRS = st.fixed_dictionaries(
    {
        "Effect": st.sampled_from(["Allow", "Deny"]),
        "Principal": st.fixed_dictionaries({"AWS": st.sampled_from(["arn:x:iam::1:root", "arn:x:iam::2:root"])}),
        "Action": st.sampled_from(["sts:AssumeRole", "sts:TagSession"]),
        "Sid": st.text("abc", min_size=1, max_size=3),
    }
)
OLDER = trusts.web_identity(PROVIDER.replace("LIVE", "OLD"), ISSUER.replace("LIVE", "OLD"), "ns", "account")
VALUES = st.recursive(
    st.one_of(st.integers(), st.booleans(), st.text(max_size=3), st.lists(st.integers(), max_size=2)),
    lambda inner: st.dictionaries(st.text("abc", min_size=1, max_size=2), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text("abc", min_size=1, max_size=2), VALUES, max_size=3)


@given(st.lists(THEIRS, max_size=3), st.booleans(), st.booleans())
def test_extending_keeps_what_others_wrote_and_twice_is_once(theirs: list[dict[str, Any]], older: bool, wanted: bool) -> None:
    before = {"Statement": [*theirs, *([OLDER] if older else []), *(WANTED if wanted else [])]}
    after = trusts.extended(before, WANTED)
    assert all(statement in after["Statement"] for statement in theirs)
    assert trusts.flaw(after, WANTED) is None
    assert OLDER not in after["Statement"]
    assert trusts.extended(after, WANTED) == after


@given(st.lists(THEIRS, max_size=2), st.sampled_from(["ns", "other"]), st.booleans())
def test_tokens_of_another_issuer_are_told_unless_they_are_an_older_form_of_ours(theirs: list[Any], namespace: str, wide: bool) -> None:
    statement = trusts.web_identity(
        PROVIDER.replace("LIVE", "GITHUB"), ISSUER.replace("LIVE", "GITHUB"), namespace, "*" if wide else "account"
    )
    document = {"Statement": [*theirs, statement, *WANTED]}
    is_older = namespace == "ns" and not wide
    assert trusts.foreign(document, WANTED) == ([] if is_older else [statement])
    kept = trusts.extended(document, WANTED)["Statement"]
    assert (statement in kept) is not is_older
    assert (trusts.flaw(document, WANTED) is None) is not is_older


def test_a_statement_says_the_same_in_any_spelling() -> None:
    spelt = {**WANTED[1], "Sid": "X", "Action": ["sts:AssumeRole"], "Principal": {"Service": ["sagemaker.amazonaws.com"]}}
    assert trusts.lacking({"Statement": spelt}, [WANTED[1]]) == []


@given(OBJECTS, OBJECTS)
def test_merged_values_hold_all_that_was_asked_and_again_changes_nothing(base: dict[str, Any], over: dict[str, Any]) -> None:
    made = configurations.merged(base, over)
    assert list(configurations.differences(over, made)) == []
    assert configurations.merged(made, over) == made
    assert configurations.canonical(made) == configurations.canonical(dict(reversed(made.items())))
    assert {key: made[key] for key in base if key not in over} == {key: base[key] for key in base if key not in over}


def test_versions_compare_by_number_and_copies_of_others_without_a_build() -> None:
    assert addon_offers.is_older("v1.9.0-eksbuild.1", "v1.10.0-eksbuild.1")
    assert addon_offers.is_older("v1.18.2-eksbuild.1", "v1.18.2-eksbuild.2")
    assert not addon_offers.is_older("v1.18.2", "v1.18.2-eksbuild.2")
    assert not addon_offers.is_older("v1.0.0", "")
