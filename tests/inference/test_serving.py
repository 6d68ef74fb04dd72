"""Deployments, routers and autoscalers through the door, on a cluster of the sandbox whose servers really answer."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.capacity.doors import Door, workflow
from tests.clusters.conftest import shared_room, shared_sandbox  # noqa: F401 - fixtures
from tests.clusters.crank import Turned
from tests.clusters.worlds import REGION, SandboxProcess
from tests.inference import stands
from tests.inference.stands import BASE, SMALL, TYPE, Stand

from instantstart import main
from instantstart.base import problems
from instantstart.capabilities.features.specs import SwitchTarget
from instantstart.capabilities.inference.deployments.specs import UpdateModelDeployment
from instantstart.capabilities.room import Room
from instantstart.ensure.inference import autoscalers, first_answers
from instantstart.kube.client import Door as Inside
from instantstart.kube.client import KubeCluster
from instantstart.store.records import OperationFilter

LINE = f"vllm serve {SMALL} --max-model-len 512"
SGLANG = f"python3 -m sglang.launch_server --model-path {SMALL}"
DEPLOYMENTS, ROUTERS, AUTOSCALERS = f"{BASE}/model-deployments", f"{BASE}/sglang-routers", f"{BASE}/autoscalers"
PROMETHEUS = "default/prometheus:9090"


@pytest.fixture(scope="module")
def stand(shared_room: Room, shared_sandbox: SandboxProcess) -> Stand:  # noqa: F811
    """One cluster for the file: five GPUs, with the inference operator, which brings KEDA and a load balancer controller."""
    return stands.stand(shared_room, shared_sandbox, nodes=5, operator=True)


@pytest.fixture(scope="module")
def door(shared_room: Room, stand: Stand) -> Iterator[Door]:  # noqa: F811
    """Its door."""
    with TestClient(main.application(shared_room), base_url="http://127.0.0.1:3099", raise_server_exceptions=False) as client:
        yield stands.door(client, shared_room)


def ask(**more: Any) -> dict[str, Any]:
    return {"name": "qwen", "command": LINE, "gpus": 1, **more}


def do(stand: Stand, door: Door, method: str, path: str, body: Any = None, **query: Any) -> Turned:
    """What the door begins, turned to its end; in the engine's own list it is over then."""
    operation = door.well(202, method, path, body, **query)
    turned = stand.turn(operation["workflow"], operation["spec"])
    for each in stand.room.engine.list(OperationFilter(cluster=stands.TAG), limit=50).items:
        stand.room.engine.cancel(each.id, "tester")
    return turned


def remove(stand: Stand, door: Door, path: str) -> Turned:
    """The plan, and the deletion that it approves."""
    plan = door.well(200, "DELETE", path, dry_run="true")
    return do(stand, door, "DELETE", path, approval=plan["approval"])


@pytest.fixture
def qwen(stand: Stand, door: Door) -> Iterator[str]:
    """A deployment of two pods that answers; gone afterwards."""
    made = do(stand, door, "POST", DEPLOYMENTS, ask(replicas=2))
    assert made.status == "succeeded", made.problem
    yield "qwen"
    assert remove(stand, door, f"{DEPLOYMENTS}/default/qwen").status == "succeeded"


# --- made, changed, scaled


def test_a_deployment_is_done_when_it_has_answered_and_made_once(stand: Stand, door: Door, qwen: str) -> None:
    again = door.well(200, "POST", DEPLOYMENTS, ask(replicas=2))
    assert (again["item"]["state"], again["item"]["ready"]) == ("ready", 2)
    assert (again["item"]["exposure"], again["item"]["address"]) == ("internal", "qwen.default:8000")
    assert again["argv"] == ["vllm", "serve", SMALL, "--max-model-len", "512"]
    assert door.well(200, "POST", DEPLOYMENTS, ask(replicas=2, command="", argv=again["argv"]))["item"]["ready"] == 2, "the same words"
    other = door.refusal(409, "POST", DEPLOYMENTS, ask(replicas=2, env={"A": "b"}))
    assert other["code"] == "model_deployment.exists"
    assert "env: none -> {'A': 'b'}" in other["detail"]
    assert stand.kube.find("PodDisruptionBudget", "qwen", "default") is not None


