"""The command line against a listening server: what it prints, how it ends, and that no traceback ever shows."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from instantstart.faces.cli import contexts, main

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No contexts, no server of this machine, no variables."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("INSTANTSTART_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.delenv("INSTANTSTART_URL", raising=False)
    monkeypatch.delenv("INSTANTSTART_TOKEN", raising=False)
    return tmp_path


@pytest.fixture
def run(alone: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs one command line: status, standard output, standard error."""

    def call(*arguments: str) -> tuple[int, str, str]:
        status = main.run(arguments)
        captured = capsys.readouterr()
        assert "Traceback" not in captured.out + captured.err
        return status, captured.out, captured.err

    return call


@pytest.fixture
def signed(served: Any, alone: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The command line is signed in as an administrator."""
    monkeypatch.setenv("INSTANTSTART_URL", served.url)
    monkeypatch.setenv("INSTANTSTART_TOKEN", served.token("admin"))
    return served


def test_without_a_server_it_says_how_to_start_one(run: Run) -> None:
    status, out, err = run("operation", "list")
    assert (status, out) == (3, "")
    assert "No InstantStart server answers at http://127.0.0.1:3099" in err
    assert "instantstart serve" in err


def test_a_wrong_token_is_a_refusal_and_a_wrong_use_is_a_usage_error(run: Run, signed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("operation", "get", "none")[0] == 2
    assert run("operation", "list", "--limit", "0")[0] == 2
    assert run("operation", "explode")[0] == 2
    assert run("cluster", "create", "--count", "many")[0] == 2
    monkeypatch.setenv("INSTANTSTART_TOKEN", "ist_wrong")
    status, _, err = run("operation", "list")
    assert status == 3
    assert "identity.token_unknown" in err
    monkeypatch.setenv("INSTANTSTART_URL", "not a url")
    assert run("operation", "list")[0] == 2


@pytest.mark.parametrize(
    "word", ["--help", "cluster --help", "operation --help", "token --help", "serve --help", "mcp --help", "--version"]
)
def test_help_needs_no_server(run: Run, word: str) -> None:
    status, out, _ = run(*word.split())
    assert status == 0
    assert out


@pytest.mark.parametrize("form", ["table", "json", "yaml"])
def test_every_form_of_a_list_and_of_one(run: Run, signed: Any, form: str) -> None:
    operation, _ = signed.room.engine.start("cluster.create", {}, caller="x", cluster=f"form-{form}")
    status, out, _ = run("operation", "list", "-o", form)
    assert status == 0
    assert operation.id in out
    readers: dict[str, Callable[[str], Any]] = {"json": json.loads, "yaml": yaml.safe_load}
    if form in readers:
        read = readers[form]
        assert operation.id in [o["id"] for o in read(out)]
        assert read(run("operation", "get", operation.id, f"--output={form}")[1])["cluster"] == f"form-{form}"
    else:
        assert "Wait for the nodes" in run("operation", "get", operation.id)[1]


def test_a_refusal_prints_every_wrong_field_and_as_json_the_document(run: Run, signed: Any) -> None:
    status, out, err = run("cluster", "create", "--count", "-1", "--tag", "A B")
    assert (status, out) == (2, "")
    for word in ("/zone", "/tag", "zone is required", "code: request.invalid"):
        assert word in err
    status, _, err = run("cluster", "create", "--tag", "A B", "-o", "json")
    assert status == 2
    assert json.loads(err)["code"] == "request.invalid"


def test_no_wait_comes_back_and_watch_follows_to_the_end(run: Run, signed: Any, tmp_path: Path) -> None:
    spec = tmp_path / "toy.yaml"
    spec.write_text("zone: use1-az1\ncount: 2\n")
    status, out, _ = run("cluster", "create", "-f", str(spec), "--tag", "watched", "--no-wait", "-o", "json")
    operation = json.loads(out)
    assert (status, operation["status"], operation["spec"]["count"]) == (0, "queued", 2)
    threading.Timer(0.3, signed.room.engine.move, (operation["id"], "running", "began")).start()
    threading.Timer(0.9, signed.room.engine.move, (operation["id"], "succeeded", "ended")).start()
    status, _, err = run("operation", "watch", operation["id"])
    assert status == 0
    assert "succeeded" in err


def test_a_failed_operation_is_status_one_and_tells_its_problem(run: Run, signed: Any) -> None:
    operation, _ = signed.room.engine.start("cluster.create", {}, caller="x", cluster="broken")
    problem = {"code": "quota.short", "detail": "The quota is 0.", "hint": "Ask for more.", "evidence": {"quota": "L-1"}}
    signed.room.engine.move(operation.id, "failed", "no", problem=problem, next_step="Raise it, then retry.")
    status, _, err = run("operation", "watch", operation.id)
    assert status == 1
    for word in ("The quota is 0.", "Ask for more.", "L-1", "Raise it, then retry."):
        assert word in err
    status, out, _ = run("operation", "watch", operation.id, "-o", "json")
    assert status == 1
    assert json.loads(out)["problem"]["code"] == "quota.short"


def test_retry_and_cancel_act_once(run: Run, signed: Any) -> None:
    operation, _ = signed.room.engine.start("cluster.create", {}, caller="x", cluster="again")
    signed.room.engine.move(operation.id, "failed", "no")
    status, out, _ = run("operation", "retry", operation.id, "--no-wait", "-o", "json")
    assert (status, json.loads(out)["status"]) == (0, "running")
    assert run("operation", "cancel", operation.id)[0] == 0
    assert signed.room.engine.get(operation.id).status == "cancelled"


def test_ctrl_c_leaves_the_operation_running_and_says_so(served: Any, tmp_path: Path) -> None:
    operation, _ = served.room.engine.start("cluster.create", {}, caller="x", cluster="interrupted")
    environment = {
        **os.environ,
        "INSTANTSTART_URL": served.url,
        "INSTANTSTART_TOKEN": served.token("viewer"),
        "XDG_CONFIG_HOME": str(tmp_path),
    }
    command = [sys.executable, "-m", "instantstart", "operation", "watch", operation.id]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it, and so would its children
    try:
        child = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    finally:
        signal.signal(signal.SIGINT, before)
    served.room.engine.move(operation.id, "running", "began", stages=_running(served.room.engine.get(operation.id)))
    assert child.stderr is not None
    first = child.stderr.readline()
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=30)
    assert "Make the network" in first
    assert "the operation goes on" in err
    assert f"operation watch {operation.id}" in err
    assert "Traceback" not in err
    assert child.returncode == 130
    assert served.room.engine.get(operation.id).status == "running"


def _running(operation: Any) -> Any:
    import dataclasses

    first, *rest = operation.stages
    return (dataclasses.replace(first, status=type(first.status)("running")), *rest)


def test_watching_outlives_a_restart_of_the_server(run: Run, signed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from instantstart.base import problems
    from instantstart.faces.cli import watch
    from instantstart.faces.cli.client import Client

    operation, _ = signed.room.engine.start("cluster.create", {}, caller="x", cluster="restart")
    signed.room.engine.move(operation.id, "succeeded", "ended")
    real, failures = Client.get, iter([problems.Unreachable("server.unreachable", "gone")] * 2)

    def flaky(self: Client, path: str, **query: Any) -> Any:
        failure = next(failures, None)
        if failure:
            raise failure
        return real(self, path, **query)

    monkeypatch.setattr(Client, "get", flaky)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    http = Client(contexts.resolve())
    states = [o["status"] for o in watch.changes(http, {"id": operation.id, "status": "running", "seq": 0}, 1)]
    http.close()
    assert states[-1] == "succeeded"


def test_a_token_is_printed_once_alone_on_standard_output(run: Run, signed: Any) -> None:
    status, out, _ = run("token", "create", "bot", "--role", "operator", "--kind", "agent", "--expires-in-days", "1")
    assert status == 0
    assert out.startswith("ist_")
    assert len(out.splitlines()) == 1
    assert "bot" in run("token", "list")[1]
    assert out.strip() not in run("token", "list", "-o", "json")[1]
    identity = next(i["id"] for i in json.loads(run("token", "list", "-o", "json")[1]) if i["name"] == "bot")
    assert run("token", "revoke", identity, "--yes")[0] == 0
    assert "token_revoke" in run("audit", "list", "--face", "cli")[1]
    assert run("token", "create", "bot", "--role", "emperor")[0] == 2


def test_a_token_is_told_with_its_end_and_whether_it_opens_anything(run: Run, signed: Any) -> None:
    told = run("token", "create", "short", "--role", "viewer", "--expires-in-days", "1")[2]
    assert "Token of short (viewer; ends 2" in told
    identity = json.loads(run("token", "list", "--text", "short", "-o", "json")[1])[0]["id"]
    run("token", "update", identity, "--disable", "--yes")
    told = run("token", "rotate", identity, "--yes")[2]
    assert "(viewer; ends 2" in told
    assert "it is disabled" in told


def test_logout_forgets_a_token_that_is_no_longer_known(run: Run, served: Any) -> None:
    token = served.token("viewer")
    assert run("login", served.url, "--token", token)[0] == 0
    served.room.store.identities.revoke(served.room.store.identities.find_token(token).id)
    assert run("me")[0] == 3
    assert run("logout")[0] == 0
    assert contexts.resolve().token is None


def test_login_keeps_a_checked_token_for_its_user_only(run: Run, served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("login", served.url, "--token", "ist_wrong")[0] == 3
    assert contexts.load()["contexts"] == {}
    status, _, err = run("login", served.url, "--token", served.token("viewer"), "--name", "there")
    assert status == 0
    assert "viewer" in err
    file = contexts.folder() / "contexts.json"
    assert file.stat().st_mode & 0o777 == 0o600
    assert json.loads(run("me", "-o", "json")[1])["role"] == "viewer"
    assert "ist_" not in run("context", "list", "-o", "json")[1] + run("context", "show", "-o", "json")[1]
    assert run("context", "use", "nowhere")[0] == 2
    monkeypatch.setenv("INSTANTSTART_URL", "http://127.0.0.1:9")
    assert contexts.resolve().token is None, "a saved token is never sent to another server"


def test_the_server_of_this_machine_is_found_without_login(run: Run, served: Any, alone: Path) -> None:
    folder = alone / "data"
    folder.mkdir()
    (folder / "address").write_text(served.url + "\n")
    (folder / "admin-token").write_text(served.token("admin") + "\n")
    assert json.loads(run("context", "show", "-o", "json")[1])["source"] == "data folder"
    assert json.loads(run("me", "-o", "json")[1])["role"] == "admin"


def test_a_deletion_without_a_person_and_without_yes_is_refused(run: Run, signed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from instantstart.faces.cli.client import Client

    asked: list[tuple[str, Any]] = []

    def call(self: Client, method: str, path: str, *, body: Any = None, query: Any = None) -> Any:
        asked.append((method, dict(query or {})))
        return {"remove": ["EKS cluster x"], "approval": "secret-approval"}

    monkeypatch.setattr(Client, "call", call)
    status, _, err = run("cluster", "delete", "x")
    assert status == 2
    assert "EKS cluster x" in err
    assert "secret-approval" not in err
    assert asked == [("DELETE", {"dry_run": True, "delete_data": None})]
    status, _, _ = run("cluster", "delete", "x", "--yes", "-o", "json")
    assert status == 0
    assert asked[-1][1]["approval"] == "secret-approval"


@pytest.mark.parametrize("tag", ["..", ".", ""])
def test_a_tag_never_becomes_another_address(run: Run, signed: Any, tag: str) -> None:
    assert run("cluster", "get", tag)[0] == 2


def test_control_characters_of_others_never_reach_the_terminal(run: Run, signed: Any) -> None:
    operation, _ = signed.room.engine.start("cluster.create", {}, caller="x", cluster="colour")
    signed.room.engine.move(operation.id, "running", "\x1b]0;owned\x07 \x1b[31mred [bold]not markup[/bold]")
    out = run("operation", "events", operation.id)[1]
    assert "\x1b" not in out
    assert "\x07" not in out
    assert "[bold]not markup[/bold]" in out


@pytest.mark.parametrize(("form", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_programs_get_the_same_words_and_a_terminal_none_that_move_it(run: Run, signed: Any, form: str, read: Callable[[str], Any]) -> None:
    hostile = "\x9b31mred \u202egnp.exe \x1b[2J 演示 👩‍👩‍👧 \u2028end"
    operation, _ = signed.room.engine.start("cluster.create", {}, caller="x", cluster="words")
    signed.room.engine.move(operation.id, "running", hostile)
    out = run("operation", "events", operation.id, "-o", form)[1]
    assert [c for c in out if not c.isprintable() and c != "\n"] == []
    assert hostile in [each["message"] for each in read(out)]


@pytest.mark.parametrize("agent", ["kiro", "claude", "generic"])
@pytest.mark.parametrize("way", ["http", "stdio", "container"])
def test_an_agents_configuration_is_whole_and_holds_no_secret(capsys: pytest.CaptureFixture[str], agent: str, way: str) -> None:
    line = ["agent", "config", "--for", agent, "--through", way, "--url", "http://127.0.0.1:4000", "--toolsets", "read,training"]
    assert main.run(line) == 0
    entry = json.loads(capsys.readouterr().out)["mcpServers"]["instantstart"]
    told = json.dumps(entry)
    assert "${INSTANTSTART_TOKEN}" in told
    assert "read,training" in told
    assert "ist_" not in told
    assert ("http://127.0.0.1:4000" in told) == (way != "container")
