"""Deployments, StatefulSets, DaemonSets and Jobs reach the states that they reach on a real cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.sandbox.kubernetes.loops_bench import Bench, on_bench, pod_spec, workload

RUN = "sandbox.instantstart.dev/run"
Object = dict[str, Any]


def conditions(obj: Object) -> dict[str, tuple[str, str]]:
    return {c["type"]: (c["status"], c.get("reason", "")) for c in obj["status"].get("conditions") or []}


def numbers(obj: Object, *names: str) -> tuple[int, ...]:
    return tuple(int(obj["status"].get(n) or 0) for n in names)


def deployment(bench: Bench, name: str = "web") -> Object:
    return bench.get("deployments.apps", name, "default")


def test_a_deployment_rolls_out_and_tells_its_progress(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.machine(kind="ml.m5.4xlarge")
        await bench.client.create("deployments.apps", workload("Deployment", "web", replicas=3))
        await bench.settle()
        assert conditions(deployment(bench))["Available"] == ("False", "MinimumReplicasUnavailable")
        assert conditions(deployment(bench))["Progressing"] == ("True", "ReplicaSetUpdated")
        assert numbers(deployment(bench), "replicas", "unavailableReplicas") == (3, 3)
        await bench.wait(10)
        assert numbers(deployment(bench), "replicas", "updatedReplicas", "readyReplicas", "availableReplicas") == (3, 3, 3, 3)
        assert conditions(deployment(bench)) == {
            "Available": ("True", "MinimumReplicasAvailable"),
            "Progressing": ("True", "NewReplicaSetAvailable"),
        }
        names = [p["metadata"]["name"] for p in bench.pods()]
        replica_set = bench.cluster.read_all("replicasets.apps", "default")[0]["metadata"]["name"]
        assert all(n.startswith(f"{replica_set}-") for n in names)
        assert ("ScalingReplicaSet", f"Scaled up replica set {replica_set} from 0 to 3") in bench.events()
        assert deployment(bench)["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "1"
        notes = bench.get("replicasets.apps", replica_set, "default")["metadata"]["annotations"]
        assert {k.rpartition("/")[2]: v for k, v in notes.items()} == {"revision": "1", "desired-replicas": "3", "max-replicas": "4"}

    on_bench(tmp_path, test)


def test_a_new_template_replaces_pods_within_the_limits(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.machine(kind="ml.m5.4xlarge")
        await bench.client.create("deployments.apps", workload("Deployment", "web", replicas=4))
        await bench.wait(10)
        changed = {"spec": {"template": {"spec": pod_spec("busybox:2")}}}
        await bench.client.patch("deployments.apps", "web", changed, "default")
        await bench.settle()
        assert len([p for p in bench.pods() if not p["metadata"].get("deletionTimestamp")]) <= 5
        ready = sum(1 for p in bench.pods() if conditions(p).get("Ready") == ("True", "") and not p["metadata"].get("deletionTimestamp"))
        assert ready >= 3
        await bench.wait(60)
        assert {p["spec"]["containers"][0]["image"] for p in bench.pods()} == {"busybox:2"}
        assert numbers(deployment(bench), "replicas", "updatedReplicas", "readyReplicas") == (4, 4, 4)
        found = bench.cluster.read_all("replicasets.apps", "default")
        sets = {s["spec"]["template"]["spec"]["containers"][0]["image"]: s["spec"]["replicas"] for s in found}
        assert sets == {"busybox": 0, "busybox:2": 4}
        await bench.client.patch("deployments.apps", "web", {"spec": {"template": {"spec": pod_spec("busybox")}}}, "default")
        await bench.wait(60)
        assert deployment(bench)["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "3"

    on_bench(tmp_path, test)


def test_a_bad_image_leaves_the_old_pods_and_ends_the_deadline(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.machine(kind="ml.m5.4xlarge")
        await bench.client.create("deployments.apps", workload("Deployment", "web", replicas=2, progressDeadlineSeconds=60))
        await bench.wait(10)
        await bench.client.patch("deployments.apps", "web", {"spec": {"template": {"spec": pod_spec("team/does-not-exist")}}}, "default")
        await bench.wait(30)
        broken = [p for p in bench.pods() if p["spec"]["containers"][0]["image"] != "busybox"]
        waiting = broken[0]["status"]["containerStatuses"][0]["state"]["waiting"]
        assert waiting["reason"] == "ImagePullBackOff"
        assert "not found" in waiting["message"]
        assert numbers(deployment(bench), "availableReplicas") == (2,)
        await bench.wait(60)
        assert conditions(deployment(bench))["Progressing"] == ("False", "ProgressDeadlineExceeded")
        assert conditions(deployment(bench))["Available"] == ("True", "MinimumReplicasAvailable")

    on_bench(tmp_path, test)


def test_scaling_down_and_deleting_removes_the_pods(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.machine(kind="ml.m5.4xlarge")
        await bench.client.create("deployments.apps", workload("Deployment", "web", replicas=3))
        await bench.wait(10)
        await bench.client.scale("deployments.apps", "web", 1, "default")
        await bench.wait(10)
        assert len(bench.pods()) == 1
        await bench.client.delete("deployments.apps", "web", "default")
        await bench.wait(10)
        assert bench.pods() == []
        assert bench.cluster.read_all("replicasets.apps", "default") == []

    on_bench(tmp_path, test)


def test_propagation_foreground_waits_and_orphan_leaves(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.machine(kind="ml.m5.4xlarge")
        for name in ("one", "two"):
            await bench.client.create("deployments.apps", workload("Deployment", name, replicas=1))
        await bench.wait(10)
        await bench.client.delete("deployments.apps", "one", "default", propagation="Foreground")
        await bench.settle()
        assert deployment(bench, "one")["metadata"]["finalizers"] == ["foregroundDeletion"]
        await bench.wait(10)
        assert bench.cluster.read("deployments.apps", "one", "default") is None
        await bench.client.delete("deployments.apps", "two", "default", propagation="Orphan")
        await bench.wait(10)
        assert bench.cluster.read("deployments.apps", "two", "default") is None
        left = bench.cluster.read_all("replicasets.apps", "default")
        assert len(left) == 1
        assert "ownerReferences" not in left[0]["metadata"] or left[0]["metadata"]["ownerReferences"] == []
        assert len(bench.pods()) == 1

    on_bench(tmp_path, test)


def test_a_replica_set_adopts_by_label_and_releases_what_no_longer_matches(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.machine(kind="ml.m5.4xlarge")
        orphan = {"metadata": {"name": "orphan", "namespace": "default", "labels": {"app": "web"}}, "spec": pod_spec()}
        await bench.client.create("pods", orphan)
        await bench.client.create("replicasets.apps", workload("ReplicaSet", "web", replicas=2))
        await bench.wait(10)
        assert len(bench.pods()) == 2
        assert bench.get("pods", "orphan", "default")["metadata"]["ownerReferences"][0]["name"] == "web"
        await bench.client.patch("pods", "orphan", {"metadata": {"labels": {"app": "else"}}}, "default")
        await bench.wait(10)
        assert len(bench.pods()) == 3
        assert not bench.get("pods", "orphan", "default")["metadata"].get("ownerReferences")

    on_bench(tmp_path, test)


def test_a_daemon_set_counts_its_nodes(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.machine("i-0aaaaaaaaaaaaaaa1", "ml.m5.4xlarge", labels={"kind": "a"})
        await bench.machine("i-0aaaaaaaaaaaaaaa2", "ml.m5.4xlarge", labels={"kind": "b"})
        await bench.client.create("daemonsets.apps", workload("DaemonSet", "agent", pod=pod_spec(nodeSelector={"kind": "a"})))
        await bench.wait(10)
        found = bench.get("daemonsets.apps", "agent", "default")
        names = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady", "numberMisscheduled", "updatedNumberScheduled")
        assert numbers(found, *names) == (1, 1, 1, 0, 1)
        await bench.client.patch("nodes", "hyperpod-i-0aaaaaaaaaaaaaaa2", {"metadata": {"labels": {"kind": "a"}}})
        await bench.settle()
        # The bridge puts the group's label back: HyperPod owns it.
        await bench.client.patch("daemonsets.apps", "agent", {"spec": {"template": {"spec": {"nodeSelector": None}}}}, "default")
        await bench.wait(30)
        found = bench.get("daemonsets.apps", "agent", "default")
        assert numbers(found, *names) == (2, 2, 2, 0, 2)
        pods = bench.pods()
        assert {p["spec"]["nodeName"] for p in pods} == {"hyperpod-i-0aaaaaaaaaaaaaaa1", "hyperpod-i-0aaaaaaaaaaaaaaa2"}
        assert all(not (p["spec"].get("nodeSelector")) for p in pods)

    on_bench(tmp_path, test)


def test_templates_are_kept_as_revisions(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.machine(kind="ml.m5.4xlarge")
        await bench.client.create("daemonsets.apps", workload("DaemonSet", "agent"))
        await bench.settle()
        first = {"spec": {"template": {"spec": pod_spec("busybox")}}}
        await bench.client.patch("daemonsets.apps", "agent", {"spec": {"template": {"spec": pod_spec("busybox:2")}}}, "default")
        await bench.wait(60)
        await bench.client.patch("daemonsets.apps", "agent", first, "default")
        await bench.wait(60)
        kept = {
            r["data"]["spec"]["template"]["spec"]["containers"][0]["image"]: r["revision"]
            for r in bench.cluster.read_all("controllerrevisions.apps", "default")
        }
        assert kept == {"busybox": 3, "busybox:2": 2}
        assert [p["spec"]["containers"][0]["image"] for p in bench.pods()] == ["busybox"]

    on_bench(tmp_path, test)


def test_a_stateful_set_goes_in_order_with_its_claims(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.machine(kind="ml.m5.4xlarge")
        await bench.client.create("statefulsets.apps", workload("StatefulSet", "db", replicas=3, serviceName="db"))
        await bench.settle()
        assert [p["metadata"]["name"] for p in bench.pods()] == ["db-0"]
        await bench.wait(20)
        assert [p["metadata"]["name"] for p in bench.pods()] == ["db-0", "db-1", "db-2"]
        assert bench.pods()[1]["spec"]["hostname"] == "db-1"
        assert numbers(bench.get("statefulsets.apps", "db", "default"), "replicas", "readyReplicas", "currentReplicas") == (3, 3, 3)
        await bench.client.scale("statefulsets.apps", "db", 1, "default")
        await bench.wait(20)
        assert [p["metadata"]["name"] for p in bench.pods()] == ["db-0"]

    on_bench(tmp_path, test)


def job(bench: Bench, name: str = "train") -> Object:
    return bench.get("jobs.batch", name, "default")


def once(run: str, **spec: Any) -> Object:
    return workload("Job", "train", annotations={RUN: run}, pod=pod_spec(restartPolicy="Never"), **spec)


def test_a_job_completes(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.machine(kind="ml.m5.4xlarge")
        await bench.client.create("jobs.batch", once("exit 0 after 30", completions=3, parallelism=2))
        await bench.wait(20)
        assert numbers(job(bench), "active", "ready", "succeeded") == (2, 2, 0)
        await bench.wait(80)
        assert conditions(job(bench)) == {
            "SuccessCriteriaMet": ("True", "CompletionsReached"),
            "Complete": ("True", "CompletionsReached"),
        }
        assert numbers(job(bench), "active", "succeeded", "failed") == (0, 3, 0)
        assert job(bench)["status"]["completionTime"] > job(bench)["status"]["startTime"]
        assert {p["status"]["phase"] for p in bench.pods()} == {"Succeeded"}
        assert all("finalizers" not in p["metadata"] for p in bench.pods())

    on_bench(tmp_path, test)


def test_a_job_gives_up_at_its_backoff_limit_with_longer_waits(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.machine(kind="ml.m5.4xlarge")
        await bench.client.create("jobs.batch", once("exit 3", backoffLimit=2))
        await bench.wait(9)
        assert numbers(job(bench), "failed") == (1,)
        await bench.wait(9)
        assert numbers(job(bench), "failed") == (2,)
        await bench.wait(60)
        assert conditions(job(bench))["Failed"] == ("True", "BackoffLimitExceeded")
        assert numbers(job(bench), "failed", "active") == (3, 0)
        assert {p["status"]["phase"] for p in bench.pods()} == {"Failed"}
        assert bench.pods()[0]["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3

    on_bench(tmp_path, test)


def test_on_failure_restarts_in_place_and_counts_against_the_limit(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.machine(kind="ml.m5.4xlarge")
        spec = workload("Job", "train", annotations={RUN: "exit 1"}, pod=pod_spec(restartPolicy="OnFailure"), backoffLimit=2)
        await bench.client.create("jobs.batch", spec)
        await bench.wait(15)
        assert bench.pods()[0]["status"]["containerStatuses"][0]["restartCount"] >= 1
        await bench.wait(120)
        assert conditions(job(bench))["Failed"] == ("True", "BackoffLimitExceeded")
        assert bench.pods() == []

    on_bench(tmp_path, test)


def test_a_job_past_its_deadline_fails_and_its_pods_go(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.machine(kind="ml.m5.4xlarge")
        await bench.client.create("jobs.batch", once("sleep", activeDeadlineSeconds=50))
        await bench.wait(45)
        assert numbers(job(bench), "active") == (1,)
        await bench.wait(20)
        assert conditions(job(bench))["Failed"] == ("True", "DeadlineExceeded")
        assert bench.pods() == []

    on_bench(tmp_path, test)


def test_suspend_takes_pods_away_and_resume_brings_them_back(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.machine(kind="ml.m5.4xlarge")
        await bench.client.create("jobs.batch", once("exit 0 after 60"))
        await bench.wait(10)
        await bench.client.patch("jobs.batch", "train", {"spec": {"suspend": True}}, "default")
        await bench.wait(10)
        assert bench.pods() == []
        assert conditions(job(bench))["Suspended"] == ("True", "JobSuspended")
        assert "startTime" not in job(bench)["status"]
        assert numbers(job(bench), "failed") == (0,)
        await bench.client.patch("jobs.batch", "train", {"spec": {"suspend": False}}, "default")
        await bench.wait(100)
        assert conditions(job(bench))["Suspended"] == ("False", "JobResumed")
        assert conditions(job(bench))["Complete"][0] == "True"

    on_bench(tmp_path, test)


def test_a_finished_job_goes_after_its_time_to_live(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.machine(kind="ml.m5.4xlarge")
        await bench.client.create("jobs.batch", once("exit 0", ttlSecondsAfterFinished=100))
        await bench.wait(60)
        assert conditions(job(bench))["Complete"][0] == "True"
        await bench.wait(100)
        assert bench.cluster.read("jobs.batch", "train", "default") is None
        assert bench.pods() == []

    on_bench(tmp_path, test)


def test_an_indexed_job_gives_each_pod_its_index(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.machine(kind="ml.m5.4xlarge")
        await bench.client.create("jobs.batch", once("exit 0 after 10", completions=4, parallelism=4, completionMode="Indexed"))
        await bench.wait(10)
        indexes = {p["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] for p in bench.pods()}
        assert indexes == {"0", "1", "2", "3"}
        env = {p["spec"]["containers"][0]["env"][0]["name"] for p in bench.pods()}
        assert env == {"JOB_COMPLETION_INDEX"}
        await bench.wait(20)
        assert job(bench)["status"]["completedIndexes"] == "0-3"

    on_bench(tmp_path, test)


def test_a_deleted_namespace_is_emptied_and_goes(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.machine(kind="ml.m5.4xlarge")
        await bench.client.create("namespaces", {"metadata": {"name": "team"}})
        made = workload("Deployment", "web", replicas=2)
        made["metadata"]["namespace"] = "team"
        await bench.client.create("deployments.apps", made)
        await bench.wait(10)
        await bench.client.delete("namespaces", "team")
        await bench.settle()
        namespace = bench.get("namespaces", "team")
        assert namespace["status"]["phase"] == "Terminating"
        assert conditions(namespace)["NamespaceContentRemaining"] == ("True", "SomeResourcesRemain")
        await bench.wait(20)
        assert bench.cluster.read("namespaces", "team") is None
        assert bench.pods("team") == []

    on_bench(tmp_path, test)
