"""What Kubernetes and HyperPod say about a node, in one view."""

from __future__ import annotations

from typing import Any

import pytest

from instantstart.ensure.capacity import nodes
from instantstart.kube import shapes

P = "sagemaker.amazonaws.com/"


def a_node(
    name: str = "hyperpod-i-0123456789abcdef0", ready: str = "True", labels: dict[str, str] | None = None, **spec: Any
) -> nodes.NodeView:
    found = {
        "metadata": {"name": name, "labels": {P + "node-health-status": "Schedulable", P + "instance-group-name": "gpu", **(labels or {})}},
        "spec": spec,
        "status": {
            "conditions": [{"type": "Ready", "status": ready, "message": "container runtime network not ready"}],
            "allocatable": {"cpu": "31850m", "memory": "120Gi", "pods": "29", "nvidia.com/gpu": "1", "vpc.amazonaws.com/efa": "1"},
            "nodeInfo": {"kubeletVersion": "v1.34.0"},
        },
    }
    return nodes.view(shapes.node(found))


def test_a_good_node_is_usable() -> None:
    node = a_node(labels={"node.kubernetes.io/instance-type": "ml.g5.8xlarge", "topology.kubernetes.io/zone": "z"})
    assert (node.usable, node.because) == (True, None)
    assert (node.instance_id, node.group, node.instance_type) == ("i-0123456789abcdef0", "gpu", "ml.g5.8xlarge")
    assert (node.gpus, node.efa, node.pods, node.cpu) == (1, 1, 29, "31850m")


@pytest.mark.parametrize(
    ("node", "part"),
    [
        (a_node(ready="False"), "not ready: container runtime network not ready"),
        (a_node(unschedulable=True), "cordoned"),
        (a_node(labels={P + "node-health-status": "UnschedulablePendingReboot"}), "is rebooting"),
        (
            a_node(labels={P + "node-health-status": "UnschedulablePendingReplacement", P + "fault-types": "NvidiaErrorReplace"}),
            "is replacing the instance (NvidiaErrorReplace)",
        ),
        (a_node(labels={P + "node-health-status": "Unschedulable"}), "marked the node Unschedulable"),
        (a_node(labels={P + "deep-health-check-status": "InProgress"}), "Deep health checks are running"),
        (a_node(labels={P + "deep-health-check-status": "Failed"}), "Deep health checks failed"),
    ],
)
def test_a_node_that_cannot_be_used_says_why(node: nodes.NodeView, part: str) -> None:
    assert not node.usable
    assert node.because is not None
    assert part in node.because


def test_a_node_that_never_reported_is_not_ready() -> None:
    node = nodes.view(shapes.node({"metadata": {"name": "x"}}))
    assert (node.ready, node.instance_id, node.gpus) == (False, None, 0)
    assert node.because == "The node is not ready: its kubelet has not reported."


def test_the_provider_id_tells_the_instance_when_the_name_does_not() -> None:
    assert a_node("ip-10-0-0-1", providerID="x:///zone/i-0fedcba9876543210").instance_id == "i-0fedcba9876543210"


def test_taints_that_only_repeat_the_nodes_state_are_left_out() -> None:
    taints = [
        {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
        {"key": P + "node-health-status", "value": "Unschedulable", "effect": "NoSchedule"},
        {"key": "team", "value": "a", "effect": "NoExecute"},
        {"key": "dedicated", "effect": "NoSchedule"},
    ]
    assert a_node(taints=taints).taints == ("team=a:NoExecute", "dedicated:NoSchedule")


def test_joining_with_sagemaker_tells_missing_instances_and_stray_nodes() -> None:
    one, stray = a_node("hyperpod-i-0aaaaaaaaaaaaaaaa"), a_node("hyperpod-i-0bbbbbbbbbbbbbbbb")
    found = nodes.join([one, stray], {"i-0aaaaaaaaaaaaaaaa": "spot", "i-0cccccccccccccccc": None})
    assert found.nodes["i-0aaaaaaaaaaaaaaaa"].capacity_type == "spot"
    assert found.missing == ("i-0cccccccccccccccc",)
    assert [n.name for n in found.strays] == [stray.name]
