"""A sandbox and a control plane as child processes, asked over HTTP like by anybody else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.clusters.worlds import SandboxProcess, bundles, environment_without_aws

READY_SECONDS = 120.0
#: a whole pipeline at rate 10 takes two and a half minutes on an idle machine
PIPELINE_SECONDS = 1200.0
INSTANCE_TYPE, ZONE = "ml.g5.8xlarge", "usw2-az2"
AT_REST = ("succeeded", "failed", "cancelled", "blocked")


@dataclass
class ControlPlane:
    """The product's own process, and how long it took to answer its first request."""

    child: subprocess.Popen[str]
    url: str
    token: str
    ready_seconds: float

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """One call of the API as the first administrator. RuntimeError with what was answered when it is refused."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/api/v1{path}", data=data, headers=headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as reply:
                return json.load(reply)
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{method} {path}: {error.code} {error.read().decode()[:500]}") from error

    def follow(self, operation: dict[str, Any], timeout: float = PIPELINE_SECONDS) -> dict[str, Any]:
        """The operation at rest. RuntimeError when it did not succeed."""
        until = time.monotonic() + timeout
        while operation["status"] not in AT_REST and time.monotonic() < until:
            operation = self.ask("GET", f"/operations/{operation['id']}/wait?seconds=30&after={operation['seq']}")
        if operation["status"] != "succeeded":
            raise RuntimeError(f"{operation['workflow']} ended {operation['status']}: {operation.get('problem')}")
        return operation

    def memory_mib(self) -> tuple[float, float]:
        """Resident memory now, and the most it ever was, in MiB (Linux: /proc)."""
        return memory_mib(self.child.pid)

    def cpu_seconds(self) -> float:
        """Processor time it has used so far."""
        return cpu_seconds(self.child.pid)

    def first_tool_call(self) -> None:
        """What an agent does first; it loads the MCP part."""
        asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        headers["Authorization"] = f"Bearer {self.token}"
        request = urllib.request.Request(f"{self.url}/mcp", data=json.dumps(asked).encode(), headers=headers, method="POST")
        with urllib.request.urlopen(request, timeout=60) as reply:
            reply.read()

    def stop(self) -> None:
        """End it in peace, within 20 s."""
        self.child.terminate()
        try:
            self.child.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.child.kill()


class Rig:
    """One empty account and one control plane, in a folder that is gone afterwards. A context."""

    #: put both processes ahead of all others on a busy machine (Linux autogroups, as root), as if it were idle
    ahead = False

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self._folder = tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True)
        self.folder = Path(self._folder.name)
        self.sandbox = SandboxProcess(self.folder, rate)

    def __enter__(self) -> Rig:
        self.sandbox.start()
        assert self.sandbox.child is not None
        self._put_ahead(self.sandbox.child.pid)
        self.product = self.launch()
        return self

    def __exit__(self, *_: object) -> None:
        self.product.stop()
        self.sandbox.stop()
        self._folder.cleanup()

    def launch(self) -> ControlPlane:
        """Start the control plane on a free port and wait until it answers."""
        data, log = self.folder / "control-plane", self.folder / "control-plane.log"
        settings = {
            "INSTANTSTART_DATA_DIR": str(data),
            "INSTANTSTART_PORT": "0",
            "INSTANTSTART_CLOCK_RATE": str(self.rate),
            "INSTANTSTART_RATE_LIMIT_PER_SECOND": "0",
            "INSTANTSTART_SIMULATED": "true",
            "INSTANTSTART_BUNDLES_DIR": str(bundles()),
        }
        environment = {**environment_without_aws(), **self.sandbox.environment(), **settings}
        (data / "address").unlink(missing_ok=True)
        began = time.monotonic()
        with log.open("w") as output:
            child = subprocess.Popen(
                [sys.executable, "-m", "instantstart", "serve"], env=environment, stdout=output, stderr=subprocess.STDOUT, text=True,
                start_new_session=True,
            )  # fmt: skip
        self._put_ahead(child.pid)
        url = _answering(child, data / "address", log)
        return ControlPlane(child, url, (data / "admin-token").read_text().strip(), time.monotonic() - began)

    def _put_ahead(self, pid: int) -> None:
        if self.ahead:
            Path(f"/proc/{pid}/autogroup").write_text("-15")

    def settle(self) -> None:
        """Let both finish their start, and ask what a person's form asks first."""
        self.product.ask("GET", f"/zones?instance_type={INSTANCE_TYPE}")
        time.sleep(3)

    def cpu_seconds(self) -> tuple[float, float]:
        """Processor time of the control plane and of the sandbox so far."""
        assert self.sandbox.child is not None
        return self.product.cpu_seconds(), cpu_seconds(self.sandbox.child.pid)

    def create(self, *tags: str) -> list[dict[str, Any]]:
        """Whole pipelines, side by side, followed to their ends."""
        where = {"zone": ZONE, "instance_type": INSTANCE_TYPE, "instance_count": 1}
        begun = [self.product.ask("POST", "/clusters", {"tag": tag, **where}) for tag in tags]
        return [self.product.follow(operation) for operation in begun]


def _answering(child: subprocess.Popen[str], address: Path, log: Path) -> str:
    until = time.monotonic() + READY_SECONDS
    while time.monotonic() < until and child.poll() is None:
        if address.exists() and (url := address.read_text().strip()):
            try:
                with urllib.request.urlopen(f"{url}/readyz", timeout=5):
                    return url
            except OSError:
                pass
        time.sleep(0.01)
    child.kill()
    raise RuntimeError(f"the control plane did not start: {log.read_text()[-1500:]}")


def cpu_seconds(pid: int) -> float:
    """Processor time a process has used so far, in user and kernel (Linux: /proc)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mib(pid: int) -> tuple[float, float]:
    """Resident memory of a process now, and the most it ever was, in MiB (Linux: /proc)."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    told = {line.partition(":")[0]: line.partition(":")[2] for line in lines}
    return int(told["VmRSS"].split()[0]) / 1024, int(told["VmHWM"].split()[0]) / 1024


def load() -> str:
    """The state of the machine, without which no figure means anything."""
    return f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
