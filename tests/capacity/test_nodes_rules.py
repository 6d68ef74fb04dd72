"""Who is meant, what stands in the way, and whether it has happened: the pure part of the nodes."""

from __future__ import annotations

import datetime as dt
from types import SimpleNamespace
from typing import Any

import pytest

from instantstart.base import problems
from instantstart.capabilities.capacity.nodes import judging, rules, software, specs, stages, views
from instantstart.capabilities.capacity.nodes.judging import Before, Now, Phase
from instantstart.capabilities.capacity.nodes.rules import Action, Facts
from instantstart.ensure.capacity import instances, nodes
from instantstart.ensure.capacity.instances import Instance
from instantstart.kube import shapes

A, B = "i-0aaaaaaaaaaaaaaaa", "i-0bbbbbbbbbbbbbbbb"


def instance(key: str | None = A, group: str = "gpu", status: str = "Running", **more: Any) -> Instance:
    told: dict[str, Any] = {
        "logical_id": f"logical-{(key or 'x')[-1]}",
        "instance_id": key,
        "group": group,
        "instance_type": "ml.g5.8xlarge",
        "status": status,
        "message": None,
        "launched_at": None,
        "software": None,
        "software_status": None,
        "software_updated_at": None,
        "private_dns": None,
        "ultraserver": None,
    }
    return Instance(**(told | more))


def raw(key: str = A, boot: str = "one", ready: bool = True, **labels: str) -> dict[str, Any]:
    status = {"nodeInfo": {"bootID": boot}, "conditions": [{"type": "Ready", "status": "True" if ready else "Unknown"}]}
    named = {nodes.PREFIX + name.replace("_", "-"): value for name, value in labels.items()}
    return {"metadata": {"name": f"hyperpod-{key}", "labels": named}, "status": status}


def facts(*found: Instance, labels: dict[str, str] | None = None, **more: Any) -> Facts:
    groups = [{"InstanceGroupName": "gpu", "TargetCount": 2, "Status": "InService", "InstanceType": "ml.g5.8xlarge"}]
    told: dict[str, Any] = {
        "cluster": {"ClusterName": "c", "ClusterStatus": "InService", "InstanceGroups": groups},
        "instances": found,
        "nodes": {
            i.instance_id: nodes.view(shapes.node(raw(i.instance_id, "one", True, **(labels or {})))) for i in found if i.instance_id
        },
        "unknown": None,
        "owners": {},
        "accelerators": {},
    }
    return Facts(**(told | more))


def test_names_of_all_three_kinds_are_resolved() -> None:
    found = [instance(A), instance(B), instance(None, status="Pending", logical_id="only-logical")]
    chosen, wrong = rules.resolve([A, f"hyperpod-{B}", "only-logical"], found)
    assert ([each.key for each in chosen], wrong) == ([A, B, "only-logical"], [])


def test_every_wrong_and_repeated_name_is_pointed_at() -> None:
    asked = ["i-0abc", A, f" hyperpod-{A} ", "logical-a", "i-0123456789abcdef0", "nonsense", B]
    chosen, wrong = rules.resolve(asked, [instance(A), instance(B)])
    assert [each.key for each in chosen] == [A, B]
    assert [each.pointer for each in wrong] == ["/nodes/0", "/nodes/2", "/nodes/3", "/nodes/4", "/nodes/5"]
    assert "8 or 17 hexadecimal digits" in wrong[0].message
    assert A in wrong[1].message
    assert "There is no node" in wrong[3].message


def refusal(action: Action, asked: list[str], world: Facts) -> problems.Problem:
    chosen, wrong = rules.resolve(asked, world.instances)
    with pytest.raises(problems.Problem) as caught:
        rules.check(action, asked, world, chosen, wrong)
    return caught.value


