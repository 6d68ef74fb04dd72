"""What the command line says of what was typed wrongly, of files, and how it asks before it destroys."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from instantstart.base import problems
from instantstart.faces.cli import agreeing, demo, files, main, paths
from instantstart.faces.cli.client import Client
from instantstart.faces.cli.demo import Guard, Process
from instantstart.faces.cli.steps import How

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs one command line without any server: status, standard output, standard error."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("INSTANTSTART_URL", "http://127.0.0.1:1")

    def call(*arguments: str) -> tuple[int, str, str]:
        status = main.run(arguments)
        captured = capsys.readouterr()
        assert "Traceback" not in captured.out + captured.err
        return status, captured.out, captured.err

    return call


@pytest.mark.parametrize(
    ("line", "told", "where"),
    [
        ("job list --limit abc", "--limit takes a whole number.", "instantstart job list --help"),
        ("demo --rate x", "--rate takes a number.", "instantstart demo --help"),
        ("serve --port 99999", "--port is 65535 at most.", "instantstart serve --help"),
        ("group scale g -- -1", "COUNT is 0 at least.", "instantstart group scale --help"),
        ("job list -o xml", "--output is one of: table, json, yaml.", "instantstart job list --help"),
        ("job list --limit", "--limit needs a value.", "--help"),
        ("job list --foo", "There is no option --foo.", "instantstart job list --help"),
        ("job get", "NAME is missing.", "instantstart job get --help"),
        ("job lst", "No such command 'lst'. Did you mean 'list'?", "instantstart job --help"),
    ],
)
def test_wrong_use_is_told_in_our_words_with_where_the_help_is(run: Run, line: str, told: str, where: str) -> None:
    status, out, err = run(*line.split())
    assert (status, out) == (2, "")
    assert f"Error: {told}" in err
    assert where in err
    assert "Input should" not in err


def test_a_program_gets_wrong_use_as_a_document(run: Run) -> None:
    status, _, err = run("job", "list", "--limit", "abc", "-o", "json")
    assert (status, json.loads(err)["code"]) == (2, "usage.wrong")


def test_a_group_alone_shows_its_help(run: Run) -> None:
    status, _, err = run("job")
    assert status == 2
    assert "Commands:" in err


@pytest.mark.parametrize(
    "line",
    ["job submit -f {}", "endpoint create x -f {}", "deployment create --name x --command-file {}", "group add -f {}",
     "cluster create -f {}", "job try-rules {}", "job form save x -f {}"],
)  # fmt: skip
@pytest.mark.parametrize(("name", "told"), [("absent.yaml", "There is no file"), (".", "is a folder, not a file")])
def test_a_file_that_cannot_be_read_is_named_and_no_number_is_shown(run: Run, tmp_path: Path, line: str, name: str, told: str) -> None:
    status, _, err = run(*line.format(tmp_path / name).split())
    assert status == 2
    assert told in err
    assert "code: file.unreadable" in err
    assert "Errno" not in err


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"a: [1\nb: 2\n", "is neither YAML nor JSON: it goes wrong at line 2"),
        (b"- a\n", "must hold the fields of the request"),
        (b"\xff\xfe", "is no text in UTF-8"),
    ],
)
def test_a_file_that_holds_no_fields_says_where(tmp_path: Path, text: bytes, told: str) -> None:
    path = tmp_path / "ask.yaml"
    path.write_bytes(text)
    with pytest.raises(problems.Invalid, match=told):
        files.fields_of(path)


def test_standard_input_is_a_file_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(read=lambda: '{"a": 1}'))
    assert files.fields_of(Path("-")) == files.json_of(Path("-")) == {"a": 1}


def test_json_that_is_none_and_a_place_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "body.json").write_text("{")
    with pytest.raises(problems.Invalid, match="it goes wrong at line 1, column 2"):
        files.json_of(tmp_path / "body.json")
    with pytest.raises(problems.Invalid, match="There is no folder") as caught:
        files.write(tmp_path / "none" / "out", [b"a"])
    assert caught.value.code == "file.unwritable"
    assert files.write(tmp_path / "out", [b"a", b"bc"]) == 3


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_no_name_becomes_another_address(name: str) -> None:
    with pytest.raises(problems.Invalid):
        paths.part(name)
    assert paths.joined("a/b", "..c") == "/a%2Fb/..c"


# --- asking


@pytest.fixture
def person(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Somebody at the terminal who answers."""

    def answers(word: str) -> None:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))
        monkeypatch.setattr(typer, "confirm", lambda *_, **__: word == "y")
        monkeypatch.setattr(typer, "prompt", lambda *_, **__: word)

    return answers


