"""The real ``mlflow server`` behind a tracking server or app: one process on 127.0.0.1 each, with an SQLite file and a folder of artifacts.

MLflow is not among the sandbox's own dependencies: it weighs 600 MB. Its interpreter is the one that INSTANTSTART_SANDBOX_MLFLOW names,
else the sandbox's own where MLflow is installed, else the environment that ``make mlflow`` puts into the cache folder. Where none is to be
had, a responder stands at the address and says so with status 503.
"""

from __future__ import annotations

import contextlib
import ctypes
import http.client
import http.server
import importlib.util
import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

log = logging.getLogger(__name__)
NAMED = "INSTANTSTART_SANDBOX_MLFLOW"
ABSENT = "MLflow is not installed for the sandbox, so that nothing is recorded. Run `make mlflow` (600 MB), then start the sandbox again."
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)
_HEALTH_SECONDS = 0.5
_STOP_SECONDS = 5.0


def cached() -> Path:
    """Where ``make mlflow`` puts the environment (tools/make-mlflow knows the same place)."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "instantstart" / "mlflow"


def interpreter() -> str | None:
    """An interpreter that has MLflow; None where there is none."""
    named = os.environ.get(NAMED)
    if named:
        return named if Path(named).exists() else None
    if importlib.util.find_spec("mlflow") is not None:
        return sys.executable
    found = cached() / "bin" / "python"
    return str(found) if found.exists() and (cached() / "ready").exists() else None


def free_port() -> int:
    """A port that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _prepare() -> None:
    """In the child: it ends with the sandbox, and is polite."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    os.nice(5)


class Server:
    """One running server."""

    def __init__(self, python: str, folder: Path, port: int) -> None:
        self.port = port
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "artifacts").mkdir(exist_ok=True)
        words = [python, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
        words += ["--backend-store-uri", f"sqlite:///{folder}/mlflow.db", "--artifacts-destination", f"{folder}/artifacts"]
        kept = {k: os.environ[k] for k in ("PATH", "HOME", "LANG", "TMPDIR") if k in os.environ}
        # the jobs that MLflow runs beside (evaluations, scorers) would be a dozen processes more
        own = {
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "DO_NOT_TRACK": "1",
            "PYTHONUNBUFFERED": "1",
        }
        with (folder / "server.log").open("ab") as output:
            self._process = subprocess.Popen(
                words, cwd=folder, env={**kept, **own}, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                start_new_session=True, preexec_fn=_prepare,
            )  # fmt: skip

    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def ready(self) -> bool:
        """Whether it answers."""
        try:
            asked = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_HEALTH_SECONDS)
            asked.request("GET", "/health")
            return asked.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False

    def stop(self) -> None:
        """End it with its workers."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)
            try:
                self._process.wait(_STOP_SECONDS)
                break
            except subprocess.TimeoutExpired:
                continue
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)


class _Absent(http.server.BaseHTTPRequestHandler):
    def _answer(self) -> None:
        body = json.dumps({"error_code": "TEMPORARILY_UNAVAILABLE", "message": ABSENT}).encode()
        self.send_response(503)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer  # noqa: N815 - the names that http.server looks for

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's own name
        """Say nothing."""


class Responder:
    """Stands where MLflow would be, and says why it is not there."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", port), _Absent)
        threading.Thread(target=self._server.serve_forever, name="no mlflow", daemon=True).start()
        log.warning(ABSENT)

    def alive(self) -> bool:
        """Always."""
        return True

    def ready(self) -> bool:
        """Always: there is nothing to wait for."""
        return True

    def stop(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()


def remove(folder: Path) -> None:
    """Forget what a server recorded."""
    shutil.rmtree(folder, ignore_errors=True)
