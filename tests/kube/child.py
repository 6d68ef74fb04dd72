"""A sandbox cluster in a process of its own, so that it can really be killed: ``python -m tests.kube.child FOLDER``.

Prints its endpoint as a line of JSON, then does what it is told on standard input, one word a line, and answers ``done``: ``compact``;
``cut SECONDS`` (watches that begin from now on), ``fault JSON``, ``clear`` (fair weather), ``admit TOKEN`` (that one and no other).
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from instantstart.kube.cluster_ref import ClusterRef

ROOT = Path(__file__).parents[2]


@dataclass
class Child:
    """The running process."""

    folder: Path
    process: subprocess.Popen[str]
    ref: ClusterRef

    def tell(self, word: str) -> None:
        """Let it do something, and wait until it has."""
        cast("IO[str]", self.process.stdin).write(word + "\n")
        cast("IO[str]", self.process.stdin).flush()
        assert cast("IO[str]", self.process.stdout).readline().strip() == "done"

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            cast("IO[str]", pipe).close()


def start(folder: Path) -> Child:
    """Start it, or start it again: the same folder gives the same port, CA and objects."""
    command = [sys.executable, "-m", "tests.kube.child", str(folder)]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    told = json.loads(cast("IO[str]", process.stdout).readline())
    return Child(folder, process, ClusterRef(**told))


def main() -> None:
    """The child's side."""
    from tests.ensure.clusters import ARN, RATE, Aws

    from instantstart_sandbox.kubernetes.server import KubernetesServer
    from instantstart_sandbox.kubernetes.weather import Weather
    from instantstart_sandbox.world.clock import Clock
    from instantstart_sandbox.world.faults import Faults
    from instantstart_sandbox.world.settings import Settings

    aws, clock, settings = Aws(), Clock(RATE), Settings()
    faults = Faults(settings)
    server = KubernetesServer(Path(sys.argv[1]), clock, aws)
    server.weather = Weather(faults, clock)
    endpoint = server.create_cluster(ARN, "demo", "us-west-2", "1.33")

    def admit(token: str) -> None:
        aws.admitted = {token}
        server.nudge(ARN)

    def clear(_: str) -> None:
        faults.clear()
        settings.watch_cut_seconds = 0.0

    def compact(_: str) -> None:
        inside = server.cluster(ARN)
        inside.in_loop(inside.store.compact)

    words: dict[str, Callable[[str], object]] = {
        "compact": compact,
        "cut": lambda seconds: setattr(settings, "watch_cut_seconds", float(seconds)),
        "fault": lambda rule: faults.add(**json.loads(rule)),
        "clear": clear,
        "admit": admit,
    }
    told: dict[str, Any] = {"arn": ARN, "name": "demo", "region": "us-west-2", "endpoint": endpoint.url, "ca_pem": endpoint.ca_pem}
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()
    for line in sys.stdin:
        word, _, rest = line.strip().partition(" ")
        words[word](rest)
        sys.stdout.write("done\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
