"""What is done to nodes, turned by hand against the sandbox: once, whatever is lost on the way, and whoever is faster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.aws import ledgers
from tests.capacity.standing import TAG, WORKFLOWS, Standing, stand
from tests.clusters.conftest import shared_room, shared_sandbox  # noqa: F401 - fixtures
from tests.clusters.worlds import SandboxProcess

from instantstart.base import problems
from instantstart.capabilities.capacity.nodes import plans, specs, stages
from instantstart.capabilities.capacity.nodes.judging import Before
from instantstart.capabilities.capacity.nodes.rules import Action
from instantstart.capabilities.room import Room
from instantstart.ensure.capacity import drains, nodes
from instantstart.operations.declare import Cut


@pytest.fixture(scope="module")
def made(shared_room: Room, shared_sandbox: SandboxProcess) -> Iterator[Standing]:  # noqa: F811
    """Four GPU nodes for the whole module; each test leaves four healthy ones behind."""
    yield stand(shared_room, shared_sandbox, 4)
    ledgers.check(shared_sandbox)


@pytest.fixture
def standing(made: Standing) -> Iterator[Standing]:
    """In fair weather, with all nodes healthy."""
    made.forget()
    made.settle()
    yield made
    made.sandbox.clear()
    made.crank.discard = lambda *_: False


def test_a_node_is_rebooted_and_takes_pods_again(standing: Standing) -> None:
    node, since = standing.nodes()[0], standing.sandbox.last_call()
    boot = standing.kube.get("Node", str(node.node_name))["status"]["nodeInfo"]["bootID"]
    done = standing.reboot(str(node.instance_id))
    assert done.status == "succeeded", (done.stopped_at, done.problem)
    assert done.result["nodes"][node.key]["outcome"] == "done"
    after = standing.kube.get("Node", str(node.node_name))
    assert after["status"]["nodeInfo"]["bootID"] != boot
    assert not after["spec"].get("unschedulable")
    assert not {stages.MARK, drains.CORDONED} & set(after["metadata"].get("annotations") or {})
    assert len(standing.asked("BatchRebootClusterNodes", since)) == 1


def test_a_reboot_whose_answer_is_lost_is_not_asked_for_twice(standing: Standing) -> None:
    node, since = standing.nodes()[1], standing.sandbox.last_call()
    standing.sandbox.fault("sagemaker:BatchRebootClusterNodes", when="after", count=1)
    done = standing.reboot(f"hyperpod-{node.instance_id}")
    assert done.status == "succeeded", (done.stopped_at, done.problem)
    assert len(standing.asked("BatchRebootClusterNodes", since)) == 1
    assert standing.kube.get("Node", str(node.node_name))["status"]["nodeInfo"]["bootID"].startswith("0001")


def test_a_reboot_that_never_reached_aws_is_asked_for_again(standing: Standing) -> None:
    node, since = standing.nodes()[2], standing.sandbox.last_call()
    standing.sandbox.fault("sagemaker:BatchRebootClusterNodes", code="unavailable", count=1)
    done = standing.reboot(node.key, drain_minutes=0)
    assert done.status == "succeeded", (done.stopped_at, done.problem)
    assert [call["error"] or "" for call in standing.asked("BatchRebootClusterNodes", since)][-1] == ""
    assert len(standing.asked("BatchRebootClusterNodes", since)) == 2
    assert done.seconds > 180, "a lost answer gets time to show its effect"


def test_a_kill_between_act_and_record_reboots_once(standing: Standing) -> None:
    node, since = standing.nodes()[3], standing.sandbox.last_call()
    with standing.discarding("reboot", times=3):
        assert standing.reboot(node.key).status == "succeeded"
    assert len(standing.asked("BatchRebootClusterNodes", since)) == 1


def test_a_replaced_node_is_another_instance_with_the_same_logical_id(standing: Standing) -> None:
    node, since = standing.nodes()[0], standing.sandbox.last_call()
    standing.sandbox.fault("sagemaker:BatchReplaceClusterNodes", when="after", count=1)
    done = standing.run(Action.replace, specs.ReplaceNodes(nodes=[str(node.logical_id)]))
    assert done.status == "succeeded", (done.stopped_at, done.problem)
    told = done.result["nodes"][node.key]
    assert told["outcome"] == "done"
    now = next(each for each in standing.nodes() if each.logical_id == node.logical_id)
    assert now.instance_id == told["instance_id"] != node.instance_id
    assert len(standing.asked("BatchReplaceClusterNodes", since)) == 1
    assert standing.group()["TargetCount"] == 4


def test_what_a_cancelled_drain_leaves_is_told_and_given_back_on_request(standing: Standing) -> None:
    first, second = standing.nodes()[:2]
    wish = standing.prepared(Action.reboot, specs.RebootNodes(nodes=[first.key]))
    cut = standing.crank.run(WORKFLOWS["node.reboot"], wish.target, "drain")
    node = str(first.node_name)
    assert standing.kube.get("Node", node)["spec"]["unschedulable"]
    told = stages.left_cordoned(Cut(wish.target, cut.learned, {"baseline", "drain"}))
    assert told is not None
    assert (told.code, told.evidence["nodes"]) == ("node.left_cordoned", [node])
    assert stages.left_cordoned(Cut(wish.target, cut.learned, {"baseline"})) is None
    standing.kube.patch("Node", str(second.node_name), {"spec": {"unschedulable": True}})
    given = plans.uncordon(standing.room, TAG, specs.UncordonNodes(nodes=[node, second.key]))
    assert given.uncordoned == (node,)
    assert list(given.left) == [second.node_name]
    assert "kubectl uncordon" in given.left[str(second.node_name)]
    assert not standing.kube.get("Node", node)["spec"].get("unschedulable")
    standing.kube.patch("Node", str(second.node_name), {"spec": {"unschedulable": None}})
    with pytest.raises(problems.Invalid) as wrong:
        plans.uncordon(standing.room, TAG, specs.UncordonNodes(nodes=["i-0000000000000bad0"]))
    assert wrong.value.fields[0].pointer == "/nodes/0"


def test_a_node_that_hyperpod_replaces_while_we_look_is_not_replaced_again(standing: Standing) -> None:
    node, since = standing.nodes()[0], standing.sandbox.last_call()
    wish = standing.prepared(Action.replace, specs.ReplaceNodes(nodes=[node.key]))
    turned = standing.crank.run(WORKFLOWS[wish.workflow], wish.target, until="baseline")
    standing.sandbox.admin("scenario/injure", instance=node.instance_id, action="replace")
    standing.sandbox.warp(65)
    done = standing.crank.turn(turned)
    assert done.status == "succeeded", (done.stopped_at, done.problem)
    assert done.result["nodes"][node.key]["outcome"] == "done"
    assert standing.asked("BatchReplaceClusterNodes", since) == []
    again = standing.again(wish)
    assert again.result["nodes"][node.key]["outcome"] == "moot"
    assert standing.asked("BatchReplaceClusterNodes", since) == []


def test_a_batch_with_one_node_that_cannot_be_acted_on_does_the_others_and_names_it(standing: Standing) -> None:
    first, second = standing.nodes()[:2]
    wish = standing.prepared(Action.reboot, specs.RebootNodes(nodes=[first.key, second.key], drain_minutes=0))
    turned = standing.crank.run(WORKFLOWS[wish.workflow], wish.target, until="drain")
    kept = turned.learned["baseline"]["nodes"][second.key]
    wrong = "i-0123456789abcdef0"
    turned.learned["baseline"]["nodes"] = {
        first.key: turned.learned["baseline"]["nodes"][first.key],
        second.key: {**kept},
        wrong: {**kept, "key": wrong, "instance_id": wrong, "logical_id": None},
    }
    done = standing.crank.turn(turned)
    assert done.status == "succeeded", (done.stopped_at, done.problem)
    outcomes = {key: told["outcome"] for key, told in done.result["nodes"].items()}
    assert outcomes == {first.key: "done", second.key: "done", wrong: "moot"}


def test_what_aws_refuses_is_told_for_each_node_and_retry_asks_for_those_only(standing: Standing) -> None:
    first, second = standing.nodes()[:2]
    since = standing.sandbox.last_call()
    answer = {"NodeId": second.key, "ErrorCode": "InstanceIdInUse", "Message": "busy"}
    real = stages.REBOOT.ask

    def refusing(scene: stages.Scene, batch: list[Before]) -> stages.Refused:
        left = [each for each in batch if each.key != second.key]
        told = real(scene, left) if left else {}
        return told | ({answer["NodeId"]: f"{answer['ErrorCode']}: {answer['Message']}"} if len(left) < len(batch) else {})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stages, "REBOOT", stages.Errand(refusing, stages.REBOOT.judge, "rebooted", 180))  # type: ignore[arg-type]
        done = standing.reboot(first.key, second.key, drain_minutes=0)
        assert done.status == "blocked"
        assert isinstance(done.problem, problems.Blocked)
        assert done.problem.evidence == {"done": [first.key], "refused": {second.key: "InstanceIdInUse: busy"}}
        assert second.key in done.problem.detail
    again = standing.crank.retry(done)
    assert again.status == "succeeded", (again.stopped_at, again.problem)
    assert len(standing.asked("BatchRebootClusterNodes", since)) == 2


def test_a_deleted_node_takes_the_target_count_down_and_a_lost_answer_takes_it_once(standing: Standing) -> None:
    node, since = standing.nodes()[0], standing.sandbox.last_call()
    standing.sandbox.fault("sagemaker:BatchDeleteClusterNodes", when="after", count=1)
    done = standing.run(Action.delete, specs.DeleteNodes(nodes=[node.key]))
    assert done.status == "succeeded", (done.stopped_at, done.problem)
    assert standing.group()["TargetCount"] == 3
    assert node.key not in {each.key for each in standing.nodes()}
    assert len(standing.asked("BatchDeleteClusterNodes", since)) == 1
    name = standing.group()["InstanceGroupName"]
    standing.where.aws.write(
        "sagemaker", "batch_add_cluster_nodes", ClusterName=standing.where.hyperpod_cluster, ClientToken="back",
        NodesToAdd=[{"InstanceGroupName": name, "IncrementTargetCountBy": 1}],
    )  # fmt: skip


def test_a_budget_holds_the_drain_until_its_deadline_and_a_retry_goes_on_when_it_is_gone(standing: Standing) -> None:
    node, since = standing.nodes()[0], standing.sandbox.last_call()
    standing.serve(str(node.node_name))
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    standing.kube.create(
        {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web", "namespace": "default"}, "spec": spec}
    )
    wish = standing.prepared(Action.reboot, specs.RebootNodes(nodes=[node.key], drain_minutes=2))
    assert wish.needs_approval
    assert any("Deployment default/web" in line for line in wish.plan.warnings)
    done = standing.crank.run(WORKFLOWS[wish.workflow], wish.target)
    assert (done.status, done.stopped_at) == ("blocked", "drain")
    assert done.problem is not None
    assert "(budget web)" in done.problem.detail
    assert standing.asked("BatchRebootClusterNodes", since) == []
    standing.kube.delete("PodDisruptionBudget", "web", "default")
    again = standing.crank.retry(done)
    assert again.status == "succeeded", (again.stopped_at, again.problem)
    standing.stop()


def test_work_that_the_plan_did_not_name_blocks_before_anything_is_done(standing: Standing) -> None:
    node, since = standing.nodes()[0], standing.sandbox.last_call()
    wish = standing.prepared(Action.reboot, specs.RebootNodes(nodes=[node.key]))
    assert not wish.needs_approval
    standing.serve(str(node.node_name))
    done = standing.crank.run(WORKFLOWS[wish.workflow], wish.target)
    assert (done.status, done.stopped_at) == ("blocked", "baseline")
    assert done.problem is not None
    assert done.problem.code == "node.work_changed"
    assert "Deployment default/web" in done.problem.detail
    assert not standing.kube.get("Node", str(node.node_name))["spec"].get("unschedulable")
    assert standing.asked("BatchRebootClusterNodes", since) == []
    standing.stop()


def test_deep_health_checks_are_started_once_and_their_results_told(standing: Standing) -> None:
    chosen, since = standing.nodes()[:2], standing.sandbox.last_call()
    standing.sandbox.fault("sagemaker:StartClusterHealthCheck", when="after", count=1)
    done = standing.run(Action.check, specs.CheckNodes(nodes=[each.key for each in chosen]))
    assert done.status == "succeeded", (done.stopped_at, done.problem)
    assert {key: told["because"] for key, told in done.result["nodes"].items()} == {
        each.key: "deep health checks: Passed" for each in chosen
    }
    assert len(standing.asked("StartClusterHealthCheck", since)) == 1


def test_a_node_that_fails_its_check_is_told_as_replaced(standing: Standing) -> None:
    node = standing.nodes()[0]
    standing.sandbox.admin("scenario/doom", instance=node.instance_id)
    done = standing.run(Action.check, specs.CheckNodes(nodes=[node.key]))
    assert done.status == "succeeded", (done.stopped_at, done.problem)
    told = done.result["nodes"][node.key]
    assert "Failed" in told["because"] or told["outcome"] == "moot", told
    standing.until(lambda: node.key not in {each.key for each in standing.nodes()})


def test_nodes_move_to_another_group_of_their_type(standing: Standing) -> None:
    node, since = standing.nodes()[0], standing.sandbox.last_call()
    have = standing.group()
    copied = ("ExecutionRole", "LifeCycleConfig", "InstanceType", "InstanceStorageConfigs", "CapacityRequirements")
    other = {field: have[field] for field in copied} | {"InstanceGroupName": "second", "InstanceCount": 0}
    standing.sandbox.client("sagemaker").update_cluster(ClusterName=standing.where.hyperpod_cluster, InstanceGroups=[other])
    standing.settle()
    standing.sandbox.fault("sagemaker:MoveClusterNodes", when="after", count=1)
    done = standing.run(Action.move, specs.MoveNodes(nodes=[node.key], target_group="second"))
    assert done.status == "succeeded", (done.stopped_at, done.problem)
    assert {each.key: each.group for each in standing.nodes()}[node.key] == "second"
    assert len(standing.asked("MoveClusterNodes", since)) == 1
    standing.until(lambda: node.key in {n.instance_id for n in nodes.read(standing.kube) if n.group == "second"})
    back = standing.run(Action.move, specs.MoveNodes(nodes=[node.key], target_group=have["InstanceGroupName"]))
    assert back.status == "succeeded", (back.stopped_at, back.problem)


def test_software_is_updated_in_batches_once_and_seen_on_every_node(standing: Standing) -> None:
    standing.old_software()
    since = standing.sandbox.last_call()
    wish = plans.prepare_software(standing.room, TAG, specs.UpdateSoftware(batch_size=2, wait_seconds=10))
    assert wish.plan.change == (f"software of {standing.group()['InstanceGroupName']}: 1.0.0 to the newest",)
    standing.sandbox.fault("sagemaker:UpdateClusterSoftware", when="after", count=1)
    done = standing.crank.run(WORKFLOWS["software.update"], wish.target)
    assert done.status == "succeeded", (done.stopped_at, done.problem)
    assert set(done.result["nodes"].values()) == {"1.2.0"}
    assert done.result["not_updated"] == []
    assert len(standing.asked("UpdateClusterSoftware", since)) == 1
    assert plans.prepare_software(standing.room, TAG, specs.UpdateSoftware()).plan.change == ()


def test_an_update_goes_on_where_a_kill_stopped_it(standing: Standing) -> None:
    standing.old_software()
    since = standing.sandbox.last_call()
    wish = plans.prepare_software(standing.room, TAG, specs.UpdateSoftware(release_version="1.1.0"))
    with standing.discarding("update", times=4):
        done = standing.crank.run(WORKFLOWS["software.update"], wish.target)
    assert done.status == "succeeded", (done.stopped_at, done.problem)
    assert set(done.result["nodes"].values()) == {"1.1.0"}
    assert len([call for call in standing.asked("UpdateClusterSoftware", since) if not call["error"]]) == 1