@pytest.mark.parametrize(
    ("action", "world", "part"),
    [
        (Action.reboot, facts(instance(A, status="ShuttingDown")), "being shut down"),
        (Action.reboot, facts(instance(A, status="SystemUpdating")), "software is being updated"),
        (Action.reboot, facts(instance(A, status="DeepHealthCheckInProgress")), "60 to 120 minutes"),
        (Action.reboot, facts(instance(A, status="Pending")), "still starting"),
        (Action.reboot, facts(instance(A), nodes={}), "never joined Kubernetes"),
        (Action.reboot, facts(instance(A), nodes={}, unknown="Kubernetes could not be asked: no."), "could not be asked"),
        (Action.replace, facts(instance(A), labels={"node_health_status": "UnschedulablePendingReplacement"}), "replacing it already"),
        (Action.reboot, facts(instance(A), labels={"node_health_status": "UnschedulablePendingReboot"}), "rebooting it already"),
        (Action.delete, facts(instance(A), owners={"gpu": "pool-a"}), "belongs to Karpenter (node class pool-a)"),
        (Action.check, facts(instance(A), accelerators={"ml.g5.8xlarge": 0}), "has none"),
        (Action.check, facts(instance(A, status="Failure")), "only a Running node"),
    ],
)
def test_a_node_that_cannot_be_acted_on_says_why(action: Action, world: Facts, part: str) -> None:
    refused = refusal(action, [A], world)
    assert isinstance(refused, problems.Conflict)
    assert refused.code == "node.not_actable"
    assert part in refused.fields[0].message


def test_a_node_without_an_instance_is_replaced_by_nobody_and_can_be_deleted() -> None:
    waiting = instance(None, status="Pending", logical_id="only-logical")
    assert "no instance yet" in refusal(Action.replace, ["only-logical"], facts(waiting)).detail
    rules.check(Action.delete, ["only-logical"], facts(waiting), [waiting], [])


def test_a_group_that_waits_for_its_minimum_gives_no_node_away() -> None:
    world = facts(instance(A))
    world.cluster["InstanceGroups"][0].update(MinCount=2, Status="Updating")
    assert "minimum of 2 nodes" in refusal(Action.delete, [A], world).detail


def test_bad_names_and_bad_states_are_told_together_in_the_order_of_the_request() -> None:
    world = facts(instance(A, status="ShuttingDown"), instance(B))
    refused = refusal(Action.reboot, [B, "i-1", A, B], world)
    assert isinstance(refused, problems.Invalid)
    assert [each.pointer for each in refused.fields] == ["/nodes/1", "/nodes/2", "/nodes/3"]


def test_a_cluster_that_is_not_in_service_is_left_alone() -> None:
    world = facts(instance(A))
    cluster = {**world.cluster, "ClusterStatus": "SystemUpdating"}
    assert refusal(Action.reboot, [A], facts(instance(A), cluster=cluster)).code == "hyperpod.not_in_service"


def test_a_move_needs_another_group_of_the_same_type() -> None:
    world = facts(instance(A))
    world.cluster["InstanceGroups"].append({"InstanceGroupName": "cpu", "InstanceType": "ml.m5.xlarge"})
    for group, part in (("gpu", "belongs to gpu already"), ("cpu", "takes ml.m5.xlarge"), ("none", "there are gpu, cpu")):
        with pytest.raises(problems.Invalid, match=part):
            rules.check_move(world, [instance(A)], group)


def test_the_last_nodes_are_told() -> None:
    told = rules.last_ones(facts(instance(A), instance(B)), [instance(A), instance(B)])
    assert told[0] == "These are the last nodes of the group gpu."
    assert "DNS" in told[1]
    assert rules.last_ones(facts(instance(A), instance(B)), [instance(A)]) == []


BEFORE = Before(A, A, "logical-a", "gpu", "one")


@pytest.mark.parametrize(
    ("now", "phase"),
    [
        (Now(instance(A), raw()), Phase.holds),
        (Now(instance(A, status="Failure"), raw()), Phase.holds),
        (Now(instance(A, status="Pending"), raw(ready=False)), Phase.under_way),
        (Now(instance(A), raw(node_health_status="UnschedulablePendingReboot")), Phase.under_way),
        (Now(instance(A), raw(boot="two", ready=False)), Phase.under_way),
        (Now(instance(A), raw(boot="two")), Phase.done),
        (Now(instance(A), None), Phase.holds),
        (Now(None), Phase.moot),
        (Now(instance(B), raw(B)), Phase.moot),
        (Now(instance(None, status="Pending")), Phase.moot),
    ],
)
def test_a_reboot_is_told_by_the_boot_id(now: Now, phase: Phase) -> None:
    assert judging.judge_reboot(BEFORE, now).phase is phase


