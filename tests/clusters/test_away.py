"""The Kubernetes API, a webhook or the whole sandbox is away for a while: looked at again, never called failed, nothing done twice."""

from __future__ import annotations

from typing import Any

import pytest
from tests.clusters.conftest import Job, asked
from tests.clusters.crank import Crank
from tests.clusters.worlds import REGION, SandboxProcess

from instantstart.base import problems
from instantstart.capabilities.clusters import specs, workflows
from instantstart.ensure import eks


@pytest.fixture
def blind(crank: Crank, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """While a stage's name is in the list, the API server's address leads nowhere for it."""
    away: list[str] = []
    truth = eks.ref

    def ref(cluster: dict[str, Any], region: str) -> Any:
        import dataclasses

        found = truth(cluster, region)
        return dataclasses.replace(found, endpoint="https://127.0.0.1:9") if away else found

    monkeypatch.setattr(eks, "ref", ref)
    return away


def test_an_api_server_that_is_away_for_ninety_seconds_stops_nothing(job: Job, crank: Crank, blind: list[str]) -> None:
    begun = job.create(until="access")
    blind.append("away")
    start = begun.seconds
    while begun.seconds < start + 90:
        crank.turn(begun, ticks=1)
        assert begun.status == "running", begun.problem
    assert "No connection to the Kubernetes API" in begun.sentences("reach")
    blind.clear()
    assert crank.turn(begun, until="bundles").learned["bundles"]


def test_a_stage_whose_deadline_passes_while_the_api_is_away_is_blocked_not_failed_and_a_retry_goes_on(
    job: Job, crank: Crank, blind: list[str]
) -> None:
    begun = job.create(until="access")
    blind.append("away")
    stuck = crank.turn(begun)
    assert (stuck.status, stuck.stopped_at) == ("blocked", "reach")
    assert stuck.problem is not None
    assert (stuck.problem.kind, stuck.problem.code) == ("unreachable", "kubernetes.unreachable")
    assert stuck.problem.hint
    blind.clear()
    assert crank.retry(stuck, until="reach").learned["reach"]


def test_a_deletion_does_not_wait_for_ever_for_an_api_that_is_gone(job: Job, crank: Crank, blind: list[str]) -> None:
    job.create(until="reach")
    blind.append("away")
    gone = job.delete()
    assert gone.status == "succeeded", (gone.stopped_at, gone.problem)
    assert "looked for by tag instead" in gone.sentences("services")


def test_verify_says_what_it_cannot_read_instead_of_no_nodes(job: Job, crank: Crank, blind: list[str]) -> None:
    job.create(until="reach")
    blind.append("away")
    with pytest.raises(problems.Unreachable):
        workflows.VERIFY.stages()[0].act(crank.room, _run(asked(specs.VerifyTarget, tag=job.tag, region=REGION)))


def _run(spec: Any) -> Any:
    import datetime as dt

    from instantstart.operations.declare import Run

    return Run("op-x", "cluster.verify", "verify", spec, {}, 0.0, dt.datetime.now(dt.UTC), "tester")


def test_a_sandbox_killed_with_sigkill_comes_back_as_it_was(job: Job, crank: Crank, sandbox: SandboxProcess) -> None:
    begun = job.create(until="network")
    crank.turn(begun, ticks=6)
    for _ in range(2):
        sandbox.kill()
        crank.turn(begun, ticks=0)
        with pytest.raises(problems.Unreachable):
            job.site.aws.read("eks", "list_clusters")
        sandbox.start()
        crank.turn(begun, ticks=12)
        assert begun.status == "running", begun.problem
    done = crank.turn(begun)
    assert done.status == "succeeded", (done.stopped_at, done.problem)
    assert sum(c["operation"] == "CreateStack" for c in sandbox.calls()) <= 1