def test_a_change_says_what_differs_and_leaves_the_rest(stand: Stand, door: Door, qwen: str) -> None:
    path = f"{DEPLOYMENTS}/default/qwen"
    plan = door.well(200, "PATCH", path, {"env": {"LEVEL": "debug"}, "replicas": 1}, dry_run="true")
    assert plan["change"] == ["env: none -> {'LEVEL': 'debug'}", "replicas: 2 -> 1"]
    before = stand.kube.get("Deployment", "qwen", "default")["spec"]["template"]["spec"]["containers"][0]
    done = do(stand, door, "PATCH", path, {"env": {"LEVEL": "debug"}, "replicas": 1})
    assert done.status == "succeeded", done.problem
    after = stand.kube.get("Deployment", "qwen", "default")["spec"]["template"]["spec"]["containers"][0]
    assert {"name": "LEVEL", "value": "debug"} in after["env"]
    assert (after["command"], after["resources"]) == (before["command"], before["resources"])
    assert stand.kube.find("PodDisruptionBudget", "qwen", "default") is None, "one pod: a budget would hold its node for ever"
    assert door.well(200, "PATCH", path, {"replicas": 1})["item"]["replicas"] == 1
    assert door.refusal(404, "PATCH", f"{DEPLOYMENTS}/default/other", {"replicas": 1})["code"] == "model_deployment.unknown"


def test_variables_are_set_and_taken_away_one_by_one(door: Door, qwen: str) -> None:
    path = f"{DEPLOYMENTS}/default/qwen"
    plan = door.well(200, "PATCH", path, {"set_env": {"A": "1", "B": "2"}}, dry_run="true")
    assert plan["change"] == ["env: none -> {'A': '1', 'B': '2'}"]
    assert door.well(200, "PATCH", path, {"unset_env": ["NONE"]})["asked"]["env"] == {}, "what is not there is gone already"
    assert door.pointers("PATCH", path, {"env": {}, "set_env": {"A": "1"}, "unset_env": ["B"]}) == {"/set_env", "/unset_env"}
    assert door.pointers("PATCH", path, {"set_env": {"A": "1"}, "unset_env": ["B", "A"]}) == {"/unset_env/1"}
    asked = UpdateModelDeployment(set_env={"A": "1", "C": "4"}, unset_env=["B"]).onto({"env": {"A": "0", "B": "2", "D": "3"}})
    assert asked["env"] == {"A": "1", "C": "4", "D": "3"}


def test_a_deletion_overtakes_the_change_that_does_not_end(stand: Stand, door: Door, qwen: str) -> None:
    path = f"{DEPLOYMENTS}/default/qwen"
    stuck = door.well(202, "PATCH", path, {"env": {"LEVEL": "debug"}})
    assert door.refusal(409, "PATCH", path, {"env": {"LEVEL": "info"}})["code"] == "operation.subject_busy"
    plan = door.well(200, "DELETE", path, dry_run="true")
    assert plan["change"] == [f"Operation {stuck['id']} (Change a model deployment, queued) is cancelled first."]
    deletion = door.well(202, "DELETE", path, approval=plan["approval"])
    assert door.get(f"/operations/{stuck['id']}")["status"] == "cancelled"
    stand.room.engine.cancel(deletion["id"], "tester")


@contextmanager
def load(kube: KubeCluster, service: str, port: int) -> Iterator[Counter[str]]:
    """Requests without a pause while something is done; how each ended."""
    ends: Counter[str] = Counter()
    over = threading.Event()
    body = {"model": SMALL, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4}

    def ask_on() -> None:
        while not over.is_set():
            try:
                answer = kube.proxy(Inside("default", service, port), "v1/chat/completions", method="POST", body=body)
                ends[str(answer.status)] += 1
            except problems.Problem as problem:
                ends[problem.detail] += 1

    threads = [threading.Thread(target=ask_on) for _ in range(3)]
    for each in threads:
        each.start()
    try:
        yield ends
    finally:
        over.set()
        for each in threads:
            each.join()


