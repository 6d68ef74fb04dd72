"""Two real control planes on one PostgreSQL and one sandbox, and a caller that is sent to either, as by a balancer without memory."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx2
from tests.clusters.worlds import SandboxProcess, bundles, environment_without_aws, wait_for

#: real seconds: the longest that anything here is waited for
PATIENCE_SECONDS = 300.0
RESTING = ("succeeded", "failed", "cancelled", "blocked")


class Replica:
    """``instantstart serve`` under a name of its own. Killed and started again, it has the same port, name and folder."""

    def __init__(self, folder: Path, name: str, sandbox: SandboxProcess, settings: Mapping[str, str]) -> None:
        self.folder, self.name, self.sandbox, self.settings = folder / name, name, sandbox, dict(settings)
        self.log = self.folder / "log"
        self.port, self.url, self.starts, self.kills = 0, "", 0, 0
        self.child: subprocess.Popen[str] | None = None
        self.ending = False

    def start(self) -> None:
        """Start, or start again; returns when it serves."""
        self.begin()
        self.await_start()

    def begin(self) -> None:
        """Start, without waiting."""
        self.folder.mkdir(parents=True, exist_ok=True)
        settings = {
            "INSTANTSTART_DATA_DIR": str(self.folder / "data"),
            "INSTANTSTART_PORT": str(self.port),
            "INSTANTSTART_CLOCK_RATE": str(self.sandbox.rate),
            "INSTANTSTART_BUNDLES_DIR": str(bundles()),
            "INSTANTSTART_REPLICA_ID": self.name,
            **self.settings,
        }
        with self.log.open("a") as output:
            self.child = subprocess.Popen(
                [sys.executable, "-m", "instantstart", "serve"],
                env={**environment_without_aws(), **self.sandbox.environment(), **settings},
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
        self.starts += 1
        self.ending = False

    def await_start(self) -> None:
        """Until it serves."""
        assert self.child is not None
        wait_for(self.log, "Administrator's token", self.child, self.starts)
        self.url = (self.folder / "data" / "address").read_text().strip()
        self.port = int(self.url.rsplit(":", 1)[1])

    def kill(self) -> None:
        """SIGKILL."""
        assert self.child is not None
        self.child.kill()
        self.child.wait()
        self.kills += 1

    def terminate(self) -> None:
        """SIGTERM, as an orchestrator ends it; without waiting."""
        assert self.child is not None
        self.ending = True
        os.kill(self.child.pid, signal.SIGTERM)

    def stop(self) -> int:
        """End it in peace; its status."""
        assert self.child is not None
        if self.child.poll() is None and not self.ending:
            self.terminate()
        return self.child.wait(timeout=120)

    def is_ready(self) -> bool:
        """What a balancer asks before it sends anybody here."""
        try:
            return httpx2.get(f"{self.url}/readyz", timeout=10).status_code == 200
        except httpx2.RequestError:
            return False


class Balancer:
    """Each request goes to the next replica. One that cannot be had there is asked of the other, under the same Idempotency-Key."""

    def __init__(self, replicas: tuple[Replica, ...], token: str) -> None:
        self.replicas, self.token = replicas, token
        self._turn = itertools.cycle(replicas)
        self._lock = threading.Lock()
        #: answers of 500 and above that are not "come back later", and how often nobody answered
        self.broken: list[str] = []
        self.unanswered = 0

    def next(self) -> Replica:
        """Whose turn it is."""
        with self._lock:
            return next(self._turn)

    def ask(self, method: str, path: str, body: Any = None, *, key: str = "", **query: Any) -> httpx2.Response:
        """The first answer that either gives."""
        headers = {"Authorization": f"Bearer {self.token}", **({"Idempotency-Key": key} if key else {})}
        until = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < until:
            address = f"{self.next().url}/api/v1{path}"
            try:
                answer = httpx2.request(method, address, json=body, params=query, headers=headers, timeout=60)
            except httpx2.RequestError:
                self.unanswered += 1
                time.sleep(0.1)
                continue
            if answer.status_code not in (502, 503):
                if answer.status_code >= 500:
                    self.broken.append(f"{method} {path}: {answer.text}")
                return answer
            time.sleep(0.5)
        raise AssertionError(f"nobody answers {method} {path}")

    def call(self, method: str, path: str, body: Any = None, *, key: str = "", **query: Any) -> Any:
        """The document of an answer that is well."""
        answer = self.ask(method, path, body, key=key, **query)
        assert answer.status_code < 300, answer.text
        return answer.json()

    def until(self, operation: str, enough: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The operation as soon as ``enough`` says so, as either tells it."""
        until = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < until:
            seen: dict[str, Any] = self.call("GET", f"/operations/{operation}")
            if enough(seen):
                return seen
            time.sleep(0.3)
        raise AssertionError(f"{seen['status']} {[(s['name'], s['status'], s['because']) for s in seen['stages']]}")

    def rest(self, operation: str) -> dict[str, Any]:
        """The operation at its end."""
        return self.until(operation, lambda seen: seen["status"] in RESTING)


class Killer:
    """Kills one of the replicas, the first, then the second, and starts it again: ``every`` real seconds, until it is told to stop."""

    def __init__(self, replicas: tuple[Replica, ...], every: float) -> None:
        self._replicas, self._every = itertools.cycle(replicas), every
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.error: BaseException | None = None

    def __enter__(self) -> Killer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        if self.error is not None:
            raise self.error

    def _run(self) -> None:
        try:
            while not self._stop.wait(self._every):
                victim = next(self._replicas)
                victim.kill()
                victim.start()
        except BaseException as error:  # noqa: BLE001 - told where the thread is joined
            self.error = error
