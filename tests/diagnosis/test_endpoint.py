"""Managed endpoints whose fault is really made in the sandbox: image, place, volume, flags, rollback, operator; the cause ranks first."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.capacity.doors import Door, workflow
from tests.clusters.conftest import shared_room, shared_sandbox
from tests.clusters.worlds import SandboxProcess
from tests.diagnosis.scenes import first
from tests.inference import stands
from tests.inference.stands import BASE, TYPE, VLLM, Stand

from instantstart import main
from instantstart.capabilities.room import Room
from instantstart.ensure.inference import endpoints
from instantstart.store.records import OperationFilter

__all__ = ["shared_room", "shared_sandbox"]
ENDPOINTS = f"{BASE}/inference-endpoints"
API = endpoints.api(endpoints.CONFIG)
ARGS = ["--model", "/opt/ml/model"]
MANAGER = ("hyperpod-inference-controller-manager", "hyperpod-inference-system")
_PATIENCE_SECONDS = 90.0
Told = dict[str, Any]


@pytest.fixture(scope="module")
def stand(shared_room: Room, shared_sandbox: SandboxProcess) -> Stand:
    """A cluster with the inference operator and two cards, and a model in its bucket."""
    made = stands.stand(shared_room, shared_sandbox, nodes=2, operator=True)
    s3 = shared_sandbox.client("s3", "us-west-2")
    config = b'{"max_position_embeddings": 4096, "repository": "Qwen/Qwen2.5-0.5B-Instruct"}'
    for key, body in (("config.json", config), ("model.safetensors", b"x" * 1000)):
        s3.put_object(Bucket=made.job.site.names.data_bucket, Key=f"models/qwen/{key}", Body=body)
    return made


@pytest.fixture(scope="module")
def door(shared_room: Room, stand: Stand) -> Iterator[Door]:
    """Its door."""
    with TestClient(main.application(shared_room), base_url="http://127.0.0.1:3099", raise_server_exceptions=False) as client:
        yield stands.door(client, shared_room)


class Served:
    """Endpoints asked for through the door, one after another, and what is diagnosed of them."""

    def __init__(self, stand: Stand, door: Door) -> None:
        self.stand, self.door = stand, door
        self.made: list[str] = []

    def ask(self, name: str, source: Told | None = None, replicas: int = 1, **server: Any) -> None:
        """Begin one as the inference slice does, as far as the operator's object."""
        model = source or {"type": "s3", "bucket": self.stand.job.site.names.data_bucket, "location": "models/qwen"}
        asked = {"name": name, "source": model, "server": {"image": VLLM, "args": ARGS, "accelerators": 1, **server}}
        begun = self.door.well(202, "POST", ENDPOINTS, {**asked, "instance_types": [TYPE], "replicas": replicas})
        declared = workflow(begun["workflow"])
        self.stand.crank.run(declared, declared.spec.model_validate(begun["spec"]), until=declared.stages()[0].name)
        for each in self.stand.room.engine.list(OperationFilter(cluster=stands.TAG), limit=50).items:
            self.stand.room.engine.cancel(each.id, "tester")
        self.made.append(name)

    def diagnosed(self, name: str, wanted: Callable[[Told], bool]) -> Told:
        """The diagnosis, once it is what is waited for; virtual time passes between looks."""
        end = time.monotonic() + _PATIENCE_SECONDS
        while True:
            self.stand.job.site.aws._kept.clear()
            told: Told = self.door.get(f"{ENDPOINTS}/default/{name}/diagnosis")
            if wanted(told):
                return told
            assert time.monotonic() < end, told
            self.stand.sandbox.warp(10)
            time.sleep(0.1)

    def first(self, name: str, code: str) -> Told:
        """The diagnosis in which that cause ranks first."""
        return self.diagnosed(name, lambda told: bool(told["causes"]) and told["causes"][0]["code"] == code)

    def end(self) -> None:
        """Nothing is left of them."""
        for name in self.made:
            if self.stand.kube.find(API, name, "default"):
                self.stand.kube.delete(API, name, "default")
        self.stand.await_fact(lambda: not self.stand.kube.list("Pod", "default"))


@pytest.fixture
def served(stand: Stand, door: Door) -> Iterator[Served]:
    """No endpoint before, none after."""
    made = Served(stand, door)
    yield made
    made.end()


def _says(told: Told) -> str:
    return " ".join(str(e["untrusted_text"]) for e in told["causes"][0]["evidence"])


