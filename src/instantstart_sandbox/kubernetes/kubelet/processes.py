"""Real processes of pods that ask for one: own session, small environment, limits, killed with the sandbox."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import resource
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from .logs import Log

#: More processes than this are refused, so that a wrong replica count cannot choke the machine.
MOST_PROCESSES = 64
#: In the environment of every process, with the pod's folder: how what is left of a killed sandbox is found.
MARK = "INSTANTSTART_SANDBOX_POD"
_PR_SET_PDEATHSIG = 1
_OPEN_FILES = 4096
_LARGEST_FILE_BYTES = 4 * 1024**3
_LONGEST_LINE = 256 * 1024
_LIBC = ctypes.CDLL(None, use_errno=True)


class StartError(Exception):
    """The command could not be started; the message is the runtime's."""


def _prepare() -> None:
    """Runs in the child before exec: it dies with the sandbox, is polite, and leaves no core files."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    most = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    resource.setrlimit(resource.RLIMIT_FSIZE, (_LARGEST_FILE_BYTES, _LARGEST_FILE_BYTES))
    os.nice(5)


@dataclass
class Command:
    """What to run: arguments, the whole environment, the folder to run in."""

    arguments: list[str]
    environment: dict[str, str]
    folder: Path
    #: where a path of the container lies on this machine
    place: Callable[[str], str] = str


@dataclass
class Process:
    """A running command. ``code`` is None until it has ended; a signal's end is 128 + its number, as containers report it."""

    child: asyncio.subprocess.Process
    code: int | None = None
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def signal(self, number: int) -> None:
        """Send a signal to the whole process group; one that is gone is fine."""
        if self.code is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.child.pid, number)


@dataclass(frozen=True)
class Ending:
    """What follows the end of a process: ``flush`` is awaited first, then its code is known and ``ended`` called."""

    flush: Callable[[], Awaitable[None]]
    ended: Callable[[], None]


async def start(command: Command, log: Log, now: Callable[[], float], ending: Ending) -> Process:
    """Start a command. StartError when it cannot be started."""
    command.folder.mkdir(parents=True, exist_ok=True)
    if not command.arguments:
        raise StartError("no command specified: images are not run in the sandbox, so a process needs command or args")
    try:
        child = await asyncio.create_subprocess_exec(
            *command.arguments,
            cwd=command.folder,
            env=command.environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_prepare,
            limit=_LONGEST_LINE,
        )
    except (OSError, ValueError) as error:
        text = f'exec: "{command.arguments[0]}": {error.strerror if isinstance(error, OSError) else error}'
        raise StartError(f"failed to create containerd task: failed to create shim task: OCI runtime create failed: {text}") from error
    process = Process(child)
    process.tasks.append(asyncio.create_task(_watch(process, log, now, ending)))
    return process


async def _watch(process: Process, log: Log, now: Callable[[], float], ending: Ending) -> None:
    stream = process.child.stdout
    assert stream is not None
    while True:
        try:
            line = await stream.readline()
        except ValueError:
            # A line longer than the limit: what is buffered has been dropped by the reader; go on with the next.
            continue
        if not line:
            break
        log.line(now(), line)
    code = await process.child.wait()
    # Whatever the command left behind in its group ends with it, as a container's pid namespace would.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.child.pid, signal.SIGKILL)
    try:
        await ending.flush()
    finally:
        process.code = 128 - code if code < 0 else code
        log.close()
        ending.ended()


def kill_leftovers(data_dir: Path) -> int:
    """Kill processes that bear the mark of a pod under ``data_dir``; answers how many. Other people's cannot be read and stay."""
    mark, killed = f"{MARK}={data_dir}/".encode(), 0
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            if any(value.startswith(mark) for value in entry.read_bytes().split(b"\0")):
                os.kill(int(entry.parent.name), signal.SIGKILL)
                killed += 1
        except (OSError, ValueError):
            continue
    return killed
