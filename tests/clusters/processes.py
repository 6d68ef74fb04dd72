"""The control plane as a process that a test may kill, and REST calls to it that outlive the kill."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2
from tests.clusters import forks
from tests.clusters.worlds import SandboxProcess, bundles, environment_without_aws, wait_for

PATIENCE_SECONDS = 280.0
_DOCUMENT: dict[str, Any] = {}


class ControlPlane:
    """``instantstart serve`` against a sandbox. Killed and started again, it listens on the same port with the same data."""

    def __init__(self, folder: Path, sandbox: SandboxProcess, settings: Mapping[str, str] | None = None) -> None:
        self.folder, self.sandbox, self.port, self.kills = folder, sandbox, 0, 0
        self.settings = dict(settings or {})
        self.child: forks.Fork | None = None

    def start(self) -> None:
        """Start, or start again."""
        settings = {
            "INSTANTSTART_DATA_DIR": str(self.folder / "data"),
            "INSTANTSTART_PORT": str(self.port),
            "INSTANTSTART_CLOCK_RATE": str(self.sandbox.rate),
            "INSTANTSTART_BUNDLES_DIR": str(bundles()),
            **self.settings,
        }
        log = self.folder / "control-plane.log"
        environment = {**environment_without_aws(), **self.sandbox.environment(), **settings}
        self.child = forks.start("instantstart", ["serve"], log, environment)
        wait_for(log, "Administrator's token", self.child)
        self.url = (self.folder / "data" / "address").read_text().strip()
        self.port = int(self.url.rsplit(":", 1)[1])
        self.token = (self.folder / "data" / "admin-token").read_text().strip()

    def kill(self) -> None:
        """SIGKILL."""
        assert self.child is not None
        self.child.kill()
        self.child.wait()
        self.kills += 1

    def kill_and_start(self) -> None:
        """As an orchestrator does."""
        self.kill()
        self.start()

    def stop(self) -> None:
        """End it in peace."""
        if self.child is not None and self.child.poll() is None:
            self.child.terminate()
            self.child.wait(timeout=30)

    def document(self) -> dict[str, Any]:
        """The OpenAPI document of the program, asked of the first one that runs: they are all the same, and drawing it takes seconds."""
        if _DOCUMENT:
            return dict(_DOCUMENT)
        answer = httpx2.get(f"{self.url}/openapi.json", headers={"Authorization": f"Bearer {self.token}"}, timeout=60)
        assert answer.status_code == 200, answer.text
        _DOCUMENT.update(answer.json())
        return dict(_DOCUMENT)

    def call(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """The document of a call that succeeds."""
        status, document = self.answer(method, path, body, **query)
        assert status < 300, document
        return document

    def answer(self, method: str, path: str, body: Any = None, **query: Any) -> tuple[int, Any]:
        """Status and document of a call, whatever comes of it."""
        headers = {"Authorization": f"Bearer {self.token}"}
        answer = httpx2.request(method, f"{self.url}/api/v1{path}", json=body, params=query, headers=headers, timeout=60)
        return answer.status_code, answer.json() if answer.content else None

    def operation(self, operation_id: str) -> dict[str, Any]:
        """One operation as it is."""
        return dict(self.call("GET", f"/operations/{operation_id}"))

    def follow(self, operation_id: str) -> dict[str, Any]:
        """The operation at its end."""
        until = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < until:
            seen = self.operation(operation_id)
            if seen["status"] in ("succeeded", "failed", "cancelled", "blocked"):
                return seen
            time.sleep(0.3)
        raise AssertionError(f"no end: {seen['status']} {[(s['name'], s['status'], s['because']) for s in seen['stages']]}")
