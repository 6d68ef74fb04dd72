"""Managed endpoints through the door, against the operator of the sandbox: made, changed, rolled back, deleted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.capacity.doors import Door
from tests.clusters.conftest import shared_room, shared_sandbox  # noqa: F401 - fixtures
from tests.clusters.crank import Turned
from tests.clusters.worlds import SandboxProcess
from tests.inference import stands
from tests.inference.stands import BASE, TYPE, VLLM, Stand

from instantstart import main
from instantstart.base import problems
from instantstart.capabilities.room import Room
from instantstart.ensure.inference import endpoints
from instantstart.store.records import OperationFilter

ENDPOINTS = f"{BASE}/inference-endpoints"
ONE = f"{ENDPOINTS}/default/qwen"
ARGS = ["--model", "/opt/ml/model"]
ROLLBACK = "sandbox.instantstart.dev/rollback"


@pytest.fixture(scope="module")
def stand(shared_room: Room, shared_sandbox: SandboxProcess) -> Stand:  # noqa: F811
    """A cluster with the inference operator, and a model in its bucket."""
    made = stands.stand(shared_room, shared_sandbox, nodes=3, operator=True)
    bucket = made.job.site.names.data_bucket
    config = b'{"max_position_embeddings": 4096, "repository": "Qwen/Qwen2.5-0.5B-Instruct"}'
    s3 = shared_sandbox.client("s3", "us-west-2")
    s3.put_object(Bucket=bucket, Key="models/qwen/config.json", Body=config)
    s3.put_object(Bucket=bucket, Key="models/qwen/model.safetensors", Body=b"x" * 1000)
    return made


@pytest.fixture(scope="module")
def door(shared_room: Room, stand: Stand) -> Iterator[Door]:  # noqa: F811
    """Its door."""
    with TestClient(main.application(shared_room), base_url="http://127.0.0.1:3099", raise_server_exceptions=False) as client:
        yield stands.door(client, shared_room)


def ask(stand: Stand, **more: Any) -> dict[str, Any]:
    """vLLM on the model in the bucket."""
    source = {"type": "s3", "bucket": stand.job.site.names.data_bucket, "location": "models/qwen"}
    server = {"image": VLLM, "args": ARGS, "accelerators": 1}
    return {"name": "qwen", "source": source, "server": server, "instance_types": [TYPE], **more}


def turn(stand: Stand, operation: dict[str, Any]) -> Turned:
    """Turn what the door accepted to its end; in the engine's own list it is over then."""
    turned = stand.turn(operation["workflow"], operation["spec"])
    for each in stand.room.engine.list(OperationFilter(cluster=stands.TAG), limit=50).items:
        stand.room.engine.cancel(each.id, "tester")
    return turned


def turned_well(stand: Stand, operation: dict[str, Any]) -> Turned:
    """The same, when it must succeed."""
    made = turn(stand, operation)
    assert made.problem is None, (made.stopped_at, made.problem, made.said[-4:])
    return made


@pytest.fixture(scope="module")
def made(door: Door, stand: Stand) -> Turned:
    """The endpoint, once for all tests that only look at it or change it back."""
    return turned_well(stand, door.well(202, "POST", ENDPOINTS, ask(stand, sagemaker_endpoint="qwen-ep")))


def live(stand: Stand) -> dict[str, Any]:
    found = endpoints.find(stand.kube, "default", "qwen")
    assert found is not None
    return found


def note(stand: Stand, value: str | None) -> None:
    """Tell the sandbox's operator to go back on the next change."""
    stand.kube.patch(endpoints.api(endpoints.CONFIG), "qwen", {"metadata": {"annotations": {ROLLBACK: value}}}, namespace="default")


def test_the_plan_tells_what_is_made_and_every_violation(door: Door, stand: Stand) -> None:
    plan = door.well(200, "POST", ENDPOINTS, ask(stand, name="planned"), dry_run="true")
    assert plan["make"][0].startswith("InferenceEndpointConfig default/planned")
    assert {f["check"]: f["level"] for f in plan["findings"]}["whole"] == "ok"
    wrong = ask(stand, name="planned", cache={"l2": "redis"}, instance_types=["ml.p5.48xlarge"], namespace="nowhere")
    wrong["source"]["location"] = "models/nothing"
    assert door.pointers("POST", ENDPOINTS, wrong) == {"/cache/redis_url", "/instance_types/0", "/namespace", "/source/location"}
    assert endpoints.find(stand.kube, "default", "planned") is None


