"""Two hundred containers that talk at once: one reader through the control plane, against one ``kubectl logs -f`` for each.

Lines are written straight into the files that the sandbox's kubelet would write, numbered, so that a gap or a line told twice shows.
What is compared is processor time: the control plane's (and, beside it, the reader's) against that of all kubectl processes.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.bench.crowds import fill, kube_of
from tests.bench.rig import Rig, cpu_seconds
from tests.clusters.worlds import SandboxProcess

PODS, SECONDS = 200, 30.0
#: lines a second and container
RATES = (5, 50)
_BATCHES = 5
_APP = "worker-0"
_WORDS = "step loss=2.1873 grad_norm=0.71 lr=3.0e-04 tokens_per_second=18342 mfu=0.41"


class Writers:
    """Appends numbered lines to every container's log, some of them each fifth of a second."""

    def __init__(self, folder: Path, names: list[str], rate: int) -> None:
        self.files = [folder / name / "main.log" for name in names]
        self.rate, self.written = rate, 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        for file in self.files:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(b"")
        self._open = [file.open("ab", buffering=0) for file in self.files]

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def stop(self) -> int:
        """End; how many lines each log has."""
        self._stop.set()
        self._thread.join()
        for file in self._open:
            file.close()
        return self.written

    def _run(self) -> None:
        due = time.monotonic()
        while not self._stop.is_set():
            lines = []
            for _ in range(max(self.rate // _BATCHES, 1)):
                at = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%f") + "000Z"
                lines.append(f"{at} {self.written} {_WORDS}\n")
                self.written += 1
            text = "".join(lines).encode()
            for file in self._open:
                file.write(text)
            due += max(self.rate // _BATCHES, 1) / self.rate
            self._stop.wait(max(due - time.monotonic(), 0))


def logs() -> Iterator[str]:
    """The figures at each rate."""
    kubectl = shutil.which("kubectl")
    with Rig(1) as rig:  # faster clocks make the control plane's own work at rest dearer than it is
        crowd = fill(rig, "logs", PODS, PODS * 5 + PODS // 10)  # four agents and one worker a node; each hundredth pod of a crowd waits
        folder = next((rig.sandbox.folder / "sandbox").rglob("logs"), None) or _logs_folder(rig.sandbox, crowd.arn)
        names = [f"{_APP}-{number:06}" for number in range(PODS)]
        config = _kubeconfig(rig, crowd)
        rig.settle()
        resting = rig.product.cpu_seconds()
        time.sleep(SECONDS / 2)
        rest = (rig.product.cpu_seconds() - resting) / (SECONDS / 2)
        yield f"control plane at rest: {rest * 100:.1f} % of a processor"
        for rate in RATES:
            ours = _ours(rig, folder / "default", names, rate)
            yield f"{rate} lines/s each: {ours.words}"
            if kubectl is None:
                yield "kubectl is not installed: nothing to compare with"
                continue
            theirs = _theirs(kubectl, config, folder / "default", names, rate)
            yield f"{rate} lines/s each: {theirs.words}"
            with_reader = f"with the reader's own work {ours.with_reader / theirs.steady:.1f}"
            whole = f"{ours.whole / theirs.whole:.1f} with the start"
            yield f"ratio: {ours.steady / theirs.steady:.1f} once all is open ({with_reader}), {whole}"


class Figures:
    """Lines a processor second."""

    def __init__(self, words: str, steady: float, whole: float, with_reader: float = 0.0) -> None:
        self.words, self.steady, self.whole, self.with_reader = words, steady, whole, with_reader


def _ours(rig: Rig, folder: Path, names: list[str], rate: int) -> Figures:
    writers = Writers(folder, names, rate)
    began = rig.product.cpu_seconds()
    before = rig.product.memory_mib()[0]
    reader = _reader(rig)
    _line(reader)  # all pods are known; those that have said nothing yet are being opened
    time.sleep(15)
    writers.start()
    time.sleep(3)
    at = (time.monotonic(), rig.product.cpu_seconds(), cpu_seconds(reader.pid), writers.written)
    time.sleep(SECONDS / 2)
    middle = rig.product.memory_mib()[0]
    time.sleep(SECONDS / 2)
    used, read = rig.product.cpu_seconds() - at[1], cpu_seconds(reader.pid) - at[2]
    lines = (writers.written - at[3]) * len(names)
    written = writers.stop()
    time.sleep(15)
    end = rig.product.memory_mib()[0]
    whole = rig.product.cpu_seconds() - began
    reader.send_signal(signal.SIGTERM)
    told = json.loads(_line(reader))
    reader.wait(timeout=20)
    words = (
        f"{lines / used:,.0f} lines a CPU second in the control plane ({used:.1f} s for {lines:,} lines; reader {read:.1f} s), "
        f"start {whole - used:.1f} s; {told['lines']:,} of {written * len(names):,} lines came, {told['gaps']} gaps, "
        f"{told['twice']} twice, {told['dropped']} dropped; "
        f"memory {before:.0f} before, {middle:.0f} in the middle, {end:.0f} MiB at the end"
    )
    return Figures(words, lines / used, written * len(names) / whole, lines / (used + read))


def _theirs(kubectl: str, config: Path, folder: Path, names: list[str], rate: int) -> Figures:
    writers = Writers(folder, names, rate)
    environment = {"KUBECONFIG": str(config), "HOME": str(config.parent), "PATH": os.environ["PATH"]}
    with tempfile.TemporaryDirectory(prefix="kubectl-") as out:
        outputs = [Path(out) / name for name in names]
        running = []
        for name, output in zip(names, outputs, strict=True):
            with output.open("wb") as file:
                running.append(subprocess.Popen([kubectl, "logs", "-f", name], env=environment, stdout=file, stderr=subprocess.STDOUT))
        time.sleep(20)
        writers.start()
        time.sleep(5)
        before, first = sum(cpu_seconds(p.pid) for p in running), writers.written
        time.sleep(SECONDS)
        used = sum(cpu_seconds(p.pid) for p in running) - before
        lines = (writers.written - first) * len(names)
        written = writers.stop()
        time.sleep(5)
        whole = sum(cpu_seconds(p.pid) for p in running)
        for process in running:
            process.terminate()
        for process in running:
            process.wait(timeout=20)
        came = sum(output.read_bytes().count(b"\n") for output in outputs)
    words = (
        f"{lines / used:,.0f} lines a CPU second in {len(names)} kubectl ({used:.1f} s), start {before:.1f} s; "
        f"{came:,} of {written * len(names):,} lines came"
    )
    return Figures(words, lines / used, written * len(names) / whole)


def _logs_folder(sandbox: SandboxProcess, arn: str) -> Path:
    """Where the sandbox keeps the logs of that cluster's pods."""
    found = [p for p in (sandbox.folder / "sandbox").rglob("pki") if arn.rpartition("/")[2] in str(p)]
    return (found[0] if found else next((sandbox.folder / "sandbox").rglob("pki"))).parent / "logs"


def _kubeconfig(rig: Rig, crowd: Any) -> Path:
    """With a token that is good for a quarter of an hour."""
    kube = kube_of(rig, crowd)
    authority = rig.folder / "ca.crt"
    authority.write_text(kube.ref.ca_pem)
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": kube.ref.endpoint, "certificate-authority": str(authority)}}],
        "users": [{"name": "u", "user": {"token": kube.connection.token()}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }
    path = rig.folder / "kubeconfig"
    path.write_text(json.dumps(config))
    return path


def _reader(rig: Rig) -> subprocess.Popen[str]:
    address = rig.product.url.replace("http", "ws", 1) + f"/api/v1/clusters/logs/logs/stream?selector=app={_APP}&tail=0"
    return subprocess.Popen([sys.executable, __file__, address, rig.product.token], stdout=subprocess.PIPE, text=True)


def _line(reader: subprocess.Popen[str]) -> str:
    assert reader.stdout is not None
    return reader.stdout.readline()


def read(address: str, token: str) -> None:
    """The reader: counts, and says at SIGTERM what it saw."""
    from websockets.sync.client import connect

    expected: dict[str, int] = {}
    told = {"lines": 0, "gaps": 0, "twice": 0, "dropped": 0}

    def end(*_: object) -> None:
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()
        os._exit(0)

    signal.signal(signal.SIGTERM, end)
    with connect(address, additional_headers={"Authorization": f"Bearer {token}"}, max_size=None) as socket:
        for message in socket:
            for event in json.loads(message):
                if event["type"] == "settled":
                    sys.stdout.write(f"{event['sources']}\n")
                    sys.stdout.flush()
                elif event["type"] == "dropped":
                    told["dropped"] += event["lines"]
                elif event["type"] == "lines":
                    _count(told, expected, event)


def _count(told: dict[str, int], expected: dict[str, int], event: dict[str, Any]) -> None:
    lines = event["text"][:-1].split("\n")
    told["lines"] += len(lines)
    numbers = [int(line.split(" ", 2)[1]) for line in lines]
    source = event["source"]
    for number in numbers:
        wanted = expected.get(source, 0)
        told["gaps"] += number > wanted
        told["twice"] += number < wanted
        expected[source] = number + 1


if __name__ == "__main__":
    read(*sys.argv[1:])