def _tools(told: Told) -> list[str]:
    return [step["tool"] for step in told["causes"][0]["next_steps"]]


def test_an_image_that_is_not_there(served: Served) -> None:
    served.ask("nopull", image="registry.invalid/none:1")
    told = served.first("nopull", "image.not_found")
    assert first(told) == ("image.not_found", "certain")
    assert "registry.invalid/none:1" in told["verdict"]
    assert "not found" in _says(told)
    assert "logs_read" not in _tools(told), "what never began has no log"
    assert _tools(told)[-2:] == ["inference_endpoint_update", "inference_endpoint_delete"]
    others = {cause["confidence"] for cause in told["causes"][1:]}
    assert others == {"possible"}, "the operator's word and the load balancer only follow from it"
    again = served.door.get(f"{BASE}/diagnosis", of="endpoint", name="nopull")
    assert first(again) == ("image.not_found", "certain")


def test_replicas_for_which_there_is_no_card(served: Served) -> None:
    served.ask("many", replicas=3)
    told = served.first("many", "resource.insufficient")
    assert "1 of 3 pods: It asks for 1 nvidia.com/gpu" in told["verdict"]
    assert "Deployment default/many" in {e["reference"] for e in told["causes"][0]["evidence"]}
    assert "instance_group_scale" in _tools(told)


def test_a_volume_of_the_model_that_is_gone(served: Served) -> None:
    served.ask("vol", source={"type": "volume", "claim": "s3-claim", "location": "models/qwen"})
    whole = served.stand.kube.get(API, "vol", "default")
    served.end()
    spec, named = _renamed(whole["spec"], "s3-claim", "gone"), {"name": "vol", "namespace": "default"}
    assert spec != whole["spec"]
    served.stand.kube.apply({"apiVersion": endpoints.VERSION, "kind": endpoints.CONFIG, "metadata": named, "spec": spec})
    told = served.first("vol", "claim.missing")
    assert first(told) == ("claim.missing", "certain")
    assert told["verdict"] == "The volume claim gone is not in the namespace."
    assert "logs_read" not in _tools(told)


def _renamed(value: Any, old: str, new: str) -> Any:
    if isinstance(value, dict):
        return {key: _renamed(each, old, new) for key, each in value.items()}
    if isinstance(value, list):
        return [_renamed(each, old, new) for each in value]
    return new if value == old else value


def test_a_flag_that_the_server_does_not_know(served: Served) -> None:
    served.ask("flag", args=[*ARGS, "--nonsense"])
    told = served.first("flag", "server.bad_flag")
    assert first(told) == ("server.bad_flag", "certain")
    assert "unrecognized arguments: --nonsense" in _says(told)
    assert told["causes"][0]["evidence"][0]["source"] == "log"


def test_from_well_over_a_silent_rollback_to_an_operator_that_is_away(served: Served) -> None:
    kube = served.stand.kube
    served.ask("one")
    well = served.diagnosed("one", lambda told: "DeploymentComplete" in told["standing"] and not told["causes"])
    assert (well["found"], well["unread"]) == ("nothing", [])
    assert served.door.refusal(404, "GET", f"{ENDPOINTS}/default/nobody/diagnosis")["code"] == "inference_endpoint.unknown"

    kube.patch(API, "one", {"metadata": {"annotations": {"sandbox.instantstart.dev/rollback": "quiet"}}}, namespace="default")
    kube.patch(API, "one", {"spec": {"worker": {"args": [*ARGS, "--max-model-len", "1024"]}}}, namespace="default")
    told = served.first("one", "endpoint.rolled_back")
    assert first(told) == ("endpoint.rolled_back", "certain")
    assert "--max-model-len" in _says(told)
    assert "inference_endpoint_update" in _tools(told)

    name, namespace = MANAGER
    kube.patch("Deployment", name, {"spec": {"replicas": 0}}, namespace=namespace)
    served.stand.await_fact(lambda: endpoints.operator_away(kube))
    kube.patch(API, "one", {"spec": {"worker": {"args": ARGS}}}, namespace="default")
    lost = served.first("one", "operator.not_running")
    assert first(lost) == ("operator.not_running", "certain")
    assert "No pod of the inference operator is ready." in lost["verdict"]
    kube.patch("Deployment", name, {"spec": {"replicas": 1}}, namespace=namespace)
    served.diagnosed("one", lambda told: not told["causes"])
