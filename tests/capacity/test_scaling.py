"""Fewer nodes and more: idle ones go first, busy ones are named and asked about, budgets are kept, what arrives in part is told."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.capacity.doors import GROUPS, Door, counted, turn
from tests.clusters.conftest import ZONE, Job
from tests.clusters.crank import Crank
from tests.clusters.worlds import SandboxProcess

from instantstart.capabilities.room import Room
from instantstart.ensure.capacity import nodes
from instantstart.kube.client import KubeCluster

CPU = "ml.m5.2xlarge"
PATIENCE_SECONDS = 60.0


class Work:
    """Pods that a person's job keeps on the nodes of the group ``cpu``."""

    def __init__(self, kube: KubeCluster) -> None:
        self.kube = kube

    def nodes(self) -> list[str]:
        """The names of the group's nodes; one may be not ready for a moment, which is why pods are waited for."""
        return sorted(n.name for n in nodes.read(self.kube) if n.group == "cpu")

    def run(self, name: str, node: str) -> None:
        """A training job with one pod on a node, running."""
        pod = {
            "metadata": {"annotations": {"sandbox.instantstart.dev/run": "sleep"}, "labels": {"app": name}},
            "spec": {
                "containers": [{"name": "main", "image": "busybox:1"}],
                "nodeSelector": {"kubernetes.io/hostname": node},
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 0,
            },
        }
        meta = {"name": name, "namespace": "default"}
        self.kube.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {"template": pod}})
        self.until(lambda: bool(self.pods(name)))

    def pods(self, name: str) -> list[dict[str, Any]]:
        """Its running pods."""
        return self.kube.list("Pod", "default", labels=f"app={name}", fields="status.phase=Running")

    def keep(self, name: str) -> None:
        """A disruption budget that lets none of its pods go."""
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": name}}}
        self.kube.create(
            {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name, "namespace": "default"}, "spec": spec}
        )

    def stop(self, name: str) -> None:
        """Take job and budget away."""
        self.kube.delete("PodDisruptionBudget", name, "default")
        self.kube.delete("Job", name, "default")
        self.until(lambda: not self.kube.list("Pod", "default", labels=f"app={name}"))

    def until(self, true: Callable[[], bool]) -> None:
        """Wait for a fact of the sandbox's Kubernetes, which runs at the pace of the wall."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not true():
            assert time.monotonic() < end, "it never came true"
            time.sleep(0.1)


@pytest.fixture(scope="module")
def work(standing: Job, shared_room: Room, shared_sandbox: SandboxProcess) -> Iterator[Work]:
    """A group ``cpu`` of four nodes."""
    made = turn(standing.crank, "instance_group.add", name="cpu", instance_type=CPU, instance_count=4, zone=ZONE)
    assert made.status == "succeeded", made.problem
    yield Work(standing.site.kube(shared_room))
    assert turn(standing.crank, "instance_group.delete", group="cpu", drain_minutes=0).status == "succeeded"


def test_the_idle_node_goes_and_no_busy_one_is_touched(work: Work, door: Door, crank: Crank, shared_sandbox: SandboxProcess) -> None:
    idle, *busy = work.nodes()
    for index, node in enumerate(busy):
        work.run(f"train-{index}", node)
    plan = door.well(200, "POST", f"{GROUPS}/cpu/scale", {"instance_count": 3}, dry_run=True)
    assert (plan["remove"], plan["warnings"], plan["approval"]) == ([idle], [], None)
    with counted(shared_sandbox, "BatchDeleteClusterNodes") as deleted:
        done = turn(crank, "instance_group.scale", group="cpu", instance_count=3)
    assert done.status == "succeeded", done.problem
    assert [r["NodeIds"] for r in deleted] == [[idle.removeprefix("hyperpod-")]]
    assert work.nodes() == busy
    assert all(work.pods(f"train-{index}") for index in range(3))


def test_busy_nodes_are_named_with_their_jobs_and_need_the_plans_approval(work: Work, door: Door, crank: Crank) -> None:
    plan = door.well(200, "POST", f"{GROUPS}/cpu/scale", {"instance_count": 2}, dry_run=True)
    assert len(plan["remove"]) == 1
    assert "Job default/train-" in plan["warnings"][0]
    assert plan["approval"]
    told = door.refusal(409, "POST", f"{GROUPS}/cpu/scale", {"instance_count": 2})
    assert told["code"] == "approval.missing"
    other = door.refusal(409, "POST", f"{GROUPS}/cpu/scale", {"instance_count": 1}, approval=plan["approval"])
    assert other["code"] == "approval.missing", "an approval is for that exact request"
    blocked = turn(crank, "instance_group.scale", group="cpu", instance_count=2)
    assert (blocked.status, blocked.problem and blocked.problem.code) == ("blocked", "instance_group.nodes_busy")
    assert len(work.nodes()) == 3


def test_a_budget_keeps_its_pod_until_the_deadline_and_both_are_named(work: Work, crank: Crank) -> None:
    for index in range(3):
        work.keep(f"train-{index}")
    stuck = turn(crank, "instance_group.scale", group="cpu", instance_count=2, disturb=True, drain_minutes=5)
    assert (stuck.status, stuck.stopped_at, stuck.problem and stuck.problem.code) == ("blocked", "drain", "node.drain_blocked")
    assert stuck.problem is not None
    assert "default/train-" in stuck.problem.detail
    assert "budget train-" in stuck.problem.detail
    assert len(work.nodes()) == 3, "nothing was removed"
    for index in range(3):
        work.stop(f"train-{index}")
    done = crank.retry(stuck)
    assert done.status == "succeeded", done.problem
    assert len(work.nodes()) == 2


def test_three_of_eight_are_kept_and_told_with_the_reason(work: Work, standing: Job, crank: Crank, shared_sandbox: SandboxProcess) -> None:
    shared_sandbox.admin("capacity", instance_type=CPU, zone="us-west-2a", available=3)
    begun = turn(crank, "instance_group.scale", until="grow", group="cpu", instance_count=8)
    late = crank.turn(begun, ticks=60)
    assert "5/8 nodes Running" in late.sentences("nodes")
    assert "sufficient capacity" in late.sentences("nodes")
    assert "is offered in" in late.sentences("nodes")
    shared_sandbox.admin("capacity", instance_type=CPU, zone="us-west-2a", available=100)
    assert crank.turn(late).status == "succeeded"


def test_nodes_that_never_came_are_the_first_to_go(work: Work, crank: Crank, shared_sandbox: SandboxProcess) -> None:
    have = work.nodes()
    shared_sandbox.admin("capacity", instance_type=CPU, zone="us-west-2a", available=0)
    crank.turn(turn(crank, "instance_group.scale", until="grow", group="cpu", instance_count=len(have) + 2), ticks=10)
    with counted(shared_sandbox, "BatchDeleteClusterNodes") as deleted:
        done = turn(crank, "instance_group.scale", group="cpu", instance_count=len(have))
    assert done.status == "succeeded", done.problem
    assert [sorted(r) for r in deleted] == [["ClusterName", "NodeLogicalIds"]]
    assert work.nodes() == have
    shared_sandbox.admin("capacity", instance_type=CPU, zone="us-west-2a", available=100)


def test_deep_health_checks_are_waited_for_before_anything_changes(
    standing: Job, door: Door, crank: Crank, shared_sandbox: SandboxProcess
) -> None:
    name, sagemaker = standing.site.hyperpod_cluster, shared_sandbox.client("sagemaker")
    instance = sagemaker.list_cluster_nodes(ClusterName=name, InstanceGroupNameContains="workers")["ClusterNodeSummaries"][0]["InstanceId"]
    check = {"InstanceGroupName": "workers", "InstanceIds": [instance], "DeepHealthChecks": ["InstanceStress"]}
    sagemaker.start_cluster_health_check(ClusterName=name, DeepHealthCheckConfigurations=[check])
    plan = door.well(200, "PATCH", f"{GROUPS}/workers", {"labels": {"a": "b"}}, dry_run=True)
    assert "one to two hours" in plan["warnings"][0]
    done = turn(crank, "instance_group.update", group="workers", labels={"a": "b"})
    assert done.status == "succeeded", done.problem
    assert "one to two hours" in done.sentences("checks")
    assert done.seconds > 1800


def test_killed_after_each_act_the_nodes_are_removed_once(work: Work, crank: Crank, shared_sandbox: SandboxProcess) -> None:
    have, seen = len(work.nodes()), set()

    def discard(stage: str, _outcome: Any) -> bool:
        return (stage, "again") not in seen and not seen.add((stage, "again"))  # type: ignore[func-returns-value]

    crank.discard = discard
    with counted(shared_sandbox, "BatchDeleteClusterNodes") as deleted, counted(shared_sandbox, "BatchAddClusterNodes") as added:
        assert turn(crank, "instance_group.scale", group="cpu", instance_count=have - 1).status == "succeeded"
        seen.clear()
        assert turn(crank, "instance_group.scale", group="cpu", instance_count=have).status == "succeeded"
    crank.discard = lambda stage, outcome: False
    assert (len(deleted), len({r["ClientToken"] for r in added})) == (1, 1)
    assert len(work.nodes()) == have
