"""Every derived name fits its limit, and no two tags share one."""

from __future__ import annotations

import datetime as dt
import re
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instantstart.base import names

_ALPHABET = string.ascii_letters + string.digits + "._-"
tags = st.text(_ALPHABET, min_size=1, max_size=names.TAG_LIMIT).filter(lambda t: names.check_tag(t) is None)
LIMITS = {
    "eks_cluster": (100, r"[0-9A-Za-z][A-Za-z0-9-_]*"),
    "stack": (128, r"[a-zA-Z][-a-zA-Z0-9]*"),
    "hyperpod_cluster": (63, r"[a-zA-Z0-9](-*[a-zA-Z0-9])*"),
    "execution_role": (64, r"[\w+=,.@-]+"),
    "s3_csi_role": (64, r"[\w+=,.@-]+"),
    "eks_role": (64, r"[\w+=,.@-]+"),
    "scripts_bucket": (63, r"sagemaker-[a-z0-9-]+[a-z0-9]"),
    "data_bucket": (63, r"[a-z0-9][a-z0-9-]+[a-z0-9]"),
    "persistent_volume": (63, r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"),
}


@settings(deadline=None)
@given(tags)
def test_every_name_fits_its_limit_and_its_pattern(tag: str) -> None:
    derived = names.Names(tag, "us-west-2", "111122223333")
    for attribute, (limit, pattern) in LIMITS.items():
        name = getattr(derived, attribute)
        assert len(name) <= limit, attribute
        assert re.fullmatch(pattern, name, re.ASCII), (attribute, name)


@settings(deadline=None)
@given(tags, tags, st.sampled_from(sorted(LIMITS)))
def test_two_tags_never_share_a_name(one: str, other: str, attribute: str) -> None:
    if one != other:
        pair = [getattr(names.Names(t, "us-west-2", "111122223333"), attribute) for t in (one, other)]
        assert pair[0] != pair[1]


@pytest.mark.parametrize("attribute", sorted(LIMITS))
def test_tags_equal_in_their_first_forty_characters_differ(attribute: str) -> None:
    derived = {getattr(names.Names("a" * 40 + end, "us-west-2", "1" * 12), attribute) for end in ("", "b", "c" * 60, "c" * 59 + "d")}
    assert len(derived) == 4


@pytest.mark.parametrize("attribute", ["execution_role", "s3_csi_role", "eks_role", "scripts_bucket", "data_bucket"])
def test_global_names_differ_by_region_and_account(attribute: str) -> None:
    places = [("us-west-2", "1" * 12), ("us-east-1", "1" * 12), ("us-west-2", "2" * 12)]
    assert len({getattr(names.Names("demo", region, account), attribute) for region, account in places}) == 3


@pytest.mark.parametrize("tag", ["-demo", "demo-", "démo", "演示", "🚀", "demo ", "", "a" * 101, "a/b", "."])
def test_a_bad_tag_is_refused_with_a_reason(tag: str) -> None:
    wrong = names.check_tag(tag)
    assert wrong is not None
    assert wrong.pointer == "/tag"


@pytest.mark.parametrize("length", [1, 16, 17, 38, 49, 63, 64, 100])
def test_every_length_up_to_100_is_taken(length: int) -> None:
    assert names.check_tag("a" * length) is None


@pytest.mark.parametrize("tag", ["Team_A.prod", "de--mo", "xn--demo", "UPPER", "1"])
def test_unusual_tags_are_taken(tag: str) -> None:
    assert names.check_tag(tag) is None


@settings(deadline=None)
@given(st.text(max_size=120))
def test_a_suggestion_is_valid_or_empty(text: str) -> None:
    better = names.suggest(text)
    assert better == "" or names.check_tag(better) is None


def test_a_generated_tag_carries_the_date() -> None:
    made = names.generate_tag(dt.date(2026, 11, 30))
    assert made.startswith("hypd-1130-")
    assert names.check_tag(made) is None


def test_the_compute_subnet_and_the_tags() -> None:
    derived = names.Names("demo", "us-west-2", "1" * 12)
    assert derived.compute_subnet("us-west-2b") == "hp-compute-us-west-2b"
    assert derived.tags() == {"instantstart.dev/cluster": "demo"}


_LABEL_VALUE = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_SERVICE_NAME = r"[a-z]([-a-z0-9]{0,48}[a-z0-9])?"
MODELS = (
    "meta-llama/Llama-3.1-8B-Instruct", "meta-llama-Llama-3.1-8B-Instruct", "Qwen/Qwen3-0.6B", "qwen/qwen3-0.6b", "7b", "m-7b", "a" * 100,
    "m-7b-925a7bf1", "/fsx/models/llama", "s3://bucket/models/llama/", "", " ", ".", "--kubeconfig=/tmp/x", "a;id", "$(id)", "a\nb", "模型",
    "a" * 101, "deepseek-ai/DeepSeek-R1-0528", "google/gemma-3-27b-it", "_x_", "x-12345678", "0", "0-0",
)  # fmt: skip


@pytest.mark.parametrize("model", MODELS)
def test_a_model_id_of_any_shape_becomes_a_label_and_a_name(model: str) -> None:
    assert re.fullmatch(_LABEL_VALUE, names.label_value(model), re.ASCII), names.label_value(model)
    assert re.fullmatch(_SERVICE_NAME, names.service_name(model), re.ASCII), names.service_name(model)


@settings(deadline=None)
@given(st.text(max_size=120), st.text(max_size=120))
def test_two_model_ids_never_share_a_label_or_a_name(one: str, other: str) -> None:
    for derive, pattern in ((names.label_value, _LABEL_VALUE), (names.service_name, _SERVICE_NAME)):
        assert re.fullmatch(pattern, derive(one), re.ASCII), derive(one)
        assert (derive(one) == derive(other)) == (one == other)


def test_the_model_ids_of_the_table_do_not_collide() -> None:
    assert len({names.label_value(m) for m in MODELS}) == len({names.service_name(m) for m in MODELS}) == len(MODELS)
