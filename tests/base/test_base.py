"""Problems, outcomes, the clock, settings and the log: small laws, all of them."""

from __future__ import annotations

import datetime as dt
import json
import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instantstart.base import clock, log, outcome, problems, settings


@pytest.mark.parametrize("kind", sorted(problems.KINDS))
def test_a_problem_survives_its_document(kind: str) -> None:
    told = problems.KINDS[kind](
        "thing.broke", "It broke.", hint="Mend it.", fields=[problems.Violation("/x", "bad")], evidence={"service": "eks"}
    )
    again = problems.from_document(json.loads(json.dumps(told.document())))
    assert type(again) is type(told)
    assert again.document() == told.document()
    assert told.document()["title"] == "Thing broke"


def test_an_unknown_kind_is_our_own_fault() -> None:
    assert isinstance(problems.from_document({"kind": "martian"}), problems.Broken)


def test_empty_parts_are_left_out() -> None:
    assert {"hint", "fields", "evidence"}.isdisjoint(problems.Busy("a.b", "c").document())


def test_pace_is_rare_far_from_the_end_and_close_near_it() -> None:
    assert outcome.pace(0, 600) == 15
    assert outcome.pace(415, 600) == 5
    assert outcome.pace(500, 600) == 2.5
    assert outcome.pace(1300, 600) == 15
    assert outcome.pace(0, 60, near_from=0) == 2.5


@given(st.floats(60, 1200))
def test_pace_asks_less_than_twelve_times_a_minute_over_a_typical_wait(typical: float) -> None:
    waited, looks = 0.0, 0
    while waited < typical:
        waited, looks = waited + outcome.pace(waited, typical), looks + 1
    assert looks / (waited / 60) <= 12


@given(st.floats(0, 5000), st.floats(1, 5000))
def test_pace_never_asks_more_than_twenty_four_times_a_minute(waited: float, typical: float) -> None:
    assert 2.5 <= outcome.pace(waited, typical) <= 15


def test_the_clock_divides_waits_and_multiplies_what_passed() -> None:
    fast = clock.Clock(30)
    assert fast.real_seconds(60) == 2
    assert fast.real_seconds(-1) == 0
    start = dt.datetime(2026, 11, 30, tzinfo=dt.UTC)
    assert fast.elapsed_seconds(start, start + dt.timedelta(seconds=2)) == 60
    assert fast.elapsed_seconds(fast.now()) < 60
    fast.sleep(0.001)
    assert clock.minutes(2) == 120


def test_settings_come_from_the_environment() -> None:
    chosen = settings.load({"INSTANTSTART_PORT": "0", "INSTANTSTART_DATA_DIR": "here", "INSTANTSTART_SIMULATED": "true", "OTHER": "x"})
    assert (chosen.port, chosen.data_dir, chosen.simulated) == (0, Path("here"), True)
    assert isinstance(settings.load(), settings.Settings)


def test_every_wrong_setting_is_named_at_once() -> None:
    with pytest.raises(problems.Invalid) as caught:
        settings.load({"INSTANTSTART_PORT": "many", "INSTANTSTART_CLOCK_RATE": "0"})
    assert {f.pointer for f in caught.value.fields} == {"/INSTANTSTART_PORT", "/INSTANTSTART_CLOCK_RATE"}


@pytest.mark.parametrize(
    "secret",
    [
        "k8s-aws-v1.aHR0cHM6Ly9zdHMudXMtd2VzdC0y",
        "X-Amz-Signature=0a1b2c3d",
        "Bearer abcdefghijklmnop",
        "AKIAIOSFODNN7EXAMPLE",
        "hf_abcdefghijklmnopqrstuvwxyz",
        "ist_abcdefghijklmnopqrst",
    ],
)
def test_a_secret_is_hidden_by_its_looks(secret: str) -> None:
    assert secret not in log.redact(f"before {secret} after")


def test_a_secret_is_hidden_by_its_key_and_a_client_token_is_not() -> None:
    told = log.redact(
        {"password": "x", "SecretAccessKey": "y", "client_token": "abc", "nested": [{"token": "z", "empty_token": ""}], "n": 1}
    )
    assert told == {
        "password": log.HIDDEN,
        "SecretAccessKey": log.HIDDEN,
        "client_token": "abc",
        "nested": [{"token": log.HIDDEN, "empty_token": ""}],
        "n": 1,
    }


def test_how_many_tokens_a_model_read_is_no_secret() -> None:
    assert log.redact({"prompt_tokens": 12, "max_tokens": 256, "tokens": "abc"}) == {
        "prompt_tokens": 12,
        "max_tokens": 256,
        "tokens": log.HIDDEN,
    }


def test_a_log_line_is_json_without_secrets(capsys: pytest.CaptureFixture[str]) -> None:
    before = logging.getLogger().handlers[:], logging.getLogger().level
    try:
        log.configure("INFO")
        log.get("test").info("token Bearer abcdefghijklmnop", extra={"facts": {"operation": "op_1", "password": "x"}})
        try:
            raise ValueError("inner")
        except ValueError:
            log.get("test").exception("failed")
    finally:
        logging.getLogger().handlers[:] = before[0]
        logging.getLogger().setLevel(before[1])
    first, second = (json.loads(line) for line in capsys.readouterr().err.strip().splitlines())
    assert first["operation"] == "op_1"
    assert "abcdefghijklmnop" not in first["message"]
    assert first["password"] == log.HIDDEN
    assert "ValueError: inner" in second["exception"]


def test_wrong_settings_are_told_in_our_words() -> None:
    with pytest.raises(problems.Invalid) as caught:
        settings.load({"INSTANTSTART_PORT": "many", "INSTANTSTART_LOG_FORMAT": "xml", "INSTANTSTART_OIDC_ISSUER": "example.com"})
    told = {each.pointer: each.message for each in caught.value.fields}
    assert told["/INSTANTSTART_PORT"] == "INSTANTSTART_PORT must be a whole number."
    assert told["/INSTANTSTART_LOG_FORMAT"] == "INSTANTSTART_LOG_FORMAT must be one of 'json' or 'text'."
    assert told["/INSTANTSTART_OIDC_ISSUER"].startswith("INSTANTSTART_OIDC_ISSUER has not the form that it needs. Issuer of the OpenID")


def test_the_administrators_token_of_the_settings(tmp_path: Path) -> None:
    good = "ist_" + "x" * 43
    (tmp_path / "token").write_text(f"{good}\n")
    assert settings.given_admin_token(settings.load({})) is None
    assert settings.given_admin_token(settings.load({"INSTANTSTART_ADMIN_TOKEN": good})) == good
    assert settings.given_admin_token(settings.load({"INSTANTSTART_ADMIN_TOKEN_FILE": str(tmp_path / "token")})) == good
    for wrong in ({"INSTANTSTART_ADMIN_TOKEN": "ist_short"}, {"INSTANTSTART_ADMIN_TOKEN_FILE": str(tmp_path / "none")}):
        with pytest.raises(problems.Invalid) as caught:
            settings.given_admin_token(settings.load(wrong))
        assert caught.value.code == "settings.admin_token"
        assert "ist_short" not in str(caught.value)
