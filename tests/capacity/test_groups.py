"""Instance groups through the door and on the wire: what is asked arrives, what is not asked stays."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.capacity.doors import GROUPS, Door, counted, turn
from tests.clusters.conftest import TYPE, ZONE, Job
from tests.clusters.crank import Crank
from tests.clusters.worlds import SandboxProcess

from instantstart.capabilities.room import Room
from instantstart.ensure.capacity import karpenter

CPU = "ml.m5.2xlarge"


def described(sandbox: SandboxProcess, standing: Job, name: str) -> dict[str, Any]:
    """A group as SageMaker tells it."""
    cluster = sandbox.client("sagemaker").describe_cluster(ClusterName=standing.site.hyperpod_cluster)
    return next(g for g in cluster["InstanceGroups"] if g["InstanceGroupName"] == name)


def test_a_group_is_added_scaled_changed_and_deleted(standing: Job, door: Door, crank: Crank, shared_sandbox: SandboxProcess) -> None:
    body = {"name": "cpu", "instance_type": CPU, "instance_count": 2, "zone": ZONE, "labels": {"team": "a"}, "taints": ["x=y:NoSchedule"]}
    plan = door.well(200, "POST", GROUPS, body, dry_run=True)
    assert plan["make"][0] == f"instance group cpu: 2 x {CPU} in us-west-2a ({ZONE}) (on_demand)"
    assert not [f for f in plan["findings"] if f["level"] == "fail"]
    with counted(shared_sandbox, "UpdateCluster") as sent:
        made = turn(crank, "instance_group.add", **body)
    assert made.status == "succeeded", made.problem
    assert [list(r) for r in sent] == [["ClusterName", "InstanceGroups"]]
    assert [g["InstanceGroupName"] for g in sent[0]["InstanceGroups"]] == ["cpu"]
    assert made.result["ready"] == 2
    seen = door.get(f"{GROUPS}/cpu")["group"]
    assert (seen["count"], seen["current"], seen["labels"], seen["taints"]) == (2, 2, {"team": "a"}, ["x=y:NoSchedule"])
    again = door.well(200, "POST", GROUPS, body)
    assert again["group"]["name"] == "cpu", "equal: already so"
    other = door.refusal(409, "POST", GROUPS, body | {"volume_gib": 100})
    assert other["code"] == "instance_group.name_taken"
    assert "InstanceStorageConfigs" in other["detail"]

    with counted(shared_sandbox, "UpdateCluster") as sent, counted(shared_sandbox, "BatchAddClusterNodes") as added:
        grown = turn(crank, "instance_group.scale", group="cpu", instance_count=3)
    assert grown.status == "succeeded", grown.problem
    assert (sent, len(added)) == ([], 1)
    assert len(added[0]["ClientToken"]) == 64
    assert added[0]["NodesToAdd"] == [{"InstanceGroupName": "cpu", "IncrementTargetCountBy": 1}]
    shrunk = turn(crank, "instance_group.scale", group="cpu", instance_count=1)
    assert shrunk.status == "succeeded", shrunk.problem
    assert (shrunk.result["ready"], shrunk.result["from"], len(shrunk.result["removed"])) == (1, 3, 2)
    assert not set(shrunk.result["nodes"]) & set(shrunk.result["removed"])
    assert described(shared_sandbox, standing, "cpu")["CurrentCount"] == 1
    assert door.well(200, "POST", f"{GROUPS}/cpu/scale", {"instance_count": 1})["group"]["count"] == 1

    changed = turn(crank, "instance_group.update", group="cpu", labels={"team": "b"})
    assert changed.status == "succeeded", changed.problem
    assert changed.result["changed"] == ["KubernetesConfig"]
    assert door.get(f"{GROUPS}/cpu")["group"]["taints"] == ["x=y:NoSchedule"]
    assert door.well(200, "PATCH", f"{GROUPS}/cpu", {"labels": {"team": "b"}})["group"]["labels"] == {"team": "b"}

    plan = door.well(200, "DELETE", f"{GROUPS}/cpu", dry_run=True)
    assert plan["approval"]
    assert "needs the approval that its own plan gives" in door.refusal(409, "DELETE", f"{GROUPS}/cpu")["detail"]
    gone = turn(crank, "instance_group.delete", group="cpu")
    assert gone.status == "succeeded", gone.problem
    assert door.refusal(404, "GET", f"{GROUPS}/cpu")["code"] == "instance_group.unknown"


def test_the_door_begins_operations_and_joins_the_same_one(standing: Job, door: Door, crank: Crank) -> None:
    body = {"name": "empty", "instance_type": CPU, "instance_count": 0, "zone": ZONE}
    first = door.well(202, "POST", GROUPS, body)
    assert door.well(202, "POST", GROUPS, body)["id"] == first["id"]
    busy = door.refusal(409, "POST", GROUPS, body | {"volume_gib": 7})
    assert busy["code"] in ("operation.subject_busy", "instance_group.name_taken")
    door.call("POST", f"/operations/{first['id']}:cancel")


def test_a_key_repeats_the_answer_also_when_its_approval_is_used_up_and_the_group_is_gone(standing: Job, door: Door, crank: Crank) -> None:
    turn(crank, "instance_group.add", name="keyed", instance_type=CPU, instance_count=0, zone=ZONE)

    def delete(key: str = "one", **query: Any) -> Any:
        headers = {**door.headers, "Idempotency-Key": key}
        return door.client.request("DELETE", f"/api/v1{GROUPS}/keyed", headers=headers, params=query)

    approval = delete(dry_run=True).json()["approval"]
    first = delete(approval=approval)
    assert first.status_code == 202, first.text
    repeated = [delete(approval=approval), delete()]
    assert {r.status_code for r in repeated} == {202}
    assert {r.json()["id"] for r in repeated} == {first.json()["id"]}
    assert {r.headers["Location"] for r in repeated} == {first.headers["Location"]}
    assert set(repeated[0].json()) == set(first.json())
    assert delete(drain_minutes=5).json()["code"] == "operation.key_reused"
    told = door.get(f"/operations/{first.json()['id']}/wait", seconds=20)
    if told["status"] == "succeeded":
        assert delete().json()["status"] == "succeeded", "the group is gone, and the answer is still this operation"
    assert delete("two").json()["code"] in ("approval.missing", "instance_group.unknown")


def test_everything_wrong_is_told_at_once_with_its_field(standing: Job, door: Door, crank: Crank) -> None:
    body = {
        "name": "bad", "instance_type": TYPE, "instance_count": 5000, "zone": "us-west-2z", "network_interface": "efa_only",
        "labels": {"kubernetes.io/x": "a", "team": "not a value"}, "taints": ["karpenter.sh/x:NoSchedule"],
        "deep_health_checks": ["InstanceStress"], "training_plan_arn": "arn:aws:sagemaker:us-west-2:123456789012:training-plan/xxxx",
    }  # fmt: skip
    assert door.pointers("POST", GROUPS, body) == {
        "/zone", "/network_interface", "/labels/kubernetes.io~1x", "/labels/team", "/taints/0", "/taints", "/capacity_type",
        "/instance_count",
    }  # fmt: skip
    plan = door.well(200, "POST", GROUPS, body, dry_run=True)
    assert {f["check"] for f in plan["findings"] if f["level"] == "fail"} >= {"zone", "network_interface", "capacity_type", "addresses"}
    spoilt = {"name": "-", "instance_type": "g5", "taints": ["x"], "strange": 1, "labels": {"a b": "c", "kubernetes.io/x": "d", "t": "{}"}}
    fields = {f["pointer"]: f["message"] for f in door.refusal(422, "POST", GROUPS, spoilt)["fields"]}
    labelled = {"/labels/a b", "/labels/kubernetes.io~1x", "/labels/t"}
    assert set(fields) == {"/name", "/instance_type", "/taints/0", "/strange", *labelled}
    assert "belongs to Kubernetes or AWS" in fields["/labels/kubernetes.io~1x"]
    assert fields["/labels/t"].startswith("'{}' is no label value")


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"network_interface": "efa_only"}, "/network_interface"),
        ({"capacity_type": "spot"}, "/capacity_type"),
        ({"instance_type": "ml.m5.large"}, "/instance_type"),
        ({"volume_gib": 10}, "/volume_gib"),
        ({"subnet_id": "subnet-0123456789abcdef0"}, "/subnet_id"),
    ],
)
def test_what_is_fixed_for_life_is_refused_with_the_way_out(
    standing: Job, door: Door, crank: Crank, body: dict[str, Any], pointer: str
) -> None:
    told = door.refusal(422, "PATCH", f"{GROUPS}/workers", body)
    assert [f["pointer"] for f in told["fields"]] == [pointer]
    assert "new group" in told["hint"]


@pytest.fixture
def owned(standing: Job, shared_room: Room) -> Iterator[None]:
    """A node class of Karpenter's that names the group ``workers``."""
    kube = standing.site.kube(shared_room)
    group, names = (
        karpenter.NODE_CLASS_GROUP,
        {"plural": "hyperpodnodeclasses", "singular": "hyperpodnodeclass", "kind": "HyperpodNodeClass"},
    )
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"hyperpodnodeclasses.{group}"},
        "spec": {"group": group, "scope": "Cluster", "names": names, "versions": [version]},
    }
    kube.apply(definition)
    for _ in range(100):
        kube.kinds.forget()
        if kube.serves(karpenter.NODE_CLASS):
            break
        time.sleep(0.1)
    kube.apply(
        {"apiVersion": f"{group}/v1", "kind": "HyperpodNodeClass", "metadata": {"name": "pool"}, "spec": {"instanceGroups": ["workers"]}}
    )
    yield
    kube.delete(karpenter.NODE_CLASS, "pool")
    kube.delete("CustomResourceDefinition", f"hyperpodnodeclasses.{group}")


