"""Every command, walked as the command line itself finds it: it says what it does, what each word means, and answers programs, too."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import typer
from tests.breach.access import commands
from tests.faces.test_cli_words import run

from instantstart.faces.cli import contexts, main

__all__ = ["run"]
Run = Callable[..., tuple[int, str, str]]
#: what answers nothing: a process that stays, and what is itself a text in a form of its own
NO_ANSWER = {
    "demo": "stays until it is stopped", "serve": "stays until it is stopped", "mcp": "speaks MCP on standard output",
    "mlflow export": "writes CSV", "audit export": "writes CSV or JSON Lines (--form)", "agent config": "prints another program's file",
}  # fmt: skip
COMMANDS = dict(commands())


def _groups(command: Any, words: tuple[str, ...] = ()) -> list[tuple[str, Any]]:
    if not hasattr(command, "commands"):
        return []
    inner = [found for name, each in command.commands.items() for found in _groups(each, (*words, name))]
    return [(" ".join(words), command), *inner]


EVERYTHING = [*_groups(typer.main.get_command(main.app)), *COMMANDS.items()]


def test_everything_says_in_a_sentence_what_it_does() -> None:
    assert len(EVERYTHING) > 190
    told = {words: " ".join((command.help or "").split()) for words, command in EVERYTHING}
    assert {words: text for words, text in told.items() if not text[:1].isupper() or not text.endswith(".")} == {}


def test_every_option_and_argument_has_a_help_text() -> None:
    options = {(words, each.name): each for words, command in EVERYTHING for each in command.params if each.name != "help"}
    assert len(options) > 700
    assert [place for place, each in options.items() if not (each.help or "").strip()] == []


def test_every_help_can_be_shown() -> None:
    for words, command in EVERYTHING:
        shown = command.make_context(words, [], resilient_parsing=True).get_help()
        assert shown.startswith("Usage: "), words


def test_what_answers_answers_programs_too() -> None:
    without = {words for words, command in COMMANDS.items() if not any("--output" in each.opts for each in command.params)}
    assert without == NO_ANSWER.keys()
    short = [words for words, command in COMMANDS.items() for each in command.params if "--output" in each.opts and "-o" not in each.opts]
    assert short == []


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("session revoke se-1 --yes", {"session": "se-1", "ended": True}),
        ("job form delete mine --yes", {"name": "mine", "kept": False}),
        ("context use there", {"context": "there", "url": "http://127.0.0.1:1"}),
        ("logout", {"signed_out": True, "context": "there"}),
    ],
)
def test_what_was_done_is_told_as_a_fact(run: Run, monkeypatch: pytest.MonkeyPatch, line: str, told: dict[str, Any]) -> None:
    monkeypatch.setattr("instantstart.faces.cli.client.Client.call", lambda *_, **__: None)
    contexts.remember("there", "http://127.0.0.1:1", "ist_x")
    status, out, err = run(*line.split(), "-o", "json")
    assert (status, err) == (0, "")
    assert json.loads(out) == told