def test_a_rolling_change_under_load_loses_no_request(stand: Stand, door: Door, qwen: str) -> None:
    uids = {p["metadata"]["uid"] for p in stand.kube.list("Pod", "default", labels="instantstart.dev/served=qwen")}
    with load(stand.kube, "qwen", 8000) as ends:
        done = do(stand, door, "PATCH", f"{DEPLOYMENTS}/default/qwen", {"env": {"ROUND": "two"}})
    assert done.status == "succeeded", done.problem
    assert set(ends) == {"200"}, ends
    assert ends["200"] > 20
    pods = stand.kube.list("Pod", "default", labels="instantstart.dev/served=qwen")
    staying = {
        p["metadata"]["uid"] for p in pods if not p["metadata"].get("deletionTimestamp")
    }  # a rollout is done before the last has left
    assert not uids & staying, "every pod that stays is a new one"


def test_an_image_that_cannot_be_had_is_told_and_the_old_pods_serve_on(stand: Stand, door: Door, qwen: str) -> None:
    done = do(stand, door, "PATCH", f"{DEPLOYMENTS}/default/qwen", {"image": "registry.invalid/vllm:v9"})
    assert done.problem is not None
    assert done.problem.code == "model_deployment.failing"
    assert "registry.invalid/vllm:v9" in done.problem.detail
    assert "The pods of before go on serving." in done.problem.detail
    answered = first_answers.ask(stand.kube, Inside("default", "qwen", 8000), "vllm", "/health")
    assert isinstance(answered, first_answers.FirstAnswer)
    shown = door.get(f"{DEPLOYMENTS}/default/qwen")
    assert shown["item"]["state"] == "failing"
    listed = {i["name"]: i["why"] for i in door.get(DEPLOYMENTS)["items"]}
    assert shown["item"]["why"]
    assert listed["qwen"] == shown["item"]["why"], "the same sentence in the list and alone"


# --- what is refused, every field at once


def test_all_violations_of_a_request_are_told_at_once(door: Door) -> None:
    body = ask(
        command="vllm serve m -tp 4 --port 9", port=8000, gpus=2, instance_types=[TYPE], token_secret="none", env={"HF_TOKEN": "x"},
        volumes=[{"claim_name": "none", "mount_path": "/m"}], source_ranges=["10.0.0.0/33"], scheme="internet-facing",
    )  # fmt: skip
    assert door.pointers("POST", DEPLOYMENTS, body) == {
        "/port", "/gpus", "/token_secret", "/env/HF_TOKEN", "/volumes/0/claim_name", "/source_ranges", "/source_ranges/0", "/scheme",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("more", "pointers"),
    [
        ({"command": "vllm serve 'm"}, {"/command"}),
        ({"command": "vllm serve m && rm -rf /"}, {"/command"}),
        ({"command": "vllm serve m --port 99999"}, {"/command"}),
        ({"command": f"{SGLANG} --host 127.0.0.1"}, {"/command"}),
        ({"command": "vllm serve m", "argv": ["x"]}, {"/argv"}),
        ({"command": "", "shell": True, "image": "i:1"}, {"/shell"}),
        ({"command": "./serve"}, {"/image"}),
        ({"command": "vllm serve"}, {"/model"}),
        ({"command": f"{SGLANG} --tp 2"}, {"/gpus"}),
        ({"gpus": 8}, {"/gpus"}),
        ({"instance_types": ["ml.p9.huge"]}, {"/instance_types/0"}),
        ({"memory": "96"}, {"/memory"}),
        ({"memory": "8Gi", "shared_memory": "8Gi"}, {"/shared_memory"}),
        ({"namespace": "nowhere"}, {"/namespace"}),
        ({"image": "not an image"}, {"/image"}),
        ({"api_key_secret": "none", "command": SGLANG}, {"/api_key_secret"}),
        ({"env": {"A": "hf_abcdefgh12345"}}, {"/env/A"}),
        ({"name": "--kubeconfig=/tmp/x"}, {"/name"}),
        ({"name": "9lives"}, {"/name"}),
        ({"name": "a\nb"}, {"/name"}),
        ({"env": {"A=B": "c"}}, {"/env/A=B"}),
        ({"volumes": [{"claim_name": "a;id", "mount_path": "relative"}]}, {"/volumes/0/claim_name", "/volumes/0/mount_path"}),
    ],
)
def test_what_is_refused_is_refused_at_its_field(door: Door, more: dict[str, Any], pointers: set[str]) -> None:
    """Cases 60 and 88 among them: nothing of a request reaches a shell or another command's options."""
    assert pointers <= door.pointers("POST", DEPLOYMENTS, ask(**more))


