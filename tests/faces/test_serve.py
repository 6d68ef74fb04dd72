"""The server as a process: what it prints, what it writes, how it ends, and what it says when it cannot start."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest

from instantstart.faces.cli import demo


@dataclass
class Server:
    """A running control plane."""

    child: subprocess.Popen[str]
    url: str
    sign_in: str
    folder: Path

    @property
    def admin(self) -> dict[str, str]:
        """The first administrator's header."""
        return {"Authorization": f"Bearer {(self.folder / 'admin-token').read_text().strip()}"}

    def stop(self) -> int:
        """End it as a container does; its status."""
        self.child.send_signal(signal.SIGTERM)
        return self.child.wait(timeout=30)


def command(folder: Path, *arguments: str, **variables: str) -> tuple[list[str], dict[str, str]]:
    """The command line and the environment of a server of its own."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "INSTANTSTART_"))}
    environment = {**kept, "INSTANTSTART_DATA_DIR": str(folder), "INSTANTSTART_REGION": "us-west-2", **variables}
    return [sys.executable, "-m", "instantstart", "serve", "--port", "0", *arguments], environment


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Server]:
    """A server that has said that it is ready."""
    line, environment = command(folder)
    child = subprocess.Popen(line, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert child.stdout is not None
    told = [child.stdout.readline().strip() for _ in range(3)]
    try:
        assert told[0].startswith("InstantStart is ready: http://127.0.0.1:"), told
        yield Server(child, told[0].split(": ", 1)[1], told[1].split(": ", 1)[1], folder)
    finally:
        child.kill()
        child.wait()
        child.stdout.close()


def test_it_is_ready_when_it_says_so_and_keeps_its_secrets_to_itself(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with running(folder) as server:
        assert httpx2.get(f"{server.url}/readyz").json() == {"status": "ok"}
        assert httpx2.get(f"{server.url}/api/v1/me", headers=server.admin).json()["role"] == "admin"
        assert (folder / "address").read_text().strip() == server.url
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        for file in folder.iterdir():
            assert stat.S_IMODE(file.stat().st_mode) & 0o077 == 0, file.name
        second, environment = command(folder)
        refused = subprocess.run(second, env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert refused.returncode == 1
        assert "engine.folder_in_use" in refused.stderr
        assert "Traceback" not in refused.stderr + refused.stdout
        assert server.stop() == 0


def test_a_session_and_a_token_outlive_a_restart(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        code = server.sign_in.partition("/login#code=")[2]
        signed = httpx2.post(f"{server.url}/api/v1/session", json={"code": code}, headers={"Origin": server.url})
        cookie = signed.headers["set-cookie"].partition(";")[0]
        before = (tmp_path / "admin-token").read_text()
        server.child.kill()
    with running(tmp_path) as server:
        assert httpx2.get(f"{server.url}/api/v1/me", headers={"Cookie": cookie}).json()["face"] == "console"
        assert httpx2.get(f"{server.url}/api/v1/me", headers=server.admin).status_code == 200
        assert (tmp_path / "admin-token").read_text() == before
        assert len(httpx2.get(f"{server.url}/api/v1/tokens", headers=server.admin).json()["items"]) == 1


@pytest.mark.parametrize(
    ("arguments", "variables", "status", "told"),
    [
        (("--port", "70000"), {}, 2, "--port"),
        ((), {"INSTANTSTART_PORT": "many"}, 2, "INSTANTSTART_PORT"),
        ((), {"INSTANTSTART_DATABASE_URL": "mysql://nowhere"}, 2, "Error"),
        ((), {"INSTANTSTART_DATABASE_URL": "postgresql://127.0.0.1:9/x"}, 3, "store.unreachable"),
    ],
)
def test_a_wrong_start_is_a_sentence_and_a_status(
    tmp_path: Path, arguments: tuple[str, ...], variables: dict[str, str], status: int, told: str
) -> None:
    line, environment = command(tmp_path, *arguments, **variables)
    ended = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert told in ended.stderr
    assert "Traceback" not in ended.stderr + ended.stdout
    assert ended.returncode == status


def test_a_taken_port_is_said_to_be_taken(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        line, environment = command(tmp_path, "--port", str(taken.getsockname()[1]))
        ended = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert "server.port_taken" in ended.stderr


def test_without_credentials_it_starts_and_says_what_is_missing_when_asked(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        answer = httpx2.get(f"{server.url}/api/v1/clusters", headers=server.admin, timeout=60)
        assert answer.status_code in (401, 403, 502)
        assert answer.headers["content-type"] == "application/problem+json"
        assert "Traceback" not in answer.text


def test_two_demos_stand_side_by_side_when_told_to_take_free_ports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with demo.sandbox(tmp_path / "one", 1.0, 0) as one, demo.sandbox(tmp_path / "two", 1.0, 0) as two:
        assert one["AWS_ENDPOINT_URL"] != two["AWS_ENDPOINT_URL"]