@pytest.mark.parametrize(
    ("now", "phase"),
    [
        (Now(instance(A), raw()), Phase.holds),
        (Now(instance(A, status="ShuttingDown"), raw()), Phase.under_way),
        (Now(instance(A), raw(node_health_status="UnschedulablePendingReplacement")), Phase.under_way),
        (Now(instance(None, status="Pending")), Phase.under_way),
        (Now(instance(B, status="Pending")), Phase.under_way),
        (Now(instance(B), None), Phase.under_way),
        (Now(instance(B), raw(B, ready=False)), Phase.under_way),
        (Now(instance(B), raw(B)), Phase.done),
        (Now(None), Phase.moot),
    ],
)
def test_a_replacement_is_told_by_the_instance_id(now: Now, phase: Phase) -> None:
    assert judging.judge_replacement(BEFORE, now).phase is phase


@pytest.mark.parametrize(
    ("now", "phase"),
    [
        (Now(instance(A)), Phase.holds),
        (Now(instance(A, status="Pending")), Phase.holds),
        (Now(instance(A, status="ShuttingDown")), Phase.under_way),
        (Now(None), Phase.done),
        (Now(instance(B)), Phase.moot),
    ],
)
def test_a_deletion_is_told_by_absence(now: Now, phase: Phase) -> None:
    assert judging.judge_deletion(BEFORE, now).phase is phase


@pytest.mark.parametrize(
    ("now", "phase"),
    [
        (Now(instance(A), raw()), Phase.holds),
        (Now(instance(A, status="DeepHealthCheckInProgress"), raw()), Phase.under_way),
        (Now(instance(A), raw(deep_health_check_status="InProgress")), Phase.under_way),
        (Now(instance(A), raw(), check="InProgress"), Phase.under_way),
        (Now(instance(A), raw(deep_health_check_status="Passed"), check="Done"), Phase.done),
        (Now(instance(A), raw(deep_health_check_status="Passed")), Phase.holds),  # of a check before ours
        (Now(instance(A), raw(deep_health_check_status="Passed"), 10.0, operations=False), Phase.under_way),
        (Now(instance(A), raw(deep_health_check_status="Passed"), 500.0, operations=False), Phase.done),
        (Now(instance(B), raw(B)), Phase.moot),
    ],
)
def test_a_check_is_told_by_hyperpods_own_operation(now: Now, phase: Phase) -> None:
    assert judging.judge_check(BEFORE, now).phase is phase


def test_a_message_of_sagemaker_is_told_as_the_last_problem_and_not_of_a_node_that_runs() -> None:
    shutting = judging.judge_deletion(BEFORE, Now(instance(A, status="ShuttingDown", message="no capacity")))
    assert shutting.because == "it is being shut down (last problem told: no capacity)"
    assert "no capacity" not in judging.judge_reboot(BEFORE, Now(instance(A, message="no capacity"), raw())).because


NEW = raw()
NEW["status"]["conditions"] = [{"type": "Ready", "status": "False", "message": "NetworkReady=false reason:NetworkPluginNotReady"}]


@pytest.mark.parametrize(
    ("told", "node", "state"),
    [
        (instance(A), raw(), "healthy"),
        (instance(A), raw(ready=False), "unhealthy"),
        (instance(A), raw(node_health_status="Unschedulable"), "unhealthy"),
        (instance(A), raw(node_health_status="UnschedulablePendingReboot"), "recovering"),
        (instance(A), raw(deep_health_check_status="InProgress"), "checking"),
        (instance(A), raw(deep_health_check_status="Failed"), "unhealthy"),
        (instance(A, status="Failure"), None, "unhealthy"),
        (instance(A, status="Pending"), None, "starting"),
        (instance(A, status="ShuttingDown"), raw(), "recovering"),
        (instance(A), None, "unknown"),
        (instance(A), NEW, "starting"),
    ],
)
def test_health_is_one_word(told: Instance, node: dict[str, Any] | None, state: str) -> None:
    assert views._state(told, nodes.view(shapes.node(node)) if node else None) == state


