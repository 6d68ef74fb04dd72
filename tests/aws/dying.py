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


def main(event: str) -> int:
    """Serve, and die after that event. The session is boto3's own, with one more listener."""
    begin = boto3.Session.__init__

    def watched(session: Any, *arguments: Any, **named: Any) -> None:
        begin(session, *arguments, **named)
        session.events.register(f"after-call.{event}", _die)

    boto3.Session.__init__ = watched
    from instantstart import main as product

    return product.serve({"port": 0})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
