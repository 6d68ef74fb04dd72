"""The undisturbed run, and what a deletion leaves."""

from __future__ import annotations

from typing import Any

from tests.clusters.worlds import SandboxProcess, inventory


def test_an_empty_account_becomes_a_verified_cluster_and_empty_again(job: Any, sandbox: SandboxProcess) -> None:
    empty = inventory(sandbox)
    made = job.create()
    assert made.status == "succeeded", (made.stopped_at, made.problem)
    assert made.result["verified"]
    assert (made.result["nodes"]["ready"], made.result["nodes"]["wanted"]) == (1, 1)
    assert [c["phase"] for c in made.result["storage"]] == ["Bound"]
    gone = job.delete()
    assert gone.status == "succeeded", (gone.stopped_at, gone.problem)
    assert inventory(sandbox) == empty
