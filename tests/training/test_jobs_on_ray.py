"""Jobs on KubeRay in the sandbox: submitted, followed, what keeps them from starting, what a failed one still holds (case 52)."""

from __future__ import annotations

from typing import Any

from tests.training.stands import TAG, Stand, hello, sleeper

from instantstart.capabilities.training.jobs import views

#: small enough that head, submitter and worker fit on two small nodes
SMALL: dict[str, Any] = {"kind": "ray_job", "cpu": "4", "memory": "16Gi", "ray": {"head_cpu": "1", "head_memory": "2Gi"}}


def test_a_ray_job_runs_its_entrypoint_and_succeeds(cluster: Stand) -> None:
    made = cluster.submit("ray", recipe=hello("from ray"), **SMALL)
    assert made.problem is None, (made.problem, made.said[-4:])
    told = cluster.status("ray", "succeeded", kind="ray_job")
    assert (told.job.kind, told.job.framework, told.budget) == ("ray_job", "container", None)
    listed = views.list_jobs(cluster.room, TAG, views.Filters(), 9, None).items
    assert [(i.kind, i.name) for i in listed] == [("ray_job", "ray")]


def test_an_image_that_is_not_there_is_told_and_not_initializing_for_ever(cluster: Stand) -> None:
    waits = cluster.submit("nowhere", until="submit", image="registry.invalid/no-such-image:1", recipe=hello("x"), **SMALL)
    told = cluster.until(
        lambda: cluster.get("nowhere", "ray_job"), lambda seen: seen.why is not None and seen.why.code.startswith("image."), warp=10
    )
    assert told.why is not None
    assert (told.why.code, told.job.status) == ("image.not_found", "pending")
    assert "cannot be pulled: it is not in the registry" in told.why.text
    assert {pod.role for pod in told.pods} >= {"head", "worker"}
    assert "cannot be pulled" in cluster.tick(waits, 2)


def test_a_failed_job_that_keeps_its_cluster_says_what_it_holds(cluster: Stand) -> None:
    recipe = {"framework": "container", "command": ["python3", "-c", "raise SystemExit(3)"]}
    ray = {**SMALL["ray"], "keep_cluster": True}
    cluster.submit("broken", until="submit", recipe=recipe, **{**SMALL, "ray": ray})
    told = cluster.status("broken", "failed", kind="ray_job")
    assert told.held is not None
    assert (told.held.pods, told.held.accelerators) == (2, 1)
    assert told.why is not None
    assert told.why.kind == "failing"
    assert cluster.end("broken", "ray_job").problem is None
    pods = [p["metadata"]["name"] for p in cluster.kube.list("Pod", "default") if p["metadata"]["name"].startswith("broken")]
    assert pods == []


def test_a_ray_cluster_stands_until_it_is_ended_and_is_listed_once(cluster: Stand) -> None:
    made = cluster.submit("stands", recipe=None, **{**SMALL, "kind": "ray_cluster"})
    assert made.problem is None, (made.problem, made.said[-4:])
    told = cluster.get("stands", "ray_cluster")
    assert (told.job.status, told.job.nodes, len(told.pods)) == ("running", 1, 2)
    cluster.submit("guest", recipe=sleeper(), until="submit", **SMALL)
    listed = views.list_jobs(cluster.room, TAG, views.Filters(sort="name"), 9, None).items
    assert [(i.kind, i.name) for i in listed] == [("ray_job", "guest"), ("ray_cluster", "stands")]
