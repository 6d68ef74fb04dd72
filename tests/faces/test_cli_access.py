"""Signing in and letting in from the command line: names for ids, questions before what ends, ends that are kept, files that stay."""

from __future__ import annotations

import functools
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

from instantstart.base import problems
from instantstart.faces.cli import files, main, show

Run = Callable[..., tuple[int, str, str]]


@functools.cache
def _commands() -> Any:
    return BUILD(main.app)


BUILD = typer.main.get_command


@pytest.fixture
def run(served: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs one command line as an administrator, nobody at the terminal: status, standard output, standard error."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("INSTANTSTART_DATA_DIR", str(tmp_path / "none"))
    monkeypatch.setenv("INSTANTSTART_URL", served.url)
    monkeypatch.setenv("INSTANTSTART_TOKEN", served.token("admin"))
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    monkeypatch.setattr(typer.main, "get_command", lambda _app: _commands())  # it is built anew for each line otherwise

    def call(*arguments: str) -> tuple[int, str, str]:
        status = main.run(arguments)
        captured = capsys.readouterr()
        assert "Traceback" not in captured.out + captured.err
        return status, captured.out, captured.err

    return call


def _made(run: Run, name: str, *more: str) -> str:
    return str(json.loads(run("token", "create", name, "--role", "viewer", *more, "-o", "json")[1])["identity"]["id"])


def test_an_identity_is_meant_by_its_name_or_its_id(run: Run) -> None:
    grace = _made(run, "grace")
    assert run("token", "update", "grace", "--note", "tools")[0] == 0
    assert json.loads(run("token", "get", grace, "-o", "json")[1])["note"] == "tools"
    status, _, err = run("token", "update", "gracy", "--note", "x")
    assert (status, "Nobody has the name or id gracy" in err, "instantstart token list" in err) == (2, True, True)
    other = _made(run, "grace")
    status, _, err = run("token", "revoke", "grace", "--yes")
    assert (status, grace in err, other in err, "Say the id" in err) == (2, True, True, True)
    assert run("token", "revoke", other, "--yes")[0] == 0
    assert run("token", "revoke", "grace", "--yes")[0] == 0, "the one that was ended is not meant"


def test_an_update_of_nothing_says_what_can_be_changed(run: Run) -> None:
    status, out, err = run("token", "update", "whoever")
    assert (status, out) == (2, "")
    assert "--name, --role, --note, --disable or --enable" in err


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("token revoke linus", "linus (viewer, person): its token opens nothing any more, for good"),
        ("token rotate linus", "its present token opens nothing any more; a new one is shown once"),
        ("token update linus --disable", "opens nothing until token update --enable"),
        ("session revoke se-1", "must sign in again"),
        ("session revoke-all linus", "Its token goes on"),
        ("cluster forget hypd-1", "on AWS it goes on, and costs"),
        ("job form delete mine", "The saved form mine is lost"),
        ("database restore backup.tar.gz", "what happened since is then missing"),
    ],
)
def test_what_ends_something_says_what_stops_and_asks(run: Run, line: str, told: str) -> None:
    if "linus" in line and not json.loads(run("token", "list", "--text", "linus", "-o", "json")[1]):
        _made(run, "linus")
    status, out, err = run(*line.split())
    assert (status, out) == (2, "")
    assert told in err
    assert "Nobody is there to agree to this; nothing was changed." in err
    assert "Hint: Add --yes" in err


def test_a_rotated_token_lasts_as_long_as_the_old_one_was_given(run: Run, served: Any) -> None:
    identities = served.room.store.identities
    ada = _made(run, "ada", "--expires-in-days", "30")
    for _ in range(2):
        told = run("token", "rotate", "ada", "--yes")[2]
        row = identities.find(ada)
        assert round(row.lifetime.total_seconds()) == 30 * 86_400
        assert f"ends {show.moment(row.expires_at.isoformat())}" in told
    assert "does not end" in run("token", "rotate", "ada", "--never-expires", "--yes")[2]
    assert identities.find(ada).lifetime is None
    assert "does not end" in run("token", "rotate", "ada", "--yes")[2]
    assert "(viewer; ends 2" in run("token", "rotate", "ada", "--expires-in-days", "2", "--yes")[2]
    status, _, err = run("token", "rotate", "ada", "--expires-in-days", "2", "--never-expires", "--yes")
    assert (status, "cannot both end and never end" in err) == (2, True)


def test_login_without_a_token_and_a_terminal_is_one_clear_sentence(run: Run, served: Any, tmp_path: Path, monkeypatch: Any) -> None:
    token = served.token("viewer")
    monkeypatch.delenv("INSTANTSTART_TOKEN")
    status, out, err = run("login", served.url)
    assert (status, out) == (2, "")
    assert err.splitlines()[0] == "Error: No token was given, and nobody is there to type one."
    assert "--token-file FILE, or INSTANTSTART_TOKEN, or --token -" in err
    assert "empty" in run("login", served.url, "--token", "-")[2]
    file = tmp_path / "token"
    file.write_text(f"{token}\n")
    assert run("login", served.url, "--token-file", str(file))[0] == 0
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{token}\n"))
    assert run("login", served.url, "--token", "-")[0] == 0


def test_a_file_that_is_there_is_not_overwritten_unasked(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "audit.csv"
    assert run("audit", "export", str(file))[0] == 0
    file.write_text("mine")
    status, _, err = run("audit", "export", str(file))
    assert (status, file.read_text(), "--force" in err) == (1, "mine", True)
    assert run("audit", "export", str(file), "--force")[0] == 0
    assert file.read_text().startswith("number,at,")
    assert file.stat().st_mode & 0o777 == 0o600
    with pytest.raises(problems.Conflict, match="is there already"):
        files.write(file, [b"x"])
    assert files.write(Path("/dev/null"), [b"x", b"yz"]) == 3


def test_moments_are_said_in_plain_words(run: Run) -> None:
    _made(run, "recent")
    for word in ("2h", "yesterday", "2026-01-01", "2026-01-01T00:00:00Z", "90m ago"):
        assert "token_create" in run("audit", "list", "--after", word, "--target", "recent")[1]
    assert run("audit", "list", "--before", "2020-01-01")[2] == "No line matches.\n"
    status, _, err = run("audit", "list", "--after", "last tuesday")
    assert status == 2
    assert "--after: 'last tuesday' is no moment: write a moment such as 2026-11-30T12:00:00Z" in err


def test_no_sentence_of_a_refusal_is_printed_twice(run: Run) -> None:
    one = run("token", "create", "x", "--expires-in-days", "0")[2]
    assert one.count("must be at least 1") == 1
    several = run("token", "create", "x" * 99, "--role", "emperor", "--expires-in-days", "0")[2]
    for part in ("at most 80 characters", "must be at least 1", "one of 'viewer', 'operator' or 'admin'"):
        assert several.count(part) == 1
    assert several.startswith("Error: The request is not valid:")
