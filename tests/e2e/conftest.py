"""A world for a browser: a sandbox and a control plane of their own, and the system's Chromium."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Page, expect
from tests.aws import ledgers
from tests.clusters.conftest import QUICK

import instantstart
import instantstart_sandbox
from instantstart.faces.cli import demo
from instantstart_sandbox.world.settings import Settings as Weather

RATE = 60.0
#: the first look at an account reads some hundred quotas, and the machine may be a busy one
expect.set_options(timeout=30_000)
_PATIENCE_MS = 90_000
#: a machine that others need, too, may take its time
READY_SECONDS = 180.0
_LOOK_SECONDS = 0.1
#: pytest-base-url, which pytest-playwright brings, declares its fixture in a way that pytest 9 warns of
_PLUGINS_OWN = "ignore:Session-scoped fixtures defined as instance methods"


def _chromium() -> str | None:
    names = (os.environ.get("INSTANTSTART_CHROMIUM", ""), "chromium", "chromium-browser", "google-chrome")
    return next((found for name in names if name and (found := shutil.which(name))), None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test here drives a browser; without one, or without the built console, it is skipped and says so."""
    missing = None
    if _chromium() is None:
        missing = "no Chromium here: install it, or set INSTANTSTART_CHROMIUM"
    elif not (Path(instantstart.__file__).parent / "web" / "index.html").is_file():
        missing = "the console is not built: make ui"
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.e2e)
            item.add_marker(pytest.mark.filterwarnings(_PLUGINS_OWN))
            if missing:
                item.add_marker(pytest.mark.skip(reason=missing))


class ControlPlane:
    """The product's own process, which a test may kill and start again at the same address."""

    def __init__(self, folder: Path, aws: Mapping[str, str]) -> None:
        self.folder = folder
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._log = folder / "control-plane.log"
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "INSTANTSTART_"))}
        self._environment = {**kept, **self._settings(), **aws}
        self._child: subprocess.Popen[bytes] | None = None

    def _settings(self) -> dict[str, str]:
        return {
            "INSTANTSTART_DATA_DIR": str(self.folder / "data"),
            "INSTANTSTART_PORT": str(self.port),
            "INSTANTSTART_CLOCK_RATE": str(RATE),
            "INSTANTSTART_SIMULATED": "true",
            "INSTANTSTART_BUNDLES_DIR": str(Path(instantstart_sandbox.__file__).parent / "bundles"),
        }

    def start(self) -> None:
        """Start it and wait until it answers."""
        with self._log.open("ab") as output:
            command = [sys.executable, "-m", "instantstart", "serve"]
            self._child = subprocess.Popen(command, env=self._environment, stdout=output, stderr=subprocess.STDOUT)
        until = time.monotonic() + READY_SECONDS
        while time.monotonic() < until and self._child.poll() is None:
            try:
                if httpx2.get(f"{self.url}/readyz").status_code == 200:
                    return
            except httpx2.HTTPError:
                pass
            time.sleep(_LOOK_SECONDS)
        raise AssertionError(f"the control plane did not start: {self._log.read_text()[-2000:]}")

    def kill(self) -> None:
        """Kill it as the kernel would when memory is short: at once, with no word."""
        assert self._child is not None
        self._child.kill()
        self._child.wait(timeout=15)

    def stop(self) -> None:
        """End it in order."""
        if self._child is not None and self._child.poll() is None:
            self._child.terminate()
            try:
                self._child.wait(timeout=15)
            except subprocess.TimeoutExpired:
                self.kill()

    @property
    def token(self) -> str:
        """The administrator's token."""
        return (self.folder / "data" / "admin-token").read_text().strip()

    def sign_in_link(self) -> str:
        """The one-time link of its last start."""
        mark = "Sign in once, within 10 minutes: "
        return [line.removeprefix(mark) for line in self._log.read_text().splitlines() if line.startswith(mark)][-1]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Account:
    """The admin door of the sandbox behind a control plane."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint

    def ask(self, verb: str) -> Any:
        """One reading verb."""
        return httpx2.get(f"{self.endpoint}/_sandbox/{verb}", timeout=60).json()

    def act(self, verb: str, **body: Any) -> Any:
        """One acting verb."""
        answer = httpx2.post(f"{self.endpoint}/_sandbox/{verb}", json=body, timeout=60)
        assert answer.status_code == 200, answer.text
        return answer.json()


@contextlib.contextmanager
def a_world(folder: Path, **settings: str) -> Iterator[tuple[ControlPlane, Account]]:
    """An empty account and a control plane for it. At its end the account's ledgers must be empty."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CI", "true")  # the sandbox takes a free port
        with demo.sandbox(folder, RATE) as aws:
            patch.undo()
            account = Account(aws["AWS_ENDPOINT_URL"])
            account.act("settings", check_answers=True)
            plane = ControlPlane(folder, {**aws, **settings})
            plane.start()
            try:
                yield plane, account
                ledgers.check(account)
            finally:
                plane.stop()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """An empty account and a control plane for it."""
    with a_world(tmp_path_factory.mktemp("console")) as (plane, _):
        yield plane


