"""A client token is the same after a crash: the program is killed between the act and its record, and asks again with the same token."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.aws import ledgers
from tests.aws.acting import composed
from tests.clusters.conftest import QUICK, TYPE, ZONE
from tests.clusters.crank import Crank
from tests.clusters.worlds import REGION, ROOT, SandboxProcess, bundles, environment_without_aws, wait_for

from instantstart.base.outcome import Outcome
from instantstart.capabilities.clusters import specs, workflows
from instantstart_sandbox.world.settings import Settings as Weather

#: virtual seconds for which reads do not show what was just made; longer than the test
STALE_SECONDS = 3600.0
CALL = ("cloudformation", "CreateStack")


@contextlib.contextmanager
def control_plane(sandbox: SandboxProcess, folder: Path, *program: str) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A control plane as a process: its child and its log."""
    settings = {"INSTANTSTART_DATA_DIR": str(folder / "house"), "INSTANTSTART_BUNDLES_DIR": str(bundles()), "INSTANTSTART_PORT": "0"}
    log = folder / f"{'-'.join(program[1:2])}.log"
    with log.open("w") as output:
        child = subprocess.Popen(
            [sys.executable, "-m", *program],
            env={**environment_without_aws(), **sandbox.environment(), **settings},
            cwd=ROOT,
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
        )
    try:
        yield child, log
    finally:
        child.kill()
        child.wait()


def calls(sandbox: SandboxProcess) -> list[dict[str, Any]]:
    """The calls of the operation in question."""
    return [c for c in sandbox.calls() if (c["service"], c["operation"]) == CALL]


@pytest.mark.slow
def test_the_token_of_a_call_is_equal_before_and_after_a_kill(sandbox: SandboxProcess, tmp_path: Path) -> None:
    with control_plane(sandbox, tmp_path, "tests.aws.dying", ".".join(CALL)) as (child, log):
        wait_for(log, "InstantStart is ready: ", child)
        url = next(line.removeprefix("InstantStart is ready: ") for line in log.read_text().splitlines() if "is ready: " in line)
        token = (tmp_path / "house" / "admin-token").read_text().strip()
        sandbox.admin("settings", stale_reads=STALE_SECONDS)
        ask = {"tag": "demo", "zone": "usw2-az1", "instance_type": "ml.g5.8xlarge", "instance_count": 1}
        with contextlib.suppress(httpx2.TransportError):  # it may die before it has answered
            httpx2.post(f"{url}/api/v1/clusters", json=ask, headers={"Authorization": f"Bearer {token}"}, timeout=60)
        assert child.wait(timeout=120) == -9, log.read_text()[-2000:]
    (first,) = calls(sandbox)
    with control_plane(sandbox, tmp_path, "instantstart", "serve"):
        until = time.monotonic() + 120
        while len(calls(sandbox)) < 2 and time.monotonic() < until:
            time.sleep(0.2)
    tokens = [c["client_token"] for c in calls(sandbox)]
    assert len(tokens) >= 2
    assert set(tokens) == {first["client_token"]}
    assert ledgers.check_tokens(sandbox.calls()) >= 2
    assert len(sandbox.client("cloudformation").list_stacks()["StackSummaries"]) <= 1


def asked_with_tokens(sandbox: SandboxProcess, folder: Path, *, dying: bool) -> set[tuple[str, str, str]]:
    """Every (service, operation, token) of one main job; ``dying``: each second outcome is lost, as by a kill after the act."""
    sandbox.admin("settings", **{**Weather().dump(), **QUICK, "stale_reads": 15.0 if dying else 0.0})
    sandbox.admin("reset")
    since = sandbox.last_call()
    with composed(sandbox.environment(), folder) as room:
        crank = Crank(room, sandbox)
        seen: dict[str, int] = {}

        def lost(stage: str, outcome: Outcome) -> bool:
            seen[stage] = seen.get(stage, 0) + 1
            return dying and seen[stage] % 2 == 1

        crank.discard = lost
        spec = specs.ClusterTarget(tag="demo", region=REGION, zone=ZONE, instance_type=TYPE, cert_manager=True)
        done = crank.run(workflows.CREATE_CLUSTER, spec)
        assert done.status == "succeeded", (done.stopped_at, done.problem)
    found = [c for c in sandbox.calls(since) if ledgers.takes_token(c["service"], c["operation"])]
    assert ledgers.check_tokens(found) > 5
    return {(c["service"], c["operation"], c["client_token"]) for c in found}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_no_token_is_another_one_after_kills_at_every_stage_and_late_reads(sandbox: SandboxProcess, tmp_path: Path) -> None:
    smooth = asked_with_tokens(sandbox, tmp_path / "smooth", dying=False)
    assert asked_with_tokens(sandbox, tmp_path / "dying", dying=True) == smooth
