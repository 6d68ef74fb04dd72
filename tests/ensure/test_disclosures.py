"""What is a secret in a place that others read, and what only looks a little like one."""

from __future__ import annotations

import pytest

from instantstart.ensure.running import disclosures


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("HF_TOKEN", "x", True),
        ("WANDB_API_KEY", "0123", True),
        ("DB_PASSWORD", "word", True),
        ("AWS_SECRET_ACCESS_KEY", "a", True),
        ("NOTE", "see hf_abcdefghij", True),
        ("HTTPS_PROXY", "http://me:word@proxy:3128", True),
        ("HF_TOKEN", "", False),
        ("TOKENIZERS_PARALLELISM", "false", False),
        ("MAX_TOKENS", "4096", False),
        ("VLLM_LOGGING_LEVEL", "DEBUG", False),
        ("HTTPS_PROXY", "http://proxy:3128", False),
    ],
)
def test_a_variable_that_holds_a_secret_is_seen(name: str, value: str, secret: bool) -> None:
    assert disclosures.in_variable(name, value) is secret


@pytest.mark.parametrize(
    ("address", "named"),
    [
        ("https://me:word@host/a", True),
        ("https://token@host", True),
        ("https://host/a@b", False),
        ("http://[::1]:5000", False),
        ("http://[broken@", True),
    ],
)
def test_an_address_that_says_who_enters_is_seen(address: str, named: bool) -> None:
    assert disclosures.in_address(address) is named
