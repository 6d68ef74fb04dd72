"""The training operator: pods with their topology, the recovery budget step by step, nodes that die, logs that fall silent, endings."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest
from tests.sandbox.kubernetes.loops_bench import START, Bench, FakeAws, on_bench

from instantstart_sandbox.kubernetes.errors import ApiError
from instantstart_sandbox.kubernetes.training.rules import Rule
from instantstart_sandbox.world.seams import Addon

Object = dict[str, Any]
JOBS = "hyperpodpytorchjobs.sagemaker.amazonaws.com"
RUN, BEAT = "sandbox.instantstart.dev/run", "sandbox.instantstart.dev/beat"
BUDGET: Any = {
    "jobMaxRetryCount": 5,
    "restartPolicy": {"numRestartBeforeFullJobRestart": 3, "evalPeriodSeconds": 21600, "maxFullJobRestarts": 1},
}


def job(name: str = "train", *, notes: Object | None = None, replicas: int = 2, container: Object | None = None, **policy: Any) -> Object:
    main = {"name": "main", "image": "registry.example/train:1", "command": ["train"], **(container or {})}
    template = {"metadata": {"annotations": notes or {}}, "spec": {"containers": [main]}}
    spec: Object = {
        "nprocPerNode": "2",
        "replicaSpecs": [{"name": "pods", "replicas": replicas, "template": template}],
        "runPolicy": {"cleanPodPolicy": "None", "ttlSecondsAfterFinished": -1, **policy},
    }
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


async def install(bench: Bench, nodes: int = 2) -> None:
    for number in range(nodes):
        await bench.machine(f"i-0aaaaaaaaaaaaaaa{number}", kind="ml.m5.4xlarge")
    bench.aws.installed = [Addon("amazon-sagemaker-hyperpod-training-operator", "v1.2.0-eksbuild.1", "ACTIVE")]
    await bench.hear()
    await bench.wait(30)


def status(bench: Bench, name: str = "train") -> Object:
    found: Object = bench.get(JOBS, name, "default").get("status") or {}
    return found


def phase(bench: Bench, name: str = "train") -> str:
    held = [c["type"] for c in status(bench, name).get("conditions") or [] if c["status"] == "True"]
    return str(held[-1]) if held else ""


def condition(bench: Bench, kind: str, name: str = "train") -> Object:
    return next((c for c in status(bench, name).get("conditions") or [] if c["type"] == kind), {})


async def real(bench: Bench, wanted: str, name: str = "train") -> None:
    """Let real time pass until a job whose processes are real is in a phase."""
    end = time.monotonic() + 30
    while phase(bench, name) != wanted and time.monotonic() < end:
        await bench.wait(1)
        await asyncio.sleep(0.02)
    assert phase(bench, name) == wanted, status(bench, name)


def test_a_job_gets_pods_that_know_their_place_and_ends_completed(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.client.create("namespaces", {"metadata": {"name": "team"}})
        await install(bench)
        await bench.client.create(JOBS, job(notes={RUN: "exit 0 after 300"}))
        await bench.wait(30)
        assert phase(bench) == "Running"
        first, second = sorted(bench.pods(), key=lambda p: p["metadata"]["name"])
        assert [p["metadata"]["name"] for p in (first, second)] == ["train-pods-0", "train-pods-1"]
        assert second["metadata"]["labels"]["HPJob"] == "train"
        assert second["metadata"]["ownerReferences"][0]["kind"] == "HyperPodPyTorchJob"
        env = {e["name"]: e.get("value") for e in second["spec"]["containers"][0]["env"]}
        assert (env["NNODES"], env["NPROC_PER_NODE"], env["RANK"], env["WORLD_SIZE"]) == ("2", "2", "1", "4")
        assert env["MASTER_ADDR"] == first["status"]["podIP"] == status(bench)["masterAddr"]
        assert [c["type"] for c in status(bench)["conditions"]] == ["Created", "PodsRunning", "Running"]
        await bench.wait(310)
        assert phase(bench) == "Completed"
        reasons = [
            e["reason"]
            for e in bench.cluster.read_all("events", "default")
            if e["source"]["component"] == "hyperpod-pytorch-job-controller"
        ]
        assert set(reasons) == {"Created", "Running", "Completed"}
        assert len(bench.pods()) == 2

    on_bench(tmp_path, test)


def test_nothing_happens_without_the_operator_and_all_goes_with_the_job(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await install(bench)
        bench.aws.installed = []
        await bench.hear()
        await bench.wait(60)
        bench.aws.installed = [Addon("amazon-sagemaker-hyperpod-training-operator", "v1.2.0-eksbuild.1", "CREATING")]
        bench.aws.machines = []
        await bench.hear()
        await bench.wait(120)
        await bench.client.create(JOBS, job())
        await bench.wait(60)
        assert status(bench) == {}
        await install(bench)
        await bench.wait(60)
        assert phase(bench) == "Running"
        await bench.client.delete(JOBS, "train", "default")
        await bench.wait(60)
        assert bench.pods() == []

    on_bench(tmp_path, test)


def test_a_process_that_dies_twice_is_restarted_in_its_container(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await install(bench)
        await bench.client.create(
            JOBS,
            job(
                notes={f"{RUN}-rank-1": "exit 7 after 60; exit 7 after 60; exit 0 after 100", RUN: "sleep; sleep; exit 0 after 100"},
                **BUDGET,
            ),
        )
        await bench.wait(30)
        before = {p["metadata"]["uid"] for p in bench.pods()}
        await bench.wait(37)
        assert phase(bench) == "Faulted"
        assert condition(bench, "Running")["reason"] == "ProcessFault"
        assert "rank 1 in pod train-pods-1 ended with exit code 7" in condition(bench, "Faulted")["message"]
        await bench.wait(10)
        assert phase(bench) == "Running"
        assert condition(bench, "Running")["message"] == "The fault of reason ProcessFault was remediated in 5000 milliseconds."
        assert status(bench)["restartStatus"] == {"currentEvalPeriod": 0, "fullJobRestartCount": 0, "restartCount": 1}
        assert status(bench)["latestFaultyPodInstanceList"]["faultyRankList"] == ["1"]
        assert status(bench)["latestFaultyPodInstanceList"]["restartType"] == "PLR"
        await bench.wait(70)
        assert status(bench)["restartCount"] == 2
        assert {p["metadata"]["uid"] for p in bench.pods()} == before
        assert all(c["restartCount"] == 0 for p in bench.pods() for c in p["status"]["containerStatuses"])
        await bench.wait(200)
        assert phase(bench) == "Completed"

    on_bench(tmp_path, test)


def test_the_budget_goes_from_processes_to_the_whole_job_to_the_end(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await install(bench)
        await bench.client.create(JOBS, job(notes={RUN: "exit 1 after 20"}, **BUDGET))
        uids: set[str] = set()
        seen: list[Any] = []
        for _ in range(120):
            await bench.wait(5)
            now = status(bench)
            uids |= {p["metadata"]["uid"] for p in bench.pods()}
            entry = (now.get("restartCount"), (now.get("restartStatus") or {}).get("fullJobRestartCount"))
            if not seen or seen[-1] != entry:
                seen.append(entry)
            if phase(bench) == "Failed":
                break
        assert seen == [(0, None), (1, 0), (2, 0), (3, 0), (4, 1), (5, 1)]
        assert len(uids) == 4
        failed = condition(bench, "Failed")
        assert failed["message"].startswith(
            "Job has reached the maximum number of restarts: jobMaxRetryCount is 5. Last fault: Processes failed:"
        )
        assert all(p["status"]["phase"] == "Failed" for p in bench.pods())

    on_bench(tmp_path, test)


def test_restarts_of_an_older_window_do_not_count(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await install(bench)
        window: Any = {"restartPolicy": {"numRestartBeforeFullJobRestart": 1, "evalPeriodSeconds": 100, "maxFullJobRestarts": 0}}
        await bench.client.create(JOBS, job(notes={RUN: "exit 1 after 90"}, replicas=1, **window))
        await bench.wait(400)
        assert status(bench)["restartCount"] >= 3
        assert phase(bench) != "Failed"

    on_bench(tmp_path, test)


def test_a_node_that_is_given_up_costs_one_pod_and_no_full_restart(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await install(bench, nodes=3)
        anti = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"HPJob": "train"}}}]}}  # fmt: skip
        wanted = job(**BUDGET)
        wanted["spec"]["replicaSpecs"][0]["template"]["spec"]["affinity"] = anti
        await bench.client.create(JOBS, wanted)
        await bench.wait(30)
        before = {p["metadata"]["name"]: p for p in bench.pods()}
        node = before["train-pods-0"]["spec"]["nodeName"]
        label = {"metadata": {"labels": {"sagemaker.amazonaws.com/node-health-status": "UnschedulablePendingReplacement"}}}
        await bench.client.patch("nodes", node, label)
        ill = node.removeprefix("hyperpod-")
        await bench.machine(ill, kind="ml.m5.4xlarge", health="UnschedulablePendingReplacement", private_ip="10.1.2.99")
        after = {p["metadata"]["name"]: p for p in bench.pods()}
        assert ("NodeFault", f"Found unhealthy node {node}") in bench.events()
        assert after["train-pods-0"]["spec"]["nodeName"] not in (node, None)
        assert after["train-pods-1"]["metadata"]["uid"] == before["train-pods-1"]["metadata"]["uid"]
        assert phase(bench) == "Running"
        assert "reason NodeFault was remediated" in condition(bench, "Running")["message"]
        assert status(bench)["latestFaultyPodInstanceList"]["faultyInstanceIdList"] == [ill]
        assert status(bench)["restartStatus"] == {"currentEvalPeriod": 0, "fullJobRestartCount": 0, "restartCount": 1}
        assert status(bench)["masterAddr"] == after["train-pods-0"]["status"]["podIP"]

    on_bench(tmp_path, test)


def test_a_job_outlives_a_restart_of_the_sandbox(tmp_path: Path) -> None:
    aws = FakeAws()

    async def before(bench: Bench) -> None:
        await install(bench)
        await bench.client.create(JOBS, job(notes={RUN: "exit 7 after 60; exit 0 after 300"}, **BUDGET))
        await bench.wait(120)
        assert (phase(bench), status(bench)["restartCount"]) == ("Running", 1)

    async def after(bench: Bench) -> None:
        await bench.wait(60)
        assert (phase(bench), status(bench)["restartCount"]) == ("Running", 1)
        await bench.wait(300)
        assert (phase(bench), status(bench)["restartCount"]) == ("Completed", 1)

    on_bench(tmp_path, before, aws)
    on_bench(tmp_path, after, aws, start=START + 250)


def test_a_silent_job_hangs_by_its_rule(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await install(bench)
        rules = [
            {
                "name": "Loss",
                "logPattern": r"loss=([0-9.]+)",
                "expectedStartCutOffInSeconds": 100,
                "expectedRecurringFrequencyInSeconds": 60,
            }
        ]
        notes = {BEAT: "every 10 until 100: step={n} loss=1.5"}
        await bench.client.create(JOBS, job(notes=notes, logMonitoringConfiguration=rules, jobMaxRetryCount=1))
        await bench.wait(150)
        assert phase(bench) == "Running"
        await bench.wait(30)
        assert ("LogStateHanging_Loss", "Rule Loss: no line matched for 60 seconds") in bench.events()
        await bench.wait(20)
        assert status(bench)["restartCount"] == 1
        await bench.wait(300)
        assert phase(bench) == "Failed"
        assert "LogStateHanging_Loss" in condition(bench, "Failed")["reason"]

    on_bench(tmp_path, test)


def test_rules_are_checked_before_anything_is_made(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await install(bench)
        await bench.client.create(JOBS, job(logMonitoringConfiguration=[{"name": "x", "logPattern": "(("}]))
        await bench.wait(5)
        assert condition(bench, "Failed")["reason"] == "InvalidSpec"
        with pytest.raises(ApiError) as refused:
            await bench.client.create(
                JOBS, job("other", logMonitoringConfiguration=[{"name": "x", "logPattern": "a", "operator": "above"}])
            )
        assert refused.value.code == 422
        assert bench.pods() == []

    on_bench(tmp_path, test)


@pytest.mark.parametrize(
    ("spec", "lines", "now", "reason"),
    [
        ({"expectedStartCutOffInSeconds": 10}, [], 9, None),
        ({"expectedStartCutOffInSeconds": 10}, [], 10, "LogStateHanging_r"),
        ({"expectedStartCutOffInSeconds": 10}, [(5, "loss=1")], 100, None),
        ({"expectedRecurringFrequencyInSeconds": 10}, [(5, "loss=1"), (8, "other")], 15, "LogStateHanging_r"),
        ({"expectedRecurringFrequencyInSeconds": 10}, [(5, "loss=1"), (8, "loss=nan")], 15, "LogStateHanging_r"),
        ({"metricThreshold": 3, "operator": "gt", "metricEvaluationDataPoints": 2}, [(1, "loss=4"), (2, "loss=5")], 3, "LogStateSlow_r"),
        ({"metricThreshold": 3, "operator": "gt", "metricEvaluationDataPoints": 2}, [(1, "loss=4"), (2, "loss=2"), (3, "loss=9")], 4, None),
        ({"expectedRecurringFrequencyInSeconds": 10, "stopPattern": "done"}, [(1, "loss=4"), (2, "done")], 99, None),
        ({"faultOnMatch": True}, [(1, "loss=4")], 2, "LogStateFault_r"),
    ],
)  # fmt: skip
def test_rules_see_what_they_are_for(spec: Object, lines: list[tuple[float, str]], now: float, reason: str | None) -> None:
    rule = Rule({"name": "r", "logPattern": r"loss=(\S+)", **spec}, 0.0)
    for moment, text in lines:
        rule.line(moment, text)
    found = rule.finding(now)
    assert (found.reason if found else None) == reason


def test_a_suspended_job_waits_and_loses_its_pods(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await install(bench)
        await bench.client.create(JOBS, job(suspend=True))
        await bench.wait(5)
        assert phase(bench) == "Suspended"
        assert bench.pods() == []
        await bench.client.patch(JOBS, "train", {"spec": {"runPolicy": {"suspend": False}}}, "default")
        await bench.wait(30)
        assert phase(bench) == "Running"
        await bench.client.patch(JOBS, "train", {"spec": {"runPolicy": {"suspend": True}}}, "default")
        await bench.wait(60)
        assert phase(bench) == "Suspended"
        assert bench.pods() == []
        assert "startTime" not in status(bench)

    on_bench(tmp_path, test)


def test_deadlines_and_the_time_to_live(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await install(bench)
        await bench.client.create(JOBS, job("late", activeDeadlineSeconds=100))
        big = {"resources": {"limits": {"cpu": "500"}}}
        await bench.client.create(JOBS, job("stuck", container=big, startupDeadlineSeconds=50))
        await bench.client.create(JOBS, job("brief", notes={RUN: "exit 0 after 5"}, ttlSecondsAfterFinished=100, cleanPodPolicy="All"))
        await bench.wait(60)
        assert condition(bench, "Failed", "stuck")["reason"] == "StartupDeadlineExceeded"
        assert phase(bench, "brief") == "Completed"
        await bench.wait(60)
        assert condition(bench, "Failed", "late")["reason"] == "DeadlineExceeded"
        await bench.wait(60)
        assert bench.cluster.read(JOBS, "brief", "default") is None

    on_bench(tmp_path, test)


def test_an_elastic_job_goes_on_with_fewer(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await install(bench, nodes=3)
        whole = {"resources": {"requests": {"cpu": "12"}, "limits": {"cpu": "12"}}}
        wanted = job(replicas=3, container=whole)
        wanted["spec"]["elasticPolicy"] = {"minReplicas": 1, "maxReplicas": 3, "faultyScaleDownTimeoutInSeconds": 120}
        await bench.client.create(JOBS, wanted)
        await bench.wait(30)
        assert phase(bench) == "Running"
        bench.aws.machines = bench.aws.machines[:2]
        await bench.hear()
        await bench.wait(60)
        assert phase(bench) == "Faulted"
        await bench.wait(200)
        assert phase(bench) == "Running"
        assert status(bench)["elasticScalingStatus"]["targetReplicas"] == {"pods": 2}
        assert len(bench.pods()) == 2

    on_bench(tmp_path, test)


# ---------------------------------------------------------------------- real processes

SCRIPT = """
import json, os, sys, time
told = {k: os.environ[k] for k in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT")}
print("topology " + json.dumps(told), flush=True)
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and told["RANK"] == "3":
    sys.exit(9)
time.sleep(0.2 if os.environ["TORCHELASTIC_RESTART_COUNT"] == "1" else 60)
print("done", flush=True)
"""


def test_real_ranks_run_and_are_restarted(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await install(bench)
        await bench.client.create("configmaps", {"metadata": {"name": "code", "namespace": "default"}, "data": {"train.py": SCRIPT}})
        command = ["hyperpodrun", "--nnodes=2", "--nproc_per_node=2", "--log_dir=/logs", "--tee=3", "/code/train.py"]
        mounted = [{"name": "code", "mountPath": "/code"}, {"name": "logs", "mountPath": "/logs"}]
        wanted = job(container={"command": command, "volumeMounts": mounted}, **BUDGET)
        volumes = [{"name": "code", "configMap": {"name": "code"}}, {"name": "logs", "emptyDir": {}}]
        wanted["spec"]["replicaSpecs"][0]["template"]["spec"]["volumes"] = volumes
        await bench.client.create(JOBS, wanted)
        await real(bench, "Completed")
        assert status(bench)["restartCount"] == 1
        text = bench.cluster.log_path("default", "train-pods-1", "main").read_text()
        rows = [row.partition("]:topology ") for row in text.splitlines() if "topology" in row]
        told = [json.loads(row[2]) for row in rows]
        assert {(t["RANK"], t["TORCHELASTIC_RESTART_COUNT"]) for t in told} == {("2", "0"), ("3", "0"), ("2", "1"), ("3", "1")}
        assert {t["WORLD_SIZE"] for t in told} == {"4"}
        assert {t["MASTER_ADDR"] for t in told} == {status(bench)["masterAddr"]}
        assert all("[default" in row[0] for row in rows)

    on_bench(tmp_path, test)


def test_what_is_not_on_this_machine_is_simulated(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await install(bench)
        await bench.client.create(JOBS, job(container={"command": ["torchrun", "/workspace/train.py"]}, replicas=1))
        await bench.wait(30)
        assert phase(bench) == "Running"
        assert "is not run, this container is simulated" in bench.cluster.log_path("default", "train-pods-0", "main").read_text()

    on_bench(tmp_path, test)
