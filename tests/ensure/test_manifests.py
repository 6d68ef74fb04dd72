"""Releases in a real (sandbox) cluster: made once, told apart from what others made, taken out again."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.ensure.clusters import FACTS, STAND_INS, pause

from instantstart.base import problems
from instantstart.base.outcome import Done, Outcome, Wait
from instantstart.ensure.installs import bundles, manifests, strangers
from instantstart.ensure.installs.releases import BUNDLE, DIGEST, MANAGED_BY, Release, Role
from instantstart.ensure.installs.strangers import Takeover
from instantstart.kube.client import KubeCluster
from instantstart.kube.connection import Ask

CATALOG = bundles.load(STAND_INS)
AGENT = CATALOG.get("health-monitoring-agent").release(FACTS)
OPERATORS = CATALOG.get("training-operators").release(FACTS)
PLUGIN = CATALOG.get("nvidia-device-plugin").release(FACTS)


def settled(act: Callable[[], Outcome]) -> Done:
    """Tick until Done, as the engine does."""
    end = time.monotonic() + 90
    outcome = act()
    while not isinstance(outcome, Done):
        assert time.monotonic() < end, f"still waiting: {outcome.because}"
        pause()
        outcome = act()
    return outcome


def small(name: str = "small", **more: Any) -> Release:
    """A release of one ConfigMap."""
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": {"a": "1"}}
    return Release(name, "1", "sha256:1", (config,), **more)


def by_hand(kube: KubeCluster, resource: dict[str, Any], manager: str = "kubectl-edit") -> None:
    """What somebody else does: an apply under another manager, forced."""
    kind = kube.kinds.of(resource)
    path = kind.path(resource["metadata"].get("namespace"), resource["metadata"]["name"])
    params = {"fieldManager": manager, "force": "true"}
    kube.connection.send(Ask("PATCH", path, params, resource, "application/apply-patch+yaml"))


def daemon_set(name: str, namespace: str, image: str, **metadata: Any) -> dict[str, Any]:
    labels = {"app": name}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": image}]}}
    spec = {"selector": {"matchLabels": labels}, "template": pod}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name, "namespace": namespace, **metadata}, "spec": spec}


def test_a_release_is_made_marked_and_then_already_there(kube: KubeCluster) -> None:
    first = settled(lambda: manifests.ensure(kube, AGENT))
    assert (first.already, first.learned["applied"]) == (False, len(AGENT.resources))
    made = kube.get("DaemonSet", "health-monitoring-agent", "aws-hyperpod")["metadata"]
    assert (made["labels"][MANAGED_BY], made["labels"][BUNDLE]) == ("instantstart", AGENT.name)
    assert made["annotations"][DIGEST] == AGENT.digest
    again = settled(lambda: manifests.ensure(kube, AGENT))
    assert (again.already, again.learned["applied"]) == (True, 0)


def test_a_release_cut_off_half_way_is_completed(kube: KubeCluster) -> None:
    settled(lambda: manifests.ensure(kube, AGENT))
    kube.delete("ClusterRoleBinding", "health-monitoring-agent")
    kube.delete("DaemonSet", "health-monitoring-agent", "aws-hyperpod")
    settled(lambda: Done() if kube.find("DaemonSet", "health-monitoring-agent", "aws-hyperpod") is None else Wait(1, "going"))
    assert settled(lambda: manifests.ensure(kube, AGENT)).learned["applied"] == 2
    assert kube.find("ClusterRoleBinding", "health-monitoring-agent") is not None


def test_objects_are_made_in_the_order_in_which_they_need_each_other(kube: KubeCluster) -> None:
    settled(lambda: manifests.ensure(kube, OPERATORS))
    kinds = [resource["kind"] for _, resources in OPERATORS.waves() for resource in resources]
    assert kinds.index("Namespace") < kinds.index("CustomResourceDefinition") < kinds.index("ServiceAccount") < kinds.index("Deployment")
    assert kube.serves("kubeflow.org/v1/PyTorchJob")


def test_a_plan_says_what_would_be_made_and_makes_nothing(kube: KubeCluster) -> None:
    plan = manifests.plan(kube, AGENT)
    assert {change.action for change in plan} == {"create"}
    assert len(plan) == len(AGENT.resources)
    assert kube.find("Namespace", "aws-hyperpod") is None
    settled(lambda: manifests.ensure(kube, AGENT))
    assert {change.action for change in manifests.plan(kube, AGENT)} == {"none"}


def test_a_plan_names_the_fields_that_a_new_version_changes(kube: KubeCluster) -> None:
    settled(lambda: manifests.ensure(kube, small()))
    newer = Release("small", "2", "sha256:2", tuple({**r, "data": {"a": "2"}} for r in small().resources))
    (change,) = manifests.plan(kube, newer)
    assert change.action == "update"
    assert "/data/a" in change.fields
    settled(lambda: manifests.ensure(kube, newer))
    assert kube.get("ConfigMap", "small", "default")["data"] == {"a": "2"}


def test_a_field_that_somebody_took_over_is_a_conflict_that_names_them(kube: KubeCluster) -> None:
    settled(lambda: manifests.ensure(kube, small()))
    by_hand(kube, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "small", "namespace": "default"}, "data": {"a": "9"}})
    with pytest.raises(problems.Conflict) as found:
        manifests.ensure(kube, small())
    assert found.value.code == "kubernetes.field_conflict"
    assert found.value.evidence["managers"] == ["kubectl-edit"]
    (change,) = manifests.plan(kube, small())
    assert (change.action, change.fields) == ("conflict", ("/data/a",))
    settled(lambda: manifests.ensure(kube, small(), Takeover.overwrite))
    assert kube.get("ConfigMap", "small", "default")["data"] == {"a": "1"}


def test_a_field_that_is_not_ours_is_left_to_its_owner(kube: KubeCluster) -> None:
    settled(lambda: manifests.ensure(kube, small()))
    by_hand(kube, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "small", "namespace": "default"}, "data": {"b": "theirs"}})
    assert settled(lambda: manifests.ensure(kube, small())).already
    assert kube.get("ConfigMap", "small", "default")["data"] == {"a": "1", "b": "theirs"}


def test_an_object_of_our_name_that_is_not_ours_is_never_taken_silently(kube: KubeCluster) -> None:
    theirs = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "small", "namespace": "default"}, "data": {"a": "theirs"}}
    by_hand(kube, theirs, "helm")
    with pytest.raises(problems.Conflict) as found:
        manifests.ensure(kube, small())
    assert found.value.code == "bundle.object_not_ours"
    assert found.value.evidence["found"] == [{"object": "ConfigMap default/small", "manager": "helm"}]
    assert found.value.evidence["choices"] == ["adopt", "overwrite"]
    adopted = settled(lambda: manifests.ensure(kube, small(), Takeover.adopt))
    assert adopted.learned["left_alone"] == ["ConfigMap default/small"]
    assert kube.get("ConfigMap", "small", "default")["data"] == {"a": "theirs"}
    settled(lambda: manifests.ensure(kube, small(), Takeover.overwrite))
    assert kube.get("ConfigMap", "small", "default")["data"] == {"a": "1"}


def test_a_second_device_plugin_is_never_installed(kube: KubeCluster) -> None:
    kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gpu-operator"}})
    helm = {"meta.helm.sh/release-name": "gpu-operator"}
    by_hand(kube, daemon_set("nvidia-plugin", "gpu-operator", "mirror/nvidia/k8s-device-plugin:v0.17.0", annotations=helm), "helm")
    with pytest.raises(problems.Conflict) as found:
        manifests.ensure(kube, PLUGIN)
    assert found.value.code == "bundle.role_taken"
    assert "an NVIDIA device plugin" in found.value.detail
    assert found.value.evidence["found"] == [{"object": "DaemonSet gpu-operator/nvidia-plugin", "manager": "Helm release gpu-operator"}]
    name = PLUGIN.checks[0].name
    assert settled(lambda: manifests.ensure(kube, PLUGIN, Takeover.adopt)).learned["adopted"]
    assert kube.find("DaemonSet", name, "kube-system") is None
    settled(lambda: manifests.ensure(kube, PLUGIN, Takeover.overwrite))
    assert kube.find("DaemonSet", name, "kube-system") is not None
    settled(lambda: Wait(1, "theirs is going") if kube.find("DaemonSet", "nvidia-plugin", "gpu-operator") else Done())


def test_an_efa_plugin_is_not_taken_for_an_nvidia_one(kube: KubeCluster) -> None:
    by_hand(kube, daemon_set("efa", "default", "eks/aws-efa-k8s-device-plugin:v0.5.20"))
    assert strangers.find(kube, PLUGIN) == []


def test_our_own_copy_of_a_role_is_no_stranger(kube: KubeCluster) -> None:
    settled(lambda: manifests.ensure(kube, PLUGIN))
    assert settled(lambda: manifests.ensure(kube, PLUGIN)).already


def test_removal_takes_what_is_ours_and_leaves_the_rest(kube: KubeCluster) -> None:
    settled(lambda: manifests.ensure(kube, AGENT))
    by_hand(kube, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "theirs", "namespace": "aws-hyperpod"}, "data": {}})
    settled(lambda: manifests.remove(kube, AGENT))
    assert kube.find("DaemonSet", "health-monitoring-agent", "aws-hyperpod") is None
    assert kube.find("ClusterRole", "health-monitoring-agent") is None
    assert kube.find("Namespace", "aws-hyperpod") is not None  # somebody lives there
    kube.delete("ConfigMap", "theirs", "aws-hyperpod")
    settled(lambda: manifests.remove(kube, AGENT))
    settled(lambda: Wait(1, "emptying") if kube.find("Namespace", "aws-hyperpod") else Done())
    assert isinstance(manifests.remove(kube, AGENT), Done)


def test_removal_does_not_touch_a_namesake_of_somebody_else(kube: KubeCluster) -> None:
    theirs = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "small", "namespace": "default"}, "data": {"a": "theirs"}}
    by_hand(kube, theirs)
    assert isinstance(manifests.remove(kube, small()), Done)
    assert kube.find("ConfigMap", "small", "default") is not None


def test_definitions_are_not_removed_over_living_objects(kube: KubeCluster) -> None:
    settled(lambda: manifests.ensure(kube, OPERATORS))
    job = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "train", "namespace": "default"}, "spec": {}}
    kube.create(job)
    with pytest.raises(problems.Conflict) as found:
        manifests.remove(kube, OPERATORS)
    assert found.value.code == "bundle.custom_resources_remain"
    assert found.value.evidence["objects"] == ["PyTorchJob default/train"]
    assert kube.find("Deployment", "training-operator", "kubeflow") is not None
    kube.delete("kubeflow.org/v1/PyTorchJob", "train", "default")
    settled(lambda: manifests.remove(kube, OPERATORS))
    assert not kube.serves("kubeflow.org/v1/PyTorchJob")


def test_a_release_can_bring_a_definition_and_an_object_of_it(kube: KubeCluster, tmp_path: Path) -> None:
    queue = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "sample", "namespace": "default"}, "spec": {}}
    both = Release("both", "1", "sha256:3", (*OPERATORS.resources, queue), roles=(Role("nothing", ("DaemonSet",), ("no-such-image",)),))
    settled(lambda: manifests.ensure(kube, both))
    assert kube.find("kubeflow.org/v1/PyTorchJob", "sample", "default") is not None


def test_an_object_whose_definition_nobody_brings_is_refused(kube: KubeCluster) -> None:
    job = {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": "a", "namespace": "default"}}
    with pytest.raises(problems.NotFound) as found:
        manifests.ensure(kube, Release("ray", "1", "sha256:4", (job,)))
    assert found.value.code == "kubernetes.kind_not_served"