@dataclass
class Ready:
    """A control plane with a ready cluster, and the sandbox behind it."""

    plane: ControlPlane
    account: Account
    tag: str = "ready"

    @property
    def url(self) -> str:
        """Where the console is."""
        return self.plane.url

    def call(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """The document of a call of the administrator's that succeeds."""
        signed = {"Authorization": f"Bearer {self.plane.token}"}
        answer = httpx2.request(method, f"{self.url}/api/v1{path}", json=body, params=query, headers=signed, timeout=60)
        assert answer.status_code < 300, answer.text
        return answer.json()

    def done(self, operation: Any) -> None:
        """Wait until an operation has succeeded; one that only the machine was too slow for goes on."""
        path = f"/operations/{operation['id']}"
        while (seen := self.call("GET", path))["status"] != "succeeded":
            assert seen["status"] not in ("failed", "cancelled"), seen["problem"]
            if seen["status"] == "blocked":
                assert seen["problem"]["code"] == "operation.stage_overdue", seen["problem"]
                self.call("POST", f"{path}:retry")
            time.sleep(_LOOK_SECONDS)

    def sign_in(self, page: Page) -> Page:
        """As the administrator."""
        return sign_in(page, self.plane, self.plane.token)


@pytest.fixture(scope="session")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ready]:
    """One ready cluster with one node, made once through REST in a world that is quick."""
    with a_world(tmp_path_factory.mktemp("ready")) as (plane, account):
        account.act("settings", **{**Weather().dump(), **QUICK})
        made = Ready(plane, account)
        ask = {"tag": made.tag, "zone": "usw2-az2", "instance_type": "ml.g5.8xlarge", "instance_count": 1}
        made.done(made.call("POST", "/clusters", ask))
        yield made


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args: dict[str, Any]) -> dict[str, Any]:
    """The system's Chromium, with nothing that reaches out."""
    quiet = ["--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
    return {**browser_type_launch_args, "executable_path": _chromium(), "args": ["--no-sandbox", "--disable-gpu", *quiet]}


@pytest.fixture
def complaints(page: Page) -> Iterator[list[str]]:
    """What the browser complained of: a test fails when anything is left here. A deliberate refusal is not counted."""
    page.set_default_timeout(_PATIENCE_MS)
    found: list[str] = []
    page.on("pageerror", lambda error: found.append(str(error)))
    page.on("console", lambda said: found.append(said.text) if said.type in ("error", "warning") and not _refusal(said.text) else None)
    yield found
    assert found == []


def _refusal(text: str) -> bool:
    """Chromium writes a line for every answer of 400 and above, and for every call to a server that is away."""
    return text.startswith("Failed to load resource") or "ERR_CONNECTION" in text


@pytest.fixture
def console(page: Page, server: ControlPlane, complaints: list[str]) -> Page:
    """A page signed in as the administrator."""
    return sign_in(page, server, server.token)


def sign_in(page: Page, server: ControlPlane, token: str) -> Page:
    """Sign in with ``token`` and see the clusters."""
    page.goto(f"{server.url}/login")
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Clusters", exact=False).first).to_be_visible()
    return page
