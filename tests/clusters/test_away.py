"""The Kubernetes API is away for longer than a stage may take, or for ever (for a while, and AWS itself away: tests/weather)."""

from __future__ import annotations

import dataclasses
import socket
import threading
from typing import Any

import pytest
from tests.clusters.conftest import Job, asked
from tests.clusters.crank import Crank
from tests.clusters.worlds import REGION

from instantstart.base import problems
from instantstart.capabilities.clusters import specs, views, workflows
from instantstart.ensure import eks
from instantstart.kube import connection
from instantstart.kube.client import KubeCluster
from instantstart.store.records import ClusterRow


@pytest.fixture
def blind(crank: Crank, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """While a stage's name is in the list, the API server's address leads nowhere for it."""
    away: list[str] = []
    truth = eks.ref

    def ref(cluster: dict[str, Any], region: str) -> Any:
        import dataclasses

        found = truth(cluster, region)
        return dataclasses.replace(found, endpoint="https://127.0.0.1:9") if away else found

    monkeypatch.setattr(eks, "ref", ref)
    return away


def test_a_stage_whose_deadline_passes_while_the_api_is_away_is_blocked_not_failed_and_a_retry_goes_on(
    job: Job, crank: Crank, blind: list[str]
) -> None:
    begun = job.create(until="access")
    blind.append("away")
    stuck = crank.turn(begun)
    assert (stuck.status, stuck.stopped_at) == ("blocked", "reach")
    assert stuck.problem is not None
    assert (stuck.problem.kind, stuck.problem.code) == ("unreachable", "kubernetes.unreachable")
    assert stuck.problem.hint
    blind.clear()
    assert crank.retry(stuck, until="reach").learned["reach"]


def test_a_deletion_does_not_wait_for_ever_for_an_api_that_is_gone(job: Job, crank: Crank, blind: list[str]) -> None:
    job.create(until="reach")
    blind.append("away")
    gone = job.delete()
    assert gone.status == "succeeded", (gone.stopped_at, gone.problem)
    assert "looked for by tag instead" in gone.sentences("services")


def test_a_cluster_whose_endpoint_has_no_name_any_more_is_told_and_holds_no_other_up(
    job: Job, crank: Crank, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case 17: the remembered cluster's DNS hangs. Its page says so, the list does not wait, and deleted it is shown as gone."""
    job.create(until="reach")
    released, truth = threading.Event(), socket.getaddrinfo

    def resolve(host: Any, *more: Any, **named: Any) -> Any:
        if str(host).endswith(".invalid"):
            released.wait()
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return truth(host, *more, **named)

    told = eks.ref
    with monkeypatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", resolve)
        patch.setattr(connection, "CONNECT_SECONDS", 0.2)
        patch.setattr(eks, "ref", lambda cluster, region: dataclasses.replace(told(cluster, region), endpoint="https://hangs.invalid"))
        row = crank.room.store.clusters
        row.upsert(ClusterRow(tag=job.tag, region=REGION))
        assert [c.tag for c in views.list_clusters(crank.room, "tester", None, "", 50, None).items] == [job.tag]
        detail = views.get_cluster(crank.room, "tester", job.tag)
        assert detail.stages["eks"]
        assert "No connection to the Kubernetes API" in detail.missing["connection"]
        assert "looked for by tag instead" in job.delete().sentences("services")
        released.set()
    row.upsert(ClusterRow(tag=job.tag, region=REGION))
    assert views.get_cluster(crank.room, "tester", job.tag).cluster.state == "gone"


HOOK: dict[str, Any] = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingWebhookConfiguration",
    "metadata": {"name": "policy"},
    "webhooks": [
        {
            "name": "policy.example.com",
            "clientConfig": {"service": {"namespace": "default", "name": "policy"}},
            "rules": [{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["daemonsets"]}],
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
    ],
}


def hook_of_others(job: Job, crank: Crank) -> KubeCluster:
    """A policy controller that somebody else runs, whose pod has no node yet; the cluster."""
    kube, labels = job.site.kube(crank.room), {"app": "policy"}
    pods = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "policy:1"}]}}
    meta = {"name": "policy", "namespace": "default"}
    kube.apply(
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": {"selector": {"matchLabels": labels}, "template": pods}}
    )
    kube.apply({"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"selector": labels, "ports": [{"port": 443}]}})
    kube.apply(HOOK)
    return kube


def test_a_webhook_that_sleeps_is_waited_for_and_then_named_with_its_deployment_and_its_pods(job: Job, crank: Crank) -> None:
    """Case 32, second variant: it never comes up."""
    begun = job.create(until="reach")
    kube = hook_of_others(job, crank)
    stuck = crank.turn(begun)
    assert (stuck.status, stuck.stopped_at) == ("blocked", "bundles")
    assert stuck.problem is not None
    assert (stuck.problem.kind, stuck.problem.code) == ("busy", "kubernetes.webhook_not_ready")
    assert "policy.example.com" in stuck.problem.detail
    assert "Deployment default/policy: " in stuck.problem.detail
    assert "no node" in stuck.problem.detail
    kube.delete("ValidatingWebhookConfiguration", "policy")
    assert crank.retry(stuck, until="bundles").learned["bundles"]


def test_a_webhook_that_wakes_in_time_is_passed_without_a_word_of_failure(job: Job, crank: Crank) -> None:
    """Case 32, first variant: some refusals, then it works."""
    begun = job.create(until="reach")
    kube = hook_of_others(job, crank)
    while "is not answering" not in begun.sentences("bundles"):
        crank.turn(begun, ticks=1)
        assert begun.status == "running", begun.problem
    kube.delete("ValidatingWebhookConfiguration", "policy")
    done = crank.turn(begun, until="bundles")
    assert done.learned["bundles"]


def test_verify_says_what_it_cannot_read_instead_of_no_nodes(job: Job, crank: Crank, blind: list[str]) -> None:
    job.create(until="reach")
    blind.append("away")
    with pytest.raises(problems.Unreachable):
        workflows.VERIFY.stages()[0].act(crank.room, _run(asked(specs.VerifyTarget, tag=job.tag, region=REGION)))


def _run(spec: Any) -> Any:
    import datetime as dt

    from instantstart.operations.declare import Run

    return Run("op-x", "cluster.verify", "verify", spec, {}, 0.0, dt.datetime.now(dt.UTC), "tester")
