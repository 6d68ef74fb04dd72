"""The control plane, killed (SIGKILL) right after AWS answered a call, before the program could write it down.

``python -m tests.aws.dying cloudformation.CreateStack``: service id and operation as in botocore's events.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import boto3


def _die(**_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class DyingSession(boto3.Session):
    """A session whose program does not outlive the answer to one call."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.events.register(f"after-call.{sys.argv[1]}", _die)


if __name__ == "__main__":
    boto3.Session = DyingSession  # type: ignore[misc]
    from instantstart import main

    sys.exit(main.serve({"port": 0}))
