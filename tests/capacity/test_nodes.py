"""The nodes slice through its door: lists of thousands, one node in full, plans that name the work, every violation at once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.aws import ledgers
from tests.capacity.standing import TAG, Standing, stand
from tests.clusters.conftest import ZONE, shared_room, shared_sandbox  # noqa: F401 - fixtures
from tests.clusters.test_door import Door
from tests.clusters.worlds import REGION, SandboxProcess

from instantstart import main
from instantstart.capabilities.room import Room

NODES = f"/clusters/{TAG}/nodes"
REBOOTS, REPLACEMENTS, DELETIONS = (f"/clusters/{TAG}/node-{noun}" for noun in ("reboots", "replacements", "deletions"))
SOFTWARE = f"/clusters/{TAG}/software-updates"
DRY = {"params": {"dry_run": True}}


@pytest.fixture(scope="module")
def made(shared_room: Room, shared_sandbox: SandboxProcess) -> Iterator[Standing]:  # noqa: F811
    """Two GPU nodes for the whole module."""
    yield stand(shared_room, shared_sandbox, 2)
    ledgers.check(shared_sandbox)


@pytest.fixture(scope="module")
def door(made: Standing) -> Iterator[Door]:
    """The app as the process serves it."""
    main.first_admin(made.room)
    secret = (made.room.settings.data_dir / main.ADMIN_FILE).read_text().strip()
    with TestClient(main.application(made.room), base_url="http://127.0.0.1:3099", raise_server_exceptions=False) as client:
        yield Door(client, secret)


@pytest.fixture
def standing(made: Standing) -> Iterator[Standing]:
    """In fair weather, with all nodes healthy, and nothing remembered."""
    made.forget()
    made.settle()
    yield made
    made.sandbox.clear()
    made.forget()


def keys(standing: Standing) -> list[str]:
    return [each.key for each in standing.nodes()]


# --- looking


def test_the_list_tells_each_node_and_counts_all(standing: Standing, door: Door) -> None:
    page = door.get(NODES)
    assert (page["total"], page["ready"], page["counts"], page["cursor"], page["unknown"]) == (2, 2, {"healthy": 2}, None, None)
    told = page["items"][0]
    assert (told["instance_type"], told["capacity_type"], told["gpus"], told["health"]) == ("ml.g5.8xlarge", "on_demand", 1, "Schedulable")
    assert told["logical_id"]
    assert told["because"] is None


def test_filters_sorting_and_text_choose_and_order(standing: Standing, door: Door) -> None:
    first, second = keys(standing)
    assert [n["instance_id"] for n in door.get(NODES, contains=first[4:12])["items"]] == [first]
    assert door.get(NODES, group="none")["total"] == 0
    assert door.get(NODES, status="Running", health="healthy", instance_type="ml.g5.8xlarge")["total"] == 2
    assert door.get(NODES, health="unhealthy")["total"] == 0
    assert [n["instance_id"] for n in door.get(NODES, descending=True)["items"]] == [second, first]
    assert door.get(NODES, sort="launched", limit=1)["cursor"] is not None


def test_bad_filters_are_all_told_at_once(standing: Standing, door: Door) -> None:
    told = door.refusal("GET", NODES, 422, params={"limit": 0, "sort": "age", "health": "ill", "group": "-", "instance_type": "g5"})
    assert {each["pointer"].rpartition("/")[2] for each in told["fields"]} == {"limit", "sort", "health", "group", "instance_type"}
    assert door.refusal("GET", NODES, 422, params={"cursor": "{"})["fields"][0]["pointer"] == "/cursor"


def test_a_node_in_full_is_found_by_any_of_its_names(standing: Standing, door: Door) -> None:
    node = standing.nodes()[0]
    standing.serve(str(node.node_name), business="ads")
    for name in (node.instance_id, node.node_name, node.logical_id):
        told = door.get(f"{NODES}/{name}")
        assert told["node"]["instance_id"] == node.instance_id
    assert told["private_ip"]
    assert told["zone_id"] == ZONE
    assert told["work"] == [f"Deployment default/web (1 pod on {node.node_name}, business ads)"]
    assert any(pod["owner"] and pod["owner"].startswith("ReplicaSet web") for pod in told["pods"])
    assert {each["type"] for each in told["conditions"]} >= {"Ready"}
    assert told["events"]
    assert door.refusal("GET", f"{NODES}/i-0abc", 404)["code"] == "node.unknown"
    standing.stop()


def test_a_fault_and_hyperpods_own_recovery_show_as_health_and_events(standing: Standing, door: Door) -> None:
    node = standing.nodes()[0]
    standing.sandbox.admin("scenario/injure", instance=node.instance_id, reason="XidHardwareFailure", action="reboot")
    standing.until(lambda: door.get(NODES, health="unhealthy")["total"] == 1)
    report = door.get(f"/clusters/{TAG}/node-health")
    assert report["recovery"].startswith("Automatic")
    assert [f["node"] for f in report["findings"]] == [node.key]
    standing.sandbox.warp(70)
    standing.forget()
    events = door.get(f"/clusters/{TAG}/hyperpod-events", node=node.node_name)["items"]
    assert any(e["because"] == "XidHardwareFailure" and e["level"] == "Error" for e in events)
    assert any("being rebooted" in e["message"] for e in events)
    assert {e["subject"] for e in events} == {node.key}
    assert door.get(f"/clusters/{TAG}/hyperpod-operations")["items"][0]["type"] == "Scaling"


def test_without_kubernetes_the_instances_are_still_listed(standing: Standing, door: Door) -> None:
    standing.sandbox.fault("eks:DescribeCluster", code="AccessDeniedException", message="no", status=403, count=None)
    page = door.get(NODES)
    assert page["total"] == 2
    assert "Kubernetes could not be asked" in page["unknown"]
    assert {n["health_state"] for n in page["items"]} == {"unknown"}


def test_a_thousand_nodes_are_read_in_few_calls_and_paged_without_gap_or_repetition(standing: Standing, door: Door) -> None:
    sagemaker = standing.sandbox.client("sagemaker")
    group = standing.group()
    standing.sandbox.admin("quota", service_code="sagemaker", name="ml.g5.8xlarge for cluster usage", value=2000, region=REGION)
    standing.sandbox.admin("capacity", instance_type="ml.g5.8xlarge", zone=ZONE, available=0)
    kept = ("InstanceGroupName", "ExecutionRole", "LifeCycleConfig", "InstanceType", "InstanceStorageConfigs", "CapacityRequirements")
    wish = {field: group[field] for field in kept}
    sagemaker.update_cluster(ClusterName=standing.where.hyperpod_cluster, InstanceGroups=[wish | {"InstanceCount": 1000}])
    standing.forget()
    since = standing.sandbox.last_call()
    seen: list[str] = []
    cursor = None
    while True:
        page = door.get(NODES, limit=200, **({"cursor": cursor} if cursor else {}))
        seen += [n["instance_id"] or n["logical_id"] for n in page["items"]]
        cursor = page["cursor"]
        if cursor is None:
            break
    calls = [call for call in standing.sandbox.calls(since) if call["service"] == "sagemaker"]
    assert page["total"] == len(seen) == len(set(seen)) == 1000
    assert seen == sorted(seen)
    assert sum(page["counts"].values()) == 1000
    assert len([c for c in calls if c["operation"] == "ListClusterNodes"]) <= 20, "two reads of ten pages at most, for five of ours"
    assert "DescribeClusterNode" not in {c["operation"] for c in calls}
    standing.forget()
    since = standing.sandbox.last_call()
    door.get(NODES, limit=1000)
    assert len([c for c in standing.sandbox.calls(since) if c["service"] != "sts"]) <= 15
    sagemaker.update_cluster(ClusterName=standing.where.hyperpod_cluster, InstanceGroups=[wish | {"InstanceCount": 2}])


# --- asking


def test_every_wrong_node_is_named_with_its_place(standing: Standing, door: Door) -> None:
    first = keys(standing)[0]
    body = {"nodes": ["i-0abc", first, f"hyperpod-{first}", "i-0123456789abcdef0"]}
    for path in (REBOOTS, REPLACEMENTS, DELETIONS, f"/clusters/{TAG}/node-checks"):
        told = door.refusal("POST", path, 422, body)
        assert [each["pointer"] for each in told["fields"]] == ["/nodes/0", "/nodes/2", "/nodes/3"]
        assert told["code"] == "node.not_actable"


def test_the_shape_of_a_request_is_refused_all_at_once(standing: Standing, door: Door) -> None:
    told = door.refusal("POST", REBOOTS, 422, {"nodes": [], "drain_minutes": -1, "force": True})
    assert {each["pointer"] for each in told["fields"]} == {"/nodes", "/drain_minutes", "/force"}
    body = {
        "instance_groups": ["none"], "release_version": "new", "image_id": "x", "batch_size": 0, "wait_seconds": 3601,
        "rollback_alarms": [],
    }  # fmt: skip
    told = door.refusal("POST", SOFTWARE, 422, body)
    pointers = {"/release_version", "/image_id", "/batch_size", "/wait_seconds", "/rollback_alarms"}
    assert {each["pointer"] for each in told["fields"]} == pointers
    told = door.refusal(
        "POST", SOFTWARE, 422, {"instance_groups": ["none", "none"], "batch_type": "CAPACITY_PERCENTAGE", "rollback_batch_size": 101}
    )
    assert [each["pointer"] for each in told["fields"]] == [
        "/instance_groups/0", "/instance_groups/1", "/rollback_batch_size", "/rollback_batch_size",
    ]  # fmt: skip


def test_an_idle_node_is_rebooted_without_approval_and_a_busy_one_only_with_its_plans(standing: Standing, door: Door) -> None:
    first, second = standing.nodes()
    standing.serve(str(second.node_name))
    plan = door.call("POST", REBOOTS, {"nodes": [first.key]}, **DRY).json()
    assert (plan["approval"], plan["warnings"]) == (None, [])
    assert plan["change"][0].startswith(f"reboot {first.key}")
    busy = {"nodes": [second.key]}
    plan = door.call("POST", REBOOTS, busy, **DRY).json()
    assert any(f"Deployment default/web (1 pod on {second.node_name})" in line for line in plan["warnings"])
    assert door.refusal("POST", REBOOTS, 409, busy)["code"] == "approval.missing"
    other = {"nodes": [second.key], "drain_minutes": 1}
    assert door.refusal("POST", REBOOTS, 409, other, params={"approval": plan["approval"]})["code"] == "approval.missing"
    operation = door.ask(REBOOTS, busy, params={"approval": plan["approval"]})
    assert operation["workflow"] == "node.reboot"
    assert door.refusal("POST", REBOOTS, 409, busy, params={"approval": plan["approval"]})["code"] == "approval.missing"
    door.cancel(operation)
    ended(door, operation)
    standing.kube.patch("Node", str(second.node_name), {"spec": {"unschedulable": None}})
    standing.stop()


def ended(door: Door, operation: dict[str, Any]) -> dict[str, Any]:
    """The operation, at its end."""
    for _ in range(20):
        told: dict[str, Any] = door.get(f"/operations/{operation['id']}/wait", seconds=5)
        if told["status"] in ("cancelled", "succeeded", "failed", "blocked"):
            return told
    raise AssertionError(told)


def test_an_approval_ends_when_other_work_comes_to_the_node(standing: Standing, door: Door) -> None:
    node = standing.nodes()[0]
    body = {"nodes": [node.key]}
    plan = door.call("POST", REPLACEMENTS, body, **DRY).json()
    assert any("volumes is lost" in line for line in plan["warnings"])
    standing.serve(str(node.node_name), name="late")
    assert door.refusal("POST", REPLACEMENTS, 409, body, params={"approval": plan["approval"]})["code"] == "approval.missing"
    standing.stop("late")


def test_what_an_agent_asks_to_delete_waits_for_a_person(standing: Standing, door: Door) -> None:
    _, secret = standing.room.store.identities.create_token("claude", "operator", "agent")
    agent = Door(door.client, secret)
    body = {"nodes": keys(standing)}
    plan = agent.call("POST", DELETIONS, body, **DRY).json()
    assert len(plan["remove"]) == 2
    assert plan["change"] == [f"target count of {standing.group()['InstanceGroupName']}: 2 to 0"]
    assert any("last nodes of the group" in line for line in plan["warnings"])
    assert any("DNS" in line for line in plan["warnings"])
    operation = agent.ask(DELETIONS, body, params={"approval": plan["approval"]})
    assert operation["status"] == "awaiting_approval"
    door.cancel(operation)
    assert ended(door, operation)["status"] == "cancelled"
    assert standing.group()["TargetCount"] == 2


def test_software_that_is_the_newest_is_already_so(standing: Standing, door: Door) -> None:
    answer = door.call("POST", SOFTWARE, {})
    assert answer.status_code == 200
    told = answer.json()
    assert told["change"] == []
    assert told["keep"] == [f"{standing.group()['InstanceGroupName']} runs 1.2.0"]
    older = door.call("POST", SOFTWARE, {"release_version": "1.1.0", "instance_groups": [standing.group()["InstanceGroupName"]]}, **DRY)
    assert "1.2.0 to 1.1.0" in json.dumps(older.json()["change"])


def test_a_viewer_looks_and_does_not_act(standing: Standing, door: Door) -> None:
    _, secret = standing.room.store.identities.create_token("eve", "viewer", "person")
    viewer = Door(door.client, secret)
    assert viewer.get(NODES)["total"] == 2
    assert viewer.refusal("POST", REBOOTS, 403, {"nodes": keys(standing)})["code"] == "identity.role_too_low"
