"""Only a bundle that is exactly what was pinned is read (case 33)."""

from __future__ import annotations

import importlib.util
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from instantstart.base import problems
from instantstart.ensure.installs import bundles

ROOT = Path(__file__).parents[2]
STAND_INS = ROOT / "src" / "instantstart_sandbox" / "bundles"
FACTS = {"region": "eu-west-1", "dns_suffix": "example.invalid"}


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A bundle that may be spoilt."""
    shutil.copytree(STAND_INS / "health-monitoring-agent", tmp_path / "health-monitoring-agent")
    return tmp_path / "health-monitoring-agent"


def describe(folder: Path, change: Callable[[dict[str, Any]], object], *, pinned: bool = True) -> None:
    """Change bundle.json, and pin the digest again."""
    path = folder / bundles.DESCRIPTION
    told = json.loads(path.read_text())
    if pinned:
        told["digest"] = bundles.digest_of(folder, tuple(told["files"]))
    change(told)
    path.write_text(json.dumps(told))


def refused(folder: Path) -> problems.Broken:
    with pytest.raises(problems.Broken) as found:
        bundles.load(folder.parent)
    return found.value


def test_the_stand_ins_are_pinned_and_complete() -> None:
    catalog = bundles.load(STAND_INS)
    assert {
        "health-monitoring-agent",
        "nvidia-device-plugin",
        "aws-efa-k8s-device-plugin",
        "neuron-device-plugin",
    } <= catalog.bundles.keys()
    default = {b.name for b in catalog.in_set("hyperpod-dependencies")}
    assert {"cert-manager", "training-operators", "mpi-operator"}.isdisjoint(default)
    assert len(catalog.in_set("hyperpod-dependencies", only_default=False)) == len(default) + 3


@pytest.mark.parametrize("name", sorted(p.parent.name for p in STAND_INS.glob("*/bundle.json")))
def test_a_release_checks_workloads_that_it_brings(name: str) -> None:
    release = bundles.load(STAND_INS).get(name).release(FACTS)
    brought = {(r["kind"], r["metadata"].get("namespace"), r["metadata"]["name"]) for r in release.resources}
    assert {(c.kind, c.namespace, c.name) for c in release.checks} <= brought
    workloads = {(kind, space, called) for kind, space, called in brought if kind in ("Deployment", "DaemonSet", "StatefulSet")}
    assert workloads == {(c.kind, c.namespace, c.name) for c in release.checks}


def test_no_bundle_names_a_namespace_that_nobody_brings() -> None:
    for bundle in bundles.load(STAND_INS).bundles.values():
        release = bundle.release(FACTS)
        made = {r["metadata"]["name"] for r in release.resources if r["kind"] == "Namespace"} | {"kube-system"}
        assert {r["metadata"]["namespace"] for r in release.resources if "namespace" in r["metadata"]} <= made


def test_parameters_are_filled_in_from_facts() -> None:
    release = bundles.load(STAND_INS).get("health-monitoring-agent").release(FACTS)
    images = {r["spec"]["template"]["spec"]["containers"][0]["image"] for r in release.resources if r["kind"] == "DaemonSet"}
    assert all(".eu-west-1.example.invalid/" in image for image in images)


def test_a_region_that_the_table_lacks_is_invalid(copied: Path) -> None:
    describe(copied, lambda told: told["parameters"].update({"@REGION@": {"source": "region", "table": {"us-west-2": "x"}}}))
    with pytest.raises(problems.Invalid) as found:
        bundles.read(copied).release(FACTS)
    assert found.value.evidence["known"] == ["us-west-2"]


def test_a_parameter_that_is_not_described_is_refused(copied: Path) -> None:
    describe(copied, lambda told: told.update(parameters={}))
    with pytest.raises(problems.Broken, match="@REGION@"):
        bundles.read(copied).release(FACTS)


def test_a_changed_manifest_is_refused(copied: Path) -> None:
    path = copied / "10-rights.yaml"
    path.write_text(path.read_text().replace("- get", "- '*'", 1))
    assert refused(copied).code == "bundle.changed"


def test_an_added_manifest_is_refused(copied: Path) -> None:
    (copied / "99-more.yaml").write_text("apiVersion: v1\nkind: Secret\nmetadata: {name: a}\n")
    assert refused(copied).code == "bundle.changed"


def test_a_missing_manifest_is_refused(copied: Path) -> None:
    (copied / "10-rights.yaml").unlink()
    assert refused(copied).code == "bundle.changed"


@pytest.mark.parametrize("image", ["hyperpod/agent:latest", "hyperpod/agent", "registry:5000/hyperpod/agent"])
def test_a_floating_image_is_refused(copied: Path, image: str) -> None:
    path = copied / "20-agent.yaml"
    lines = [f"        image: {image}" if "image:" in line else line for line in path.read_text().splitlines()]
    path.write_text("\n".join(lines))
    describe(copied, lambda told: None)
    assert refused(copied).code == "bundle.unpinned"


def test_a_floating_version_is_refused(copied: Path) -> None:
    describe(copied, lambda told: told.update(version="latest"))
    assert refused(copied).code == "bundle.unpinned"


@pytest.mark.parametrize("text", ["just text", "{unclosed", "kind: Pod"])
def test_a_file_that_holds_no_objects_is_refused(copied: Path, text: str) -> None:
    (copied / "10-rights.yaml").write_text(text)
    describe(copied, lambda told: None)
    assert refused(copied).code == "bundle.unreadable"


def test_a_description_with_an_unknown_field_is_refused(copied: Path) -> None:
    describe(copied, lambda told: told.update(command="curl"))
    assert refused(copied).code == "bundle.unreadable"


def test_a_folder_without_bundles_is_an_empty_catalogue(tmp_path: Path) -> None:
    catalog = bundles.load(tmp_path / "nowhere")
    with pytest.raises(problems.NotFound, match="no bundle cert-manager"):
        catalog.get("cert-manager")


def test_a_bundle_rendered_from_a_chart_says_where_it_came_from(copied: Path) -> None:
    source = {"kind": "helm", "chart": "helm_chart/HyperPodHelmChart", "commit": "c" * 40, "chart_digest": "sha256:" + "d" * 64}
    describe(copied, lambda told: told.update(source=source))
    assert bundles.read(copied).description.source.commit == "c" * 40


def test_pinning_writes_the_digest_that_the_loader_wants(copied: Path) -> None:
    spec = importlib.util.spec_from_file_location("pin_bundles", ROOT / "tools" / "pin_bundles.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    (copied / "10-rights.yaml").write_text("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: a, namespace: b}\n")
    assert tool.pin(copied) == bundles.read(copied).description.digest
