"""Copies of others, custom resources in the way, add-ons that fail or lag: told, and never worked around silently."""

from __future__ import annotations

import json
from typing import Any

import pytest

HELM = {"meta.helm.sh/release-name": "mine"}


def _deployment(name: str, namespace: str, image: str) -> dict[str, Any]:
    labels = {"app": name}
    pod = {"containers": [{"name": "main", "image": image}]}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}
    metadata = {"name": name, "namespace": namespace, "annotations": HELM, "labels": {"app.kubernetes.io/managed-by": "Helm"}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def _helm(features: Any, *deployments: dict[str, Any]) -> None:
    kube = features.kube
    for deployment in deployments:
        space = deployment["metadata"]["namespace"]
        if kube.find("Namespace", space) is None:
            kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}})
        kube.create(deployment)
    for _ in range(60):
        features.sandbox.warp(5)
        live = [kube.get("Deployment", d["metadata"]["name"], d["metadata"]["namespace"]) for d in deployments]
        if all((d.get("status") or {}).get("readyReplicas") for d in live):
            return
    raise AssertionError([d.get("status") for d in live])


def _cleaned(features: Any, *deployments: dict[str, Any]) -> None:
    for deployment in deployments:
        features.kube.delete("Deployment", deployment["metadata"]["name"], deployment["metadata"]["namespace"])
        while features.kube.find("Deployment", deployment["metadata"]["name"], deployment["metadata"]["namespace"]):
            features.sandbox.warp(5)


def test_helms_cert_manager_is_used_told_and_never_removed(features: Any) -> None:
    image = "quay.io/jetstack/cert-manager-controller:v1.18.2"
    copies = [_deployment(f"cert-manager{part}", "cert-manager", image) for part in ("", "-cainjector", "-webhook")]
    _helm(features, *copies)
    view = features.read()["cert_manager"]
    assert (view.state, view.installed_by) == ("on", "Helm release mine"), view
    assert "Deployment cert-manager/cert-manager" in {c.object for c in view.copies}
    made = features.on("training_operator")
    assert made.status == "succeeded", (made.stopped_at, made.problem)
    assert "cert-manager" not in features.sandbox.client("eks").list_addons(clusterName=features.job.site.eks_cluster)["addons"]
    refused = features.off("cert_manager")
    assert refused.problem.code == "feature.refused"
    assert [r["code"] for r in refused.problem.evidence["refusals"]] == ["feature.needed_by", "feature.not_ours"]
    assert features.off("training_operator").status == "succeeded"
    assert features.off("cert_manager").problem.code == "feature.not_ours"
    _cleaned(features, *copies)


def test_a_copy_is_overwritten_only_by_its_name(features: Any) -> None:
    copy = _deployment("metrics-server", "kube-system", "registry.k8s.io/metrics-server/metrics-server:v0.7.2")
    _helm(features, copy)
    refused = features.on("metrics_server")
    assert refused.problem.code == "feature.copies_present"
    assert refused.problem.evidence["choices"] == ["adopt", "overwrite"]
    made = features.on("metrics_server", overwrite=["Deployment kube-system/metrics-server"])
    assert made.status == "succeeded", (made.stopped_at, made.problem)
    view = features.read()["metrics_server"]
    assert (view.state, view.installed_by) == ("on", "InstantStart")
    assert features.off("metrics_server").status == "succeeded"


@pytest.mark.slow
def test_a_keda_of_ones_own_is_named_and_then_used_by_the_inference_operator(features: Any) -> None:
    copy = _deployment("keda-operator", "keda", "ghcr.io/kedacore/keda:2.17.3")
    _helm(features, copy)
    refused = features.on("inference_operator")
    assert refused.problem.code == "feature.copies_present"
    assert "keda" in refused.problem.detail
    made = features.on("inference_operator", adopt=True)
    assert made.status == "succeeded", (made.stopped_at, made.problem, made.said[-5:])
    addon = features.sandbox.client("eks").describe_addon(
        clusterName=features.job.site.eks_cluster, addonName="amazon-sagemaker-hyperpod-inference"
    )["addon"]  # fmt: skip
    assert '"keda":{"enabled":false}' in addon["configurationValues"]
    told = features.read()
    assert (told["keda"].state, told["keda"].installed_by) == ("on", "Helm release mine")
    assert told["inference_operator"].state == "on"
    assert features.kube.find("Deployment", "keda-operator", "keda") is not None
    assert features.off("inference_operator").status == "succeeded"
    _cleaned(features, copy)
    for name in ("fsx_csi", "metrics_server", "cert_manager"):
        assert features.off(name).status == "succeeded"


