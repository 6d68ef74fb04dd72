"""run.py as a container runs it: a real process, a real project, and a stand-in launcher that really starts the workers.

LLaMA-Factory, MS-Swift and VERL need cards and gigabytes: here each is a package of one module that records how it was started.
``hyperpodrun`` is the sandbox's stand-in, which starts the ranks as torchrun does.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from instantstart.ensure.training import recipe_scripts, recipes

RUN = recipes.path("launch/run.py")
ARGV_RECORDER = """
import json, os, pathlib, sys
rank = os.environ.get("RANK", "0")
told = {"argv": sys.argv[1:], "cwd": os.getcwd(), "tags": os.environ.get("MLFLOW_TAGS"), "world": os.environ.get("WORLD_SIZE")}
pathlib.Path(os.environ["RECORDS"], "rank-" + rank).write_text(json.dumps(told))
"""
ODD = ["--prompt", "a 'b' \"c\" $HOME `id` && exit 3", "", "--json", '{"x": [1, "é"]}']


class Container:
    """One container's world: its programs, its environment, what was recorded in it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.records, self.bin, self.packages = folder, folder / "records", folder / "bin", folder / "packages"
        self.project = folder / "volume" / "my project"
        for made in (self.records, self.bin, self.packages, self.project):
            made.mkdir(parents=True)
        self.program("hyperpodrun", f'#!/bin/sh\nexec {sys.executable} -m instantstart_sandbox.programs.hyperpodrun "$@"\n')
        self.program("python3", f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        path = os.pathsep.join((str(self.bin), os.environ["PATH"]))
        self.scratch, self.logs = folder / "scratch", folder / "logs"
        own = {"INSTANTSTART_SCRATCH": str(self.scratch), "INSTANTSTART_LOGS": str(self.logs)}
        self.environ = {**os.environ, "PATH": path, "RECORDS": str(self.records), "PYTHONPATH": str(self.packages), **own}

    def program(self, name: str, text: str) -> None:
        """An executable of the image."""
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def module(self, name: str) -> None:
        """A package of the image that only records how it was started."""
        place = self.packages.joinpath(*name.split("."))
        place.parent.mkdir(parents=True)
        for folder in place.relative_to(self.packages).parents:
            (self.packages / folder / "__init__.py").touch()
        place.with_suffix(".py").write_text(ARGV_RECORDER)

    def start(self, config: Any, *arguments: str, **environ: str) -> subprocess.Popen[str]:
        """The container's main process."""
        told = {**self.environ, "INSTANTSTART_RECIPE": config if isinstance(config, str) else json.dumps(config), **environ}
        argv = [sys.executable, str(RUN), *arguments]
        return subprocess.Popen(argv, env=told, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run(self, config: Any, *arguments: str, **environ: str) -> tuple[int, str, str]:
        """Status, output, errors."""
        process = self.start(config, *arguments, **environ)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    def recorded(self, rank: int = 0) -> dict[str, Any]:
        """What a worker was started with."""
        told: dict[str, Any] = json.loads((self.records / f"rank-{rank}").read_text())
        return told


@pytest.fixture
def container(tmp_path: Path) -> Container:
    """A container with a stand-in launcher."""
    return Container(tmp_path)


def test_a_script_of_the_project_gets_its_arguments_untouched_on_every_rank(container: Container) -> None:
    (container.project / "train.py").write_text(ARGV_RECORDER)
    (container.project / "requirements.txt").write_text("# nothing\n")
    config = {
        "recipe": "pytorch", "project": str(container.project), "script": "train.py", "arguments": ODD, "nodes": 1, "processes_per_node": 2,
        "requirements": "requirements.txt", "job": "tiny", "tags": {"team": "a b"},
    }  # fmt: skip
    status, _, err = container.run(config, MLFLOW_TRACKING_URI="http://127.0.0.1:9")
    assert status == 0, err
    for rank in (0, 1):
        told = container.recorded(rank)
        assert told["argv"] == ODD
        assert told["world"] == "2"
        assert told["cwd"] == str(container.scratch / "project")
        assert json.loads(told["tags"])["team"] == "a b"


def test_what_is_shown_before_is_what_runs(container: Container) -> None:
    config = {"recipe": "pytorch", "script": "train.py", "arguments": ODD, "nodes": 2, "processes_per_node": 8}
    status, out, _ = container.run(config, "--show")
    assert status == 0
    assert json.loads(out) == recipe_scripts.argv_of(config, {"INSTANTSTART_LOGS": str(container.logs)})


@pytest.mark.parametrize(
    ("module", "config", "wanted"),
    [
        ("llamafactory.launcher", {"recipe": "llama_factory", "settings": {"stage": "sft"}}, ["SCRATCH/settings.json"]),
        ("llamafactory.launcher", {"recipe": "llama_factory", "config_file": "a.yaml", "settings": {"x": "a b"}}, ["a.yaml", 'x="a b"']),
        ("swift.cli.sft", {"recipe": "ms_swift", "command": "sft", "settings": {"p": ODD[1]}}, ["--p", ODD[1]]),
        ("swift.cli._megatron.pt", {"recipe": "ms_swift", "command": "megatron pt", "settings": {"l": ["a", "b"]}}, ["--l", "a", "b"]),
        ("verl.trainer.main_ppo", {"recipe": "verl", "settings": {"a": {"b": "it's"}}}, [r"a.b='it\'s'"]),
    ],
)  # fmt: skip
def test_each_framework_is_started_with_its_own_arguments(
    container: Container, module: str, config: dict[str, Any], wanted: list[str]
) -> None:
    container.module(module)
    status, _, err = container.run({**config, **({} if config["recipe"] == "verl" else {"processes_per_node": 1})})
    assert status == 0, err
    assert container.recorded()["argv"] == [word.replace("SCRATCH", str(container.scratch)) for word in wanted]


def test_a_configuration_file_of_ms_swift_is_read_in_the_container(container: Container) -> None:
    container.module("swift.cli.sft")
    text = "model: /s3/models/a b\nlr: 1.0e-5\ntarget: [q, v]\nkw:\n  deep: true\nENV:\n  MLFLOW_TAGS: from the file\n"
    (container.project / "sft.yaml").write_text(text)
    config = {"recipe": "ms_swift", "command": "sft", "project": str(container.project), "config_file": "sft.yaml", "settings": {"lr": 2}}
    status, _, err = container.run({**config, "processes_per_node": 1})
    assert status == 0, err
    assert container.recorded()["argv"] == ["--model", "/s3/models/a b", "--target", "q", "v", "--kw", '{"deep": true}', "--lr", "2"]
    assert container.recorded()["tags"] == "from the file"


def test_the_status_and_the_output_of_a_command_are_passed_on_and_kept(container: Container) -> None:
    code = "import sys; print('out', sys.argv[1:]); sys.stderr.write('err\\n'); sys.exit(7)"
    status, out, err = container.run({"recipe": "container", "command": ["python3", "-c", code, *ODD]})
    assert status == 7
    assert out == f"out {ODD}\n"
    assert "err\n" in err
    assert out in (container.logs / "instantstart/attempt_0/0/stdout.log").read_text()


def test_a_signal_reaches_the_command_and_its_end_is_told(container: Container) -> None:
    ready = container.folder / "ready"
    code = "import pathlib, signal, sys, time; signal.signal(15, lambda *_: sys.exit(9)); "
    code += f"pathlib.Path({str(ready)!r}).touch(); time.sleep(60)"
    process = container.start({"recipe": "container", "command": ["python3", "-c", code]})
    while not ready.exists():
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 9
    killed = container.run({"recipe": "container", "command": ["python3", "-c", "import os; os.kill(os.getpid(), 9)"]})
    assert killed[0] == 128 + 9


def test_the_launcher_takes_the_place_of_the_process(container: Container) -> None:
    container.program("hyperpodrun", '#!/bin/sh\necho "$$"\nexit 5\n')
    process = container.start({"recipe": "pytorch", "script": "a.py"})
    out, _ = process.communicate(timeout=30)
    assert (process.returncode, int(out)) == (5, process.pid)


@pytest.mark.parametrize(
    ("config", "status", "told"),
    [
        ("{", 64, "no JSON"),
        ({"recipe": "pytorch", "nodes": 0}, 64, "nodes must be a whole number from 1. Give a script"),
        ({"recipe": "pytorch", "script": "a.py", "project": "/nowhere"}, 66, "is the volume mounted"),
        ({"recipe": "ms_swift", "command": "sft", "config_file": "/nowhere.yaml"}, 66, "cannot be read"),
        ({"recipe": "container", "command": ["no-such-program"]}, 127, "no-such-program is not in this image"),
        ({"recipe": "pytorch", "script": "a.py", "launcher": "torchrun", "nodes": 2}, 64, "MASTER_ADDR"),
    ],
)
def test_what_cannot_be_run_says_why(container: Container, config: Any, status: int, told: str) -> None:
    ended, _, err = container.run(config)
    assert (ended, told in err) == (status, True), err


def test_dependencies_are_pinned_and_nothing_is_asked_when_the_image_has_them(container: Container) -> None:
    wanted = container.folder / "requirements.txt"
    config = {"recipe": "container", "command": ["python3", "-c", "print('ran')"], "requirements": str(wanted)}
    wanted.write_text(f"pytest=={metadata.version('pytest')}  # there\n")
    status, out, err = container.run(config)
    assert (status, out) == (0, "ran\n")
    assert "the image has everything" in err
    wanted.write_text("pytest>=1\n")
    assert container.run(config)[0] == 64
    empty = container.folder / "wheels"
    empty.mkdir()
    wanted.write_text("no-such-package-of-ours==1.0\n")
    status, _, err = container.run({**config, "wheels": str(empty)})
    assert status == 69
    assert "--no-index" in err
