"""The narrow client over a real TLS connection to a scripted server."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import socket
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

import pytest
from tests.kube.scripted import TEAR, Asked, Reply, Wire, status

from instantstart.base import problems
from instantstart.base.clock import Clock
from instantstart.kube.client import Door, KubeCluster, LogQuery, Propagation
from instantstart.kube.cluster_ref import ClusterRef
from instantstart.kube.connect import KubeGateway
from instantstart.kube.kinds import Kind


class Tokens:
    """A token source that counts, and says for whom."""

    def __init__(self) -> None:
        self.made = 0

    def __call__(self, ref: ClusterRef) -> str:
        self.made += 1
        return f"{ref.name}-{self.made}"


class ClockToSet(Clock):
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.moment = dt.datetime(2026, 11, 30, tzinfo=dt.UTC)

    def now(self) -> dt.datetime:
        return self.moment


@pytest.fixture
def tokens() -> Tokens:
    return Tokens()


@pytest.fixture
def clock() -> ClockToSet:
    return ClockToSet()


@pytest.fixture
def cluster(wire: Wire, tokens: Tokens, clock: ClockToSet) -> Iterator[KubeCluster]:
    gateway = KubeGateway(tokens, clock, lambda: "arn:aws-us-gov:iam::111122223333:user/anna")
    yield gateway.cluster(wire.ref)
    gateway.close()


def good(body: Any) -> Any:
    return lambda _: Reply(200, body)


def test_a_token_is_used_again_until_it_is_old(wire: Wire, cluster: KubeCluster, clock: ClockToSet) -> None:
    wire.answer = good({"gitVersion": "v1.34.1"})
    cluster.version()
    clock.moment += dt.timedelta(minutes=12)
    cluster.version()
    clock.moment += dt.timedelta(minutes=2)
    assert cluster.version() == "v1.34.1"
    assert [a.token for a in wire.asked] == ["demo-1", "demo-1", "demo-2"]


def test_the_age_of_a_token_is_counted_in_seconds_of_the_world(wire: Wire, cluster: KubeCluster, clock: ClockToSet) -> None:
    wire.answer = good({"gitVersion": "v1"})
    clock.rate = 60.0
    cluster.version()
    clock.moment += dt.timedelta(seconds=14)
    cluster.version()
    assert [a.token for a in wire.asked] == ["demo-1", "demo-2"]


def test_a_refused_token_is_renewed_once(wire: Wire, cluster: KubeCluster) -> None:
    wire.answer = lambda asked: Reply(200, {"gitVersion": "v1"}) if asked.token == "demo-2" else status(401, "Unauthorized", "Unauthorized")
    assert cluster.version() == "v1"
    assert len(wire.asked) == 2


def test_an_identity_that_stays_refused_is_told_what_to_do(wire: Wire, cluster: KubeCluster, tokens: Tokens) -> None:
    wire.answer = lambda _: status(401, "Unauthorized", "Unauthorized")
    with pytest.raises(problems.Denied) as found:
        cluster.list("Pod")
    assert found.value.code == "kubernetes.not_admitted"
    assert "arn:aws-us-gov:iam::111122223333:user/anna" in found.value.detail
    assert tokens.made == 2


def test_a_list_is_read_in_pages_and_each_item_says_what_it_is(wire: Wire, cluster: KubeCluster) -> None:
    def answer(asked: Asked) -> Reply:
        if asked.params.get("continue") == "next":
            return Reply(200, {"items": [{"metadata": {"name": "b"}}], "metadata": {}})
        return Reply(200, {"items": [{"metadata": {"name": "a"}}], "metadata": {"continue": "next"}})

    wire.answer = answer
    found = cluster.list("Pod", "default", labels="app=web", fields="spec.nodeName=n")
    assert [(i["kind"], i["apiVersion"], i["metadata"]["name"]) for i in found] == [("Pod", "v1", "a"), ("Pod", "v1", "b")]
    assert wire.asked[0].path == "/api/v1/namespaces/default/pods"
    assert wire.asked[1].params == {"labelSelector": "app=web", "fieldSelector": "spec.nodeName=n", "limit": "500", "continue": "next"}


def test_a_list_whose_snapshot_expired_is_read_whole(wire: Wire, cluster: KubeCluster) -> None:
    def answer(asked: Asked) -> Reply:
        if "limit" not in asked.params:
            return Reply(200, {"items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}], "metadata": {}})
        if "continue" in asked.params:
            return status(410, "Expired", "The provided continue parameter is too old")
        return Reply(200, {"items": [{"metadata": {"name": "a"}}], "metadata": {"continue": "next"}})

    wire.answer = answer
    assert [i["metadata"]["name"] for i in cluster.list("Node")] == ["a", "b"]


def test_apply_is_a_server_side_apply_of_ours_that_does_not_force(wire: Wire, cluster: KubeCluster) -> None:
    wire.answer = good({"metadata": {"name": "a"}})
    manifest = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "namespace": "n"}}
    cluster.apply(manifest)
    cluster.apply(manifest, force=True, dry_run=True)
    first, second = wire.asked
    assert (first.method, first.path) == ("PATCH", "/apis/apps/v1/namespaces/n/deployments/a")
    assert first.headers["content-type"] == "application/apply-patch+yaml"
    assert first.params == {"fieldManager": "instantstart", "force": "false"}
    assert second.params == {"fieldManager": "instantstart", "force": "true", "dryRun": "All"}
    assert json.loads(first.body) == manifest


def test_a_namespaced_manifest_without_namespace_is_our_fault(cluster: KubeCluster) -> None:
    with pytest.raises(problems.Broken, match="lives in a namespace"):
        cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})


@pytest.mark.parametrize(
    ("body", "content_type"),
    [({"spec": {"replicas": 2}}, "application/merge-patch+json"), ([{"op": "remove", "path": "/a"}], "application/json-patch+json")],
)
def test_a_patch_is_a_merge_patch_or_a_list_of_operations(wire: Wire, cluster: KubeCluster, body: Any, content_type: str) -> None:
    wire.answer = good({})
    cluster.patch("Deployment", "a", body, namespace="n", subresource="scale")
    assert wire.asked[0].path.endswith("/deployments/a/scale")
    assert wire.asked[0].headers["content-type"] == content_type


def test_delete_takes_propagation_and_precondition_and_knows_the_absent(wire: Wire, cluster: KubeCluster) -> None:
    wire.answer = good({})
    assert cluster.delete("Pod", "a", "n", propagation=Propagation.foreground, uid="u1")
    options = json.loads(wire.asked[0].body)
    assert (options["propagationPolicy"], options["preconditions"]) == ("Foreground", {"uid": "u1"})
    wire.answer = lambda _: status(404, "NotFound", 'pods "a" not found', name="a")
    assert not cluster.delete("Pod", "a", "n")
    assert cluster.find("Pod", "a", "n") is None


def test_eviction_against_a_budget_is_busy(wire: Wire, cluster: KubeCluster) -> None:
    wire.answer = lambda _: status(429, "TooManyRequests", "disruption budget", causes=[{"reason": "DisruptionBudget"}])
    with pytest.raises(problems.Busy) as found:
        cluster.evict("coredns-1", "kube-system")
    assert found.value.code == "kubernetes.disruption_budget"
    assert wire.asked[0].path == "/api/v1/namespaces/kube-system/pods/coredns-1/eviction"


def test_a_custom_kind_is_discovered_once_and_a_missing_one_asked_again(wire: Wire, cluster: KubeCluster) -> None:
    resources = [
        {"name": "rayjobs", "kind": "RayJob", "namespaced": True},
        {"name": "rayjobs/status", "kind": "RayJob", "namespaced": True},
    ]

    def answer(asked: Asked) -> Reply:
        return Reply(200, {"resources": resources}) if asked.path == "/apis/ray.io/v1" else Reply(200, {"items": [], "metadata": {}})

    wire.answer = answer
    cluster.list("ray.io/v1/RayJob", "n")
    cluster.list("ray.io/v1/RayJob")
    assert [a.path for a in wire.asked] == ["/apis/ray.io/v1", "/apis/ray.io/v1/namespaces/n/rayjobs", "/apis/ray.io/v1/rayjobs"]
    assert not cluster.serves("ray.io/v1/RayService")
    resources.append({"name": "rayservices", "kind": "RayService", "namespaced": True})
    assert cluster.serves("ray.io/v1/RayService")


def test_what_we_may_do_is_asked_of_the_cluster(wire: Wire, cluster: KubeCluster) -> None:
    wire.answer = good({"status": {"allowed": False, "reason": "no"}})
    assert not cluster.may("create", "Deployment", "n")
    review = json.loads(wire.asked[0].body)
    assert review["spec"]["resourceAttributes"] == {"verb": "create", "group": "apps", "resource": "deployments", "namespace": "n"}
    assert wire.asked[0].path == "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def test_log_parameters_are_the_apis_own(wire: Wire, cluster: KubeCluster) -> None:
    wire.answer = good(b"one\ntwo\n")
    assert cluster.log("a", "n", LogQuery(container="c", previous=True, tail_lines=5, limit_bytes=10, timestamps=True)) == "one\ntwo\n"
    assert wire.asked[0].params == {"container": "c", "previous": "true", "tailLines": "5", "limitBytes": "10", "timestamps": "true"}


def test_a_proxied_refusal_is_an_answer_and_the_api_servers_own_is_a_problem(wire: Wire, cluster: KubeCluster) -> None:
    door = Door("n", "web", 8000)
    wire.answer = lambda _: Reply(404, {"detail": "no such model"})
    assert cluster.proxy(door, "/v1/models", method="POST", body={"a": 1}).status == 404
    assert wire.asked[0].path == "/api/v1/namespaces/n/services/web:8000/proxy/v1/models"
    wire.answer = lambda _: status(503, "ServiceUnavailable", 'no endpoints available for service "web"')
    with pytest.raises(problems.Busy, match="no endpoints"):
        cluster.proxy(door, "/")


def test_a_connection_that_broke_is_tried_once_more_for_what_may_be_repeated(wire: Wire, cluster: KubeCluster) -> None:
    replies = iter([Reply(body=TEAR), Reply(200, {"gitVersion": "v1"})])
    wire.answer = lambda _: next(replies)
    assert cluster.version() == "v1"


def test_a_post_whose_answer_was_lost_is_not_sent_twice(wire: Wire, cluster: KubeCluster) -> None:
    wire.answer = lambda _: Reply(body=TEAR)
    with pytest.raises(problems.Unreachable) as found:
        cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "a-", "namespace": "n"}})
    assert found.value.code == "kubernetes.connection_lost"
    assert len(wire.asked) == 1


def test_a_gone_cluster_fails_fast_and_does_not_stay_forgotten(wire: Wire, tokens: Tokens) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        gone = dataclasses.replace(wire.ref, endpoint=f"https://127.0.0.1:{free.getsockname()[1]}")
    gateway = KubeGateway(tokens)
    with pytest.raises(problems.Unreachable) as found:
        gateway.cluster(gone).version()
    assert found.value.code == "kubernetes.unreachable"
    assert gateway.cluster(gone).connection._down_until > time.monotonic()
    with pytest.raises(problems.Unreachable, match="No connection"):
        gateway.cluster(gone).list("Pod")
    wire.answer = good({"gitVersion": "v1"})
    assert gateway.cluster(wire.ref).version() == "v1"  # the same ARN at a new endpoint is another wire
    gateway.close()


def test_a_stranger_at_the_clusters_address_is_not_believed(wire: Wire, tokens: Tokens, tmp_path: Any) -> None:
    from tests.kube.scripted import _certificate

    _, other_ca = _certificate(tmp_path)
    gateway = KubeGateway(tokens)
    with pytest.raises(problems.Unreachable) as found:
        gateway.cluster(dataclasses.replace(wire.ref, ca_pem=other_ca)).version()
    assert found.value.code == "kubernetes.certificate_not_trusted"
    assert wire.asked == []
    gateway.close()


def test_an_unreadable_authority_is_told(wire: Wire, tokens: Tokens) -> None:
    with pytest.raises(problems.Broken) as found:
        KubeGateway(tokens).cluster(dataclasses.replace(wire.ref, ca_pem="nonsense"))
    assert found.value.code == "kubernetes.bad_ca"


@pytest.mark.parametrize("name", ["../../kube-system/secrets", "a/b", "x?watch=1", "a#b", "a\tb", "ü", "%2e%2e"])
def test_no_name_becomes_another_address(name: str) -> None:
    path = Kind("", "v1", "Pod", "pods", namespaced=True).path(name, name)
    assert len(path.split("/")) == 7
    assert not set(path) & set("?#\t")
    assert unquote(path.split("/")[4]) == name


@pytest.mark.parametrize("name", [".", ".."])
def test_dots_are_no_name(name: str) -> None:
    with pytest.raises(problems.Invalid):
        Kind("", "v1", "Pod", "pods", namespaced=True).path("default", name)
