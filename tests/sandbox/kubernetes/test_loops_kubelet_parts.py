"""The kubelet's parts that need no cluster: behaviours, environment, volumes as folders, back-off, phases."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from instantstart_sandbox.kubernetes.kubelet import mounts, state
from instantstart_sandbox.kubernetes.kubelet.behaviour import Behaviour, behaviour_of, image_problem
from instantstart_sandbox.kubernetes.kubelet.environment import ConfigError, environment, expand
from instantstart_sandbox.kubernetes.kubelet.logs import Log

Object = dict[str, Any]


def pod(annotations: dict[str, str] | None = None, **spec: Any) -> Object:
    metadata = {"name": "p", "namespace": "team", "uid": "0a1b2c3d-0000-4000-8000-000000000000", "annotations": annotations or {}}
    return {"metadata": metadata, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "busybox"}], **spec}, "status": {}}


class Shelf:
    """A few objects to be read."""

    def __init__(self, *objects: tuple[str, Object]) -> None:
        self._objects = {(r, o["metadata"]["name"]): o for r, o in objects}

    def __call__(self, resource: str, name: str, namespace: str) -> Object | None:
        return self._objects.get((resource, name))


def named(name: str, **fields: Any) -> Object:
    return {"metadata": {"name": name, "namespace": "team"}, **fields}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("sleep", Behaviour("sleep")),
        ("process", Behaviour("process")),
        ("exit 3 after 40s", Behaviour("end", 40.0, 3, "Error")),
        ("exit 0", Behaviour("end", 1.0, 0, "Completed")),
        ("oom after 2", Behaviour("end", 2.0, 137, "OOMKilled")),
    ],
)
def test_an_annotation_says_what_a_container_does(text: str, wanted: Behaviour) -> None:
    assert behaviour_of(pod({"sandbox.instantstart.dev/run": text}), "c", initial=False) == wanted


def test_without_a_word_containers_sleep_and_init_containers_end() -> None:
    assert behaviour_of(pod(), "c", initial=False).kind == "sleep"
    assert behaviour_of(pod(), "c", initial=True) == Behaviour("end", 1.0, 0, "Completed")
    assert behaviour_of(pod({"sandbox.instantstart.dev/run.side": "exit 1"}), "side", initial=False).code == 1


def test_an_unreadable_annotation_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        behaviour_of(pod({"sandbox.instantstart.dev/run": "dance"}), "c", initial=False)


@pytest.mark.parametrize(
    ("image", "reason"),
    [
        ("busybox", None),
        ("registry.example/team/train:2.4", None),
        ("nowhere.invalid/x:1", "ErrImagePull"),
        ("team/does-not-exist", "ErrImagePull"),
        ("Bad Name", "InvalidImageName"),
    ],
)
def test_images_that_cannot_be_had_are_told_by_their_name(image: str, reason: str | None) -> None:
    found = image_problem(pod(), image)
    assert (found[0] if found else None) == reason


def test_the_environment_has_values_fields_config_and_secrets() -> None:
    read = Shelf(
        ("configmaps", named("cfg", data={"MODE": "fast"})),
        ("secrets", named("key", data={"token": base64.b64encode(b"s3cret").decode()})),
    )
    container = {
        "name": "c",
        "envFrom": [{"configMapRef": {"name": "cfg"}, "prefix": "X_"}],
        "env": [
            {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "key", "key": "token"}}},
            {"name": "GONE", "valueFrom": {"configMapKeyRef": {"name": "none", "key": "k", "optional": True}}},
            {"name": "BOTH", "value": "$(NODE)-$(X_MODE)-$$(NODE)-$(WHO)"},
        ],
    }
    assert environment(read, pod(), container) == {"X_MODE": "fast", "NODE": "n", "TOKEN": "s3cret", "BOTH": "n-fast-$(NODE)-$(WHO)"}
    assert expand("$(A)", {"A": "1"}) == "1"


def test_a_missing_config_map_is_named() -> None:
    container = {"name": "c", "env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "none", "key": "k"}}}]}
    with pytest.raises(ConfigError, match='configmap "none" not found'):
        environment(Shelf(), pod(), container)


def test_restarts_wait_longer_each_time() -> None:
    assert [state.backoff_seconds(n) for n in (0, 1, 2, 3, 6, 20)] == [0.0, 10.0, 20.0, 40.0, 300.0, 300.0]


def ended(code: int) -> Object:
    return state.terminated(state.running(state.fresh({"name": "c", "image": "i"}), 0.0, "x"), code, "", 1.0)


@pytest.mark.parametrize(
    ("policy", "codes", "phase"),
    [
        ("Never", (0, 0), "Succeeded"),
        ("Never", (0, 2), "Failed"),
        ("OnFailure", (0, 0), "Succeeded"),
        ("OnFailure", (0, 1), "Running"),
        ("Always", (0,), "Running"),
    ],
)
def test_the_phase_follows_exit_codes_and_restart_policy(policy: str, codes: tuple[int, ...], phase: str) -> None:
    assert state.phase_of(pod(restartPolicy=policy), [], [ended(c) for c in codes]) == phase


def s3_volume(prefix: str = "") -> Object:
    csi = {"driver": "s3.csi.aws.com", "volumeHandle": "h", "volumeAttributes": {"bucketName": "data-bucket"}}
    return {"metadata": {"name": "pv"}, "spec": {"csi": csi, "mountOptions": ["allow-delete", *([f"prefix {prefix}"] if prefix else [])]}}


def test_a_bucket_and_prefix_is_one_folder_for_all_who_mount_it(tmp_path: Path) -> None:
    data = tmp_path / "cluster"
    assert mounts.shared_folder(data, s3_volume("run/1/")) == tmp_path / "buckets" / "data-bucket" / "run" / "1"
    assert mounts.shared_folder(data, s3_volume("../../etc")).is_relative_to(tmp_path / "buckets" / "data-bucket")
    assert mounts.bucket_of(s3_volume()) == "data-bucket"


def test_a_csi_driver_must_be_installed_and_run_on_the_node() -> None:
    with pytest.raises(mounts.MountError, match=r"driver name s3\.csi\.aws\.com not found in the list of registered CSI drivers"):
        mounts.check_driver(Shelf(), s3_volume(), [])
    owner = {"kind": "DaemonSet", "name": "s3-csi-node", "controller": True}
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    agent = {"metadata": {"name": "a", "ownerReferences": [owner]}, "spec": {}, "status": ready}
    mounts.check_driver(Shelf(("csidrivers.storage.k8s.io", named("s3.csi.aws.com"))), s3_volume(), [agent])


def test_volumes_become_folders_and_their_paths_move_with_them(tmp_path: Path) -> None:
    read = Shelf(("configmaps", named("cfg", data={"a.txt": "hello", "b.txt": "no"})))
    volumes = [
        {"name": "work", "emptyDir": {}},
        {"name": "cfg", "configMap": {"name": "cfg", "items": [{"key": "a.txt", "path": "in/a.txt"}]}},
        {"name": "info", "downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
    ]
    places = mounts.folders(read, pod(volumes=volumes), tmp_path / "pod", tmp_path / "cluster")
    assert (places["cfg"] / "in" / "a.txt").read_text() == "hello"
    assert not (places["cfg"] / "b.txt").exists()
    assert (places["info"] / "name").read_text() == "p"
    mounted = [{"name": "work", "mountPath": "/data", "subPath": "x"}, {"name": "cfg", "mountPath": "/data/cfg"}]
    moved = mounts.relocation(mounts.moves({"name": "c", "volumeMounts": mounted}, places))
    assert moved("cp /data/cfg/in/a.txt /data/out") == f"cp {places['cfg']}/in/a.txt {places['work']}/x/out"
    assert moved("/database stays, /my/data too") == "/database stays, /my/data too"


def test_a_missing_source_of_a_volume_is_named(tmp_path: Path) -> None:
    wanted = pod(volumes=[{"name": "cfg", "configMap": {"name": "none"}}])
    with pytest.raises(mounts.MountError, match=r'MountVolume\.SetUp failed for volume "cfg" : configmap "none" not found'):
        mounts.folders(Shelf(), wanted, tmp_path / "pod", tmp_path / "cluster")


def test_a_log_keeps_its_previous_run(tmp_path: Path) -> None:
    path, previous = tmp_path / "c.log", tmp_path / "c.previous.log"
    first = Log(path, previous)
    first.line(0.5, b"one\r\n")
    first.close()
    second = Log(path, previous)
    second.line(1.0, b"two")
    second.close()
    assert previous.read_bytes() == b"1970-01-01T00:00:00.500000000Z one\n"
    assert path.read_bytes() == b"1970-01-01T00:00:01.000000000Z two\n"
