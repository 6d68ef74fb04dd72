"""What is wrong with what was said: every violation at once, at its own pointer (cases 42, 48, 50, 58); log rules; states of jobs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.training import asks

from instantstart.base import problems
from instantstart.capabilities.training.jobs import judging, plans, rules, scene, specs
from instantstart.capabilities.training.jobs.rules import Facts
from instantstart.ensure.capacity import accelerators
from instantstart.ensure.capacity.accelerators import Offer
from instantstart.ensure.capacity.nodes import GPU, GROUP, INSTANCE_TYPE, ZONE
from instantstart.ensure.findings import Finding
from instantstart.ensure.running.pending_places import Place
from instantstart.ensure.training import job_states
from instantstart.kube import shapes

P5 = "ml.p5.48xlarge"
LOSS = {"name": "hang", "pattern": "loss=([0-9.]+)", "repeat_within_seconds": 60}


def pointers(**more: Any) -> set[str]:
    asked = asks.ask(**more)
    return {v.pointer for v in [*rules.wrong(asked), *judging.wrong_rules(asked.log_rules)]}


@pytest.mark.parametrize(
    ("more", "wrong"),
    [
        ({}, set()),
        ({"recipe": None}, {"/recipe"}),
        ({"recipe": None, "kind": "ray_cluster"}, set()),
        ({"kind": "ray_cluster"}, {"/kind"}),
        ({"kind": "ray_job"}, {"/kind"}),
        ({"recipe": asks.RECIPES["verl"], "kind": "pytorch"}, {"/kind"}),
        ({"recipe": {"framework": "pytorch"}}, {"/recipe/script"}),
        ({"recipe": {"framework": "pytorch", "script": "a.py", "module": "a"}}, {"/recipe/script"}),
        ({"recipe": {**asks.PYTORCH, "launcher_options": ["--nnodes=9"]}}, {"/recipe/launcher_options"}),
        ({"recipe": {"framework": "ms_swift", "command": "sft"}}, {"/recipe/config_file"}),
        ({"recipe": {**asks.RECIPES["container"], "direct": True}, "kind": "ray_job"}, {"/recipe/direct"}),
        ({"name": "a" * 51}, {"/name"}),
        ({"name": "a" * 48, "recipe": asks.RECIPES["verl"]}, {"/name"}),
        ({"name": "1a", "recipe": asks.RECIPES["verl"]}, {"/name"}),
        ({"name": "1a"}, set()),
        ({"env": {"RANK": "0", "MASTER_ADDR": "127.0.0.1", "NNODES": "2"}}, {"/env/RANK", "/env/MASTER_ADDR", "/env/NNODES"}),
        ({"secret_env": {"RANK": {"secret": "a"}}}, {"/secret_env/RANK"}),
        ({"env": {"T": "a"}, "secret_env": {"T": {"secret": "a"}}}, {"/secret_env/T"}),
        ({"env": {"MLFLOW_TRACKING_URI": "http://x"}, "tracking": {"uri": "http://y"}}, {"/env/MLFLOW_TRACKING_URI"}),
        ({"env": {"MLFLOW_TRACKING_URI": "http://x"}}, set()),
        ({"env": {"A": "a\0b"}}, {"/env/A"}),
        ({"env": {"HF_TOKEN": "x", "MY_PASSWORD": "y", "NOTE": "hf_abcdefghij"}}, {"/env/HF_TOKEN", "/env/MY_PASSWORD", "/env/NOTE"}),
        ({"env": {"TOKENIZERS_PARALLELISM": "false", "MAX_TOKENS": "4096", "HF_TOKEN": ""}}, set()),
        ({"env": {"HTTPS_PROXY": "http://me:word@proxy:3128"}}, {"/env/HTTPS_PROXY"}),
        ({"tracking": {"uri": "https://me:word@mlflow.example.com"}}, {"/tracking/uri"}),
        ({"tracking": {"uri": "https://token@mlflow.example.com/a"}}, {"/tracking/uri"}),
        ({"tracking": {"uri": "https://mlflow.example.com/a@b"}}, set()),
        ({"mounts": [{"claim": "a", "path": "/dev/shm"}]}, {"/mounts/0/path"}),
        ({"mounts": [{"claim": "a", "path": "/d"}, {"claim": "b", "path": "/d/"}]}, {"/mounts/1/path"}),
        ({"mounts": [{"claim": "a", "path": "/d/../e"}]}, {"/mounts/0/path"}),
        ({"shared_memory": "0"}, {"/shared_memory"}),
        ({"ray": {"head_cpu": "x", "head_memory": "-1"}}, {"/ray/head_cpu", "/ray/head_memory"}),
        ({"ray": {"max_nodes": 1}, "nodes": 2, "recipe": asks.RECIPES["verl"]}, {"/ray/max_nodes"}),
        ({"elastic": {"min_nodes": 1, "max_nodes": 4}}, {"/elastic/step"}),
        ({"elastic": {"min_nodes": 1, "max_nodes": 4, "step": 1, "node_counts": [1]}}, {"/elastic/step"}),
        ({"elastic": {"min_nodes": 4, "max_nodes": 2, "step": 1}}, {"/elastic/min_nodes"}),
        ({"elastic": {"min_nodes": 2, "max_nodes": 4, "step": 1}}, {"/nodes"}),
        ({"elastic": {"min_nodes": 1, "max_nodes": 4, "node_counts": [2, 9]}}, {"/elastic/node_counts", "/nodes"}),
        ({"elastic": {"min_nodes": 1, "max_nodes": 4, "step": 1}, "checkpointing": "tiered"}, {"/checkpointing"}),
        ({"elastic": {"min_nodes": 1, "max_nodes": 4, "step": 1}, "checkpointing": "checkpointless"}, {"/checkpointing"}),
        ({"checkpointing": "tiered"}, set()),
        ({"log_rules": [LOSS], "recipe": asks.RECIPES["verl"]}, {"/log_rules"}),
        ({"log_rules": [LOSS, LOSS]}, {"/log_rules/1/name"}),
        ({"log_rules": [{**LOSS, "pattern": "(?=x)"}]}, {"/log_rules/0/pattern"}),
        ({"log_rules": [{**LOSS, "pattern": r"(a)\1"}]}, {"/log_rules/0/pattern"}),
        ({"log_rules": [{**LOSS, "pattern": "(a)(b)"}]}, {"/log_rules/0/pattern"}),
        ({"log_rules": [{**LOSS, "stop_pattern": "("}]}, {"/log_rules/0/stop_pattern"}),
        ({"log_rules": [{"name": "x", "pattern": "loss"}]}, {"/log_rules/0"}),
        ({"log_rules": [{"name": "x", "pattern": "loss=(.*)", "threshold": 3}]}, {"/log_rules/0/comparison"}),
        ({"log_rules": [{"name": "x", "pattern": "loss", "threshold": 3, "comparison": "gt"}]}, {"/log_rules/0/pattern"}),
        ({"log_rules": [{**LOSS, "data_points": 3}]}, {"/log_rules/0/data_points"}),
    ],
)
def test_every_violation_has_its_pointer(more: dict[str, Any], wrong: set[str]) -> None:
    assert pointers(**more) == wrong


def test_all_violations_are_told_at_once_and_in_one_problem() -> None:
    found = asks.ask(name="a" * 60, env={"RANK": "0"}, mounts=[{"claim": "a", "path": "/"}], log_rules=[{**LOSS, "pattern": "("}])
    target = specs.SubmitTarget(**dict(found), tag="t", region="us-west-2")
    with pytest.raises(problems.Invalid) as refused:
        plans.check_said(target)
    assert {f.pointer for f in refused.value.fields} == {"/name", "/env/RANK", "/mounts/0/path", "/log_rules/0/pattern"}


# --- what the cluster has


def a_node(name: str, group: str = "train", kind: str = P5, ready: str = "True") -> shapes.Node:
    labels = {INSTANCE_TYPE: kind, GROUP: group, ZONE: "z1"}
    told = {GPU: "8", "vpc.amazonaws.com/efa": "32", "cpu": "190", "memory": "1900Gi", "pods": "49"}
    status = {"allocatable": told, "capacity": told, "conditions": [{"type": "Ready", "status": ready}]}
    return shapes.node({"metadata": {"name": name, "labels": labels}, "status": status})


def facts(places: list[Place] | None = None, **more: Any) -> Facts:
    found = places if places is not None else [Place(a_node("a")), Place(a_node("b"))]
    of_type = [p.node for p in found if p.node.metadata.labels[INSTANCE_TYPE] == P5]
    told: dict[str, Any] = {
        "offer": accelerators.from_nodes(P5, of_type) if of_type else asks.P5, "offer_problem": None, "places": found,
        "capacity_types": {"train": "on_demand"}, "group_types": {"train": P5}, "tiered_percent": 0, "served": True, "namespace": True,
        "claims": {}, "secrets": {}, "account": True, "queues": None, "priorities": (), "image": Finding("image", "ok", "it is there"),
        "existing": None,
    }  # fmt: skip
    return Facts(**{**told, **more})


def findings(given: Facts, **more: Any) -> dict[str, list[Finding]]:
    target = specs.SubmitTarget(**dict(asks.ask(**more)), tag="t", region="us-west-2")
    found: dict[str, list[Finding]] = {}
    for each in scene.findings(target, given, rules.settle(target, given) if given.offer else None):
        found.setdefault(each.check, []).append(each)
    return found


ELASTIC = {"elastic": {"min_nodes": 1, "max_nodes": 2, "step": 1}}
BOUND = {"metadata": {"name": "s3"}, "spec": {"accessModes": ["ReadWriteMany"]}, "status": {"phase": "Bound"}}


@pytest.mark.parametrize(
    ("given", "more", "check", "level", "part"),
    [
        ({"served": False}, {}, "kind", "fail", "Switch the feature training_operator on"),
        ({"namespace": False}, {}, "namespace", "fail", "There is no namespace default"),
        ({}, {"nodes": 2}, "nodes", "ok", "2 of 2 usable ml.p5.48xlarge nodes are free now"),
        ({}, {"nodes": 3}, "nodes", "warn", "Scale the group"),
        ({"places": [Place(a_node("a"), {GPU: 8}), Place(a_node("b"))]}, {"nodes": 2}, "nodes", "warn", "1 of 2 usable"),
        ({"places": [Place(a_node("a", ready="False"))]}, {}, "nodes", "warn", "0 of 0 usable"),
        ({}, {"nodes": 2}, "efa", "ok", "32 EFA cards on each node"),
        ({}, {"nodes": 2, "efa": 1}, "efa", "warn", "1 of 32 EFA cards"),
        ({}, {"nodes": 2, "efa": 0}, "efa", "warn", "TCP only"),
        ({"offer": Offer(P5, "nodes", 9000, 10**11, gpus=1)}, {"nodes": 2}, "efa", "warn", "has no EFA"),
        ({}, {"instance_group": "other"}, "instance_group", "fail", "There is no instance group other; the cluster has train"),
        ({"group_types": {"train": "ml.g5.xlarge"}}, {"instance_group": "train"}, "instance_group", "fail", "has ml.g5.xlarge, not"),
        ({}, {"zone": "elsewhere"}, "zone", "warn", "No node is in elsewhere"),
        ({}, {"mounts": [{"claim": "s3", "path": "/d"}]}, "mounts/0/claim", "fail", "There is no volume claim s3"),
        ({"claims": {"s3": {**BOUND, "status": {"phase": "Pending"}}}}, {"mounts": [{"claim": "s3", "path": "/d"}]}, "mounts/0/claim",
         "warn", "is Pending"),
        ({"claims": {"s3": {**BOUND, "spec": {"accessModes": ["ReadWriteOnce"]}}}}, {"nodes": 2, "mounts": [{"claim": "s3", "path": "/d"}]},
         "mounts/0/claim", "fail", "only one node can mount it"),
        ({"account": False}, {"service_account": "x"}, "service_account", "fail", "There is no service account x"),
        ({"secrets": {"hub": None}}, {"secret_env": {"T": {"secret": "hub"}}}, "secret_env/T/secret", "fail", "There is no Secret hub"),
        ({"secrets": {"hub": ("other",)}}, {"secret_env": {"T": {"secret": "hub"}}}, "secret_env/T/key", "fail", "has no key token"),
        ({}, {"queue": "q"}, "queue", "fail", "task governance is off"),
        ({"queues": ("a", "b")}, {"queue": "q"}, "queue", "fail", "there are: a, b"),
        ({"queues": ("a",)}, {}, "queue", "warn", "passes task governance by"),
        ({"priorities": ("low",)}, {"priority": "high"}, "priority", "fail", "there are: low"),
        ({"capacity_types": {"train": "spot"}}, {}, "instance_group", "warn", "two minutes' notice"),
        ({"capacity_types": {"train": "spot"}}, ELASTIC, "elastic", "fail", "not run on Spot"),
        ({"tiered_percent": 20}, ELASTIC, "elastic", "warn", "must not use them"),
        ({}, {"checkpointing": "tiered"}, "checkpointing", "fail", "Switch the feature tiered_checkpointing on"),
        ({"tiered_percent": 20}, {"checkpointing": "tiered"}, "checkpointing", "ok", "20 % of each node's memory"),
        ({}, {"checkpointing": "checkpointless"}, "checkpointing", "warn", "Switch the feature training_operator on"),
        ({"group_types": {"train": P5, "other": P5}}, {"instance_group": "other", "zone": "z2"}, "zone", "warn", "No node is in z2"),
        ({}, {"keep_seconds": 0}, "keep_seconds", "warn", "vanishes"),
        ({"account": False}, {"tracking": {"uri": asks.FULL["tracking"]["uri"]}}, "service_account", "fail", "sagemaker-mlflow-sa"),
        ({"existing": {"metadata": {"name": "llm"}}}, {}, "name", "fail", "is there already (made by somebody else"),
        ({"existing": {"metadata": {"name": "llm"}}}, {"if_exists": "replace"}, "name", "warn", "ended and replaced"),
    ],
)  # fmt: skip
def test_what_the_cluster_has_not_is_found(given: dict[str, Any], more: dict[str, Any], check: str, level: str, part: str) -> None:
    found = findings(facts(**given), **more)[check]
    assert any(f.level == level and part in f"{f.detail} {f.hint}" for f in found), found


@pytest.mark.parametrize(
    ("given", "more", "told"),
    [
        ({}, {"instance_group": "other"}, "instance_group"),
        ({"group_types": {"train": "ml.g5.xlarge"}}, {"instance_group": "train"}, "instance_group"),
        ({"group_types": {"train": "ml.g5.xlarge"}}, {}, "instance_type"),
        ({}, {"zone": "elsewhere"}, "zone"),
        ({"places": [Place(a_node("a"))]}, {"instance_group": "other", "zone": "elsewhere"}, "instance_group"),
    ],
)
def test_a_place_that_is_not_there_is_told_once_and_not_as_a_lack_of_nodes(given: dict[str, Any], more: dict[str, Any], told: str) -> None:
    found = findings(facts(**given), **more)
    bad = {check for check, each in found.items() for f in each if f.level in ("warn", "fail")} - {"efa"}
    assert bad == {told}
    assert "nodes" not in found


def test_what_could_not_be_read_is_not_called_off() -> None:
    assert "checkpointing" not in findings(facts(tiered_percent=None), checkpointing="tiered")


def test_nothing_stands_in_the_way_of_a_job_that_fits() -> None:
    found = findings(facts(claims={"s3": BOUND}), nodes=2, mounts=[{"claim": "s3", "path": "/data"}])
    assert [f for each in found.values() for f in each if f.level != "ok"] == []


def test_several_nodes_go_to_the_one_group_that_has_most_free_ones() -> None:
    places = [
        Place(a_node("a", "x"), {GPU: 8}),
        Place(a_node("b", "x")),
        Place(a_node("c", "y")),
        Place(a_node("d", "y")),
        Place(a_node("e", "z")),
    ]
    settled = rules.settle(asks.ask(nodes=2), facts(places))
    assert (settled.group, settled.together) == ("y", True)
    assert rules.settle(asks.ask(nodes=1), facts(places)).group is None
    assert rules.settle(asks.ask(nodes=3), facts(places)).group is None
    assert rules.settle(asks.ask(nodes=2, instance_group="x"), facts(places)).group == "x"
    spot = facts(places, capacity_types={"y": "spot", "x": "on_demand"})
    assert rules.settle(asks.ask(nodes=2, **ELASTIC), spot).group == "x"


def test_ray_workers_leave_room_for_the_head_where_there_is_no_other_node() -> None:
    alone, beside = facts(), facts([Place(a_node("a")), Place(a_node("b")), Place(a_node("c", "cpu", "ml.m5.4xlarge"))])
    verl = {"recipe": asks.RECIPES["verl"], "nodes": 2}
    small, whole = (int(rules.settle(asks.ask(**verl), each).sizing.resources["cpu"]) for each in (alone, beside))
    assert small < whole


@settings(deadline=None)
@given(st.sets(st.integers(2, 40)), st.sampled_from(["pytorch", "ray_job", "ray_cluster"]), st.integers(1, 47))
def test_a_version_is_new_and_fits(numbers: set[int], kind: str, length: int) -> None:
    name = "a" * length
    taken = frozenset({name, *(f"{name}-{n}" for n in numbers)})
    recipe = {"pytorch": asks.PYTORCH, "ray_job": asks.RECIPES["verl"], "ray_cluster": None}[kind]
    found = rules.free_name(asks.ask(name=name, kind=kind, recipe=recipe, if_exists="version"), facts(taken=taken))
    assert found not in taken
    assert len(found) <= {"pytorch": 50, "ray_job": 47, "ray_cluster": 52}[kind]


# --- log rules on sample text


def trial(text: str, seconds: float | None = 1.0, **rule: Any) -> judging.RuleTrial:
    ask = specs.TryLogRules(rules=(specs.LogRule(**rule),), text=text, seconds_per_line=seconds)
    return plans.try_rules(ask).rules[0]


def test_a_hang_a_spike_and_silence_are_seen_on_sample_text() -> None:
    text = "start\nloss=1.0\nloss=6\nloss=7\n" + "x\n" * 30 + "loss=2\n"
    hang = trial(text, name="hang", pattern="loss=([0-9.]+)", repeat_within_seconds=10)
    assert hang.verdicts == ("Hanging 10 s after line 4: line 35 fits next, 31 s later.",)
    assert (hang.matches, hang.values) == (4, (1.0, 6.0, 7.0, 2.0))
    spike = trial(text, None, name="spike", pattern="loss=([0-9.]+)", threshold=5, comparison="gt", data_points=2)
    assert spike.verdicts == ("Slow from line 4 on: 7 is above 5, and so were the 2 values in a row up to it.",)
    silent = trial(text, name="never", pattern="step", start_within_seconds=5)
    assert silent.remarks == (
        "No line fits: of such a log the rule sees nothing, and calls the job hanging, since it waits for such a line.",
    )
    assert silent.verdicts == ("Hanging 5 s after the start: no line fits.",)
    ended = trial("loss=1\n" + "x\n" * 9, name="end", pattern="loss", repeat_within_seconds=5)
    assert ended.verdicts == ("Hanging 5 s after line 1: no other line fits in the 9 s to the end.",)
    late = trial("x\n" * 9 + "loss=1\n", name="late", pattern="loss", start_within_seconds=5)
    assert late.verdicts == ("Hanging 5 s after the start: the first line that fits is 10, after 10 s.",)
    assert trial("loss\nloss\nx\n", name="well", pattern="loss", repeat_within_seconds=5).remarks == (
        "It would let the job of this log go on.",
    )
    assert "Times were not judged" in trial("loss\nx\n", None, name="timeless", pattern="loss", repeat_within_seconds=5).remarks[0]
    assert trial("loss=nan\n", None, name="nan", pattern="loss=(.*)", threshold=1, comparison="lt").matches == 0


def test_an_expression_that_would_run_for_ever_elsewhere_is_harmless() -> None:
    assert trial("a" * 200_000 + "b", name="bomb", pattern="(?:a+)+$", repeat_within_seconds=5).matches == 0


# --- states


def job(*conditions: dict[str, str], **status: Any) -> dict[str, Any]:
    spec = {
        "runPolicy": {
            "jobMaxRetryCount": 5,
            "restartPolicy": {"maxFullJobRestarts": 1, "numRestartBeforeFullJobRestart": 3, "evalPeriodSeconds": 60},
        }
    }
    return {"kind": "HyperPodPyTorchJob", "metadata": {"name": "a"}, "spec": spec, "status": {"conditions": list(conditions), **status}}


def true(kind: str, **more: str) -> dict[str, str]:
    return {"type": kind, "status": "True", **more}


@pytest.mark.parametrize(
    ("found", "status"),
    [
        (job(), "pending"),
        (job(true("Created")), "pending"),
        (job(true("Created"), true("PodsRunning")), "starting"),
        (job(true("Created"), true("PodsRunning"), true("Running")), "running"),
        (job(true("Created"), {"type": "Running", "status": "False"}, true("Faulted")), "recovering"),
        (job(true("Completed")), "succeeded"),
        (job(true("Failed"), true("Running")), "failed"),
        (job(true("SomethingNew")), "unknown"),
        ({"kind": "RayJob", "metadata": {}, "spec": {}, "status": {"jobDeploymentStatus": "Initializing"}}, "pending"),
        ({"kind": "RayJob", "metadata": {}, "spec": {}, "status": {"jobDeploymentStatus": "Running"}}, "starting"),
        ({"kind": "RayJob", "metadata": {}, "spec": {}, "status": {"jobDeploymentStatus": "Running", "jobStatus": "PENDING"}}, "starting"),
        ({"kind": "RayJob", "metadata": {}, "spec": {}, "status": {"jobDeploymentStatus": "Running", "jobStatus": "RUNNING"}}, "running"),
        ({"kind": "RayJob", "metadata": {}, "spec": {}, "status": {"jobDeploymentStatus": "Running", "jobStatus": "FAILED"}}, "failed"),
        ({"kind": "RayJob", "metadata": {}, "spec": {}, "status": {"jobDeploymentStatus": "Complete", "jobStatus": "STOPPED"}}, "failed"),
        (
            {"kind": "RayJob", "metadata": {}, "spec": {}, "status": {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}},
            "succeeded",
        ),
        ({"kind": "RayJob", "metadata": {"labels": {"kueue.x-k8s.io/queue-name": "q"}}, "spec": {"suspend": True}}, "queued"),
        ({"kind": "RayJob", "metadata": {"deletionTimestamp": "x"}, "spec": {}}, "ending"),
        ({"kind": "RayCluster", "metadata": {}, "spec": {}, "status": {"state": "ready"}}, "running"),
        ({"kind": "RayCluster", "metadata": {}, "spec": {}}, "pending"),
    ],
)
def test_one_word_for_every_kind(found: dict[str, Any], status: str) -> None:
    assert job_states.read(found).status == status


def test_what_recovery_has_cost_is_told() -> None:
    spent = job_states.budget(
        job(restartCount=4, restartStatus={"restartCount": 1, "fullJobRestartCount": 1}, startTime="2026-11-30T10:00:00Z")
    )
    assert spent is not None
    assert (spent.retries.used, spent.retries.left) == (4, 1)
    assert (spent.full_restarts.left, spent.restarts_before_full.left) == (0, 2)
    assert spent.period_ends_at is not None
    assert spent.period_ends_at.minute == 1


def test_an_ended_job_that_still_holds_nodes_says_so() -> None:
    """Case 52."""
    pod = {
        "metadata": {"name": "a"},
        "spec": {"nodeName": "n", "containers": [{"resources": {"limits": {GPU: "8"}}}]},
        "status": {"phase": "Running"},
    }
    assert job_states.held(job_states.State("failed", "Failed"), [pod, pod]) == job_states.Held(2, 16)
    assert job_states.held(job_states.State("running", "Running"), [pod]) is None
    assert job_states.held(job_states.State("failed", "Failed"), []) is None