def test_a_group_of_karpenters_is_not_touched_by_hand(owned: None, standing: Job, door: Door, crank: Crank) -> None:
    assert door.get(f"{GROUPS}/workers")["group"]["owner"] == "pool"
    told = door.refusal(409, "POST", f"{GROUPS}/workers/scale", {"instance_count": 5})
    assert (told["code"], told["evidence"]["node_class"]) == ("instance_group.karpenter_owned", "pool")
    assert "pool" in told["hint"]
    checks = door.refusal(422, "PATCH", f"{GROUPS}/workers", {"deep_health_checks": ["InstanceStress"]})
    assert [f["pointer"] for f in checks["fields"]] == ["/deep_health_checks"]
    body = {"name": "beside", "instance_type": CPU, "instance_count": 0, "zone": ZONE}
    assert turn(crank, "instance_group.add", **body).status == "succeeded"
    assert door.refusal(409, "DELETE", f"{GROUPS}/workers", dry_run=True)["code"] == "instance_group.karpenter_owned"
    assert turn(crank, "instance_group.delete", group="beside").status == "succeeded"


def test_the_last_group_stays(standing: Job, door: Door, crank: Crank) -> None:
    others = [g["name"] for g in door.get(GROUPS)["items"] if g["name"] != "workers"]
    for name in others:
        assert turn(crank, "instance_group.delete", group=name).status == "succeeded"
    assert door.refusal(409, "DELETE", f"{GROUPS}/workers", dry_run=True)["code"] == "instance_group.last"