@pytest.mark.parametrize(
    ("feature", "api", "kind"),
    [
        ("training_operator", "sagemaker.amazonaws.com/v1", "HyperPodPyTorchJob"),
        ("kuberay", "ray.io/v1", "RayCluster"),
        ("keda", "keda.sh/v1alpha1", "ScaledObject"),
    ],
)
def test_switching_off_is_refused_while_its_custom_resources_are_there(features: Any, feature: str, api: str, kind: str) -> None:
    assert features.on(feature).status == "succeeded"
    metadata = {"name": "held", "namespace": "default", "finalizers": ["operator.example.com/hold"]}
    features.kube.create({"apiVersion": api, "kind": kind, "metadata": metadata, "spec": {}})
    refused = features.off(feature)
    assert refused.problem.code == "feature.in_use"
    assert refused.problem.evidence["objects"] == [f"{kind} default/held"]
    assert features.read()[feature].state == "on"
    held = features.kube.get(f"{api}/{kind}", "held", "default")
    assert "operator.example.com/hold" in held["metadata"]["finalizers"], "others' marks stay (an operator may add its own)"
    features.kube.patch(f"{api}/{kind}", "held", {"metadata": {"finalizers": None}}, namespace="default")
    features.kube.delete(f"{api}/{kind}", "held", "default")
    features.sandbox.warp(5)
    assert features.off(feature).status == "succeeded"
    features.off("cert_manager")


def test_volumes_of_the_fsx_driver_hold_it(features: Any) -> None:
    assert features.on("fsx_csi").status == "succeeded"
    csi = {"driver": "fsx.csi.aws.com", "volumeHandle": "fs-0123456789abcdef0"}
    spec = {"capacity": {"storage": "1200Gi"}, "accessModes": ["ReadWriteMany"], "csi": csi, "persistentVolumeReclaimPolicy": "Retain"}
    features.kube.create({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "held"}, "spec": spec})
    refused = features.off("fsx_csi")
    assert (refused.problem.code, refused.problem.evidence["objects"]) == ("feature.in_use", ["PersistentVolume held"])
    features.kube.delete("PersistentVolume", "held")
    features.sandbox.warp(5)
    assert features.off("fsx_csi").status == "succeeded"


def test_an_older_version_is_pinned_upgraded_and_too_old_for_what_needs_a_newer_one(features: Any) -> None:
    assert features.on("cert_manager", version="v1.17.2-eksbuild.1").status == "succeeded"
    view = features.read()["cert_manager"]
    assert (view.version, view.available_version) == ("v1.17.2-eksbuild.1", "v1.19.2-eksbuild.1")
    refused = features.on("inference_operator")
    assert refused.problem.code == "feature.dependency_too_old"
    values = {"replicaCount": 2}
    assert features.on("cert_manager", configuration=values).status == "succeeded"
    done = features.upgrade("cert_manager", "v1.18.2-eksbuild.2")
    assert done.status == "succeeded", done.problem
    view = features.read()["cert_manager"]
    assert view.version == "v1.18.2-eksbuild.2"
    assert view.settings["configuration"]["replicaCount"] == 2
    assert view.settings["configuration"]["webhook"] == {"tolerations": [{"operator": "Exists"}]}
    assert features.off("cert_manager").status == "succeeded"


def test_an_add_on_that_failed_is_told_then_removed_and_made_again(features: Any) -> None:
    eks, cluster = features.sandbox.client("eks"), features.job.site.eks_cluster
    features.kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kueue-system"}})
    copy = _deployment("kueue-controller-manager", "kueue-system", "registry.k8s.io/kueue/kueue:v0.19.2")
    _helm(features, copy)
    eks.create_addon(clusterName=cluster, addonName="amazon-sagemaker-hyperpod-taskgovernance")
    features.sandbox.warp(90)
    view = features.read()["task_governance"]
    assert view.state == "failed"
    assert "ConfigurationConflict" in view.why
    _cleaned(features, copy)
    made = features.on("task_governance")
    assert made.status == "succeeded", (made.stopped_at, made.problem, made.said[-5:])
    assert "removed, to be made again" in made.sentences("install")
    assert features.off("task_governance").status == "succeeded"


def test_a_role_of_our_name_that_is_somebody_elses_is_told_and_never_touched(features: Any) -> None:
    iam, name = features.sandbox.client("iam"), features.job.site.names.checkpoint_role
    theirs = {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}
    iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [theirs]}))
    refused = features.on("tiered_checkpointing")
    assert (refused.status, refused.problem.code) == ("failed", "role.not_ours")
    view = features.read()["tiered_checkpointing"]
    assert (view.state, view.identity) == ("off", ())
    assert features.off("tiered_checkpointing").status == "succeeded"
    assert iam.get_role(RoleName=name)["Role"]["AssumeRolePolicyDocument"]["Statement"][0]["Principal"] == {"Service": "ec2.amazonaws.com"}
    iam.delete_role(RoleName=name)


def test_what_cannot_be_read_is_unknown_and_neither_on_nor_off(features: Any) -> None:
    features.sandbox.fault("kubernetes.*", code="away", count=None)
    told = features.read()
    assert {told[name].state for name in ("cert_manager", "keda", "kuberay")} == {"unknown"}
    assert told["tiered_checkpointing"].state == "off"
    features.sandbox.clear()
    features.sandbox.fault("eks:ListAddons", code="unavailable", count=None)
    assert features.read()["training_operator"].state == "unknown"
    features.sandbox.clear()
    assert features.read()["training_operator"].state == "off"
