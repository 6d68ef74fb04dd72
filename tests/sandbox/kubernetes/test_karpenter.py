"""Managed Karpenter on a bench: pods that wait bring nodes, idle nodes go, and every refusal is told where a person looks."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from instantstart_sandbox.kubernetes.errors import ApiError
from instantstart_sandbox.kubernetes.karpenter.definitions import CLAIMS, CLASS_GROUP, CLASSES, POOLS
from instantstart_sandbox.kubernetes.karpenter.offers import seconds_in
from instantstart_sandbox.world.seams import AskedNode, Autoscaler, ScalableGroup, ScalingRefusedError

from .loops_bench import Bench, FakeAws, Object, instance, on_bench, pod_spec, workload

ZONE, ZONE_ID = "us-west-2b", "usw2-az2"
GPU = {"container": {"resources": {"limits": {"nvidia.com/gpu": "1"}}}}


def group(name: str = "gpu", *types: str, **more: Any) -> ScalableGroup:
    """A group in one zone."""
    given: dict[str, Any] = {"instance_types": types or ("ml.g5.8xlarge",), "subnets": (("subnet-1", ZONE, ZONE_ID),)}
    return ScalableGroup(name, **{**given, "capacity_type": "OnDemand", **more})


class ScaledAws(FakeAws):
    """HyperPod with groups that Karpenter may scale: asked nodes get an instance when the test says so."""

    def __init__(self, *groups: ScalableGroup) -> None:
        super().__init__()
        self.groups: tuple[ScalableGroup, ...] = groups or (group(),)
        self.nodes: dict[str, AskedNode] = {}
        self.tokens: dict[str, str] = {}
        self.short: set[str] = set()
        self.refusal: ScalingRefusedError | None = None
        self.on = True

    def autoscaler(self, cluster: str) -> Autoscaler | None:
        return Autoscaler("ml", self.groups, tuple(self.nodes.values())) if self.on else None

    def add_node(self, cluster: str, wish: tuple[str, str, str], token: str) -> str:
        if self.refusal is not None:
            raise self.refusal
        if token in self.tokens:
            return self.tokens[token]
        logical = self.tokens[token] = f"logical-{len(self.tokens) + 1}"
        name, kind, zone = wish
        message = f"no capacity for {kind}" if name in self.short else ""
        self.nodes[logical] = AskedNode(logical, name, "", kind, zone, ZONE_ID, "Pending", message)
        return logical

    def delete_node(self, cluster: str, logical_id: str) -> None:
        gone = self.nodes.pop(logical_id, None)
        self.machines = [m for m in self.machines if gone is None or m.instance_id != gone.instance_id]

    def boot(self) -> None:
        """Every asked node with capacity has its instance, and it has joined."""
        for logical, asked in list(self.nodes.items()):
            if not asked.instance_id and not asked.message:
                ident = f"i-{logical.replace('logical-', '0'):0>17}"
                self.nodes[logical] = dataclasses.replace(asked, instance_id=ident, status="Running")
                more = {"group": asked.group, "private_ip": f"10.1.3.{len(self.machines) + 10}"}
                self.machines.append(instance(ident, asked.instance_type, **more))

    def existing(self, name: str) -> None:
        """A node that was there before Karpenter."""
        self.nodes["old"] = AskedNode("old", name, "i-0old", "ml.g5.8xlarge", ZONE, ZONE_ID, "Running", "")
        self.machines.append(instance("i-0old", "ml.g5.8xlarge", group=name))


def node_class(*groups: str, name: str = "gpu") -> Object:
    return {"metadata": {"name": name}, "spec": {"instanceGroups": list(groups or ("gpu",))}}


def node_pool(name: str = "gpu", **spec: Any) -> Object:
    reference = {"group": CLASS_GROUP, "kind": "HyperpodNodeClass", "name": "gpu"}
    inner = {"nodeClassRef": reference, "requirements": [], **spec.pop("template", {})}
    disruption = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "5m", **spec.pop("disruption", {})}
    return {"metadata": {"name": name}, "spec": {"template": {"spec": inner}, "disruption": disruption, **spec}}


async def stand(bench: Bench, *pools: Object, classes: tuple[Object, ...] = (node_class(),)) -> None:
    """A static node for the system's pods, the plugin, classes and pools, and time for their conditions."""
    await bench.machine("i-0static", "ml.m5.4xlarge", group="static")
    await bench.client.create("daemonsets.apps", workload("DaemonSet", "nvidia-device-plugin", pod=pod_spec("nvidia/k8s-device-plugin:v0")))
    await bench.hear()
    for each in classes:
        await bench.client.create(CLASSES, each)
    for each in pools or (node_pool(),):
        await bench.client.create(POOLS, each)
    await bench.wait(2)


