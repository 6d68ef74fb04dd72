"""A fork is the program: its arguments, environment, output, exit status and end by a signal are those of a fresh process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.clusters import forks, worlds
from tests.clusters.processes import ControlPlane


def test_its_output_and_status_are_those_of_the_command(tmp_path: Path) -> None:
    fresh = subprocess.run([sys.executable, "-m", "instantstart", "--version"], capture_output=True, text=True, check=True)
    assert forks.start("instantstart", ["--version"], log := tmp_path / "log").wait(timeout=60) == 0
    assert log.read_text() == fresh.stdout
    assert forks.start("instantstart", ["no-such-command"], log).wait(timeout=60) == 2
    assert "no-such-command" in log.read_text()


def test_a_signal_ends_it_and_is_told(tmp_path: Path) -> None:
    made = forks.start("instantstart_sandbox", ["serve", "--port", "0", "--data", str(tmp_path / "data")], tmp_path / "log")
    worlds.wait_for(tmp_path / "log", '"ready": true', made)
    assert made.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        made.wait(timeout=0.05)
    assert os.getsid(made.pid) == made.pid
    made.kill()
    assert made.wait(timeout=60) == -signal.SIGKILL
    again = forks.start("instantstart_sandbox", ["serve", "--port", "0", "--data", str(tmp_path / "data")], tmp_path / "log")
    worlds.wait_for(tmp_path / "log", '"ready": true', again)
    again.terminate()
    assert again.wait(timeout=60) == 0


def test_two_forks_draw_different_ids(tmp_path: Path) -> None:
    """What stands when a world is laid out again must not be replaced by something new of the same id."""
    made = []
    for name in ("one", "two"):
        sandbox = worlds.SandboxProcess(tmp_path / name)
        sandbox.start()
        made.append(sandbox.client("ec2").create_vpc(CidrBlock="10.1.0.0/16")["Vpc"]["VpcId"])
        sandbox.stop()
    assert made[0] != made[1]


def test_the_control_plane_is_killed_and_comes_back_with_its_data(tmp_path: Path) -> None:
    sandbox = worlds.SandboxProcess(tmp_path / "sandbox")
    sandbox.start()
    plane = ControlPlane(tmp_path / "plane", sandbox)
    plane.start()
    address, first = plane.url, plane.child and plane.child.pid
    plane.kill_and_start()
    assert plane.url == address
    assert plane.child is not None
    assert plane.child.pid != first
    assert plane.call("GET", "/clusters")["items"] == []
    plane.stop()
    sandbox.stop()
