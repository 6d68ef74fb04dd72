"""Managed Karpenter from the door to the node: on, a pool over an empty group, a pod that waits brings a node, its end lets it go, off."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.capacity.doors import Door, counted, workflow
from tests.clusters.conftest import TYPE, ZONE, Job
from tests.clusters.crank import Crank, Turned
from tests.clusters.worlds import SandboxProcess

from instantstart.aws import tokens
from instantstart.base.outcome import Outcome
from instantstart.capabilities.room import Room
from instantstart.ensure.capacity import node_pools
from instantstart.ensure.capacity.karpenter import NODE_CLAIM, NODE_CLASS, NODE_POOL, karpenter_owner
from instantstart.faces.cli import main, session
from instantstart.kube.client import KubeCluster

KARPENTER = "/clusters/standing/karpenter"
POOLS = f"{KARPENTER}/node-pools"
GROUPS = "/clusters/standing/instance-groups"
CPU = "ml.m5.2xlarge"
PATIENCE_SECONDS = 90.0
#: definitions of others, for comparison only; not part of this repository
CRDS = Path(__file__).parents[3] / "shared" / "crds"


def turn(crank: Crank, operation: str, **spec: Any) -> Turned:
    """An operation turned by hand on the cluster that stands."""
    declared = workflow(operation)
    return crank.run(declared, declared.spec(tag="standing", region="us-west-2", **spec))


class World:
    """The cluster that stands, with what a test looks at."""

    def __init__(self, job: Job, room: Room, sandbox: SandboxProcess, crank: Crank) -> None:
        self.job, self.room, self.sandbox, self.crank = job, room, sandbox, crank

    @property
    def kube(self) -> KubeCluster:
        found: KubeCluster = self.job.site.kube(self.room)
        return found

    def described(self) -> dict[str, Any]:
        found: dict[str, Any] = self.sandbox.client("sagemaker").describe_cluster(ClusterName=self.job.site.hyperpod_cluster)
        return found

    def target(self, group: str) -> int:
        return next(int(g["TargetCount"]) for g in self.described()["InstanceGroups"] if g["InstanceGroupName"] == group)

    def group(self, name: str, **more: Any) -> None:
        """A group, made by the product itself."""
        if name not in {g["InstanceGroupName"] for g in self.described()["InstanceGroups"]}:
            spec = {"instance_type": TYPE, "instance_count": 0, "zone": ZONE, **more}
            made = turn(self.crank, "instance_group.add", name=name, **spec)
            assert made.status == "succeeded", made.problem

    def until(self, true: Callable[[], Any], seconds: float = 30.0) -> None:
        """Let the world move, some virtual seconds at a time, until something is true."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not true():
            assert time.monotonic() < end, "it never came true"
            self.sandbox.warp(seconds)
            time.sleep(0.1)  # Kubernetes answers AWS's news in its own thread

    def pod(self, name: str, **spec: Any) -> None:
        """A pod that asks for one GPU and runs until it is taken away."""
        container = {"name": "main", "image": "busybox:1", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
        metadata = {"name": name, "namespace": "default", "annotations": {"sandbox.instantstart.dev/run": "sleep"}}
        body = {"containers": [container], "nodeSelector": {"karpenter.sh/nodepool": "gpu"}, "terminationGracePeriodSeconds": 0, **spec}
        self.kube.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body})

    def phase(self, name: str) -> str:
        return str(self.kube.get("Pod", name, "default")["status"]["phase"])

    def enable(self) -> None:
        if self.described().get("AutoScaling", {}).get("Status") != "InService":
            done = turn(self.crank, "karpenter.enable")
            assert done.status == "succeeded", done.problem

    def disable(self) -> Any:
        done = turn(self.crank, "karpenter.disable")
        assert done.status == "succeeded", (done.stopped_at, done.problem)
        return done


