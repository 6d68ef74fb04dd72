"""Whose pods run on a node, which nodes are missed least, and how nodes are emptied."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from tests.ensure.clusters import Sandbox
from tests.ensure.test_manifests import settled

from instantstart.base import problems
from instantstart.base.outcome import Done, Outcome, Wait
from instantstart.ensure.capacity import drains, nodes
from instantstart.ensure.capacity.drains import Piece, Work
from instantstart.kube import shapes
from instantstart.kube.client import KubeCluster

LONG = 900.0


def a_pod(name: str, node: str = "n1", owner: tuple[str, str] | None = None, phase: str = "Running", **metadata: Any) -> shapes.Pod:
    owners = [{"kind": owner[0], "name": owner[1], "uid": "u", "controller": True}] if owner else []
    gpu = {"resources": {"limits": {"nvidia.com/gpu": "8"}}, "name": "main"}
    meta = {"name": name, "namespace": "team", "ownerReferences": owners, **metadata}
    return shapes.pod({"metadata": meta, "spec": {"nodeName": node, "containers": [gpu]}, "status": {"phase": phase}})


OWNERS: drains.Owners = {
    ("team", "ReplicaSet", "web-5d4f"): shapes.Owner("Deployment", "web", "u", True),
    ("team", "Job", "nightly-1"): shapes.Owner("CronJob", "nightly", "u", True),
}


@pytest.mark.parametrize(
    ("pod", "told"),
    [
        (a_pod("a", labels={"HPJob": "llama"}), "HyperPodPyTorchJob team/llama (1 pod on n1)"),
        (a_pod("a", owner=("RayCluster", "r-raycluster"), labels={"ray.io/cluster": "r"}), "RayCluster team/r (1 pod on n1)"),
        (a_pod("a", labels={"training.kubeflow.org/job-name": "old"}), "PyTorchJob team/old (1 pod on n1)"),
        (a_pod("a", owner=("Job", "prep"), labels={"job-name": "prep"}), "Job team/prep (1 pod on n1)"),
        (a_pod("a", owner=("Job", "nightly-1")), "CronJob team/nightly (1 pod on n1)"),
        (a_pod("a", labels={"job-name": "orphan"}), "Job team/orphan (1 pod on n1)"),
        (a_pod("a", owner=("ReplicaSet", "web-5d4f")), "Deployment team/web (1 pod on n1)"),
        (a_pod("a", owner=("ReplicaSet", "alone")), "ReplicaSet team/alone (1 pod on n1)"),
        (a_pod("a"), "Pod team/a (1 pod on n1)"),
        (
            a_pod("a", owner=("ReplicaSet", "web-5d4f"), labels={"business": "ads"}),
            "Deployment team/web (1 pod on n1, business ads)",
        ),
        (a_pod("a", owner=("ReplicaSet", "web-5d4f"), labels={"business": "unassigned"}), "Deployment team/web (1 pod on n1)"),
    ],
)
def test_a_pod_is_told_by_what_a_person_made(pod: shapes.Pod, told: str) -> None:
    (found,) = drains.sort_work([pod], OWNERS)
    assert str(found) == told


def test_pods_of_one_owner_are_one_work_and_training_comes_first() -> None:
    pods = [
        a_pod("web-1", "n1", ("ReplicaSet", "web-5d4f")),
        a_pod("web-2", "n2", ("ReplicaSet", "web-5d4f"), labels={"business": "ads"}),
        a_pod("l-0", "n1", labels={"HPJob": "llama"}),
        a_pod("l-1", "n2", labels={"HPJob": "llama"}),
    ]
    found = drains.sort_work(pods, OWNERS)
    assert [(w.kind, w.role, w.business, w.nodes) for w in found] == [
        ("HyperPodPyTorchJob", "training", None, ("n1", "n2")),
        ("Deployment", "serving", None, ("n1",)),
        ("Deployment", "serving", "ads", ("n2",)),
    ]
    assert found[0].pieces == (Piece("l-0", "n1", 8), Piece("l-1", "n2", 8))


@pytest.mark.parametrize(
    ("pod", "moves"),
    [
        (a_pod("a"), True),
        (a_pod("a", phase="Pending"), True),
        (a_pod("a", phase="Succeeded"), False),
        (a_pod("a", phase="Failed"), False),
        (a_pod("a", owner=("DaemonSet", "cni")), False),
        (a_pod("a", owner=("Node", "n1")), False),
        (a_pod("a", annotations={"kubernetes.io/config.mirror": "x"}), False),
    ],
)
def test_what_belongs_to_the_node_or_has_ended_does_not_move(pod: shapes.Pod, moves: bool) -> None:
    assert drains.moves(pod) is moves


def a_node(name: str, ready: bool = True) -> nodes.NodeView:
    status = {"conditions": [{"type": "Ready", "status": str(ready)}]}
    return nodes.view(shapes.node({"metadata": {"name": name}, "status": status}))


def work_on(**accelerators: int) -> Work:
    return Work("Job", "team", "j", "training", None, tuple(Piece(f"p-{n}", n, a) for n, a in accelerators.items()))


@pytest.mark.parametrize(
    ("count", "work", "picked"),
    [
        (2, (), ("d", "a")),  # of idle ones the unhealthy first
        (2, (work_on(d=8),), ("a", "b")),  # a busy unhealthy node waits behind idle ones
        (4, (work_on(a=8, b=1, d=1),), ("c", "d", "b", "a")),
        (2, (work_on(a=0, b=0, c=0, d=0), work_on(a=0)), ("d", "b")),  # pods decide where accelerators do not
        (0, (), ()),
        (9, (), ("d", "a", "b", "c")),
    ],
)
def test_idle_nodes_go_first(count: int, work: tuple[Work, ...], picked: tuple[str, ...]) -> None:
    found = [a_node("a"), a_node("b"), a_node("c"), a_node("d", ready=False)]
    assert drains.pick_idle(found, count, work) == picked


def test_the_picking_does_not_depend_on_the_order_of_the_nodes() -> None:
    found = [a_node(n) for n in "cab"]
    assert drains.pick_idle(found, 2, ()) == drains.pick_idle(found[::-1], 2, ()) == ("a", "b")


def ready_node(sandbox: Sandbox) -> str:
    name = sandbox.join("ml.m5.2xlarge")
    settled(lambda: Done() if any(n.name == name and n.usable for n in nodes.read(sandbox.kube)) else Wait(1, "joining"))
    return name


def serve(kube: KubeCluster, node: str, replicas: int = 2) -> None:
    """A deployment whose pods stay on one node, running."""
    labels = {"app": "web"}
    behaves = {"sandbox.instantstart.dev/run": "sleep"}
    pod = {
        "metadata": {"labels": labels, "annotations": behaves},
        "spec": {
            "containers": [{"name": "main", "image": "busybox:1"}],
            "nodeSelector": {"kubernetes.io/hostname": node},
            "terminationGracePeriodSeconds": 0,
        },
    }
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": pod}
    kube.create({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"}, "spec": spec})
    settled(lambda: Done() if kube.get("Deployment", "web", "default")["status"].get("readyReplicas") == replicas else Wait(1, "starting"))


def guard(kube: KubeCluster, least: int) -> None:
    spec = {"minAvailable": least, "selector": {"matchLabels": {"app": "web"}}}
    kube.create(
        {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web", "namespace": "default"}, "spec": spec}
    )

    def counted() -> Outcome:
        status = kube.get("PodDisruptionBudget", "web", "default").get("status") or {}
        return Done() if status.get("currentHealthy") and status.get("observedGeneration") else Wait(1, "counting")

    settled(counted)


def until_empty(kube: KubeCluster, node: str) -> None:
    settled(lambda: drains.drain(kube, [node], 0.0, LONG) or Done())


def test_a_drain_empties_a_node_and_says_so_again(sandbox: Sandbox) -> None:
    kube, node = sandbox.kube, ready_node(sandbox)
    serve(kube, node)
    assert [str(w) for w in drains.busy(kube, [node])] == [f"Deployment default/web (2 pods on {node})"]
    first = drains.drain(kube, [node], 0.0, LONG)
    assert first is not None
    assert "pods to leave" in first.because
    assert kube.get("Node", node)["spec"]["unschedulable"] is True
    until_empty(kube, node)
    assert drains.busy(kube, [node]) == ()
    assert drains.drain(kube, [node], 0.0, LONG) is None
    drains.uncordon(kube, [node])
    found = kube.get("Node", node)
    assert not found["spec"].get("unschedulable")
    assert drains.CORDONED not in found["metadata"].get("annotations", {})


def test_a_budget_holds_a_drain_until_its_deadline_then_pod_and_budget_are_named(sandbox: Sandbox) -> None:
    kube, node = sandbox.kube, ready_node(sandbox)
    serve(kube, node)
    guard(kube, least=2)
    step = drains.drain(kube, [node], 0.0, LONG)
    assert step is not None
    assert "held by a disruption budget" in step.because
    with pytest.raises(problems.Blocked) as caught:
        drains.drain(kube, [node], LONG, LONG)
    assert caught.value.code == "node.drain_blocked"
    assert f"on {node} (budget web)" in caught.value.detail
    assert len(drains.pods_on(kube, [node])) >= 2
    kube.delete("PodDisruptionBudget", "web", "default")
    until_empty(kube, node)


def test_somebody_elses_cordon_stays_and_a_node_that_is_gone_is_empty(sandbox: Sandbox) -> None:
    kube, node = sandbox.kube, ready_node(sandbox)
    kube.patch("Node", node, {"spec": {"unschedulable": True}})
    until_empty(kube, node)
    drains.uncordon(kube, [node, "hyperpod-i-0gone"])
    assert kube.get("Node", node)["spec"]["unschedulable"] is True
    assert drains.drain(kube, ["hyperpod-i-0gone"], 0.0, LONG) is None


def test_dns_on_the_only_node_holds_no_drain_and_moves_when_there_is_another(sandbox: Sandbox) -> None:
    kube, node = sandbox.kube, ready_node(sandbox)
    settled(lambda: Done() if any(p.metadata.namespace == "kube-system" for p in drains.pods_on(kube, [node])) else Wait(1, "DNS starts"))
    assert drains.drain(kube, [node], 0.0, LONG) is None
    ready_node(sandbox)
    assert drains.drain(kube, [node], 0.0, LONG) is not None
    until_empty(kube, node)
    assert drains.pods_on(kube, [node]) == []


def test_a_pod_that_ends_on_a_silent_node_is_not_waited_for() -> None:
    silent = dataclasses.replace(a_node("n1", ready=False))
    assert not silent.ready
    node = shapes.node({"metadata": {"name": "n1"}, "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}})
    ending = a_pod("a", deletionTimestamp="2026-11-30T00:00:00Z")
    assert drains._abandoned(ending, node)
    assert not drains._abandoned(a_pod("a"), node)