@pytest.mark.parametrize("path", [DEPLOYMENTS, f"{BASE}/model-pools"])
def test_a_command_that_cannot_be_read_has_no_plan(door: Door, path: str) -> None:
    refused = door.refusal(422, "POST", path, ask(command="vllm serve 'm"), dry_run="true")
    assert {f["pointer"] for f in refused["fields"]} == {"/command"}
    assert "never closed" in refused["detail"]


def test_a_command_that_loads_another_model_than_is_named_is_remarked(door: Door) -> None:
    plan = door.well(200, "POST", DEPLOYMENTS, ask(name="other", model="Qwen/Qwen3-8B"), dry_run="true")
    told = [f["detail"] for f in plan["findings"] if f["check"] == "model" and f["level"] == "warn"]
    assert any(t.startswith(f"The command loads {SMALL}, and model says Qwen/Qwen3-8B") for t in told)


def test_a_name_of_somebody_else_is_not_taken(stand: Stand, door: Door) -> None:
    """Case 58: a Service called vllm of somebody else."""
    body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "vllm", "namespace": "default"}, "spec": {"ports": [{"port": 1}]}}
    stand.kube.apply(body)
    refused = door.refusal(422, "POST", DEPLOYMENTS, ask(name="vllm"))
    assert refused["fields"] == [
        {"pointer": "/name", "message": "Service vllm of the namespace default is there already, and is no model deployment's."}
    ]


# --- who may reach it


@pytest.mark.parametrize(
    ("more", "pointers"),
    [
        ({"exposure": "load_balancer", "scheme": "internet-facing"}, {"/source_ranges"}),
        ({"exposure": "load_balancer", "scheme": "internet-facing", "source_ranges": ["0.0.0.0/0"]}, {"/open_to_everyone"}),
        ({"exposure": "load_balancer", "scheme": "internet-facing", "source_ranges": ["::/0"]}, {"/open_to_everyone"}),
        (
            {"exposure": "load_balancer", "scheme": "internet-facing", "source_ranges": ["0.0.0.0/1", "128.0.0.0/1"]},
            {"/open_to_everyone"},
        ),
        ({"exposure": "load_balancer", "scheme": "internet-facing", "source_ranges": ["0.0.0.0/1"]}, {"/open_to_everyone"}),
        ({"source_ranges": ["10.0.0.0/8"]}, {"/source_ranges"}),
        ({"open_to_everyone": True}, {"/open_to_everyone"}),
    ],
)
def test_the_internet_is_asked_for_twice(door: Door, more: dict[str, Any], pointers: set[str]) -> None:
    """Case 63."""
    assert door.pointers("POST", DEPLOYMENTS, ask(**more)) == pointers


def test_an_internet_facing_address_needs_an_administrators_approval(door: Door) -> None:
    body = ask(exposure="load_balancer", scheme="internet-facing", source_ranges=["203.0.113.0/24"])
    assert door.refusal(409, "POST", DEPLOYMENTS, body)["code"] == "approval.missing"
    plan = door.well(200, "POST", DEPLOYMENTS, body, dry_run="true")
    assert plan["approval"]
    other = {**body, "source_ranges": ["203.0.0.0/16"]}
    assert door.refusal(409, "POST", DEPLOYMENTS, other, approval=plan["approval"])["code"] == "approval.missing"