async def ask(bench: Bench, name: str = "train", **spec: Any) -> None:
    """A pod with one GPU."""
    container = {"container": {"resources": {"limits": {"nvidia.com/gpu": "1"}}}}
    metadata = {"name": name, "namespace": "default", "annotations": spec.pop("annotations", {})}
    await bench.client.create("pods", {"metadata": metadata, "spec": pod_spec(**{**container, **spec})})
    await bench.wait(5)


async def boot(bench: Bench) -> None:
    """Let HyperPod do its part, and the nodes become ready."""
    scaled(bench).boot()
    await bench.hear()
    await bench.wait(40)


def scaled(bench: Bench) -> ScaledAws:
    assert isinstance(bench.aws, ScaledAws)
    return bench.aws


def conditions(obj: Object) -> dict[str, str]:
    return {c["type"]: c["status"] for c in obj["status"]["conditions"]}


def said(obj: Object, kind: str) -> str:
    return str(next(c["message"] for c in obj["status"]["conditions"] if c["type"] == kind))


def claims(bench: Bench) -> list[Object]:
    return bench.cluster.read_all(CLAIMS)


def reasons(bench: Bench) -> set[str]:
    return {reason for reason, _ in bench.events()}


def test_a_waiting_pod_brings_a_node_from_zero_and_its_end_lets_it_go(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await stand(bench)
        assert conditions(bench.get(CLASSES, "gpu")) == {"InstanceGroupReady": "True", "SubnetsReady": "True", "Ready": "True"}
        assert conditions(bench.get(POOLS, "gpu")) == {"ValidationSucceeded": "True", "NodeClassReady": "True", "Ready": "True"}
        await ask(bench)
        (claim,) = claims(bench)
        assert conditions(claim)["Launched"] == "Unknown"
        await boot(bench)
        (claim,) = claims(bench)
        assert conditions(claim)["Ready"] == "True"
        node = bench.get("nodes", claim["status"]["nodeName"])
        assert node["metadata"]["labels"]["karpenter.sh/nodepool"] == "gpu"
        assert bench.get("pods", "train", "default")["spec"]["nodeName"] == claim["status"]["nodeName"]
        pool = bench.get(POOLS, "gpu")["status"]
        assert (pool["nodes"], pool["resources"]["nvidia.com/gpu"], pool["resources"]["nodes"]) == (1, "1", "1")
        await bench.wait(400)
        assert "Unconsolidatable" in reasons(bench)
        assert len(claims(bench)) == 1
        await bench.client.delete("pods", "train", "default", grace=0)
        await bench.wait(200)
        assert len(claims(bench)) == 1
        await bench.wait(150)
        await bench.hear()
        await bench.wait(20)
        assert claims(bench) == []
        assert scaled(bench).nodes == {}
        assert bench.get(POOLS, "gpu")["status"]["nodes"] == 0
        assert "nvidia.com/gpu" not in bench.get(POOLS, "gpu")["status"]["resources"]

    on_bench(tmp_path, test, ScaledAws())


def test_pods_share_the_machine_that_is_on_its_way(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await stand(bench)
        for number in range(6):
            await ask(bench, f"train-{number}")
        assert len(claims(bench)) == 2
        assert all(c["metadata"]["labels"]["node.kubernetes.io/instance-type"] == "ml.g5.12xlarge" for c in claims(bench))
        await boot(bench)
        assert {p["spec"].get("nodeName") for p in bench.pods() if p["metadata"]["name"].startswith("train")} == {
            c["status"]["nodeName"] for c in claims(bench)
        }

    on_bench(tmp_path, test, ScaledAws(group("gpu", "ml.g5.12xlarge")))


def test_spot_goes_first_and_on_demand_follows_when_spot_is_short(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        scaled(bench).short = {"spot"}
        await stand(bench, classes=(node_class("od", "spot"),))
        await ask(bench)
        await bench.hear()
        (claim,) = claims(bench)
        assert claim["metadata"]["labels"]["karpenter.sh/capacity-type"] == "spot"
        assert (conditions(claim)["Launched"], said(claim, "Launched")) == ("False", "no capacity for ml.g5.8xlarge")
        assert "InsufficientCapacityError" in reasons(bench)
        await bench.wait(70)
        await bench.hear()
        await bench.wait(70)
        (claim,) = claims(bench)
        assert claim["metadata"]["labels"]["karpenter.sh/capacity-type"] == "on-demand"
        assert {n.group for n in scaled(bench).nodes.values()} == {"od"}

    on_bench(tmp_path, test, ScaledAws(group("od"), group("spot", capacity_type="Spot")))


def test_a_quota_is_told_on_the_claim_which_goes_when_its_pod_does(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        scaled(bench).refusal = ScalingRefusedError("ResourceLimitExceeded", "the limit is 0")
        await stand(bench)
        await ask(bench)
        await bench.wait(300)
        (claim,) = claims(bench)
        told = next(c for c in claim["status"]["conditions"] if c["type"] == "Launched")
        assert (told["status"], told["reason"], told["message"]) == ("False", "ResourceLimitExceeded", "the limit is 0")
        await bench.client.delete("pods", "train", "default")
        await bench.wait(120)
        assert claims(bench) == []

    on_bench(tmp_path, test, ScaledAws())


def test_limits_hold_and_are_told(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await stand(bench, node_pool(limits={"nvidia.com/gpu": "1"}))
        await ask(bench, "one")
        await ask(bench, "two")
        assert len(claims(bench)) == 1
        assert any('exceed limits for nodepool "gpu"' in message for _, message in bench.events())

    on_bench(tmp_path, test, ScaledAws())


def test_requirements_and_taints_decide_who_may_have_a_node(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        taint = {"key": "team", "value": "a", "effect": "NoSchedule"}
        wanted = [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["ml.g6.4xlarge"]}]
        await stand(bench, node_pool(template={"taints": [taint], "requirements": wanted}))
        await ask(bench, "stranger")
        assert claims(bench) == []
        assert any("untolerated taint {team: a}" in message for _, message in bench.events())
        await ask(bench, "friend", tolerations=[{"key": "team", "operator": "Exists"}])
        (claim,) = claims(bench)
        assert claim["metadata"]["labels"]["node.kubernetes.io/instance-type"] == "ml.g6.4xlarge"
        await boot(bench)
        assert taint in bench.get("nodes", claims(bench)[0]["status"]["nodeName"])["spec"]["taints"]

    on_bench(tmp_path, test, ScaledAws(group("gpu", "ml.g5.8xlarge", "ml.g6.4xlarge")))


@pytest.mark.parametrize(
    ("groups", "kind", "sentence"),
    [
        ((), "InstanceGroupReady", "does not exist"),
        ((group(obstacle="it uses a training plan"),), "InstanceGroupReady", "it uses a training plan"),
        ((group("gpu", "ml.p6e-gb200.36xlarge"),), "InstanceGroupReady", "not an amd64 type"),
        ((group(subnets=(("a", ZONE, ZONE_ID), ("b", "us-west-2c", "usw2-az3"))),), "SubnetsReady", "more than one Availability Zone"),
    ],
)
def test_a_class_is_ready_only_with_usable_groups(tmp_path: Path, groups: tuple[ScalableGroup, ...], kind: str, sentence: str) -> None:
    async def test(bench: Bench) -> None:
        await stand(bench)
        told = bench.get(CLASSES, "gpu")
        assert (conditions(told)[kind], conditions(told)["Ready"]) == ("False", "False")
        assert sentence in said(told, kind)
        assert conditions(bench.get(POOLS, "gpu"))["Ready"] == "False"

    aws = ScaledAws(*groups)
    aws.groups = groups
    on_bench(tmp_path, test, aws)


def test_a_group_that_is_deleted_turns_its_class_and_pool_not_ready(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await stand(bench)
        scaled(bench).groups = ()
        await bench.hear()
        assert conditions(bench.get(CLASSES, "gpu"))["Ready"] == "False"
        assert conditions(bench.get(POOLS, "gpu"))["Ready"] == "False"

    on_bench(tmp_path, test, ScaledAws())


def test_what_was_in_the_group_before_goes_and_a_count_set_by_hand_snaps_back(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        scaled(bench).existing("gpu")
        await stand(bench)
        await bench.wait(60)
        assert scaled(bench).nodes == {}
        assert any("no NodeClaim asked for it" in message for _, message in bench.events())

    on_bench(tmp_path, test, ScaledAws())


def test_a_pod_that_must_not_be_disturbed_keeps_its_node(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await stand(bench, node_pool(disruption={"consolidationPolicy": "WhenEmptyOrUnderutilized"}))
        await ask(bench, annotations={"karpenter.sh/do-not-disrupt": "true"})
        await boot(bench)
        await bench.machine("i-0spare")
        await bench.wait(600)
        assert len(claims(bench)) == 1
        assert "DisruptionBlocked" in reasons(bench)

    on_bench(tmp_path, test, ScaledAws())


def test_an_underused_node_goes_when_its_pods_fit_elsewhere(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await stand(bench, node_pool(disruption={"consolidationPolicy": "WhenEmptyOrUnderutilized"}))
        await ask(bench)
        await boot(bench)
        await bench.wait(400)
        assert len(claims(bench)) == 1
        assert any("Can't remove without creating 1 candidates" in message for _, message in bench.events())
        await bench.machine("i-0spare", group="static")
        await bench.wait(120)
        await bench.hear()
        await bench.wait(30)
        assert claims(bench) == []

    on_bench(tmp_path, test, ScaledAws())


def test_a_budget_of_none_keeps_even_idle_nodes(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await stand(bench, node_pool(disruption={"budgets": [{"nodes": "0"}]}))
        await ask(bench)
        await boot(bench)
        await bench.client.delete("pods", "train", "default", grace=0)
        await bench.wait(900)
        assert len(claims(bench)) == 1
        assert any("blocking budget" in message for _, message in bench.events())

    on_bench(tmp_path, test, ScaledAws())


def test_nodes_expire(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await stand(bench, node_pool(template={"expireAfter": "1h"}))
        await ask(bench)
        await boot(bench)
        first = claims(bench)[0]["metadata"]["name"]
        await bench.wait(3700)
        await bench.hear()
        await bench.wait(30)
        assert first not in [c["metadata"]["name"] for c in claims(bench)]

    on_bench(tmp_path, test, ScaledAws())


def test_pools_go_with_their_nodes_before_their_class(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await stand(bench)
        await ask(bench)
        await boot(bench)
        await bench.client.delete(CLASSES, "gpu")
        await bench.wait(20)
        assert bench.get(CLASSES, "gpu")["metadata"]["deletionTimestamp"]
        await bench.client.delete(POOLS, "gpu")
        for _ in range(6):
            await bench.hear()
            await bench.wait(20)
        assert claims(bench) == []
        assert bench.cluster.read(CLASSES, "gpu") is None
        assert scaled(bench).nodes == {}

    on_bench(tmp_path, test, ScaledAws())


def test_switched_off_nothing_moves_and_finalizers_stay(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await stand(bench)
        await ask(bench)
        await boot(bench)
        scaled(bench).on = False
        await bench.hear()
        await bench.client.delete(POOLS, "gpu")
        await ask(bench, "second")
        await bench.wait(300)
        assert len(claims(bench)) == 1
        assert claims(bench)[0]["metadata"]["deletionTimestamp"]

    on_bench(tmp_path, test, ScaledAws())


def test_what_the_definitions_refuse(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await stand(bench)
        refused = [
            ("consolidationPolicy", node_pool("b", disruption={"consolidationPolicy": "Never"})),
            ('label "karpenter.sh/nodepool" is restricted', with_requirement("karpenter.sh/nodepool")),
            ('label domain "karpenter.sh" is restricted', with_requirement("x.karpenter.sh/y")),
            ("must have a value defined", with_requirement("team", operator="In", values=[])),
            ("'schedule' must be set with 'duration'", node_pool("b", disruption={"budgets": [{"nodes": "1", "duration": "1h"}]})),
        ]
        for words, body in refused:
            with pytest.raises(ApiError, match=words):
                await bench.client.create(POOLS, body)
        with pytest.raises(ApiError, match="at most 10"):
            await bench.client.create(CLASSES, node_class(*(f"g{n}" for n in range(11)), name="many"))
        other = {"spec": {"template": {"spec": {"nodeClassRef": {"kind": "EC2NodeClass"}}}}}
        with pytest.raises(ApiError, match="immutable"):
            await bench.client.patch(POOLS, "gpu", other)

    on_bench(tmp_path, test, ScaledAws())


def with_requirement(key: str, **more: Any) -> Object:
    return node_pool("b", template={"requirements": [{"key": key, "operator": "Exists", **more}]})


def test_a_pool_of_another_provider_is_not_ours_to_run(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gpu"}
        await stand(bench, node_pool(template={"nodeClassRef": reference}))
        told = bench.get(POOLS, "gpu")
        assert conditions(told)["ValidationSucceeded"] == "False"
        assert "must name a HyperpodNodeClass" in said(told, "ValidationSucceeded")
        await ask(bench)
        assert claims(bench) == []

    on_bench(tmp_path, test, ScaledAws())


def test_another_process_goes_on_where_the_first_one_was(tmp_path: Path) -> None:
    aws = ScaledAws()

    async def first(bench: Bench) -> None:
        await stand(bench)
        await ask(bench)
        assert len(claims(bench)) == 1

    async def second(bench: Bench) -> None:
        await bench.wait(5)
        await boot(bench)
        (claim,) = claims(bench)
        assert conditions(claim)["Ready"] == "True"
        assert len(aws.tokens) == 1

    on_bench(tmp_path, first, aws)
    on_bench(tmp_path, second, aws, start=1_790_000_100.0)


@pytest.mark.parametrize(("text", "seconds"), [("30s", 30.0), ("1h30m", 5400.0), ("Never", None), ("720h", 2_592_000.0)])
def test_durations(text: str, seconds: float | None) -> None:
    assert seconds_in(text) == seconds
