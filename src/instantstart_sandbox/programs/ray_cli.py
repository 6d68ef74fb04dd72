"""A stand-in for the ``ray`` command where Ray is not installed: ``ray job submit`` runs its entrypoint here, ``ray start`` waits.

What it prints follows the order of Ray's own lines (submitted, next steps, the job's output, how it ended), in our words.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

_VALUES = {"--address", "--submission-id", "--job-id", "--runtime-env", "--runtime-env-json", "--working-dir", "--metadata-json"}
_VALUES |= {"--entrypoint-num-cpus", "--entrypoint-num-gpus", "--entrypoint-memory", "--entrypoint-resources", "--headers", "--verify"}


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def entrypoint(arguments: list[str]) -> tuple[str, list[str]]:
    """(submission id, entrypoint's words) of ``ray job submit``."""
    ident, rest = os.environ.get("RAY_JOB_SUBMISSION_ID", "raysubmit"), list(arguments)
    while rest and rest[0].startswith("--"):
        word = rest.pop(0)
        if word == "--":
            break
        name, joined, value = word.partition("=")
        if not joined and name in _VALUES and rest:
            value = rest.pop(0)
        if name == "--submission-id":
            ident = value
    return ident, rest


def submit(arguments: list[str]) -> int:
    """Run the entrypoint and say how it ended."""
    ident, words = entrypoint(arguments)
    if not words:
        _say("Error: Missing argument 'ENTRYPOINT...'.")
        return 2
    _say(f"Job submission server address: {os.environ.get('RAY_DASHBOARD_ADDRESS', 'http://127.0.0.1:8265')}")
    _say(f"Job '{ident}' submitted successfully")
    # as Ray does: one word is a line for the shell, several are one command
    child = subprocess.Popen(["/bin/sh", "-c", words[0]] if len(words) == 1 else words)
    signal.signal(signal.SIGTERM, lambda number, _: child.send_signal(number))
    code = child.wait()
    code = 128 - code if code < 0 else code
    if code == 0:
        _say(f"Job '{ident}' succeeded")
        return 0
    _say(f"Job '{ident}' failed")
    _say(f"Status message: Job entrypoint command failed with exit code {code}")
    return 1


def main(arguments: list[str]) -> int:
    """The sub-commands that a cluster and a submitter use."""
    if arguments[:2] == ["job", "submit"]:
        return submit(arguments[2:])
    if arguments[:1] == ["start"]:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        _say("Ray runtime started (a stand-in of the sandbox).")
        while "--block" in arguments:
            time.sleep(3600)
        return 0
    if arguments[:1] in (["health-check"], ["status"]):
        return 0
    _say(f"Error: the sandbox has no stand-in for `ray {' '.join(arguments)}`.")
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