@pytest.fixture
def world(standing: Job, shared_room: Room, shared_sandbox: SandboxProcess, crank: Crank) -> Iterator[World]:
    """In service or not, as the test before left it; afterwards it is off."""
    made = World(standing, shared_room, shared_sandbox, crank)
    yield made
    crank.discard = lambda stage, outcome: False
    for pod in made.kube.list("Pod", "default"):
        made.kube.delete("Pod", pod["metadata"]["name"], "default")
    if made.described().get("AutoScaling"):
        made.disable()


@pytest.fixture
def kubectl(world: World, tmp_path: Path) -> Callable[..., str]:
    """The second witness."""
    program = shutil.which("kubectl")
    if program is None:
        pytest.skip("kubectl is not installed")
    told = world.sandbox.client("eks").describe_cluster(name=world.job.site.eks_cluster)["cluster"]
    token = tokens.make(world.job.site.aws, world.job.site.eks_cluster)
    cluster = {"server": told["endpoint"], "certificate-authority-data": told["certificateAuthority"]["data"]}
    config = {
        "apiVersion": "v1", "kind": "Config", "current-context": "x", "clusters": [{"name": "x", "cluster": cluster}],
        "users": [{"name": "x", "user": {"token": token}}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
    }  # fmt: skip
    (tmp_path / "config").write_text(json.dumps(config))

    def run(*arguments: str, stdin: str | None = None, code: int = 0) -> str:
        environment = {"KUBECONFIG": str(tmp_path / "config"), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
        done = subprocess.run([program, *arguments], input=stdin, env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    return run


def switched_on(world: World, door: Door) -> None:
    """Enabled through the door's own checks; on the wire goes nothing but the two fields."""
    assert door.get(KARPENTER)["because"] == "It is off."
    assert door.refusal(409, "POST", POOLS, {"name": "gpu", "instance_groups": ["workers"]})["code"] == "karpenter.not_enabled"
    plan = door.well(200, "PUT", KARPENTER, {}, dry_run=True)
    assert {f["level"] for f in plan["findings"]} == {"ok"}
    with counted(world.sandbox, "UpdateCluster") as sent:
        done = turn(world.crank, "karpenter.enable")
    assert done.status == "succeeded", done.problem
    assert {frozenset(r) for r in sent} == {frozenset({"ClusterName", "AutoScaling", "ClusterRole"})}, "refused while the role is young"
    assert world.described()["AutoScaling"]["Status"] == "InService"
    assert door.well(200, "PUT", KARPENTER, {})["status"] == "InService"
    assert door.get(KARPENTER)["because"] == "It is on, but there is no node pool, so it makes no node."


def pool_over_an_empty_group(world: World, door: Door, kubectl: Callable[..., str]) -> None:
    """Every setting, ours or left out, stands on the object."""
    world.group("gpu")
    body = {"name": "gpu", "instance_groups": ["gpu"], "consolidate_after": "5m", "limits": {"nvidia.com/gpu": "2"}}
    added = turn(world.crank, "node_pool.add", **{**body, "instance_types": [TYPE]})
    assert added.status == "succeeded", added.problem
    told = json.loads(kubectl("get", "nodepool", "gpu", "-o", "json"))["spec"]
    assert told["disruption"] == {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "5m", "budgets": [{"nodes": "10%"}]}
    assert told["limits"] == {"nvidia.com/gpu": "2"}
    assert told["template"]["spec"]["expireAfter"] == "720h"
    assert {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [TYPE]} in told["template"]["spec"]["requirements"]
    assert "True" in kubectl("get", "hyperpodnodeclass", "gpu")
    assert door.well(200, "POST", POOLS, body)["ready"], "equal: already so"


def switched_off(world: World, door: Door) -> None:
    """Disabled by its plan; again nothing but the one field on the wire, and nothing of it is left."""
    plan = door.well(200, "DELETE", KARPENTER, dry_run=True)
    assert plan["approval"]
    assert "NodePool gpu" in plan["remove"]
    assert door.refusal(409, "DELETE", KARPENTER)["code"] == "approval.missing"
    with counted(world.sandbox, "UpdateCluster") as sent:
        world.disable()
    assert [set(r) for r in sent] == [{"ClusterName", "AutoScaling"}]
    assert world.kube.list(NODE_POOL) == world.kube.list(NODE_CLASS) == []
    assert "AutoScaling" not in world.described()
    roles = [r["RoleName"] for r in world.sandbox.client("iam").list_roles()["Roles"]]
    assert world.job.site.names.karpenter_role not in roles
    assert door.get(KARPENTER)["status"] == "Disabled"


def test_a_waiting_pod_brings_a_node_from_zero_and_all_goes_back(world: World, door: Door, kubectl: Callable[..., str]) -> None:
    before = {g["InstanceGroupName"]: g["TargetCount"] for g in world.described()["InstanceGroups"]}
    switched_on(world, door)
    pool_over_an_empty_group(world, door, kubectl)
    world.pod("train")
    world.until(lambda: world.phase("train") == "Running")
    assert world.target("gpu") == 1
    pool = door.get(f"{POOLS}/gpu")
    assert (pool["nodes"], pool["because"], pool["claims"][0]["state"]) == (1, None, "ready")
    assert pool["claims"][0]["node"] in kubectl("get", "nodeclaims")
    refused = door.refusal(409, "POST", f"{GROUPS}/gpu/scale", {"instance_count": 3})
    assert "gpu" in refused["detail"]
    world.kube.delete("Pod", "train", "default")
    world.until(lambda: world.target("gpu") == 0 and not world.kube.list(NODE_CLAIM))
    switched_off(world, door)
    after = {g["InstanceGroupName"]: g["TargetCount"] for g in world.described()["InstanceGroups"] if g["InstanceGroupName"] in before}
    assert after == before


def test_a_group_with_nodes_is_taken_over_only_with_the_approval_and_put_back(world: World, door: Door) -> None:
    world.enable()
    world.group("busy", instance_count=1)
    body = {"name": "gpu", "instance_groups": ["busy"]}
    plan = door.well(200, "POST", POOLS, body, dry_run=True)
    assert plan["remove"] == ["1 node of busy"]
    assert "starts from 0" in " ".join(plan["warnings"])
    assert door.refusal(409, "POST", POOLS, body)["code"] == "approval.missing"
    unagreed = turn(world.crank, "node_pool.add", **{**body, "instance_types": [TYPE]})
    assert unagreed.problem is not None
    assert unagreed.problem.code == "node_pool.group_not_empty"
    done = turn(world.crank, "node_pool.add", **{**body, "instance_types": [TYPE], "limits": {}, "taken": {"busy": 1}})
    assert done.status == "succeeded", done.problem
    assert karpenter_owner(world.kube, "busy") == "gpu"
    world.until(lambda: world.target("busy") == 0)
    world.disable()
    assert world.target("busy") == 1


@pytest.mark.slow
def test_a_budget_that_keeps_a_pools_node_is_named_with_its_pod(world: World) -> None:
    world.enable()
    world.group("gpu")
    fields = {"instance_groups": ["gpu"], "instance_types": [TYPE], "limits": {}, "taken": {}}
    assert turn(world.crank, "node_pool.add", name="gpu", **fields).status == "succeeded"
    world.pod("serve")
    world.until(lambda: world.phase("serve") == "Running")
    world.kube.patch("Pod", "serve", {"metadata": {"labels": {"app": "serve"}}}, namespace="default")
    budget = {"minAvailable": 1, "selector": {"matchLabels": {"app": "serve"}}}
    metadata = {"name": "keep", "namespace": "default"}
    world.kube.create({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": budget})
    stopped = turn(world.crank, "node_pool.delete", pool="gpu")
    assert stopped.problem is not None
    assert "held by a disruption budget: default/serve on" in stopped.problem.detail
    assert "(budget keep)" in stopped.problem.detail
    world.kube.delete("PodDisruptionBudget", "keep", "default")
    assert world.crank.retry(stopped).status == "succeeded"


def test_everything_wrong_is_told_at_once_with_its_field(world: World, door: Door) -> None:
    world.enable()
    world.group("gpu")
    world.group("checked", deep_health_checks=["InstanceStress"])
    body = {
        "name": "gpu",
        "instance_groups": ["gpu", "gpu", "nowhere", "checked"],
        "instance_types": ["ml.p5.48xlarge"],
        "zones": ["us-west-2z"],
        "requirements": [
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]},
            {"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]},
            {"key": "team", "operator": "In"},
        ],
        "labels": {"karpenter.sh/x": "a"},
        "consolidate_after": "0s",
        "expire_after": "0h",
        "budgets": [{"nodes": "1", "duration": "1h"}, {"nodes": "1", "schedule": "x y z", "duration": "1h"}],
        "taints": ["a=b:NoSchedule", "a:NoSchedule"],
    }
    told = door.refusal(422, "POST", POOLS, body)
    assert {f["pointer"] for f in told["fields"]} == {
        "/instance_groups/1", "/instance_groups/2", "/instance_groups/3", "/instance_types/0", "/zones/0", "/requirements/0/key",
        "/requirements/1", "/requirements/2/values", "/labels/karpenter.sh~1x", "/consolidate_after", "/budgets/0",
        "/expire_after", "/budgets/1/schedule", "/taints/1",
    }  # fmt: skip
    assert "does not honour a capacity type" in told["detail"]
    shape = door.pointers("POST", POOLS, {"name": "-", "instance_groups": [], "expire_after": "soon", "strange": 1})
    assert shape == {"/name", "/instance_groups", "/expire_after", "/strange"}
    assert door.refusal(404, "PATCH", f"{POOLS}/nothing", {"weight": 1})["code"] == "node_pool.unknown"


def test_a_pool_that_could_never_make_a_node_is_refused(world: World, door: Door) -> None:
    world.enable()
    world.group("gpu")
    never = {
        "name": "gpu",
        "instance_groups": ["gpu"],
        "requirements": [
            {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["ml.p5.48xlarge"]},
            {"key": "team", "operator": "In", "values": ["a"]},
            {"key": "team", "operator": "NotIn", "values": ["a"]},
        ],
        "limits": {"nvidia.com/gpu": "0", "memory": "64Gi"},
        "consolidate_after": "999999h",
    }
    told = door.refusal(422, "POST", POOLS, never)
    pointers = {f["pointer"] for f in told["fields"]}
    assert pointers == {"/requirements/0", "/requirements/2", "/limits/nvidia.com~1gpu", "/consolidate_after"}
    assert "the pool makes no node: its smallest has 1" in told["detail"]


def test_a_pool_is_changed_field_by_field_and_what_others_set_stays(world: World, door: Door, kubectl: Callable[..., str]) -> None:
    world.enable()
    world.group("gpu")
    world.group("spot", capacity_type="spot")
    body = {"name": "gpu", "instance_groups": ["gpu"], "instance_types": [TYPE], "limits": {"cpu": "64", "nvidia.com/gpu": "2"}}
    assert turn(world.crank, "node_pool.add", **body).status == "succeeded"
    kubectl("annotate", "nodepool", "gpu", "theirs=yes")
    ask = {"limits": {"nvidia.com/gpu": "4"}, "weight": 7, "instance_groups": ["spot", "gpu"], "zones": ["us-west-2a"]}
    plan = door.well(200, "PATCH", f"{POOLS}/gpu", ask, dry_run=True)
    assert len(plan["change"]) == 4
    assert any("2m is advised" in w for w in plan["warnings"])
    done = turn(world.crank, "node_pool.update", pool="gpu", **ask)
    assert done.status == "succeeded", done.problem
    found = world.kube.get(NODE_POOL, "gpu")
    assert found["metadata"]["annotations"]["theirs"] == "yes"
    read = node_pools.read(found)
    assert (read["limits"], read["weight"], read["zones"], read["instance_types"]) == ({"nvidia.com/gpu": "4"}, 7, ["us-west-2a"], [TYPE])
    assert read["consolidate_after"] == "10m"
    assert door.get(f"{POOLS}/gpu")["instance_groups"] == ["spot", "gpu"]
    assert door.well(200, "PATCH", f"{POOLS}/gpu", ask)["weight"] == 7, "equal: already so"
    plan = door.well(200, "DELETE", f"{POOLS}/gpu", dry_run=True)
    assert plan["remove"] == ["NodePool gpu", "HyperpodNodeClass gpu"]
    gone = turn(world.crank, "node_pool.delete", pool="gpu")
    assert gone.status == "succeeded", gone.problem
    assert door.get(POOLS)["items"] == []
    assert karpenter_owner(world.kube, "gpu") is None


def test_no_capacity_is_told_in_one_sentence_and_spot_falls_back(world: World, door: Door) -> None:
    world.enable()
    world.group("gpu")
    world.group("spot", capacity_type="spot")
    for zone in "abc":
        world.sandbox.admin("capacity", instance_type=TYPE, zone=f"us-west-2{zone}", available=0)
    ask = {"name": "gpu", "instance_groups": ["spot", "gpu"], "instance_types": [TYPE], "limits": {"nvidia.com/gpu": "2"}}
    assert turn(world.crank, "node_pool.add", **ask).status == "succeeded"
    world.pod("train")
    world.until(lambda: "cannot be had now" in str(door.get(f"{POOLS}/gpu")["because"]), 10)
    because = door.get(f"{POOLS}/gpu")["because"]
    assert "do not have sufficient capacity" in because
    assert because in door.get(KARPENTER)["because"]
    world.until(lambda: any(c["capacity_type"] == "on-demand" for c in door.get(f"{POOLS}/gpu")["claims"]), 10)
    for zone in "abc":
        world.sandbox.admin("capacity", instance_type=TYPE, zone=f"us-west-2{zone}", available=200)
    world.until(lambda: world.phase("train") == "Running")
    world.pod("second")
    world.pod("third")
    world.until(lambda: world.phase("second") == "Running" or world.phase("third") == "Running")
    world.until(lambda: "exceed limits" in str(door.get(f"{POOLS}/gpu")["because"]))


def test_a_role_that_may_not_scale_is_told_before_and_after(world: World, door: Door) -> None:
    iam = world.sandbox.client("iam")
    service = {"Effect": "Allow", "Principal": {"Service": "hyperpod.sagemaker.amazonaws.com"}, "Action": "sts:AssumeRole"}
    trust = json.dumps({"Version": "2012-10-17", "Statement": [service]})
    arn = iam.create_role(RoleName="weak", AssumeRolePolicyDocument=trust)["Role"]["Arn"]
    told = door.refusal(422, "PUT", KARPENTER, {"cluster_role_arn": arn})
    assert "does not allow sagemaker:BatchAddClusterNodes" in told["detail"]
    assert [f["pointer"] for f in told["fields"]] == ["/cluster_role"]
    done = turn(world.crank, "karpenter.enable", cluster_role_arn=arn)
    assert done.status == "failed"
    assert done.problem is not None
    assert done.problem.code == "karpenter.enable_failed"
    assert "not authorized to perform" in done.problem.detail
    assert door.get(KARPENTER)["status"] == "Failed"
    assert door.well(200, "DELETE", KARPENTER, dry_run=True)["change"]
    plan = door.well(200, "PUT", KARPENTER, {}, dry_run=True)
    assert "one of ours takes its place" in str([f["hint"] for f in plan["findings"] if f["level"] == "warn"])
    mended = turn(world.crank, "karpenter.enable")
    assert mended.status == "succeeded", mended.problem
    assert "disabled first" in mended.sentences("switch")
    assert world.described()["ClusterRole"].endswith(world.job.site.names.karpenter_role)


def test_the_command_line_shows_asks_and_refuses(
    world: World, door: Door, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("INSTANTSTART_URL", "http://127.0.0.1:3099")
    monkeypatch.setenv("INSTANTSTART_TOKEN", door.headers["Authorization"].removeprefix("Bearer "))
    monkeypatch.setattr(session, "transport", door.client._transport)

    def run(*arguments: str) -> tuple[int, str]:
        status = main.run(["karpenter", *arguments])
        told = capsys.readouterr()
        return status, " ".join((told.out + told.err).split())

    status, told = run("get", "standing")
    assert (status, "Karpenter is Disabled. It is off." in told, "No node pools." in told) == (0, True, True)
    status, told = run("enable", "standing", "--dry-run")
    assert "AutoScaling Enable (Karpenter); no instance group is touched" in told
    status, told = run("pool", "add", "gpu", "--group", "workers", "--cluster", "standing")
    assert (status, "Managed Karpenter is Disabled" in told) == (1, True)
    world.enable()
    world.group("gpu")
    status, told = run("pool", "add", "gpu", "--group", "gpu", "--group", "nowhere", "--after", "0s", "--cluster", "standing")
    assert (status, "/instance_groups/1" in told, "/consolidate_after" in told) == (2, True, True)
    status, told = run("pool", "add", "gpu", "--group", "gpu", "--limit", "16", "--cluster", "standing")
    assert (status, "must be key=value" in told) == (2, True)
    status, told = run("pool", "add", "gpu", "--group", "workers", "--cluster", "standing")
    assert (status, "1 node of workers" in told, "Nobody is there to agree" in told) == (2, True, True)
    assert turn(world.crank, "node_pool.add", name="gpu", instance_groups=["gpu"], instance_types=[TYPE], limits={}).status == "succeeded"
    assert "gpu yes 0 gpu" in run("pool", "list", "standing")[1]
    assert "No nodes." in run("pool", "get", "gpu", "--cluster", "standing")[1]
    assert run("pool", "get", "nothing", "--cluster", "standing")[0] == 2
    status, told = run("pool", "update", "gpu", "--weight", "3", "--dry-run", "--cluster", "standing")
    assert "weight: None -> 3" in told
    status, told = run("disable", "standing")
    assert (status, "NodePool gpu" in told, "add --yes" in told) == (2, True, True)


def test_roles_decide_who_may_take_nodes_away(world: World, door: Door, shared_room: Room) -> None:
    def call(caller: str, method: str, path: str, body: Any = None, **query: Any) -> Any:
        headers = {"Authorization": f"Bearer {issued[caller]}"}
        return door.client.request(method, f"/api/v1{path}", json=body, headers=headers, params=query)

    issued = {
        name: door.well(201, "POST", "/tokens", {"name": f"k-{name}", "role": role, "kind": kind})["token"]
        for name, role, kind in (("viewer", "viewer", "person"), ("operator", "operator", "person"), ("agent", "operator", "agent"))
    }
    assert call("viewer", "GET", KARPENTER).status_code == 200
    assert call("viewer", "PUT", KARPENTER, {}).json()["code"] == "identity.role_too_low"
    assert call("operator", "DELETE", KARPENTER).status_code == 403
    world.enable()
    world.group("busy", instance_count=1)
    body = {"name": "gpu", "instance_groups": ["busy"]}
    plan = call("operator", "POST", POOLS, body, dry_run=True).json()
    assert call("operator", "POST", POOLS, body, approval=plan["approval"]).json()["code"] == "identity.role_too_low"
    plan = call("agent", "POST", POOLS, body, dry_run=True).json()
    waits = call("agent", "POST", POOLS, body, approval=plan["approval"])
    assert (waits.status_code, waits.json()["status"]) == (202, "awaiting_approval")
    door.well(202, "POST", f"/operations/{waits.json()['id']}:reject")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["role", "switch", "kinds"])
def test_a_kill_after_any_act_of_enabling_changes_nothing(world: World, name: str) -> None:
    lost: set[str] = set()

    def discard(stage: str, outcome: Outcome) -> bool:
        fresh = stage == name and stage not in lost
        lost.add(stage)
        return fresh

    world.crank.discard = discard
    with counted(world.sandbox, "UpdateCluster") as sent:
        done = turn(world.crank, "karpenter.enable")
    assert done.status == "succeeded", done.problem
    assert all(set(r) == {"ClusterName", "AutoScaling", "ClusterRole"} for r in sent)


@pytest.mark.slow
def test_every_outcome_of_pools_and_of_disabling_may_be_lost_once(world: World) -> None:
    lost: set[tuple[str, str]] = set()
    running = ""

    def discard(stage: str, outcome: Outcome) -> bool:
        fresh = (running, stage) not in lost
        lost.add((running, stage))
        return fresh

    world.enable()
    world.group("gpu")
    world.group("busy", instance_count=1)
    before = {g["InstanceGroupName"]: g["TargetCount"] for g in world.described()["InstanceGroups"]}
    world.crank.discard = discard
    fields = {"instance_groups": ["gpu", "busy"], "instance_types": [TYPE], "limits": {}, "taken": {"busy": before["busy"]}}
    running = "add"
    assert turn(world.crank, "node_pool.add", name="gpu", **fields).status == "succeeded"
    world.pod("train")
    world.until(lambda: world.phase("train") == "Running")
    running = "update"
    assert turn(world.crank, "node_pool.update", pool="gpu", labels={"team": "a"}, instance_groups=["busy", "gpu"]).status == "succeeded"
    running = "disable"
    with counted(world.sandbox, "BatchAddClusterNodes") as added:
        world.disable()
    assert {g["InstanceGroupName"]: g["TargetCount"] for g in world.described()["InstanceGroups"]} == before
    assert len({a["ClientToken"] for a in added if a["NodesToAdd"][0]["InstanceGroupName"] == "busy" and len(a["ClientToken"]) == 64}) == 1


def schema(name: str) -> dict[str, Any]:
    """The upstream definition's schema, where it is at hand."""
    path = CRDS / f"{name}.karpenter.sh.yaml"
    if not path.exists():
        pytest.skip("the upstream definitions are not at hand")
    found: dict[str, Any] = yaml.safe_load(path.read_text())["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return found


def test_our_pools_have_only_fields_that_upstream_has() -> None:
    asked = {
        "instance_types": [TYPE], "zones": ["us-west-2a"], "requirements": [{"key": "team", "operator": "Exists", "values": []}],
        "labels": {"a": "b"}, "taints": ["x=y:NoSchedule"], "limits": {"cpu": "10"}, "weight": 3, "consolidation_policy": "WhenEmpty",
        "consolidate_after": "10m", "budgets": [{"nodes": "10%", "reasons": ["Empty"], "schedule": "@daily", "duration": "8h"}],
        "expire_after": "Never",
    }  # fmt: skip
    pool = node_pools.node_pool("a", asked)
    assert unknown({k: pool[k] for k in ("spec",)}, schema("nodepools")) == []
    assert node_pools.read(pool) == asked | {"budgets": asked["budgets"]}


def unknown(value: Any, known: dict[str, Any], path: str = "") -> list[str]:
    """Paths of a value that a schema does not declare."""
    if isinstance(value, list):
        return [p for each in value for p in unknown(each, known.get("items", {}), path + "[]")]
    if not isinstance(value, dict) or known.get("additionalProperties"):
        return []
    declared = known.get("properties", {})
    found = [f"{path}/{key}" for key in value if key not in declared]
    return found + [p for key, each in value.items() if key in declared for p in unknown(each, declared[key], f"{path}/{key}")]
