"""Programs started by fork from a process that has imported them: real processes with real ends, without a second of imports each.

Tests start and kill the control plane and the sandbox hundreds of times, and most of a start is the import of what every start imports.
One parent for each program and each test process imports it once; a start is a fork of it with its own arguments, environment, log and
session. A parent has one thread and holds nothing open, and dies with the tests, and its children with it.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import random
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

#: what a program's start needs, beside what its own main module imports
PROGRAMS: dict[str, tuple[str, ...]] = {
    "instantstart": (
        "instantstart.main",
        "instantstart.faces.cli.main",
        "instantstart.faces.api.app",
        "instantstart.faces.mcp.server",
        "instantstart.capabilities.routes",
        "instantstart.capabilities.workflows",
        "alembic.command",
        "httptools",
        "uvloop",
        "websockets",
    ),
    "instantstart_sandbox": ("instantstart_sandbox.main",),
}

_ROOT = Path(__file__).resolve().parents[2]
#: the function that ``python -m program`` calls
MAINS = {"instantstart": "cli", "instantstart_sandbox": "main"}


class Parent:
    """The process that has imported a program. Its calls come one after another, over its standard input and output."""

    def __init__(self, program: str) -> None:
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.clusters.forks", program],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        atexit.register(self.end)

    def ask(self, **question: Any) -> Any:
        """One question, one answer."""
        with self._lock:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        assert answer, f"the parent of the forks has ended: {self._process.poll()}"
        return json.loads(answer)

    def end(self) -> None:
        """End it, and what it has started."""
        with contextlib.suppress(OSError):
            self._process.__exit__(None, None, None)


_PARENTS: dict[str, Parent] = {}
_MAKING = threading.Lock()


@dataclass
class Fork:
    """A started program, with what tests use of ``subprocess.Popen``."""

    pid: int
    _parent: Parent
    returncode: int | None = None

    def poll(self) -> int | None:
        """Its exit status (negative: the signal's number) when it has ended."""
        if self.returncode is None:
            self.returncode = self._parent.ask(status=self.pid)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Until it has ended; its exit status. Raises subprocess.TimeoutExpired (``timeout`` in seconds)."""
        until = None if timeout is None else time.monotonic() + timeout
        if self.returncode is None:
            _ended(self.pid, until)
        while (status := self.poll()) is None:
            if until is not None and time.monotonic() > until:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
        return status

    def send_signal(self, number: int) -> None:
        """A signal, unless it has ended: its number may be somebody else's by then."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)


def _ended(pid: int, until: float | None) -> None:
    """Wait for a process that is no child of ours, without asking again and again."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        patience = None if until is None else max(0.0, until - time.monotonic()) * 1000
        waiting = select.poll()
        waiting.register(handle, select.POLLIN)
        waiting.poll(patience)
    finally:
        os.close(handle)


def start(program: str, arguments: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> Fork:
    """``python -m program arguments`` with its output in ``log`` (made anew), in a session of its own."""
    with _MAKING:
        if program not in _PARENTS:
            _PARENTS[program] = Parent(program)
    parent = _PARENTS[program]
    log.parent.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)  # at once: who waits for a word in it must not read the last program's
    told = dict(os.environ if environment is None else environment)
    return Fork(parent.ask(start=list(arguments), log=str(log), environment=told, folder=str(Path.cwd())), parent)


def _serve(program: str) -> None:
    for name in PROGRAMS[program]:
        importlib.import_module(name)
    gc.collect()
    _give_each_fork_chances_of_its_own()
    gc.freeze()
    children: dict[int, int | None] = {}
    for line in sys.stdin:
        question = json.loads(line)
        if "start" in question:
            pid = os.fork() or _become(program, question)
            children[pid] = None
        answer = pid if "start" in question else _status(question["status"], children)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    for pid in [pid for pid in children if _status(pid, children) is None]:
        os.kill(pid, signal.SIGKILL)


def _give_each_fork_chances_of_its_own() -> None:
    """Generators that stand already would draw the same in every fork: moto's would give new things the ids of those of a fork before."""
    chances = [each for each in gc.get_objects() if isinstance(each, random.Random)]

    def draw_anew() -> None:
        for each in chances:
            each.seed()

    os.register_at_fork(after_in_child=draw_anew)


def _status(pid: int, children: dict[int, int | None]) -> int | None:
    if children[pid] is None:
        ended, status = os.waitpid(pid, os.WNOHANG)
        children[pid] = os.waitstatus_to_exitcode(status) if ended else None
    return children[pid]


def _become(program: str, question: dict[str, Any]) -> NoReturn:
    """In the fork: be the program, to its end."""
    status = 1
    try:
        os.setsid()
        output = os.open(question["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((nothing, 0), (output, 1), (output, 2)):
            os.dup2(source, target)
        os.environ.clear()
        os.environ.update(question["environment"])
        os.chdir(question["folder"])
        sys.argv = [program, *question["start"]]
        status = _run(_main(program))
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
        os._exit(status)


def _main(program: str) -> Callable[[], Any]:
    main: Callable[[], Any] = getattr(importlib.import_module(f"{program}.main"), MAINS[program])
    return main


def _run(main: Callable[[], Any]) -> int:
    status: str | int | None
    try:
        status = main()
    except SystemExit as ended:
        status = ended.code
    if isinstance(status, str):
        sys.stderr.write(status + "\n")
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    return status if isinstance(status, int) else int(status is not None)


if __name__ == "__main__":
    _serve(sys.argv[1])
