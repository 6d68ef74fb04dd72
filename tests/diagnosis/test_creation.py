"""Creations that fail in the sandbox for a reason of each kind: the cause that is to be mended ranks first."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Any

import pytest
from tests.capacity.doors import Door
from tests.clusters.conftest import TYPE, Job
from tests.clusters.crank import Crank, Turned
from tests.clusters.worlds import SandboxProcess
from tests.diagnosis.scenes import first

from instantstart.capabilities.room import Room
from instantstart.operations.record import OperationStatus, StageStatus
from instantstart.store.records import ClusterRow, OperationRow, StageRow

ZONE = "us-west-2a"


@pytest.fixture
def quota(sandbox: SandboxProcess) -> None:
    """Room for some nodes."""
    sandbox.admin("quota", service_code="sagemaker", name=f"{TYPE} for cluster usage", value=16)


@pytest.fixture(autouse=True)
def _journal(room: Room) -> None:
    """An empty journal: what a test noted before is over."""
    for each in room.engine.list(limit=200).items:
        room.store.operations.update(each.id, status=OperationStatus.cancelled)


def _noted(room: Room, turned: Turned) -> None:
    """The journal, as the engine would have written it of an operation that was turned by hand."""
    number = len(room.engine.list().items)
    status = {"failed": OperationStatus.failed, "blocked": OperationStatus.blocked}.get(turned.status, OperationStatus.waiting)
    problem, now = turned.problem.document() if turned.problem else None, dt.datetime.now(dt.UTC)
    row = OperationRow(
        f"{turned.id}-{number}", turned.workflow.name, f"cluster/{turned.spec.tag}", turned.spec.tag, status, "tester",
        turned.spec.model_dump(mode="json"), turned.id, now, started_at=now, problem=problem, execution=1,
    )  # fmt: skip
    stages = []
    for at, (name, standing) in enumerate(turned.stages.items()):
        stopped = name == turned.stopped_at
        state = StageStatus.done if standing.done else StageStatus.failed if stopped else StageStatus.pending
        stages.append(StageRow(row.id, name, at, state, problem=problem if stopped else None, started_at=now, since=now))
    room.store.operations.insert(dataclasses.replace(row), stages)
    room.store.clusters.upsert(ClusterRow(tag=turned.spec.tag, region=turned.spec.region))


def _diagnosis(door: Door, job: Job, **query: Any) -> dict[str, Any]:
    job.site.aws._kept.clear()
    return door.get(f"/clusters/{job.tag}/diagnosis", **query)  # type: ignore[no-any-return]


def _script(told: dict[str, Any]) -> str:
    """What the script wrote, as the first cause quotes it."""
    quoted = [e["untrusted_text"] for e in told["causes"][0]["evidence"] if e["source"] == "log"]
    return "\n".join(quoted)


def test_a_quota_that_stops_it_before_anything_is_made(room: Room, job: Job, door: Door, sandbox: SandboxProcess) -> None:
    sandbox.admin("quota", service_code="sagemaker", name=f"{TYPE} for cluster usage", value=0)
    refused = job.create()
    assert refused.status in ("failed", "blocked")
    _noted(room, refused)
    told = _diagnosis(door, job)
    assert first(told) == ("quota.too_low", "certain")
    assert told["causes"][0]["evidence"][0]["source"] == "operation"
    assert f"{TYPE} for cluster usage" in told["verdict"]
    assert [s["rung"] for s in told["causes"][0]["next_steps"]][-1] == "replace"


def test_a_stack_that_fails_is_told_by_its_first_failure(room: Room, job: Job, door: Door, sandbox: SandboxProcess, quota: None) -> None:
    message = "API: ec2:CreateNatGateway You are not authorized to perform this operation."
    sandbox.fault("cloudformation:.*NatGateway.*/Create", code="AccessDenied", message=message)
    failed = job.create(until="stack")
    assert (failed.status, failed.stopped_at) == ("blocked", "stack")
    told = _diagnosis(door, job)  # without the journal: AWS alone tells it
    assert first(told) == ("permissions.missing", "certain")
    evidence = told["causes"][0]["evidence"][0]
    assert (evidence["source"], "Nat" in evidence["reference"], message in evidence["untrusted_text"]) == ("aws", True, True)
    _noted(room, failed)
    both = _diagnosis(door, job)
    assert first(both) == ("permissions.missing", "certain")
    assert {e["source"] for e in both["causes"][0]["evidence"]} == {"aws", "operation"}


@pytest.mark.slow
def test_from_a_right_that_is_missing_over_a_broken_script_to_nothing(
    room: Room, crank: Crank, job: Job, door: Door, sandbox: SandboxProcess, quota: None
) -> None:
    says = "User: arn:aws:sts::1:assumed-role/x is not authorized to perform: sagemaker:CreateCluster"
    sandbox.fault("sagemaker:CreateCluster", code="AccessDeniedException", message=says, status=400)
    denied = job.create(until="hyperpod")
    assert (denied.status, denied.stopped_at) == ("blocked", "hyperpod")
    _noted(room, denied)
    told = _diagnosis(door, job)
    assert first(told) == ("permissions.missing", "certain")
    assert any(e["source"] == "aws" and "sagemaker" in e["text"] for e in told["causes"][0]["evidence"])
    sandbox.clear()
    room.store.operations.update(room.engine.list().items[0].id, status=OperationStatus.cancelled)

    sandbox.admin("settings", node_running_seconds=300.0)
    begun = crank.retry(denied, until="hyperpod")
    assert begun.problem is None
    name = job.site.names.hyperpod_cluster
    sandbox.admin("scenario/lifecycle-failure", cluster=name, group="workers", on=True)
    told = _diagnosis(door, job)
    for _ in range(20):  # until the first instance has tried its script
        if told["causes"]:
            break
        crank.turn(begun, ticks=10)
        told = _diagnosis(door, job)
    assert first(told) == ("lifecycle.script_failed", "certain")
    assert any("/aws/sagemaker/Clusters" in e["reference"] for e in told["causes"][0]["evidence"])
    assert "exited with status 1" in _script(told)
    instance = next(n for n in sandbox.client("sagemaker").list_cluster_nodes(ClusterName=name)["ClusterNodeSummaries"])
    sandbox.admin("scenario/lifecycle-failure", cluster=name, group="workers", on=False)
    node = door.get(f"/clusters/{job.tag}/nodes/{instance['InstanceId']}/diagnosis")
    assert first(node) == ("lifecycle.script_failed", "certain")
    assert "exited with status 1" in _script(node)
    sandbox.fault("logs:GetLogEvents", code="AccessDeniedException", message="User is not authorized", status=400, count=None)
    blind = _diagnosis(door, job)
    assert first(blind) == ("lifecycle.script_failed", "certain")
    assert {u["code"] for u in blind["unread"]} == {"aws.denied"}
    assert not _script(blind)
    sandbox.clear()

    assert crank.turn(begun).status == "succeeded"
    well = _diagnosis(door, job)
    assert (well["found"], well["causes"]) == ("nothing", []), well
    assert len(well["looked_at"]) >= 8


def test_capacity_that_does_not_come(job: Job, crank: Crank, door: Door, sandbox: SandboxProcess, quota: None, room: Room) -> None:
    sandbox.admin("capacity", instance_type=TYPE, zone=ZONE, available=1)
    begun = job.create(until="hyperpod", instance_count=2)
    crank.turn(begun, ticks=12)
    room.store.clusters.upsert(ClusterRow(tag=job.tag, region=job.region))
    told = _diagnosis(door, job)
    assert first(told) == ("capacity.exhausted", "certain")
    assert "1/2" in told["standing"]
    assert any(s["tool"] == "instance_group_add" for s in told["causes"][0]["next_steps"])
