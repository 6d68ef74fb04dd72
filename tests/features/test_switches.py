"""Every switch on, off, and on again; the world compared with the declared chain."""

from __future__ import annotations

from typing import Any

import pytest

SIMPLE = ("cert_manager", "metrics_server", "fsx_csi", "training_operator", "task_governance", "kuberay", "keda", "observability")


@pytest.mark.parametrize("feature", SIMPLE)
def test_on_is_on_off_is_off_and_on_again(features: Any, feature: str) -> None:
    for _ in range(2):
        made = features.on(feature)
        assert made.status == "succeeded", (made.stopped_at, made.problem, made.said[-5:])
        view = features.read()[feature]
        assert (view.state, view.installed_by) == ("on", "InstantStart"), view
        assert [link for link in view.identity if link.status != "ok"] == []
        gone = features.off(feature)
        assert gone.status == "succeeded", (gone.stopped_at, gone.problem, gone.said[-5:])
        assert features.read()[feature].state == "off"


def test_tiered_checkpointing_changes_the_cluster_and_makes_exactly_its_chain(features: Any) -> None:
    before = features.sandbox.client("sagemaker").describe_cluster(ClusterName=features.job.site.hyperpod_cluster)
    made = features.on("tiered_checkpointing", memory_percent=40)
    assert made.status == "succeeded", (made.stopped_at, made.problem, made.said[-5:])
    after = features.sandbox.client("sagemaker").describe_cluster(ClusterName=features.job.site.hyperpod_cluster)
    assert after["TieredStorageConfig"] == {"Mode": "Enable", "InstanceMemoryAllocationPercentage": 40}
    assert after["InstanceGroups"] == before["InstanceGroups"]
    assert features.broken() == []
    view = features.read()["tiered_checkpointing"]
    assert (view.state, view.settings["memory_percent"]) == ("on", 40)
    account = features.kube.get("ServiceAccount", "tiered-checkpointing", "default")
    role = features.sandbox.client("iam").get_role(RoleName=features.job.site.names.checkpoint_role)["Role"]
    assert account["metadata"]["annotations"]["eks.amazonaws.com/role-arn"] == role["Arn"]
    gone = features.off("tiered_checkpointing")
    assert gone.status == "succeeded", (gone.stopped_at, gone.problem, gone.said[-5:])
    assert features.kube.find("ServiceAccount", "tiered-checkpointing", "default") is None
    assert features.read()["tiered_checkpointing"].state == "off"


@pytest.mark.slow
def test_the_inference_operator_brings_what_it_needs_and_leaves_it_on(features: Any) -> None:
    made = features.on("inference_operator")
    assert made.status == "succeeded", (made.stopped_at, made.problem, made.said[-5:])
    told = features.read()
    assert features.broken() == []
    assert {n: told[n].state for n in ("inference_operator", "cert_manager", "metrics_server", "fsx_csi", "keda")} == dict.fromkeys(
        ("inference_operator", "cert_manager", "metrics_server", "fsx_csi", "keda"), "on"
    )
    assert told["keda"].installed_by == "inference_operator"
    assert told["cert_manager"].needed_by == ("inference_operator",)
    refused = features.off("cert_manager")
    assert (refused.status, refused.problem.code) == ("failed", "feature.needed_by")
    gone = features.off("inference_operator")
    assert gone.status == "succeeded", (gone.stopped_at, gone.problem, gone.said[-5:])
    told = features.read()
    assert {n: told[n].state for n in ("inference_operator", "cert_manager", "fsx_csi", "keda")} == {
        "inference_operator": "off", "cert_manager": "on", "fsx_csi": "on", "keda": "off",
    }  # fmt: skip