def test_it_is_made_deployed_and_has_answered(made: Turned, door: Door, stand: Stand) -> None:
    assert made.result["answered"] is True
    assert made.learned["register"]["endpoint"] == "qwen-ep"
    told = door.get(ONE)
    assert {link["name"]: link["status"] for link in told["links"]} == {
        "operator": "ok", "replicas": "ok", "load_balancer": "ok", "certificate": "ok", "dns": "absent", "sagemaker_endpoint": "ok",
        "metrics": "ok",
    }  # fmt: skip
    assert told["generation"] == told["observed_generation"]
    assert told["invoke_url"] == f"https://{told['hostname']}/v1/chat/completions"
    assert told["endpoint"]["made_by_us"]
    managers = {f["manager"] for f in live(stand)["metadata"]["managedFields"] if f["operation"] == "Apply"}
    assert "instantstart" in managers
    listed = door.get(f"{BASE}/served-models")["items"]
    assert [(s["name"], s["path"], s["state"]) for s in listed] == [("qwen", "managed", "answering")]
    called = door.well(200, "POST", f"{BASE}/served-models/default/qwen/calls", {"prompt": "Hi", "max_tokens": 4})
    assert called["ok"]
    assert called["model"] == "/opt/ml/model", "the place that the container knows, not the folder of this machine"


def test_the_same_wish_again_starts_nothing_and_another_is_a_conflict(made: Turned, door: Door, stand: Stand) -> None:
    told = door.well(200, "POST", ENDPOINTS, ask(stand, sagemaker_endpoint="qwen-ep"))
    assert told["endpoint"]["name"] == "qwen"
    refused = door.refusal(409, "POST", ENDPOINTS, ask(stand, sagemaker_endpoint="other"))
    assert refused["code"] == "inference_endpoint.exists"
    assert "endpointName" in refused["detail"]


def test_a_patch_changes_what_it_names_and_nothing_else(made: Turned, door: Door, stand: Stand) -> None:
    before = live(stand)["spec"]
    body = {"metrics": {"interval_seconds": 30}}
    plan = door.well(200, "PATCH", ONE, body, dry_run="true")
    assert plan["change"] == ["metrics.interval_seconds: 15 -> 30"]
    turned_well(stand, door.well(202, "PATCH", ONE, body))
    after = live(stand)["spec"]
    assert after["metrics"]["metricsScrapeIntervalSeconds"] == 30
    after["metrics"]["metricsScrapeIntervalSeconds"] = 15
    assert after == before
    assert door.well(200, "PATCH", ONE, body)["endpoint"]["name"] == "qwen"
    turned_well(stand, door.well(202, "PATCH", ONE, {"metrics": {"interval_seconds": None}}))
    assert live(stand)["spec"]["metrics"]["metricsScrapeIntervalSeconds"] == 15


def test_what_cannot_be_changed_later_is_refused(made: Turned, door: Door) -> None:
    body = {"routing": {"enabled": True, "strategy": "session"}, "server": {"env": {"A": "b"}}, "cache": {"l2": "tieredstorage"}}
    assert door.pointers("PATCH", ONE, body) == {"/routing/enabled", "/routing/session_key", "/server/env", "/cache/l2"}


@pytest.mark.slow
def test_a_changed_server_is_rolled_out_before_it_is_done(made: Turned, door: Door, stand: Stand) -> None:
    turned = turned_well(stand, door.well(202, "PATCH", ONE, {"server": {"args": [*ARGS, "--max-model-len", "2048"]}}))
    assert turned.result["answered"]
    container = stand.kube.get("Deployment", "qwen", "default")["spec"]["template"]["spec"]["containers"][0]
    assert container["args"][-2:] == ["--max-model-len", "2048"]


@pytest.mark.parametrize("how", ["quiet", pytest.param("the image does not start", marks=pytest.mark.slow)])
def test_a_silent_rollback_is_a_failure_with_old_and_new(made: Turned, door: Door, stand: Stand, how: str) -> None:
    wanted = [*ARGS, "--max-model-len", "1024" if how == "quiet" else "512"]
    note(stand, how)
    try:
        turned = turn(stand, door.well(202, "PATCH", ONE, {"server": {"args": wanted}}))
    finally:
        note(stand, None)
    assert isinstance(turned.problem, problems.Conflict)
    assert turned.problem.code == "inference_endpoint.rolled_back"
    assert turned.stopped_at == "deploy"
    assert turned.problem.evidence["asked"]["worker.args"] == wanted
    assert turned.problem.evidence["runs"]["worker.args"] != wanted
    shown = door.get(ONE)
    assert shown["endpoint"]["why"].startswith("It was rolled back and serves other settings than it shows: worker.args is asked as")
    assert [link["status"] for link in shown["links"] if link["name"] == "operator"] == ["failed"]
    assert shown["next_step"]
    assert [(d["setting"], d["asked"]) for d in shown["differs"]] == [("server.args", wanted)]
    assert door.pointers("PATCH", ONE, {"as_serving": True, "replicas": 2}) == {"/as_serving"}
    plan = door.well(200, "PATCH", ONE, {"as_serving": True}, dry_run="true")
    assert [line.split(":")[0] for line in plan["change"]] == ["server.args"]
    turned_well(stand, door.well(202, "PATCH", ONE, {"as_serving": True}))
    again = door.get(ONE)
    assert (again["differs"], again["settings"]["server"]["args"]) == ([], shown["differs"][0]["served"])
    assert door.well(200, "PATCH", ONE, {"as_serving": True})["endpoint"]["name"] == "qwen", "it is so already"


