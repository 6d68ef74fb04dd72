"""The server around the clusters: what the AWS side calls, discovery, OpenAPI, the proxy, several clusters at once."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from .conftest import World, start
from .objects import PODS, deployment, pod

MERGE = {"Content-Type": "application/merge-patch+json"}
SERVICES = "/api/v1/namespaces/default/services"


def test_a_workload_is_ready_when_its_status_says_so_for_this_generation(world: World, http: httpx2.Client) -> None:
    arn, path = world.cluster.arn, "/apis/apps/v1/namespaces/kube-system/deployments"
    ready = world.server.workload_ready
    assert not ready(arn, "kube-system", "Deployment", "web")
    http.post(path, json=deployment())
    assert not ready(arn, "kube-system", "Deployment", "web")
    http.patch(f"{path}/web/status", json={"status": {"readyReplicas": 2, "observedGeneration": 1}}, headers=MERGE)
    assert ready(arn, "kube-system", "Deployment", "web")
    http.patch(f"{path}/web", json={"spec": {"replicas": 3}}, headers=MERGE)
    assert not ready(arn, "kube-system", "Deployment", "web")


def test_schedulable_nodes_are_ready_and_not_cordoned(world: World, http: httpx2.Client) -> None:
    for name, status, cordoned in (("a", "True", False), ("b", "False", False), ("c", "True", True)):
        body = {
            "metadata": {"name": name},
            "spec": {"unschedulable": cordoned},
            "status": {"conditions": [{"type": "Ready", "status": status}]},
        }
        assert http.post("/api/v1/nodes", json=body).status_code == 201
    assert world.server.schedulable_nodes(world.cluster.arn) == 1
    assert world.server.schedulable_nodes("arn:unknown") == 0


def test_creating_a_cluster_again_gives_the_same_endpoint_and_clusters_are_apart(world: World, http: httpx2.Client) -> None:
    again = world.server.create_cluster(world.cluster.arn, "demo", "region-1", "1.33")
    assert again == world.endpoint
    other = world.server.create_cluster("arn:other", "other", "region-1", "1.31")
    assert (other.url != again.url, other.ca_pem != again.ca_pem) == (True, True)
    http.post(PODS, json=pod())
    assert world.server.cluster("arn:other").read_all("pods") == []
    assert world.server.cluster("arn:other").version == "1.31"


def test_a_restarted_server_finds_its_clusters(tmp_path: Path) -> None:
    first = start(tmp_path)
    first.server.create_cluster("arn:other", "other", "region-1", "1.31")
    first.server.close()
    second = start(tmp_path)
    try:
        assert set(second.server.restore()) == {"arn:other", second.cluster.arn}
        assert second.server.cluster("arn:other").version == "1.31"
    finally:
        second.server.close()


def test_discovery_documents(http: httpx2.Client) -> None:
    assert http.get("/api").json()["versions"] == ["v1"]
    core = http.get("/api/v1").json()
    assert core["groupVersion"] == "v1"
    pods = {r["name"]: r for r in core["resources"]}
    assert (pods["pods"]["singularName"], pods["pods"]["shortNames"], pods["pods"]["categories"]) == ("pod", ["po"], ["all"])
    assert pods["pods/eviction"]["group"] == "policy"
    groups = {g["name"]: g["preferredVersion"]["version"] for g in http.get("/apis").json()["groups"]}
    assert groups["autoscaling"] == "v2"
    aggregated = http.get("/api", headers={"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"})
    assert aggregated.headers["content-type"] == "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    assert http.get("/apis/nothing.example.com").status_code == 404


def test_every_openapi_document_resolves_its_references(http: httpx2.Client) -> None:
    for path in http.get("/openapi/v3").json()["paths"].values():
        document = http.get(path["serverRelativeURL"])
        known = document.json()["components"]["schemas"]
        used = set(document.text.split('"#/components/schemas/')[1:])
        assert {u.split('"', 1)[0] for u in used} <= set(known), path


class _Echo(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = f"{self.command} {self.path} {'authorization' in {k.lower() for k in self.headers}}".encode()
        self.send_response(203)
        self.send_header("X-From", "pod")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class' name
        """Say nothing."""


@pytest.fixture
def behind() -> Iterator[int]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Echo)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()
    thread.join()


def test_the_proxy_relays_to_the_process_behind_a_service(world: World, http: httpx2.Client, behind: int) -> None:
    asked = []

    async def backend(*question: str) -> tuple[str, int] | None:
        asked.append(question)
        return ("127.0.0.1", behind) if question[2] == "s" else None

    http.post(SERVICES, json={"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}})
    http.post(SERVICES, json={"metadata": {"name": "t"}, "spec": {"ports": [{"port": 80}]}})
    nobody = http.get(f"{SERVICES}/s:80/proxy/v1/models").json()
    assert (nobody["code"], nobody["reason"], nobody["message"]) == (503, "ServiceUnavailable", 'no endpoints available for service "s"')
    world.cluster.backend = backend
    answer = http.get(f"{SERVICES}/s:80/proxy/v1/models", params={"q": "1"})
    assert (answer.status_code, answer.headers["x-from"], answer.text) == (203, "pod", "GET /v1/models?q=1 False")
    assert asked == [("services", "default", "s", "80")]
    assert http.get(f"{SERVICES}/t:80/proxy/").status_code == 503
    assert http.get(f"{SERVICES}/none:80/proxy/").status_code == 404


def test_what_is_not_served_says_so(http: httpx2.Client) -> None:
    http.post(PODS, json=pod())
    answer = http.get(f"{PODS}/a/exec", params={"command": "ls"}).json()
    assert (answer["code"], answer["message"]) == (501, "the sandbox does not serve pods/exec")
    assert http.get(f"{PODS}/a/nothing").status_code == 404
    assert http.post("/api/v1/pods", json=pod("b")).status_code == 405


def test_a_crash_is_a_500_that_says_so_and_the_server_lives_on(world: World, http: httpx2.Client) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("made to fail")

    world.cluster.pipeline.after.append(broken)
    answer = http.post(PODS, json=pod())
    assert (answer.status_code, answer.json()["reason"]) == (500, "InternalError")
    assert "made to fail" in answer.json()["message"]
    assert http.get("/healthz").text == "ok"
