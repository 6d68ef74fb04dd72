"""The scheduler's arithmetic and its sentences, quantities, and the shape of nodes."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from instantstart_sandbox.kubernetes.loops.objects import int_or_percent, seconds_of, selects, short_hash, stamp, with_condition
from instantstart_sandbox.kubernetes.loops.placement import Place, obstacles, sentence, tolerates
from instantstart_sandbox.kubernetes.loops.quantity import amount, quality_of_service, requests_of
from instantstart_sandbox.kubernetes.machines import machine
from instantstart_sandbox.kubernetes.nodes import capacity, devices, labels, taints
from instantstart_sandbox.world.seams import Instance

Object = dict[str, Any]


def node(name: str, **changes: Any) -> Object:
    allocatable = {"cpu": "4", "memory": "16Gi", "pods": "14", **changes.pop("allocatable", {})}
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, **changes.pop("labels", {})}}
    return {"metadata": metadata, "spec": changes, "status": {"allocatable": allocatable}}


def pod(name: str = "p", **spec: Any) -> Object:
    requests = spec.pop("requests", {})
    container = {"name": "c", "image": "i", "resources": {"requests": requests}}
    return {
        "metadata": {"name": name, "namespace": "default", "labels": spec.pop("labels", {})},
        "spec": {"containers": [container], **spec},
    }


def why(p: Object, *nodes: Object) -> str:
    places = [Place(n) for n in nodes]
    return sentence(len(nodes), [obstacles(p, requests_of(p), place, places) for place in places])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("100m", "0.1"),
        ("2Gi", str(2 * 2**30)),
        ("1e3", "1000"),
        ("1k", "1000"),
        ("3", "3"),
        ("1.5Gi", str(int(1.5 * 2**30))),
        ("2E", "2e18"),
    ],
)
def test_a_quantity_is_read(text: str, value: str) -> None:
    assert amount(text) == Decimal(value)


@pytest.mark.parametrize("text", ["", "Gi", "1x", "abc", "1.2.3"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a quantity"):
        amount(text)


def test_the_largest_init_container_counts_beside_the_sum_of_the_others() -> None:
    p = pod(requests={"cpu": "1"})
    p["spec"]["initContainers"] = [
        {"name": "a", "resources": {"requests": {"cpu": "3"}}},
        {"name": "b", "resources": {"limits": {"cpu": "2"}}},
    ]
    assert requests_of(p) == {"cpu": Decimal(3), "pods": Decimal(1)}


def test_quality_of_service_follows_requests_and_limits() -> None:
    both = {"cpu": "1", "memory": "1Gi"}
    p = pod(requests=both)
    assert quality_of_service(p) == "Burstable"
    p["spec"]["containers"][0]["resources"]["limits"] = both
    assert quality_of_service(p) == "Guaranteed"
    assert quality_of_service(pod()) == "BestEffort"


def test_the_reason_is_said_in_kube_schedulers_words() -> None:
    tainted = node("a", taints=[{"key": "gpu", "value": "yes", "effect": "NoSchedule"}])
    message = why(pod(requests={"nvidia.com/gpu": "1"}), node("b"), tainted, {**tainted, "metadata": {"name": "c"}})
    assert message == (
        "0/3 nodes are available: 1 Insufficient nvidia.com/gpu, 2 node(s) had untolerated taint {gpu: yes}. preemption: "
        "0/3 nodes are available: 1 No preemption victims found for incoming pod, 2 Preemption is not helpful for scheduling."
    )
    assert why(pod()) == "no nodes available to schedule pods"


@pytest.mark.parametrize(
    ("p", "n", "words"),
    [
        (pod(nodeSelector={"a": "b"}), node("n"), "node(s) didn't match Pod's node affinity/selector"),
        (pod(), node("n", unschedulable=True), "node(s) were unschedulable"),
        (pod(requests={"cpu": "5", "memory": "20Gi"}), node("n"), "Insufficient cpu, 1 Insufficient memory"),
        (pod(), node("n", allocatable={"pods": "0"}), "Too many pods"),
        (
            pod(requests={"vpc.amazonaws.com/efa": 1}),
            node("n", allocatable={"vpc.amazonaws.com/efa": "0"}),
            "Insufficient vpc.amazonaws.com/efa",
        ),
    ],
)
def test_each_filter_has_its_words(p: Object, n: Object, words: str) -> None:
    assert words in why(p, n)


def test_tolerations_match_by_key_value_effect_and_operator() -> None:
    taint = {"key": "k", "value": "v", "effect": "NoSchedule"}
    assert tolerates([{"operator": "Exists"}], taint)
    assert tolerates([{"key": "k", "operator": "Exists"}], taint)
    assert tolerates([{"key": "k", "value": "v"}], taint)
    assert not tolerates([{"key": "k", "value": "x"}], taint)
    assert not tolerates([{"key": "k", "operator": "Exists", "effect": "NoExecute"}], taint)
    assert not tolerates([], taint)


def test_anti_affinity_by_host_keeps_a_second_pod_of_the_same_job_away() -> None:
    term = {"labelSelector": {"matchLabels": {"job": "x"}}, "topologyKey": "kubernetes.io/hostname"}
    p = pod(labels={"job": "x"}, affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})
    taken, free = Place(node("a"), pods=[pod("q", labels={"job": "x"})]), Place(node("b"))
    assert obstacles(p, requests_of(p), taken, [taken, free]) == ["node(s) didn't match pod anti-affinity rules"]
    assert obstacles(p, requests_of(p), free, [taken, free]) == []


def test_spread_counts_by_topology() -> None:
    rule = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"a": "b"}}}
    p = pod(labels={"a": "b"}, topologySpreadConstraints=[rule])
    full = Place(node("a", labels={"zone": "1"}), pods=[pod("q", labels={"a": "b"})])
    empty = Place(node("b", labels={"zone": "2"}))
    assert obstacles(p, requests_of(p), full, [full, empty]) == ["node(s) didn't match pod topology spread constraints"]
    assert obstacles(p, requests_of(p), empty, [full, empty]) == []


def test_selectors_match_as_labels_say() -> None:
    assert selects({}, {"a": "b"})
    assert not selects(None, {"a": "b"})
    assert selects({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["c"]}]}, {"a": "b"})
    assert not selects({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, {"a": "b"})


def test_a_conditions_transition_time_moves_only_with_its_status() -> None:
    first = with_condition(None, {"type": "Ready", "status": "False", "reason": "A"}, 100.0)
    second = with_condition(first, {"type": "Ready", "status": "False", "reason": "B"}, 200.0)
    third = with_condition(second, {"type": "Ready", "status": "True"}, 300.0)
    assert [c[0]["lastTransitionTime"] for c in (first, second, third)] == [stamp(100), stamp(100), stamp(300)]
    assert second[0]["reason"] == "B"
    assert seconds_of(stamp(300.0)) == 300.0


def test_shares_round_as_deployments_need_it() -> None:
    assert int_or_percent("25%", 10, round_up=True) == 3
    assert int_or_percent("25%", 10, round_up=False) == 2
    assert int_or_percent(4, 10, round_up=True) == 4


def test_a_hash_has_no_vowels_and_follows_the_value() -> None:
    assert short_hash({"a": 1}) == short_hash({"a": 1}) != short_hash({"a": 2})
    assert not set(short_hash("x", 40)) & set("aeiou")


def instance(**changes: Any) -> Instance:
    given: dict[str, Any] = {
        "instance_id": "i-0123456789abcdef0",
        "cluster_name": "ml-cluster",
        "group": "gpu",
        "instance_type": "ml.g5.8xlarge",
        "status": "Running",
        "zone": "us-west-2b",
        "zone_id": "usw2-az2",
        "private_ip": "10.1.2.3",
        "capacity_type": "OnDemand",
        "joined": True,
    }
    return Instance(**{**given, **changes})


@pytest.mark.parametrize(
    ("kind", "pods"),
    [
        ("ml.g5.xlarge", 14),
        ("ml.g5.4xlarge", 29),
        ("ml.g5.16xlarge", 29),
        ("ml.g5.48xlarge", 49),
        ("ml.p5.48xlarge", 49),
        ("ml.m5.large", 9),
        ("ml.m5.2xlarge", 14),
        ("ml.m5.4xlarge", 29),
        ("ml.m5.12xlarge", 49),
        ("ml.c5.large", 9),
        ("ml.t3.medium", 5),
        ("ml.t3.large", 11),
        ("ml.g4dn.16xlarge", 14),
        ("ml.g7e.48xlarge", 49),
        ("ml.m7g.medium", 3),
    ],
)
def test_hyperpod_fixes_the_pods_per_node(kind: str, pods: int) -> None:
    assert machine(kind).max_pods == pods


def test_a_node_shows_devices_only_while_their_plugin_runs() -> None:
    kind = machine("ml.g5.8xlarge")
    assert devices(kind) == {"nvidia.com/gpu": 1, "vpc.amazonaws.com/efa": 1}
    bare, usable = capacity(kind, {})
    assert "nvidia.com/gpu" not in bare
    assert bare["cpu"] == "32"
    assert amount(usable["cpu"]) < 32
    assert amount(usable["memory"]) < amount(bare["memory"]) < 128 * 2**30
    assert capacity(kind, {"nvidia.com/gpu": 1})[1]["nvidia.com/gpu"] == "1"


def test_a_nodes_labels_are_hyperpods() -> None:
    found = labels(instance(deep_health="InProgress", labels={"team": "a"}), machine("ml.g5.8xlarge"), "us-west-2")
    assert found["node.kubernetes.io/instance-type"] == "ml.g5.8xlarge"
    assert found["sagemaker.amazonaws.com/compute-type"] == "hyperpod"
    assert found["sagemaker.amazonaws.com/instance-group-name"] == "gpu"
    assert found["sagemaker.amazonaws.com/deep-health-check-status"] == "InProgress"
    assert found["topology.k8s.aws/zone-id"] == "usw2-az2"
    assert found["team"] == "a"


def test_checks_and_faults_taint_the_node() -> None:
    assert taints(instance(), ready=True) == []
    health = {"key": "sagemaker.amazonaws.com/node-health-status", "value": "Unschedulable", "effect": "NoSchedule"}
    assert taints(instance(deep_health="InProgress"), ready=True) == [health]
    assert {t["effect"] for t in taints(instance(), ready=False)} == {"NoSchedule", "NoExecute"}
