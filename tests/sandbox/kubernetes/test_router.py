"""SGLang's router behind a pod: it finds its workers by label with its own rights, forgets them at once, and forwards."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest
from tests.sandbox.kubernetes.conftest import ARN, World
from tests.sandbox.kubernetes.loops_bench import FakeAws, instance
from tests.sandbox.kubernetes.serving import MODEL, deployment, server, service

from instantstart_sandbox.kubernetes.controllers import start_controllers
from instantstart_sandbox.kubernetes.server import KubernetesServer
from instantstart_sandbox.world.clock import Clock
from instantstart_sandbox.world.seams import Identity

Object = dict[str, Any]
ASK = {"model": MODEL, "messages": [{"role": "user", "content": "hello"}], "max_tokens": 8}
RATE = 60.0


class Aws(FakeAws):
    def authenticate(self, cluster: str, token: str) -> Identity | None:
        return Identity("arn:admin", "admin-user", (), (("AmazonEKSClusterAdminPolicy", ()),)) if token == "admin-token" else None


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A whole cluster with its loops: one node without GPUs, a router and two workers."""
    aws = Aws()
    aws.machines = [instance(kind="ml.m5.12xlarge")]
    folder = tmp_path_factory.mktemp("kubernetes")
    made = KubernetesServer(folder, Clock(rate=RATE), aws, start_controllers)
    world = World(made, made.create_cluster(ARN, "demo", "region-1", "1.33"), folder)
    with world.http() as http:
        for path, body in objects():
            answer = http.post(path, json=body)
            assert answer.status_code == 201, answer.text
        until(lambda: len(workers(http)) == 2, "two workers")
    yield world
    world.server.close()


@pytest.fixture
def http(running: World) -> Iterator[httpx2.Client]:
    with running.http() as client:
        yield client


def objects() -> list[tuple[str, Object]]:
    core, apps, rbac = (
        "/api/v1/namespaces/default",
        "/apis/apps/v1/namespaces/default",
        "/apis/rbac.authorization.k8s.io/v1/namespaces/default",
    )
    words = ["python3", "-m", "sglang_router.launch_router", "--host", "0.0.0.0", "--port", "30000", "--policy", "round_robin"]
    words += [
        "--service-discovery",
        "--selector",
        "app=worker",
        "--service-discovery-namespace",
        "default",
        "--service-discovery-port",
        "8000",
    ]
    router = server(image="lmsysorg/sglang-router:v0.2", command=words, port=30000, gpus=0)
    router["serviceAccountName"] = "router"
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "router"}
    subjects = [{"kind": "ServiceAccount", "name": "router", "namespace": "default"}]
    workers = server("--model", MODEL, image="vllm/vllm-openai-cpu:v0.11.0", gpus=0)
    return [
        (f"{core}/serviceaccounts", {"metadata": {"name": "router"}}),
        (f"{rbac}/roles", {"metadata": {"name": "router"}, "rules": rules}),
        (f"{rbac}/rolebindings", {"metadata": {"name": "router"}, "roleRef": role, "subjects": subjects}),
        (f"{core}/services", service("router")),
        (f"{apps}/deployments", deployment("router", router)),
        (f"{apps}/deployments", deployment("worker", workers, replicas=2)),
    ]


def until(fact: Callable[[], Any], what: str, seconds: float = 40.0) -> Any:
    end = time.monotonic() + seconds
    while not (found := fact()):
        assert time.monotonic() < end, what
        time.sleep(0.02)
    return found


def proxied(http: httpx2.Client, path: str, body: Object | None = None) -> httpx2.Response:
    whole = f"/api/v1/namespaces/default/services/router:http/proxy{path}"
    return http.get(whole) if body is None else http.post(whole, content=json.dumps(body))


def workers(http: httpx2.Client) -> list[str]:
    answer = proxied(http, "/workers")
    return [w["url"] for w in answer.json()["workers"] if w["is_healthy"]] if answer.status_code == 200 else []


def pods(http: httpx2.Client, app: str) -> list[Object]:
    found = http.get("/api/v1/namespaces/default/pods", params={"labelSelector": f"app={app}"}).json()["items"]
    return [p for p in found if not p["metadata"].get("deletionTimestamp")]


def test_it_forwards_to_its_workers_in_turn(http: httpx2.Client) -> None:
    until(lambda: len(workers(http)) == 2, "two workers")
    for _ in range(4):
        assert proxied(http, "/v1/chat/completions", ASK).status_code == 200
    told = {w["url"]: w for w in proxied(http, "/workers").json()["workers"]}
    assert set(told) == {f"http://{p['status']['podIP']}:8000" for p in pods(http, "worker")}
    streamed = proxied(http, "/v1/chat/completions", {**ASK, "stream": True}).text
    assert streamed.rstrip().endswith("data: [DONE]")
    assert proxied(http, "/v1/models").json()["data"][0]["id"] == MODEL


