"""Which pods a budget covers: the selectors of policy/v1."""

from __future__ import annotations

from typing import Any

import pytest

from instantstart.ensure.capacity import budgets

POD: dict[str, Any] = {"metadata": {"name": "a", "namespace": "n", "labels": {"app": "web", "tier": "front"}}, "spec": {"nodeName": "x"}}


@pytest.mark.parametrize(
    ("selector", "covered"),
    [
        ({}, True),
        (None, False),
        ({"matchLabels": {"app": "web"}}, True),
        ({"matchLabels": {"app": "db"}}, False),
        ({"matchExpressions": [{"key": "tier", "operator": "In", "values": ["front", "back"]}]}, True),
        ({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["front"]}]}, False),
        ({"matchExpressions": [{"key": "tier", "operator": "Exists"}, {"key": "gone", "operator": "DoesNotExist"}]}, True),
        ({"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}, False),
    ],
)
def test_a_selector_covers_a_pod(selector: dict[str, Any] | None, covered: bool) -> None:
    budget = {"metadata": {"name": "b", "namespace": "n"}, "spec": {"selector": selector}}
    assert budgets._covers(budget, POD) is covered


def test_a_budget_covers_its_own_namespace_only() -> None:
    assert not budgets._covers({"metadata": {"name": "b", "namespace": "other"}, "spec": {"selector": {}}}, POD)


def test_a_held_pod_is_told_with_its_budget() -> None:
    assert (
        str(budgets.Held("kube-system", "coredns-1", "hyperpod-i-1", "coredns")) == "kube-system/coredns-1 on hyperpod-i-1 (budget coredns)"
    )
