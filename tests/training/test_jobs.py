"""Jobs of HyperPod's operator, submitted, followed, read, ended, in the sandbox: its controller is real, and so are the pods' processes."""

from __future__ import annotations

from typing import Any

import pytest
from tests.clusters.worlds import REGION
from tests.training.stands import TAG, Stand, hello, sleeper

from instantstart.base import problems
from instantstart.capabilities.training.jobs import plans, specs, views
from instantstart.kube.client import KubeCluster


def dies(code: int = 3) -> dict[str, Any]:
    """A recipe that fails at once."""
    return {"framework": "container", "command": ["python3", "-c", f"import sys; print('out of luck'); sys.exit({code})"]}


def test_what_the_cluster_has_not_is_refused_at_the_door_all_at_once(cluster: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster without KubeRay: who asks for its jobs is told which feature to switch on."""
    serves = KubeCluster.serves
    monkeypatch.setattr(KubeCluster, "serves", lambda self, kind: "ray.io" not in kind and serves(self, kind))
    mount = [{"claim": "nope", "path": "/data"}]
    with pytest.raises(problems.Invalid) as refused:
        plans.checked(cluster.room, cluster.where, cluster.target("on-ray", kind="ray_job", mounts=mount, namespace="nowhere"))
    assert [f.pointer for f in refused.value.fields] == ["/kind", "/namespace", "/mounts/0/claim"]
    assert "instantstart feature enable kuberay" in str(refused.value.hint)
    cluster.sandbox.fault("kubernetes:.*/namespaces", code="away", count=None)
    try:
        asked = cluster.target("later")
        assert plans.checked(cluster.room, cluster.where, asked) is asked, "a cluster that does not answer is the operation's to wait for"
    finally:
        cluster.sandbox.clear()


def test_a_job_runs_and_succeeds_and_its_name_is_refused_or_versioned(cluster: Stand) -> None:
    """Case 56."""
    made = cluster.submit("first", recipe=sleeper())
    assert made.problem is None, (made.problem, made.said[-4:])
    assert made.result["status"] == "running"
    told = cluster.get("first")
    assert (told.job.status, told.job.framework, told.job.nodes, told.job.made_here) == ("running", "container", 1, True)
    assert told.budget is not None
    assert (told.budget.retries.limit, told.budget.retries.left, told.budget.full_restarts.limit) == (5, 5, 1)
    assert [(pod.phase, pod.role) for pod in told.pods] == [("Running", "worker")]
    assert told.why is None
    assert told.resources["nvidia.com/gpu"] == "1"
    with pytest.raises(problems.Conflict) as refused:
        plans.checked(cluster.room, cluster.where, cluster.target("first", recipe=hello("again")))
    assert refused.value.code == "training_job.exists"
    failed = cluster.submit("first", recipe=hello("again"))
    assert failed.problem is not None
    assert (failed.problem.code, failed.stopped_at) == ("training_job.exists", "check")
    second = cluster.submit("first", recipe=hello("x"), if_exists="version")
    assert second.learned["check"]["name"] == "first-2"
    assert cluster.status("first-2", "succeeded").job.status == "succeeded"
    listed = views.list_jobs(cluster.room, TAG, views.Filters(sort="name"), 1, None)
    assert ([i.name for i in listed.items], listed.total, listed.counts) == (["first"], 2, {"running": 1, "succeeded": 1})
    more = views.list_jobs(cluster.room, TAG, views.Filters(sort="name"), 1, listed.cursor)
    assert ([i.name for i in more.items], more.cursor) == (["first-2"], None)
    assert views.list_jobs(cluster.room, TAG, views.Filters(status="succeeded", contains="IRST"), 9, None).total == 1
    assert views.list_jobs(cluster.room, TAG, views.Filters(kind="ray_job"), 9, None).total == 0


def test_a_kill_after_the_act_makes_no_second_job_and_a_name_is_replaced_when_asked(cluster: Stand) -> None:
    crank = cluster.job.crank
    crank.discard = lambda stage, outcome: stage == "submit" and not thrown and not thrown.append(1)  # type: ignore[func-returns-value]
    thrown: list[int] = []
    made = cluster.submit("once")
    crank.discard = lambda stage, outcome: False
    assert (made.problem, len(thrown)) == (None, 1)
    first = cluster.get("once").uid
    again = cluster.submit("once", recipe=hello("new"), if_exists="replace")
    assert again.problem is None, again.problem
    assert cluster.get("once").uid != first
    assert "being ended" in again.sentences("submit")


def test_a_job_that_finds_no_place_says_why_and_its_end_frees_the_follower(cluster: Stand) -> None:
    """Cases 52, 57: the node's only GPU is taken; a type that is not there; a quota that lets no pod be."""
    assert cluster.submit("holds", nodes=2).problem is None
    waits = cluster.submit("waits", until="submit")
    said = cluster.tick(waits, 3)
    assert "no node of ml.g5.8xlarge" in said
    assert "has that many free" in said
    told = cluster.get("waits")
    assert told.why is not None
    assert (told.why.code, told.why.kind, told.job.status) == ("resource.insufficient", "waiting", "pending")
    listed = {i.name: i.because for i in views.list_jobs(cluster.room, TAG, views.Filters(), 9, None).items}
    assert listed["holds"] is None
    assert "Insufficient" in str(listed["waits"])
    end = plans.prepare_end(cluster.room, cluster.where, specs.JobTarget(
        tag=TAG, region=REGION, kind="pytorch", namespace="default", name="waits", uid=""))  # fmt: skip
    assert end.needs_approval
    assert "not written to a volume is lost" in end.plan.warnings[0]
    assert cluster.end("waits").problem is None
    cluster.turn(waits)
    assert waits.problem is not None
    assert waits.problem.code == "training_job.gone"


def test_without_any_pod_the_quota_is_the_reason(cluster: Stand) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team", "namespace": "default"}}
    cluster.kube.apply({**quota, "spec": {"hard": {"requests.nvidia.com/gpu": "0"}}})
    waits = cluster.submit("quota", until="submit")
    told = cluster.until(lambda: cluster.get("quota"), lambda seen: seen.why is not None and seen.why.code == "quota.exceeded")
    assert told.pods == ()
    assert told.why is not None
    assert "the ResourceQuota team of the namespace is used up" in told.why.text
    assert "ResourceQuota team" in cluster.tick(waits, 2)
    cluster.kube.delete("ResourceQuota", "team", "default")


def test_a_process_that_dies_again_and_again_spends_the_budget_and_then_fails_with_its_words(cluster: Stand) -> None:
    budget = {"max_retries": 2, "restarts_before_full": 3, "clean_pods": "None"}
    made = cluster.submit("dies", until="submit", recipe=dies(), recovery=budget)
    told = cluster.status("dies", "failed")
    assert told.budget is not None
    assert (told.budget.retries.used, told.budget.retries.left) == (2, 0)
    assert told.why is not None
    assert told.why.kind == "failing"
    assert "maximum number of restarts" in told.why.text
    assert "exit code 3" in told.why.text
    cluster.turn(made)
    assert made.problem is not None
    assert made.problem.code == "training_job.failed"


def test_a_job_that_falls_silent_is_started_again_by_its_rule(cluster: Stand) -> None:
    rules = [{"name": "hang", "pattern": "loss=([0-9.]+)", "repeat_within_seconds": 60}]
    assert cluster.submit("silent", recipe=sleeper(), log_rules=rules, recovery={"max_retries": 1}).problem is None
    told = cluster.until(lambda: cluster.get("silent"), lambda seen: seen.job.restarts == 1 or seen.job.status == "failed", warp=20)
    assert told.budget is not None
    assert told.budget.retries.used == 1
    assert any("Hanging_hang" in event.reason for event in told.events)
    assert told.log_rules[0]["name"] == "hang"


def test_a_job_is_submitted_again_from_what_is_kept_on_it(cluster: Stand) -> None:
    cluster.submit("again", recipe=hello("x"), env={"A": "b $(C)"})
    told = specs.JobTarget(tag=TAG, region=REGION, kind="pytorch", namespace="default", name="again", uid="")
    target = plans.again(cluster.where, cluster.kube, told, specs.ResubmitTrainingJob())
    assert (target.name, target.if_exists, target.env) == ("again", "version", {"A": "b $(C)"})
    cluster.kube.patch("sagemaker.amazonaws.com/v1/HyperPodPyTorchJob", "again", {"metadata": {"annotations": None}}, namespace="default")
    with pytest.raises(problems.Conflict) as refused:
        plans.again(cluster.where, cluster.kube, told, specs.ResubmitTrainingJob())
    assert refused.value.code == "training_job.not_ours"


def test_a_preview_shows_what_the_cluster_would_take_and_changes_nothing(cluster: Stand) -> None:
    target = cluster.target("shown", nodes=3, mounts=[{"claim": "nowhere", "path": "/d"}])
    shown = plans.preview(cluster.room, cluster.where, target)
    found = {f.check: f.level for f in shown.findings}
    assert (found["object"], found["mounts/0/claim"], found["nodes"], found["kind"]) == ("ok", "fail", "warn", "ok")
    assert [o["kind"] for o in shown.objects] == ["ConfigMap", "HyperPodPyTorchJob"]
    assert shown.argv[0] == "python3"
    assert shown.rendezvous["NNODES"] == "3"
    assert (shown.settings["group"], shown.settings["accelerators"]) == (None, 1)
    assert views.list_jobs(cluster.room, TAG, views.Filters(), 9, None).total == 0
    refused = cluster.submit("shown", mounts=[{"claim": "nowhere", "path": "/d"}], service_account="nobody", accelerators=9)
    assert refused.problem is not None
    assert {f.pointer for f in refused.problem.fields} == {"/mounts/0/claim", "/service_account", "/accelerators"}
