"""Switches in bad weather, and killed between act and record: the same world, and every act once."""

from __future__ import annotations

from typing import Any

import pytest
from tests.clusters.worlds import inventory

from instantstart.base.outcome import Outcome

CHANGING = r"(?!.*:(Describe|List|Get|Head|Simulate)).*"
#: one of each way: an add-on with an association, a bundle with an annotation, a setting with an account of ours
FEATURES = ("training_operator", "keda", "tiered_checkpointing")


def _lose_each_once() -> Any:
    seen: set[str] = set()

    def discard(stage: str, outcome: Outcome) -> bool:
        key = f"{stage}/{outcome}"
        fresh = key not in seen
        seen.add(key)
        return fresh

    return discard


def _world(features: Any) -> list[str]:
    """The account, and what of Kubernetes a chain touches."""
    eks, cluster = features.sandbox.client("eks"), features.job.site.eks_cluster
    held = eks.list_pod_identity_associations(clusterName=cluster)["associations"]
    accounts = [a for a in features.kube.list("ServiceAccount") if "eks.amazonaws.com/role-arn" in (a["metadata"].get("annotations") or {})]
    lines = [f"association {a['namespace']}/{a['serviceAccount']}" for a in held]
    lines += [f"annotated {a['metadata']['namespace']}/{a['metadata']['name']}" for a in accounts]
    return sorted([*inventory(features.sandbox), *lines])


@pytest.fixture(scope="module")
def undisturbed(standing: Any, shared_sandbox: Any) -> dict[str, list[str]]:
    """The world off, and with all three on, after runs in fair weather."""
    from tests.features.conftest import Features

    features = Features(standing.crank, shared_sandbox, standing)
    off = _world(features)
    for name in FEATURES:
        assert features.on(name).status == "succeeded"
    on = _world(features)
    for name in (*FEATURES, "cert_manager"):
        assert features.off(name).status == "succeeded"
    assert _world(features) == off
    return {"on": on, "off": off}


def _all(features: Any, undisturbed: dict[str, list[str]]) -> None:
    for name in FEATURES:
        made = features.on(name)
        assert made.status == "succeeded", (name, made.stopped_at, made.problem)
    features.sandbox.clear()
    assert features.broken() == []
    assert _world(features) == undisturbed["on"]


def _none(features: Any, undisturbed: dict[str, list[str]]) -> None:
    for name in (*FEATURES, "cert_manager"):
        gone = features.off(name)
        assert gone.status == "succeeded", (name, gone.stopped_at, gone.problem)
    features.sandbox.clear()
    assert _world(features) == undisturbed["off"]


@pytest.mark.slow
def test_killed_between_act_and_record_at_every_tick_both_ways(features: Any, undisturbed: dict[str, list[str]]) -> None:
    features.crank.discard = _lose_each_once()
    _all(features, undisturbed)
    features.crank.discard = _lose_each_once()
    _none(features, undisturbed)


@pytest.mark.slow
def test_replies_lost_throttling_and_errors_both_ways(features: Any, undisturbed: dict[str, list[str]]) -> None:
    def storm() -> None:
        features.sandbox.fault(".*", code="throttle", probability=0.1, count=None)
        features.sandbox.fault(".*", code="unavailable", probability=0.05, count=None)
        features.sandbox.fault(CHANGING, when="after", probability=0.3, count=None)

    storm()
    _all(features, undisturbed)
    storm()
    _none(features, undisturbed)
