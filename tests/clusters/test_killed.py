"""The real control plane is killed (SIGKILL) at chosen and at random moments: the world equals the undisturbed run's.

Writes ``clusters.md`` into ``$INSTANTSTART_REPORT_DIR`` (default ``build/crash``): workflow, point, kills, what came of it.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.clusters.conftest import TYPE, ZONE
from tests.clusters.processes import ControlPlane
from tests.clusters.worlds import ROOT, SandboxProcess, inventory

from instantstart.capabilities.clusters import workflows

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

RATE = 60.0
ASK = {"tag": "demo", "zone": ZONE, "instance_type": TYPE}
CREATE = tuple(s.name for s in workflows.CREATE_CLUSTER.stages() if s.name != "cert_manager")
DELETE = tuple(s.name for s in workflows.DELETE_CLUSTER.stages())
#: one of each, however often the process died
SINGLE = ("vpc ", "eks ", "hyperpod ", "stack ", "nat-gateway ", "oidc ", "internet-gateway ")
REPORT = Path(os.environ.get("INSTANTSTART_REPORT_DIR", str(ROOT / "build" / "crash"))) / "clusters.md"


@pytest.fixture(scope="module")
def fast(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxProcess]:
    """A sandbox whose time runs by itself."""
    made = SandboxProcess(tmp_path_factory.mktemp("fast"), rate=RATE)
    made.start()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def report() -> Iterator[list[tuple[str, str, int, str, str]]]:
    """Rows of the report; written at the end of the module."""
    rows: list[tuple[str, str, int, str, str]] = []
    yield rows
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    right = sum(row[4] == "equal" for row in rows)
    head = f"# Crashes of the control plane, workflow by point\n\n{right} of {len(rows)} runs ended in the undisturbed world.\n"
    lines = [f"| {w} | {p} | {k} | {s} | {v} |" for w, p, k, s, v in rows]
    REPORT.write_text("\n".join([head, "| workflow | killed at | kills | ended | world |", "|---|---|---|---|---|", *lines]) + "\n")


@pytest.fixture(scope="module")
def expected() -> dict[str, list[str]]:
    """The undisturbed worlds, by workflow."""
    return {}


@pytest.fixture
def plane(fast: SandboxProcess, tmp_path: Path) -> Iterator[ControlPlane]:
    """A fresh control plane on an empty account."""
    fast.clear()
    fast.admin("reset")
    made = ControlPlane(tmp_path, fast)
    made.start()
    yield made
    made.stop()


def _undisturbed(plane: ControlPlane, fast: SandboxProcess, expected: dict[str, list[str]]) -> None:
    if "made" not in expected:
        expected["empty"] = inventory(fast)
        assert plane.follow(plane.call("POST", "/clusters", ASK)["id"])["status"] == "succeeded"
        expected["made"] = inventory(fast)
        fast.admin("reset")
        plane.call("POST", "/clusters/demo/forget")


def _delete(plane: ControlPlane) -> str:
    approval = plane.call("DELETE", "/clusters/demo", dry_run=True)["approval"]
    return str(plane.call("DELETE", "/clusters/demo", approval=approval)["id"])


def _reaches(plane: ControlPlane, operation: str, stage: str, *, ended: bool) -> None:
    """Wait until a stage has begun, or ended."""
    until = time.monotonic() + 200
    while time.monotonic() < until:
        seen = plane.operation(operation)
        status = next(s["status"] for s in seen["stages"] if s["name"] == stage) if seen["stages"] else "pending"
        if status in ("done", "skipped") or (not ended and status in ("running", "waiting")):
            return
        assert seen["status"] in ("queued", "running", "waiting"), seen["problem"]
        time.sleep(0.03)
    raise AssertionError(f"{stage} never came")


def _judge(world: list[str], expected: list[str], report: list[Any], row: tuple[str, str, int, str]) -> None:
    missing, more = [x for x in expected if x not in world], [x for x in world if x not in expected]
    verdict = "equal" if world == expected else f"differs: missing {missing}, more {more}"
    report.append((*row, verdict))
    assert row[3] == "succeeded"
    assert verdict == "equal"


@pytest.mark.parametrize("when", ["begun", "ended"])
@pytest.mark.parametrize("half", [0, 1])
def test_killed_at_every_stage_of_a_creation(
    plane: ControlPlane, fast: SandboxProcess, expected: dict[str, list[str]], report: list[Any], when: str, half: int
) -> None:
    """One run dies once at every second stage: a life of the process for each."""
    _undisturbed(plane, fast, expected)
    operation = plane.call("POST", "/clusters", ASK)["id"]
    for stage in CREATE[half::2]:
        _reaches(plane, operation, stage, ended=when == "ended")
        plane.kill_and_start()
    seen = plane.follow(operation)
    points = f"{', '.join(CREATE[half::2])}: {when}"
    _judge(inventory(fast), expected["made"], report, ("cluster.create", points, plane.kills, seen["status"]))
    assert seen["result"]["verified"]


@pytest.mark.parametrize("when", ["begun", "ended"])
def test_killed_at_every_stage_of_a_deletion(
    plane: ControlPlane, fast: SandboxProcess, expected: dict[str, list[str]], report: list[Any], when: str
) -> None:
    _undisturbed(plane, fast, expected)
    assert plane.follow(plane.call("POST", "/clusters", ASK)["id"])["status"] == "succeeded"
    operation = _delete(plane)
    for stage in DELETE[:-1]:
        _reaches(plane, operation, stage, ended=when == "ended")
        plane.kill_and_start()
    seen = plane.follow(operation)
    _judge(inventory(fast), expected["empty"], report, ("cluster.delete", f"each stage {when}", plane.kills, seen["status"]))


@pytest.mark.parametrize("seed", range(int(os.environ.get("INSTANTSTART_KILL_RUNS", "4"))))
def test_killed_at_random_moments(
    plane: ControlPlane, fast: SandboxProcess, expected: dict[str, list[str]], report: list[Any], seed: int
) -> None:
    _undisturbed(plane, fast, expected)
    chance = random.Random(seed)
    operation = plane.call("POST", "/clusters", ASK)["id"]
    for _ in range(chance.randint(2, 5)):
        time.sleep(chance.uniform(0.05, 6.0))
        plane.kill_and_start()
    seen = plane.follow(operation)
    world = inventory(fast)
    for kind in SINGLE:
        assert sum(line.startswith(kind) for line in world) == 1, kind
    _judge(world, expected["made"], report, ("cluster.create", f"random, seed {seed}", plane.kills, seen["status"]))


def test_the_sandbox_itself_is_killed_in_the_middle_and_the_operation_goes_on(
    plane: ControlPlane, fast: SandboxProcess, expected: dict[str, list[str]], report: list[Any]
) -> None:
    _undisturbed(plane, fast, expected)
    operation = plane.call("POST", "/clusters", ASK)["id"]
    for stage in ("stack", "bundles", "hyperpod", "nodes"):
        _reaches(plane, operation, stage, ended=False)
        fast.kill()
        time.sleep(1.5)
        fast.start()
    seen = plane.follow(operation)
    _judge(inventory(fast), expected["made"], report, ("cluster.create", "AWS itself away four times", 0, seen["status"]))


def test_the_real_process_in_bad_weather_ends_in_the_undisturbed_world(
    plane: ControlPlane, fast: SandboxProcess, expected: dict[str, list[str]], report: list[Any]
) -> None:
    """A fifth of all calls throttled, refused or answered into the void, and a kill on top."""
    _undisturbed(plane, fast, expected)
    fast.fault(".*", code="throttle", probability=0.1, count=None)
    fast.fault(".*", code="unavailable", probability=0.05, count=None)
    fast.fault(".*", when="after", probability=0.05, count=None)
    operation = plane.call("POST", "/clusters", ASK)["id"]
    _reaches(plane, operation, "subnet", ended=False)
    plane.kill_and_start()
    seen = plane.follow(operation)
    fast.clear()
    _judge(inventory(fast), expected["made"], report, ("cluster.create", "20 % bad weather, subnet begun", plane.kills, seen["status"]))