@pytest.mark.slow
def test_an_earlier_rollback_is_not_taken_for_one_of_the_next_change(made: Turned, door: Door, stand: Stand) -> None:
    turned = turned_well(stand, door.well(202, "PATCH", ONE, {"server": {"args": [*ARGS, "--max-model-len", "2040"]}}))
    assert turned.result["answered"]


def test_somebody_elses_change_in_between_is_told_and_not_overwritten(made: Turned, door: Door, stand: Stand) -> None:
    operation = door.well(202, "PATCH", ONE, {"metrics": {"interval_seconds": 45}})
    stand.kube.patch(endpoints.api(endpoints.CONFIG), "qwen", {"spec": {"maxDeployTimeInSeconds": 4000}}, namespace="default")
    turned = turn(stand, operation)
    assert turned.problem is not None
    assert turned.problem.code == "inference_endpoint.changed_meanwhile"
    assert "max_deploy_seconds" in turned.problem.detail


def test_a_name_that_is_a_deployment_already_is_refused(door: Door, stand: Stand) -> None:
    stand.kube.apply(stands.stranger("taken", replicas=0))
    assert "/name" in door.pointers("POST", ENDPOINTS, ask(stand, name="taken"))


def test_deleting_waits_until_nothing_is_left(made: Turned, door: Door, stand: Stand) -> None:
    assert door.refusal(409, "DELETE", ONE)["code"] == "approval.missing"
    plan = door.well(200, "DELETE", ONE, dry_run="true")
    assert any("SageMaker endpoint qwen-ep" in line for line in plan["remove"])
    turned = turned_well(stand, door.well(202, "DELETE", ONE, approval=plan["approval"]))
    assert "Asked for the end" in turned.sentences("request")
    assert endpoints.find(stand.kube, "default", "qwen") is None
    assert stand.kube.find("Deployment", "qwen", "default") is None
    assert stand.kube.list("Ingress", "default") == []
    assert door.refusal(404, "GET", ONE)["code"] == "inference_endpoint.unknown"


@pytest.mark.slow
def test_a_jumpstart_model_is_served_too(door: Door, stand: Stand) -> None:
    body = {
        "name": "jumping",
        "source": {"type": "jumpstart", "model_id": "huggingface-llm-qwen2-5-0-5b-instruct", "accept_eula": True},
        "instance_types": [TYPE],
    }
    assert door.pointers("POST", ENDPOINTS, {**body, "server": {"image": VLLM}}) == {"/server/image"}
    turned = turned_well(stand, door.well(202, "POST", ENDPOINTS, body))
    assert turned.result["answered"]
    told = door.get(f"{ENDPOINTS}/default/jumping")
    assert told["endpoint"]["kind"] == "JumpStartModel"


@pytest.mark.slow
def test_an_operator_that_is_away_keeps_nothing_secret(door: Door, stand: Stand) -> None:
    scale = {"spec": {"replicas": 0}}
    stand.kube.patch("Deployment", "hyperpod-inference-controller-manager", scale, namespace="hyperpod-inference-system")
    plan = door.well(200, "DELETE", f"{ENDPOINTS}/default/jumping", dry_run="true")
    stand.await_fact(lambda: not _manager_ready(stand))
    turned = turn(stand, door.well(202, "DELETE", f"{ENDPOINTS}/default/jumping", approval=plan["approval"]))
    assert turned.problem is not None
    assert turned.problem.code == "inference_endpoint.nobody_deletes"
    assert "finalizer" in turned.problem.detail


def _manager_ready(stand: Stand) -> int:
    found = stand.kube.get("Deployment", "hyperpod-inference-controller-manager", "hyperpod-inference-system")
    return int((found.get("status") or {}).get("readyReplicas") or 0)
