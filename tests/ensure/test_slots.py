"""Pod slots are counted on nodes that take pods (case 23)."""

from __future__ import annotations

from instantstart.ensure.installs import slots
from instantstart.kube import shapes


def a_node(name: str, pods: str, ready: str = "True") -> shapes.Node:
    status = {"allocatable": {"pods": pods}, "conditions": [{"type": "Ready", "status": ready}]}
    return shapes.node({"metadata": {"name": name}, "status": status})


def a_pod(node: str | None, phase: str = "Running") -> shapes.Pod:
    return shapes.pod({"metadata": {"name": "p"}, "spec": {"nodeName": node}, "status": {"phase": phase}})


def test_used_and_waiting_pods_are_what_is_needed() -> None:
    pods = [a_pod("a")] * 12 + [a_pod(None, "Pending")] * 7 + [a_pod("a", "Succeeded"), a_pod("b")]
    found = slots.count([a_node("a", "14"), a_node("b", "29", "False")], pods)
    assert (found.total, found.used, found.waiting, found.needed) == (14, 12, 7, 19)
    assert found.sentence() == "14 pod slots, 19 needed"