def test_advice_is_look_then_reboot_then_replace() -> None:
    faulty = nodes.view(shapes.node(raw(A, node_health_status="Unschedulable", fault_types="XidHardwareFailure")))
    gpu = nodes.view(
        shapes.node({**raw(A, node_health_status="Unschedulable", fault_types="X"), "status": {"allocatable": {nodes.GPU: "8"}}})
    )
    cpu = views._item(instance(), faulty, {}, None)
    assert "reboot it" in str(views.advice(cpu, automatic=True))
    assert "HyperPod recovers it by itself" in str(views.advice(views._item(instance(), gpu, {}, None), automatic=True))
    assert "reboot it" in str(views.advice(views._item(instance(), gpu, {}, None), automatic=False))
    assert views.advice(views._item(instance(), nodes.view(shapes.node(raw())), {}, None), automatic=True) is None


def test_only_what_was_asked_of_an_update_is_sent() -> None:
    spec = specs.SoftwareTarget(tag="t", region="us-west-2", instance_groups=("a", "b"))
    assert software.request_of(spec) == {"InstanceGroups": [{"InstanceGroupName": "a"}, {"InstanceGroupName": "b"}]}
    more = spec.model_copy(
        update={
            "release_version": "1.2.0", "image_id": "default", "batch_type": "CAPACITY_PERCENTAGE", "batch_size": 25,
            "rollback_batch_size": 50, "wait_seconds": 0, "rollback_alarms": ("hot",),
        }
    )  # fmt: skip
    assert software.request_of(more) == {
        "InstanceGroups": [{"InstanceGroupName": n, "ImageReleaseVersion": "1.2.0"} for n in ("a", "b")],
        "ImageId": "default",
        "DeploymentConfig": {
            "RollingUpdatePolicy": {
                "MaximumBatchSize": {"Type": "CAPACITY_PERCENTAGE", "Value": 25},
                "RollbackMaximumBatchSize": {"Type": "CAPACITY_PERCENTAGE", "Value": 50},
            },
            "WaitIntervalInSeconds": 0,
            "AutoRollbackConfiguration": [{"AlarmName": "hot"}],
        },
    }


def test_a_time_of_update_is_another_stamp() -> None:
    at = dt.datetime(2026, 11, 30, tzinfo=dt.UTC)
    before, after = (instance(software="1.0.0", software_updated_at=at + dt.timedelta(hours=h)) for h in (0, 1))
    assert software._stamp(before) != software._stamp(after)


def test_without_logical_ids_a_new_instance_of_the_group_is_the_successor(monkeypatch: pytest.MonkeyPatch) -> None:
    new, other = "i-0cccccccccccccccc", "i-0dddddddddddddddd"
    listed = [instance(B, logical_id=None), instance(new, logical_id=None), instance(other, group="cpu", logical_id=None)]
    monkeypatch.setattr(instances, "read", lambda _aws, _cluster: tuple(listed))
    before = {key: Before(key, key, None, "gpu") for key in (A, B)}
    run = SimpleNamespace(learned={"baseline": {"known": [A, B]}})
    now = stages._current(SimpleNamespace(aws=None), {"ClusterArn": "x"}, run, before)  # type: ignore[arg-type]
    assert {key: each.instance_id if each else None for key, each in now.items()} == {A: new, B: B}
    monkeypatch.setattr(instances, "read", lambda _aws, _cluster: tuple(listed[:1]))
    assert stages._current(SimpleNamespace(aws=None), {"ClusterArn": "x"}, run, before)[A] is None  # type: ignore[arg-type]
