"""The example really trains: two processes, DistributedDataParallel over gloo, on the CPU, started by run.py as a container does it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tools import torch_cpu

from instantstart.ensure.training import recipe_scripts, recipes

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
_LINE = re.compile(r"^\[default\d\]:(\{.*\})$")


@pytest.fixture(scope="session")
def torch() -> torch_cpu.Torch:
    """PyTorch, fetched when this machine has none."""
    try:
        return torch_cpu.find()
    except torch_cpu.NotHadError as error:
        pytest.skip(f"no PyTorch: {error}")


@dataclass
class Tracking:
    """What of MLflow's REST API the example calls, kept in memory: it records, and answers as MLflow does."""

    uri: str = ""
    metrics: dict[str, list[float]] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    params: dict[str, str] = field(default_factory=dict)
    statuses: list[str] = field(default_factory=list)

    def answer(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """One call."""
        if path.endswith("experiments/search"):
            return {"experiments": [{"experiment_id": "1"}]}
        if path.endswith("runs/create"):
            self.tags = {tag["key"]: tag["value"] for tag in body["tags"]}
            return {"run": {"info": {"run_id": "r1"}}}
        for metric in body.get("metrics", ()):
            self.metrics.setdefault(metric["key"], []).append(metric["value"])
        self.params.update({param["key"]: param["value"] for param in body.get("params", ())})
        self.statuses += [body["status"]] if "status" in body else []
        return {}


@pytest.fixture
def tracking() -> Iterator[Tracking]:
    """A tracking server on loopback."""
    told = Tracking()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            answer = json.dumps(told.answer(self.path, body)).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        told.uri = f"http://127.0.0.1:{server.server_address[1]}"
        yield told
        server.shutdown()


def start(torch: torch_cpu.Torch, folder: Path, arguments: list[str], uri: str = "") -> subprocess.Popen[str]:
    """The container of a job with the example in it."""
    config = {
        "recipe": "pytorch", "launcher": "torchrun", "nodes": 1, "processes_per_node": 2, "job": "tiny-gpt",
        "project": str(recipes.path(recipe_scripts.EXAMPLE).parent), "script": "train.py",
        "arguments": ["--width", "32", "--context", "32", "--checkpoints", str(folder / "checkpoints"), *arguments],
    }  # fmt: skip
    own = {
        "INSTANTSTART_SCRATCH": str(folder / "scratch"),
        "INSTANTSTART_LOGS": str(folder / "logs"),
        "OMP_NUM_THREADS": "1",
        "INSTANTSTART_RECIPE": json.dumps(config),
        **({"MLFLOW_TRACKING_URI": uri} if uri else {}),
    }
    argv = [torch.python, str(recipes.path("launch/run.py"))]
    environ = {**os.environ, **torch.environment, **own}
    return subprocess.Popen(argv, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def finish(process: subprocess.Popen[str]) -> tuple[int, list[dict[str, Any]], str]:
    """Status, what it said line by line, all of it."""
    out, _ = process.communicate(timeout=600)
    return process.returncode, [json.loads(found[1]) for line in out.splitlines() if (found := _LINE.search(line))], out


def test_it_learns_reports_dies_once_and_goes_on(torch: torch_cpu.Torch, tracking: Tracking, tmp_path: Path) -> None:
    arguments = ["--steps", "30", "--save-every", "10", "--fail-at", "15"]
    status, said, out = finish(start(torch, tmp_path, arguments, tracking.uri))
    assert status != 0, out
    assert "failing on purpose at step 15" in out
    assert tracking.statuses == ["FAILED"]
    status, said, out = finish(start(torch, tmp_path, arguments, tracking.uri))
    assert status == 0, out
    assert {"event": "resumed", "step": 10} in said
    losses = tracking.metrics["loss"]
    assert losses[-1] < losses[0]
    assert all(rate > 0 for rate in tracking.metrics["tokens_per_second"])
    assert tracking.params["world_size"] == "2"
    assert tracking.tags["instantstart.job"] == "tiny-gpt"
    assert tracking.statuses == ["FAILED", "RUNNING", "FINISHED"]
    kept = sorted(p.parent.name for p in (tmp_path / "logs").rglob("stdout.log"))
    assert kept == ["0", "0", "1", "1"]


def test_a_sigterm_saves_first(torch: torch_cpu.Torch, tmp_path: Path) -> None:
    process = start(torch, tmp_path, ["--steps", "100000", "--save-every", "100000"])
    assert process.stdout is not None
    for line in process.stdout:
        if '"step": 5,' in line:
            break
    process.send_signal(signal.SIGTERM)
    status, said, out = finish(process)
    assert status != 0, out
    stopped = [told for told in said if told.get("event") == "stopped"]
    assert stopped, out
    status, said, out = finish(start(torch, tmp_path, ["--steps", str(stopped[0]["step"] + 1)]))
    assert status == 0, out
    assert {"event": "resumed", "step": stopped[0]["step"]} in said
