"""The table of programs: what really runs, what is simulated, and how the stand-ins read their command lines."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from instantstart_sandbox.kubernetes.kubelet import programs
from instantstart_sandbox.kubernetes.kubelet.behaviour import Beat, beat_of, behaviour_of
from instantstart_sandbox.programs import hyperpodrun, ray_cli

IMAGE = "registry.example/train:1"


def launched(words: list[str], places: tuple[Path, ...] = (), folder: Path = Path("/")) -> bool:
    row = programs.find(IMAGE, words[0])
    return row is not None and row.launch(programs.Asked(IMAGE, words, {}, places, folder)) is not None


@pytest.mark.parametrize(
    ("words", "runs"),
    [
        (["hyperpodrun", "--nnodes=2", "--nproc_per_node=8", "--tee=3", "MOUNT/train.py", "--lr", "1"], True),
        (["hyperpodrun", "--nproc-per-node", "2", "/workspace/train.py"], False),
        (["torchrun", "--standalone", "-m", "json.tool"], True),
        (["torchrun", "-m", "no_such_module_anywhere"], False),
        (["/usr/bin/python3", "-u", "MOUNT/not-written-yet.py"], True),
        (["python", "-c", "print(1)"], True),
        (["python3", "/opt/image/only.py"], False),
        (["bash", "-c", "cd MOUNT && python3 MOUNT/a.py"], True),
        (["bash", "-lc", "cd /workspace && torchrun train.py"], False),
        (["bash", "-c", "sleep 5"], False),
        (["ray", "job", "submit", "--address", "http://x:8265", "--", "python MOUNT/a.py --b 'c d'"], True),
        (["ray", "job", "submit", "--", "python", "/home/ray/a.py"], False),
        (["ray", "start", "--head", "--block"], False),
        (["/entrypoint.sh"], False),
    ],
)
def test_what_really_runs(tmp_path: Path, words: list[str], runs: bool) -> None:
    assert launched([w.replace("MOUNT", str(tmp_path)) for w in words], (tmp_path,)) is runs


def test_starts_follow_the_annotation_and_beats_are_read() -> None:
    notes = {
        "sandbox.instantstart.dev/run": "exit 7 after 60; oom; sleep",
        "sandbox.instantstart.dev/starts": "1",
        "sandbox.instantstart.dev/beat": "every 10s until 300s: step={n} loss=1.5",
    }
    pod = {"metadata": {"annotations": notes}, "spec": {"containers": [{"name": "c", "image": IMAGE}]}}
    kinds = [behaviour_of(pod, "c", False, start) for start in range(3)]
    assert [(k.kind, k.code) for k in kinds] == [("end", 137), ("sleep", 0), ("sleep", 0)]
    assert beat_of(pod) == Beat(10.0, 300.0, "step={n} loss=1.5")


def test_hyperpodrun_gives_each_rank_its_place(tmp_path: Path) -> None:
    script = tmp_path / "a.py"
    script.write_text("import json, os; print(json.dumps({k: os.environ[k] for k in ('RANK', 'LOCAL_RANK', 'WORLD_SIZE', 'MASTER_PORT')}))")
    known = {k: v for k, v in os.environ.items() if not k.startswith(("RANK", "WORLD", "MASTER"))}
    environment = {**known, "NODE_RANK": "1", "MASTER_PORT": "29555", "MASTER_ADDR": "127.0.0.1"}
    words = [
        sys.executable,
        "-P",
        hyperpodrun.__file__,
        "--nnodes=2",
        "--nproc_per_node=8",
        f"--log_dir={tmp_path}/logs",
        "--tee=3",
        str(script),
    ]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "InstantStart sandbox: 2 of 8 local ranks are started" in lines
    told = sorted((json.loads(row.partition("]:")[2]) for row in lines if row.startswith("[default")), key=lambda t: str(t["RANK"]))
    assert [(t["RANK"], t["LOCAL_RANK"], t["WORLD_SIZE"]) for t in told] == [("2", "0", "4"), ("3", "1", "4")]
    assert json.loads((tmp_path / "logs" / "attempt_0" / "1" / "stdout.log").read_text())["RANK"] == "3"


def test_the_entrypoint_of_a_submission() -> None:
    given = ["--address", "http://h:8265", "--submission-id=abc", "--no-wait", "--", "python", "a.py", "--x"]
    assert ray_cli.entrypoint(given) == ("abc", ["python", "a.py", "--x"])
