"""Operations on different groups at the same time, by the real engine; and what an agent and the command line see of a group."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.capacity.doors import GROUPS, Door, counted
from tests.clusters.conftest import ZONE, Job
from tests.clusters.crank import Crank
from tests.clusters.worlds import SandboxProcess

from instantstart.capabilities.room import Room

CPU = "ml.m5.2xlarge"
ENDED = ("succeeded", "failed", "blocked", "cancelled")


def end_of(door: Door, sandbox: SandboxProcess, operations: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The operations as they end; virtual time goes on meanwhile."""
    for _ in range(120):
        found = [door.get(f"/operations/{o['id']}") for o in operations]
        if all(o["status"] in ENDED for o in found):
            return found
        sandbox.warp(10)
        time.sleep(0.2)
    raise AssertionError(json.dumps(found)[:2000])


@pytest.fixture
def running(shared_room: Room) -> Iterator[None]:
    """The engine really runs."""
    shared_room.engine.launch()
    yield
    shared_room.engine.shutdown()


@pytest.mark.slow
def test_two_groups_are_made_changed_and_deleted_side_by_side(
    running: None, standing: Job, door: Door, crank: Crank, shared_sandbox: SandboxProcess
) -> None:
    names = ("left", "right")
    bodies = [{"name": name, "instance_type": CPU, "instance_count": 1, "zone": ZONE} for name in names]
    with counted(shared_sandbox, "UpdateCluster") as sent:
        begun = [door.well(202, "POST", GROUPS, body) for body in bodies]
        repeated = [door.well(202, "POST", GROUPS, body)["id"] for body in bodies]
        assert repeated == [o["id"] for o in begun], "the same wish is the same operation"
        listed = {g["name"]: g["operation"] for g in door.get(GROUPS)["items"] if g["operation"]}
        ended = end_of(door, shared_sandbox, begun)
    assert [o["status"] for o in ended] == ["succeeded", "succeeded"], ended
    assert set(listed) <= set(names)
    assert sorted(g["InstanceGroupName"] for r in sent for g in r["InstanceGroups"]) == ["left", "right"]
    changes = [door.well(202, "PATCH", f"{GROUPS}/{name}", {"labels": {"side": name}}) for name in names]
    assert [o["status"] for o in end_of(door, shared_sandbox, changes)] == ["succeeded", "succeeded"]
    assert {g["name"]: g["labels"] for g in door.get(GROUPS)["items"] if g["name"] in names} == {n: {"side": n} for n in names}
    plans = [door.well(200, "DELETE", f"{GROUPS}/{name}", dry_run=True) for name in names]
    gone = [door.well(202, "DELETE", f"{GROUPS}/{name}", approval=plan["approval"]) for name, plan in zip(names, plans, strict=True)]
    assert [o["status"] for o in end_of(door, shared_sandbox, gone)] == ["succeeded", "succeeded"]
    assert not {g["name"] for g in door.get(GROUPS)["items"]} & set(names)


def test_a_viewer_reads_and_changes_nothing(standing: Job, door: Door, crank: Crank) -> None:
    made = door.call("POST", "/tokens", {"name": "looker", "role": "viewer"}).json()
    secret = next(value for key, value in made.items() if isinstance(value, str) and value.startswith("ist_"))
    looker = Door(door.client, secret)
    assert looker.get(GROUPS)["cluster"] == standing.site.hyperpod_cluster
    assert looker.get("/training-plans")["region"] == "us-west-2"
    body = {"name": "no", "instance_type": CPU, "zone": ZONE}
    for method, path, asked in (
        ("POST", GROUPS, body), ("PATCH", f"{GROUPS}/workers", {}), ("POST", f"{GROUPS}/workers/scale", {"instance_count": 1}),
        ("DELETE", f"{GROUPS}/workers", None),
    ):  # fmt: skip
        assert looker.refusal(403, method, path, asked)["code"] == "identity.role_too_low"
