"""What costs by the hour, asked for by an agent: a plan first, whose approval is good once and for just that; a person's yes by policy."""

from __future__ import annotations

import concurrent.futures
import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.capacity.doors import turn
from tests.clusters.conftest import TYPE, ZONE, Job
from tests.clusters.test_door import Door
from tests.clusters.worlds import SandboxProcess

from instantstart import main
from instantstart.base.settings import AgentSpending
from instantstart.capabilities.room import Room

NODES = {"zone": ZONE, "instance_type": TYPE, "instance_count": 1}
#: what is asked for, under the cluster (or not), with a body, and one field that makes it another request
COSTLY = [
    pytest.param("/clusters", {"tag": "spent", **NODES}, {"instance_count": 2}, id="cluster_create"),
    pytest.param("/eks-clusters", {"tag": "spent-eks"}, {"vpc_cidr": "10.77.0.0/16"}, id="eks_create"),
    pytest.param("{cluster}/instance-groups", {"name": "spent", **NODES}, {"instance_count": 2}, id="instance_group_add"),
    pytest.param("{cluster}/instance-groups/workers/scale", {"instance_count": 3}, {"instance_count": 4}, id="instance_group_scale"),
    pytest.param("{cluster}/volumes/fsx", {"claim_name": "spent", "size_gib": 1200}, {"size_gib": 2400}, id="fsx_volume_add"),
    pytest.param("{cluster}/mlflow/tracking_server", {"name": "spent"}, {"name": "spent-2"}, id="mlflow_server_create"),
]
MISSING = "approval.missing"


@pytest.fixture(scope="module")
def person(door: Any) -> Door:
    """The administrator, with the calls of tests.clusters."""
    return Door(door.client, door.headers["Authorization"].removeprefix("Bearer "))


@pytest.fixture(scope="module")
def agent(door: Any, shared_room: Room) -> Door:
    """An agent that is an operator."""
    _, secret = shared_room.store.identities.create_token("spender", "operator", "agent")
    return Door(door.client, secret)


@pytest.fixture(scope="module", autouse=True)
def driver(standing: Job, shared_sandbox: SandboxProcess) -> Iterator[None]:
    """A file system is mounted by its driver; clients that are made from here on ask this sandbox, not that of a module before."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in shared_sandbox.environment().items():
            patch.setenv(name, value)
        _switch_on(standing)
        yield


def _switch_on(standing: Job) -> None:
    made = turn(standing.crank, "feature.enable", feature="fsx_csi", ask={"enabled": True})
    assert made.status == "succeeded", made.problem


def _path(path: str, standing: Job) -> str:
    return path.format(cluster=f"/clusters/{standing.tag}")


@pytest.mark.parametrize(("path", "body", "otherwise"), COSTLY)
def test_an_agent_passes_the_approval_of_just_this_plan_once(
    person: Door, agent: Door, standing: Job, path: str, body: dict[str, Any], otherwise: dict[str, Any]
) -> None:
    path = _path(path, standing)
    told = agent.refusal("POST", path, 409, body)
    assert (told["code"], told["detail"].startswith("This begins to cost")) == (MISSING, True), told
    plan = agent.call("POST", path, body, params={"dry_run": True}).json()
    assert plan["make"], plan
    by = {"params": {"approval": plan["approval"]}}
    assert agent.refusal("POST", path, 409, {**body, **otherwise}, **by)["code"] == MISSING
    assert person.refusal("DELETE", f"/clusters/{standing.tag}", 409, **by)["code"] == MISSING
    begun = agent.ask(path, body, **by)
    try:
        assert begun["status"] in ("queued", "running", "waiting")
        assert agent.ask(path, body)["id"] == begun["id"], "who asks again for what goes on is answered with it"
    finally:
        person.cancel(begun)
    until_ended(person, begun)
    assert agent.refusal("POST", path, 409, body, **by)["code"] == MISSING, "it is used up"


def until_ended(person: Door, operation: dict[str, Any]) -> None:
    """The subject is free again."""
    for _ in range(20):
        if person.get(f"/operations/{operation['id']}/wait", seconds=5)["status"] in ("cancelled", "succeeded", "failed"):
            return
    raise AssertionError(operation["id"])


@pytest.mark.parametrize(("path", "body", "otherwise"), COSTLY)
def test_a_person_need_not(person: Door, standing: Job, path: str, body: dict[str, Any], otherwise: dict[str, Any]) -> None:
    plan = person.call("POST", _path(path, standing), {**body, **otherwise}, params={"dry_run": True}).json()
    assert plan["make"]
    assert plan["approval"] is None


def test_what_costs_nothing_asks_for_nothing(agent: Door, standing: Job) -> None:
    assert agent.call("POST", f"/clusters/{standing.tag}/instance-groups/workers/scale", {"instance_count": 1}).status_code == 200


def test_a_plan_without_a_tag_says_that_its_names_are_only_like_those_to_come(person: Door) -> None:
    told = person.call("POST", "/clusters", NODES, params={"dry_run": True}).json()
    assert "No tag was given" in told["warnings"][0]


def test_two_that_come_with_one_approval_and_one_key_are_one_operation(person: Door, agent: Door) -> None:
    """The answer was lost, and the request is sent again while the first is still being begun."""
    path, body = "/eks-clusters", {"tag": "twins"}
    plan = agent.call("POST", path, body, params={"dry_run": True}).json()
    more = {"params": {"approval": plan["approval"]}, "headers": {"Idempotency-Key": "twins"}}
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: agent.ask(path, body, **more)["id"], range(4)))
    person.cancel({"id": answers[0]})
    assert len(set(answers)) == 1


def test_where_policy_says_person_it_waits_for_one(person: Door, agent: Door, shared_room: Room) -> None:
    settings = shared_room.settings.model_copy(update={"agent_spending": AgentSpending.person})
    strict = Door(TestClient(main.application(dataclasses.replace(shared_room, settings=settings)), base_url="http://127.0.0.1:3099"), "")
    strict.headers = agent.headers
    body = {"tag": "waits", **NODES}
    plan = strict.call("POST", "/clusters", body, params={"dry_run": True}).json()
    begun = strict.ask("/clusters", body, params={"approval": plan["approval"]})
    assert begun["status"] == "awaiting_approval"
    assert person.call("POST", f"/operations/{begun['id']}:reject").json()["status"] == "cancelled"