def test_what_an_operator_asks_of_the_internet_waits_for_an_administrator(stand: Stand, door: Door) -> None:
    _, token = stand.room.store.identities.create_token("operator", "operator", "person")
    body = ask(name="public", exposure="load_balancer", scheme="internet-facing", source_ranges=["203.0.113.0/24"])
    waiting = Door(door.client, token).well(202, "POST", DEPLOYMENTS, body)
    assert waiting["status"] == "awaiting_approval"
    assert stand.kube.find("Deployment", "public", "default") is None
    stand.room.store.operations.update(waiting["id"], status="cancelled")


def test_a_load_balancer_is_waited_for(stand: Stand, door: Door) -> None:
    """Case 64: the address comes, or the controller's own words do."""
    made = do(stand, door, "POST", DEPLOYMENTS, ask(name="open", exposure="load_balancer"))
    assert made.status == "succeeded", made.problem
    address = made.learned["address"]["address"]
    assert door.get(f"{DEPLOYMENTS}/default/open")["item"]["address"] == address
    done = do(stand, door, "PATCH", f"{DEPLOYMENTS}/default/open", {"exposure": "internal"})
    assert done.status == "succeeded", done.problem
    assert stand.kube.find("Service", "open-external", "default") is None
    assert remove(stand, door, f"{DEPLOYMENTS}/default/open").status == "succeeded"


# --- routers and autoscalers


def test_a_router_leads_to_its_workers_and_forgets_a_dead_one(stand: Stand, door: Door) -> None:
    """Case 67."""
    assert do(stand, door, "POST", DEPLOYMENTS, ask(name="lang", command=SGLANG, replicas=2)).status == "succeeded"
    made = do(stand, door, "POST", ROUTERS, {"target": "lang", "policy": "round_robin"})
    assert made.status == "succeeded", made.problem
    assert door.pointers("POST", ROUTERS, {"target": "lang", "name": "second"}) == {"/target"}
    assert (
        door.pointers("POST", ROUTERS, {"target": "lang", "policy": "random", "cache_threshold": 0.5, "name": "lang-router"}, 409) == set()
    )
    shown = door.get(f"{ROUTERS}/default/lang-router")
    assert (shown["workers"], shown["knows"], shown["missing"], shown["stale"]) == (2, 2, [], [])
    assert door.refusal(409, "DELETE", f"{DEPLOYMENTS}/default/lang", dry_run="true")["code"] == "model_deployment.in_use"
    do(stand, door, "POST", f"{DEPLOYMENTS}/default/lang/scale", {"replicas": 1})
    stand.await_fact(lambda: door.get(f"{ROUTERS}/default/lang-router")["knows"] == 1)
    assert door.get(f"{ROUTERS}/default/lang-router")["stale"] == []
    assert remove(stand, door, f"{ROUTERS}/default/lang-router").status == "succeeded"
    assert remove(stand, door, f"{DEPLOYMENTS}/default/lang").status == "succeeded"


def prometheus() -> list[dict[str, Any]]:
    """A Prometheus that somebody runs in the cluster."""
    labels, meta = {"app": "prometheus"}, {"name": "prometheus", "namespace": "default"}
    container = {"name": "prometheus", "image": "prom/prometheus:v3.5.0", "ports": [{"containerPort": 9090}]}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"selector": {"matchLabels": labels}, "template": pod}
    ports = [{"port": 9090, "targetPort": 9090}]
    return [
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec},
        {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"selector": labels, "ports": ports}},
    ]