def test_a_worker_that_loses_its_label_leaves_at_once(http: httpx2.Client) -> None:
    until(lambda: len(workers(http)) == 2, "two workers")
    gone = pods(http, "worker")[0]
    url = f"http://{gone['status']['podIP']}:8000"
    patch = {"metadata": {"labels": {"app": "other"}}}
    path = f"/api/v1/namespaces/default/pods/{gone['metadata']['name']}"
    assert http.patch(path, json=patch, headers={"Content-Type": "application/merge-patch+json"}).status_code == 200
    until(lambda: url not in workers(http), "the worker has left")
    assert proxied(http, "/v1/chat/completions", ASK).status_code == 200
    http.delete(path)
    until(lambda: len(workers(http)) == 2, "its successor has come")


def test_deaths_of_workers_fail_no_request(http: httpx2.Client) -> None:
    until(lambda: len(workers(http)) == 2, "two workers")
    codes = []
    for number in range(30):
        if number == 10:
            http.delete(f"/api/v1/namespaces/default/pods/{pods(http, 'worker')[0]['metadata']['name']}")
        codes.append(proxied(http, "/v1/chat/completions", ASK).status_code)
    assert set(codes) == {200}


def test_without_rights_it_says_why_and_has_no_workers(http: httpx2.Client) -> None:
    until(lambda: len(workers(http)) == 2, "two workers")
    binding = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings"
    kept = http.get(f"{binding}/router").json()
    http.delete(f"{binding}/router")
    name = pods(http, "router")[0]["metadata"]["name"]
    http.delete(f"/api/v1/namespaces/default/pods/{name}")
    fresh = until(
        lambda: [p for p in pods(http, "router") if p["metadata"]["name"] != name and p["status"].get("phase") == "Running"], "anew"
    )
    log = f"/api/v1/namespaces/default/pods/{fresh[0]['metadata']['name']}/log"
    until(lambda: 'cannot list resource "pods"' in http.get(log).text, "its reason")
    until(lambda: proxied(http, "/v1/chat/completions", ASK).status_code == 503, "no workers")
    kept["metadata"] = {"name": "router"}
    assert http.post(binding, json=kept).status_code == 201
    until(lambda: len(workers(http)) == 2, "two workers again")


def test_after_a_restart_of_the_sandbox_all_serve_again(running: World) -> None:
    with running.http() as http:
        until(lambda: len(workers(http)) == 2, "two workers")
        names = {p["metadata"]["name"] for p in pods(http, "worker")}
    running.server.close()
    aws = Aws()
    aws.machines = [instance(kind="ml.m5.12xlarge")]
    running.server = KubernetesServer(running.folder, Clock(rate=RATE), aws, start_controllers)
    running.endpoint = running.server.create_cluster(ARN, "demo", "region-1", "1.33")
    with running.http() as http:
        until(lambda: len(workers(http)) == 2, "two workers again")
        assert proxied(http, "/v1/chat/completions", ASK).status_code == 200
        assert {p["metadata"]["name"] for p in pods(http, "worker")} == names


def test_cache_aware_sends_the_same_beginning_to_the_same_worker() -> None:
    from instantstart_sandbox.programs.routing.policies import Chooser, Rules
    from instantstart_sandbox.programs.routing.pool import Worker

    workers = [Worker(f"http://127.0.0.{n}:1", healthy=True) for n in (1, 2, 3)]
    chooser = Chooser("cache_aware", Rules())
    first = chooser.pick(workers, "a" * 300, "")
    second = chooser.pick(workers, "b" * 300, "")
    assert first is not second
    assert all(chooser.pick(workers, "a" * 300 + str(n), "") is first for n in range(5))
    first.load = 100
    assert chooser.pick(workers, "a" * 300, "") is not first


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--policy", "best"], 2),
        (["--cache-threshold", "1.5"], 1),
        (["--balance-rel-threshold", "0.5"], 1),
        (["--no-such"], 2),
        (["--service-discovery"], 1),
    ],
)
def test_what_its_arguments_refuse(words: list[str], code: int) -> None:
    from instantstart_sandbox.programs.routing.arguments import parse

    with pytest.raises(SystemExit) as ended:
        parse(words)
    assert ended.value.code == code