def test_one_way_of_asking(person: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    agreeing.ask("Go on?", yes=True, typed="llm")
    person("y")
    agreeing.ask("Go on?", yes=False)
    for answer, typed in (("n", None), ("y", "llm")):
        person(answer)
        with pytest.raises(problems.Invalid, match="nothing was changed"):
            agreeing.ask("Go on?", yes=False, typed=typed)
    person("llm")
    agreeing.ask("Go on?", yes=False, typed="llm")
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: False))
    with pytest.raises(problems.Invalid, match="Nobody is there") as caught:
        agreeing.ask("Go on?", yes=False)
    assert caught.value.code == "plan.not_confirmed"


class Served:
    """A client whose server answers a plan, then an operation."""

    def __init__(self, **plan: Any) -> None:
        self.plan, self.calls = plan, list[tuple[str, str, dict[str, Any]]]()

    def call(self, method: str, path: str, *, body: Any = None, query: Any = None) -> Any:
        self.calls.append((method, path, {k: v for k, v in (query or {}).items() if v is not None}))
        return self.plan if (query or {}).get("dry_run") else {"name": "it"}


@pytest.mark.parametrize(("method", "plan", "asked"), [("DELETE", {}, 1), ("POST", {}, 0), ("POST", {"approval": "a"}, 1)])
def test_what_needs_no_approval_is_not_asked_about(
    person: Callable[[str], None], method: str, plan: dict[str, Any], asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    person("y")
    heard: list[str] = []

    def confirm(question: str, **_: Any) -> bool:
        heard.append(question)
        return True

    monkeypatch.setattr(typer, "confirm", confirm)
    http: Any = Served(**plan)
    agreeing.begin_agreed(http, (method, "/x"), How(query={"drain": 5}), yes=False)
    assert len(heard) == asked
    assert http.calls == [(method, "/x", {"drain": 5, "dry_run": True}), (method, "/x", {"drain": 5, **plan})]


# --- the demo's children


class Child:
    """A process that ends when it is told to."""

    def __init__(self) -> None:
        self.returncode: int | None = None

    def poll(self) -> int | None:
        return self.returncode


@pytest.mark.parametrize(("status", "told"), [(-9, "The control-plane was ended by SIGKILL"), (1, "The control-plane ended with status 1")])
def test_the_demo_ends_with_a_child_that_was_killed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, status: int, told: str) -> None:
    monkeypatch.setattr(demo, "_GUARD_SECONDS", 0.01)
    child: Any = Child()

    def stay() -> None:
        with Guard() as guard, guard.watch(Process(child, tmp_path / "control-plane.log")):
            threading.Timer(0.05, lambda: setattr(child, "returncode", status)).start()
            demo._stay(guard)

    with pytest.raises(problems.Broken, match=told) as caught:
        stay()
    assert caught.value.code == "demo.process_ended"
    assert "control-plane.log" in str(caught.value.hint)


def test_a_child_that_the_demo_ends_itself_is_no_loss(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(demo, "_GUARD_SECONDS", 0.01)
    child: Any = Child()
    with Guard() as guard:
        with guard.watch(Process(child, tmp_path / "control-plane.log")):
            pass
        child.returncode = 0
        time.sleep(0.1)  # many looks of the guard
        assert guard.lost is None


@pytest.mark.parametrize("words", [["session", "revoke", "--yes"], ["operation", "get"], ["diagnose", "node"], ["diagnose", "endpoint"]])
def test_a_name_is_one_part_of_the_address(words: list[str], run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def answer(self: Client, path: str, **_: Any) -> Any:
        asked.append(path)
        raise problems.NotFound("a.b", "There is none.")

    monkeypatch.setattr(Client, "get", answer)
    monkeypatch.setattr(Client, "call", lambda self, method, path, **more: answer(self, path, **more))
    monkeypatch.setenv("INSTANTSTART_TOKEN", "t")
    cluster = ["--cluster", "demo"] if words[0] == "diagnose" else []
    run(*words, "id-1/sessions?x", *cluster)
    assert [path for path in asked if "id-1%2Fsessions%3Fx" in path] == asked != []