def test_one_autoscaler_owns_the_pods_and_its_query_was_tried(stand: Stand, door: Door, qwen: str) -> None:
    """Case 65."""
    for each in prometheus():
        stand.kube.apply(each)
    stand.ready("prometheus")
    wish = {"target": "qwen", "min_replicas": 1, "max_replicas": 3, "threshold": 5, "prometheus": PROMETHEUS, "metric": "running"}

    def plan(**more: Any) -> Any:
        return door.well(200, "POST", AUTOSCALERS, {**wish, **more}, dry_run="true")

    stand.await_fact(lambda: plan()["value"] is not None, seconds=20)
    assert 'pod=~"qwen-' in plan()["query"]
    assert {f["check"] for f in plan(metric="custom", query="sum(")["findings"] if f["level"] == "fail"} == {"query"}
    assert {f["check"] for f in plan(metric="custom", query="sum(nowhere)")["findings"] if f["level"] == "fail"} == {"query"}
    assert {f["check"] for f in plan(min_replicas=4)["findings"] if f["level"] == "fail"} == {"min_replicas", "max_replicas"}
    made = do(stand, door, "POST", AUTOSCALERS, wish)
    assert made.status == "succeeded", made.problem
    refused = door.refusal(409, "POST", f"{DEPLOYMENTS}/default/qwen/scale", {"replicas": 3})
    assert refused["code"] == "model_deployment.autoscaled"
    assert door.pointers("PATCH", f"{DEPLOYMENTS}/default/qwen", {"replicas": 3}) == {"/replicas"}
    assert door.well(200, "POST", AUTOSCALERS, wish)["ready"]
    assert door.refusal(409, "POST", AUTOSCALERS, {**wish, "threshold": 6})["code"] == "autoscaler.exists"
    listed = door.get(AUTOSCALERS)["items"]
    assert [(a["kind"], a["target"], a["ours"]) for a in listed] == [("ScaledObject", "qwen", True)]
    assert remove(stand, door, f"{AUTOSCALERS}/default/qwen").status == "succeeded"


def test_an_autoscaler_of_somebody_else_is_not_joined(stand: Stand, door: Door, qwen: str) -> None:
    spec = {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "qwen"}, "minReplicas": 2, "maxReplicas": 2}
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}
    meta = {"name": "theirs", "namespace": "default"}
    stand.kube.apply(
        {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": meta, "spec": {**spec, "metrics": [metric]}}
    )
    wish = {"target": "qwen", "max_replicas": 3, "threshold": 5, "prometheus": PROMETHEUS, "accept_no_data": True}
    refused = door.refusal(422, "POST", AUTOSCALERS, wish)
    assert "HorizontalPodAutoscaler theirs scales qwen already" in refused["detail"]
    stand.kube.delete("HorizontalPodAutoscaler", "theirs", "default")


@pytest.mark.slow
def test_the_clusters_own_workspace_is_asked_and_pods_come_from_nothing(stand: Stand, door: Door, qwen: str) -> None:
    """AMP answers the trial query and KEDA's; at 0 pods a metric that is there without them wakes the first."""
    feature = SwitchTarget(tag=stands.TAG, region=REGION, feature="observability", ask={"enabled": True})
    on = stand.crank.run(workflow("feature.enable"), feature)
    assert on.status == "succeeded", (on.stopped_at, on.problem)
    wish = {"target": "qwen", "min_replicas": 0, "max_replicas": 2, "threshold": 1, "metric": "running", "cooldown_seconds": 30}

    def plan(**more: Any) -> Any:
        return door.well(200, "POST", AUTOSCALERS, {**wish, **more}, dry_run="true")

    def pods() -> int:
        return int(stand.kube.get("Deployment", "qwen", "default")["spec"].get("replicas", 1))

    stand.await_fact(lambda: plan()["value"] is not None, seconds=20)
    assert any(f["level"] == "warn" and "wakes nothing" in f["detail"] for f in plan()["findings"])
    for query, count in (("vector(0)", 0), ("vector(2)", 2)):
        made = do(stand, door, "POST", AUTOSCALERS, {**wish, "metric": "custom", "query": query})
        assert made.status == "succeeded", made.problem
        trigger = stand.kube.list(autoscalers.SCALED_OBJECT, "default")[0]["spec"]["triggers"][0]
        assert "/workspaces/ws-" in trigger["metadata"]["serverAddress"]
        stand.await_fact(lambda count=count: pods() == count, seconds=60)  # type: ignore[misc]
        assert remove(stand, door, f"{AUTOSCALERS}/default/qwen").status == "succeeded"
    stand.ready("qwen", 2)
