"""The fleet: sums that equal a recount whatever happened, and its doors over a cluster of thousands, without a call for a request."""

from __future__ import annotations

import datetime as dt
import json
import secrets
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.capacity.doors import Door
from tests.clusters.conftest import Job
from tests.clusters.worlds import SandboxProcess

from instantstart.base import names, problems
from instantstart.capabilities.capacity.fleet import views
from instantstart.capabilities.room import Room
from instantstart.ensure.capacity.fleets import NEURON, Held, Ledger, Machine, State, Sums, devices, share
from instantstart.ensure.clusters import remembered
from instantstart.ensure.clusters.remembered import ClusterFacts, GroupFacts, Remembered
from instantstart.faces.cli import main as cli
from instantstart.faces.cli import session
from instantstart.faces.mcp import projections
from instantstart.faces.mcp.tool import Shape
from instantstart.kube import briefs, cache, shapes
from instantstart.kube.briefs import PodBrief
from instantstart.kube.client import KubeCluster
from instantstart.kube.cluster_ref import ClusterRef
from instantstart_sandbox.world.settings import Settings as Weather

GPU, TYPE = "nvidia.com/gpu", "ml.p5.48xlarge"
NODES, AGENTS, WORKERS, WAITING = 40, 160, 40, 12


# --- the sums


def node(name: str, group: str | None = "a", gpus: int = 8, ready: bool = True, **more: Any) -> shapes.Node:
    labels = {briefs.TYPE_LABEL: TYPE} | ({briefs.GROUP_LABEL: group} if group else {}) | more.pop("labels", {})
    told = {"capacity": {GPU: str(gpus)}, "allocatable": {GPU: str(gpus)}, "conditions": [{"type": "Ready", "status": str(ready)}]}
    return shapes.node({"metadata": {"name": name, "labels": labels}, "spec": more, "status": told})


def pod(name: str, node_name: str | None = None, gpus: int = 1, phase: str = "Running", **more: Any) -> PodBrief:
    return PodBrief("n", name, name, "1", node_name, phase, ((GPU, gpus),) if gpus else (), **more)


POD = st.builds(
    pod,
    st.sampled_from("pqrst"),
    st.sampled_from([None, "x", "y", "z"]),
    st.integers(0, 3),
    st.sampled_from(["Pending", "Running", "Succeeded"]),
    created_at=st.integers(0, 3),
    group=st.sampled_from([None, "a"]),
    deleting=st.booleans(),
)
NODE = st.builds(
    node,
    st.sampled_from("xyz"),
    st.sampled_from([None, "a", "b"]),
    st.integers(0, 8),
    st.booleans(),
    unschedulable=st.booleans(),
    labels=st.sampled_from([{}, {"karpenter.sh/capacity-type": "spot"}]),
)
STEPS = st.lists(st.tuples(st.booleans(), NODE | POD), max_size=40)


def counted(sums: Sums) -> tuple[Any, ...]:
    """What does not depend on when things happened."""
    places = {p: (dict(s.states), dict(s.capacity_types), s.held, s.idle_nodes, s.idle_accelerators) for p, s in sums.places.items()}
    return places, sums.pending, sums.waiting, sums.pods, sums.nodes


@settings(max_examples=200, deadline=None)
@given(STEPS)
def test_the_sums_are_those_of_a_recount(steps: list[tuple[bool, Any]]) -> None:
    told = Ledger()
    world: dict[Any, Any] = {}
    for there, item in steps:
        key = (type(item), item.metadata.name if isinstance(item, shapes.Node) else item.name)
        before, after = world.pop(key, None), item if there else None
        if after is not None:
            world[key] = after
        if before is not None or after is not None:
            (told.node if isinstance(item, shapes.Node) else told.pod)(before, after)
    fresh = Ledger()
    for item in world.values():
        (fresh.node if isinstance(item, shapes.Node) else fresh.pod)(None, item)
    assert counted(told.sums()) == counted(fresh.sums())
    assert told.waiting(lambda _: True, 100) == fresh.waiting(lambda _: True, 100)


def test_idle_hours_are_those_since_the_last_accelerator_was_given_back() -> None:
    now = [1000.0]
    ledger = Ledger(lambda: now[0])
    ledger.node(None, node("x"))
    ledger.node(None, node("y"))
    busy = pod("p", "x")
    ledger.pod(None, busy)
    now[0] += 3600
    ledger.pod(busy, None)
    now[0] += 1800
    sums = ledger.sums()
    (told,) = sums.places.values()
    assert (told.idle_nodes, told.idle_accelerators) == (2, 16)
    assert told.idle_hours(sums.at) == pytest.approx(8 * 1.5 + 8 * 0.5)
    ledger.pod(None, pod("q", "y"))
    assert ledger.sums().places["a", TYPE].idle_accelerators == 8


def test_a_node_that_cannot_be_used_offers_nothing() -> None:
    for spoiled, state in ((node("x", ready=False), State.not_ready), (node("x", unschedulable=True), State.cordoned)):
        ledger = Ledger()
        ledger.node(None, spoiled)
        told = ledger.sums().places["a", TYPE]
        assert dict(told.states) == {state: 1}
        assert told.held == {GPU: Held(total=8, allocatable=8)}
        assert told.idle_nodes == 0


def test_pods_on_a_node_that_is_not_seen_yet_are_counted_once_it_is() -> None:
    ledger = Ledger()
    ledger.pod(None, pod("p", "x", 3))
    assert ledger.sums().places == {}
    ledger.node(None, node("x"))
    assert ledger.sums().places["a", TYPE].held[GPU].used == 3


def test_three_words_for_a_neuron_chip_are_one() -> None:
    assert devices((("aws.amazon.com/neurondevice", 16), ("aws.amazon.com/neuron", 16), ("aws.amazon.com/neuroncore", 32)), 2) == {
        NEURON: 16
    }
    machine = Machine(("a", "ml.trn2.48xlarge"), State.usable, None, {NEURON: 16}, {NEURON: 16}, cores=8)
    machine.asked[(("aws.amazon.com/neuroncore", 12),)] += 1
    assert share(machine).held[NEURON] == Held(16, 16, 16, 2, 14)


def wire(spec: dict[str, Any], status: dict[str, Any]) -> PodBrief:
    metadata = {"name": "p", "namespace": "n", "creationTimestamp": "2026-11-30T10:00:00Z"}
    return briefs.brief(msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, briefs.PodWire))


def asking(gpus: int, **more: Any) -> dict[str, Any]:
    return {"resources": {"limits": {GPU: str(gpus)}}, **more}


def test_a_pod_holds_its_containers_and_sidecars_or_its_largest_init_container() -> None:
    init = [asking(2, restartPolicy="Always"), asking(4), asking(1)]
    assert wire({"containers": [asking(1), asking(1)], "initContainers": init}, {}).asks == ((GPU, 4),)
    assert wire({"containers": [asking(3)], "initContainers": init}, {}).asks == ((GPU, 5),)


def test_why_a_pod_waits_is_told_by_whoever_holds_it() -> None:
    gated = wire({"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}, {"phase": "Pending"})
    assert (gated.reason, gated.message) == ("SchedulingGated", "Held by kueue.x-k8s.io/admission.")
    placed = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available."}
    unplaced = wire({}, {"phase": "Pending", "conditions": [placed]})
    assert (unplaced.reason, unplaced.message) == ("Unschedulable", "0/3 nodes are available.")
    waiting = {"name": "c", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}
    pulling = wire({"nodeName": "x"}, {"phase": "Pending", "containerStatuses": [waiting]})
    assert (pulling.reason, pulling.message) == ("ImagePullBackOff", "no such image")
    assert wire({"nodeName": "x"}, {"phase": "Running"}).reason is None


def test_where_a_pod_may_go_is_read_from_selector_and_affinity() -> None:
    rule = {"key": briefs.TYPE_LABEL, "operator": "In", "values": [TYPE]}
    one = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}}
    found = wire({"nodeSelector": {briefs.GROUP_LABEL: "a"}, "affinity": {"nodeAffinity": one}}, {"phase": "Pending"})
    assert (found.group, found.instance_type) == ("a", TYPE)
    two = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [rule]}, {}]}}
    assert wire({"affinity": {"nodeAffinity": two}}, {"phase": "Pending"}).instance_type is None


def facts(*groups: GroupFacts) -> ClusterFacts:
    return ClusterFacts(
        "t", "us-west-2", ClusterRef("arn:aws:eks:r:1:cluster/x", "x", "r", "https://x", ""), "InService", groups, dt.datetime.now(dt.UTC)
    )


def test_what_waits_for_one_place_is_told_there_and_what_may_go_anywhere_in_the_totals_only() -> None:
    ledger = Ledger()
    ledger.node(None, node("x"))
    ledger.pod(None, pod("p", None, 8, "Pending", group="b"))
    ledger.pod(None, pod("q", None, 4, "Pending"))
    ledger.pod(None, pod("r", None, 2, "Pending", instance_type=TYPE))  # both groups are of that type
    sums = ledger.sums()
    waiting = views._pending(sums)
    rows = views._rows(facts(GroupFacts("b", TYPE, "spot", 0, 2, "InService")), sums, waiting, 1.0)
    assert [(r.group, r.capacity_type, r.nodes.wanted, r.nodes.joined) for r in rows] == [("a", None, None, 1), ("b", "spot", 2, 0)]
    assert [[a.pending for a in r.accelerators] for r in rows] == [[0], [8]]
    assert [a.pending for a in views._added(rows, waiting)] == [14]


# --- the doors


@pytest.fixture(scope="module")
def crowd(shared_room: Room, shared_sandbox: SandboxProcess, standing: Job) -> Iterator[str]:
    """An EKS cluster of ours with nodes and pods; its tag. Its watches are cut each second: the tests must not see it.

    ``standing`` comes first, since its making empties the account.
    """
    sandbox, tag = shared_sandbox, f"t-{secrets.token_hex(3)}"
    sandbox.clear()
    sandbox.admin("settings", **{**Weather().dump(), "eks_create_seconds": 1.0, "watch_cut_seconds": 1.0})
    trust = {"Effect": "Allow", "Principal": {"Service": "eks.amazonaws.com"}, "Action": "sts:AssumeRole"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    role = sandbox.client("iam").create_role(RoleName=tag, AssumeRolePolicyDocument=document)["Role"]["Arn"]
    sandbox.warp(120)
    subnets = [s["SubnetId"] for s in sandbox.client("ec2").describe_subnets()["Subnets"] if s.get("DefaultForAz")][:2]
    name = names.Names(tag, "us-west-2", "").eks_cluster
    made = sandbox.client("eks").create_cluster(
        name=name, roleArn=role, resourcesVpcConfig={"subnetIds": subnets}, accessConfig={"authenticationMode": "API"},
        tags={names.CLUSTER_TAG: tag},
    )["cluster"]  # fmt: skip
    sandbox.warp(60)
    asked = {"cluster": made["arn"], "nodes": NODES, "pods": AGENTS + WORKERS + WAITING, "waiting": WAITING, "groups": 4}
    until(lambda: sandbox.admin("populate", **asked)["done"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache, "BACKOFF_SECONDS", (0.01, 0.2))
        yield tag
        shared_room.kube.watching.forget(made["arn"])
    sandbox.clear()
    sandbox.admin("settings", **Weather().dump())


def until(check: Callable[[], Any], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


def kube_of(room: Room, tag: str) -> KubeCluster:
    return room.kube.cluster(room.remembered.facts(room, tag).ref)


def of_gpus(told: dict[str, Any]) -> dict[str, int]:
    (found,) = told["accelerators"]
    return {key: found[key] for key in ("total", "used", "idle", "pending")}


def test_the_fleet_is_told_in_totals_and_by_group(door: Door, crowd: str) -> None:
    told = door.get(f"/clusters/{crowd}/fleet")
    assert told["freshness"]["state"] in ("live", "stale")  # a cut watch is back within moments
    assert (told["nodes"]["joined"], told["nodes"]["usable"], told["pods"]) == (NODES, NODES, AGENTS + WORKERS + WAITING)
    assert of_gpus(told) == {"total": 320, "used": 320, "idle": 0, "pending": 96}
    assert [(g["group"], g["instance_type"], g["nodes"]["joined"]) for g in told["groups"]] == [
        (f"workers-{n}", TYPE, 10) for n in range(4)
    ]
    assert told["pending"] == [{"group": None, "instance_type": None, "resource": GPU, "accelerators": 96, "pods": WAITING}]
    one = door.get(f"/clusters/{crowd}/fleet", group="workers-2")
    assert of_gpus(one) == {"total": 80, "used": 80, "idle": 0, "pending": 0}
    assert door.get(f"/clusters/{crowd}/fleet", capacity_type="spot")["groups"] == []


def test_pods_that_wait_are_paged_oldest_first_each_once_with_the_reason(door: Door, crowd: str) -> None:
    seen: list[str] = []
    cursor: str | None = None
    while True:
        page = door.get(f"/clusters/{crowd}/fleet/pending", limit=5, **({"cursor": cursor} if cursor else {}))
        seen += [item["name"] for item in page["items"]]
        assert all(item["reason"] == "Unschedulable" and "Insufficient" in item["because"] for item in page["items"])
        cursor = page["cursor"]
        if cursor is None:
            break
    assert seen == [f"waiting-{n:06}" for n in range(WAITING)]
    assert door.get(f"/clusters/{crowd}/fleet/pending", namespace="kube-system")["items"] == []


def test_a_reading_makes_no_call_of_aws(door: Door, crowd: str, shared_sandbox: SandboxProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "FRESH_SECONDS", 1e6)
    door.get(f"/clusters/{crowd}/fleet")
    before = shared_sandbox.last_call()
    for _ in range(10):
        door.get(f"/clusters/{crowd}/fleet")
        door.get(f"/clusters/{crowd}/fleet/pending")
    calls = [c["operation"] for c in shared_sandbox.calls(before) if c["operation"] != "GetCallerIdentity"]
    assert calls == []


def test_what_happens_to_pods_and_nodes_is_seen(door: Door, crowd: str, shared_room: Room) -> None:
    kube = kube_of(shared_room, crowd)
    kube.delete("Pod", "waiting-000000", "default")
    kube.patch("Node", "hyperpod-i-00000000000000000", {"spec": {"unschedulable": True}})
    path = f"/clusters/{crowd}/fleet"
    until(lambda: of_gpus(door.get(path))["pending"] == 88 and door.get(path)["nodes"]["cordoned"] == 1)
    (first, *_) = door.get(path)["groups"]
    assert (first["nodes"]["usable"], first["accelerators"][0]["usable"]) == (9, 72)
    kube.patch("Node", "hyperpod-i-00000000000000000", {"spec": {"unschedulable": None}})
    until(lambda: door.get(path)["nodes"]["cordoned"] == 0)


def test_a_cut_watch_is_told_with_since_when_and_why_and_is_live_again(door: Door, crowd: str, shared_sandbox: SandboxProcess) -> None:
    path = f"/clusters/{crowd}/fleet"
    door.get(path)
    shared_sandbox.fault("kubernetes:(watch|list)/(nodes|pods)", code="unavailable", count=None)
    # a try that is cut in its midst is told as such; the next one, that is answered, with the answer
    told: dict[str, Any] = {}
    until(lambda: told.update(door.get(path)) or "shutting down" in (told["freshness"]["because"] or ""))
    assert (told["freshness"]["state"], told["freshness"]["code"]) == ("stale", "kubernetes.server_error")
    assert dt.datetime.fromisoformat(told["freshness"]["since"]) < dt.datetime.now(dt.UTC)
    assert told["nodes"]["joined"] == NODES  # the last truth stays readable
    shared_sandbox.clear()
    until(lambda: door.get(path)["freshness"]["state"] == "live")


def test_wrong_questions_are_told_with_their_field(door: Door, crowd: str) -> None:
    assert door.refusal(404, "GET", "/clusters/nowhere/fleet")["code"] == "cluster.unknown"
    wrong: tuple[tuple[dict[str, Any], str], ...] = (
        ({"cursor": "é"}, "/cursor"),
        ({"cursor": "bnVsbA"}, "/cursor"),
        ({"limit": 0}, "/query/limit"),
        ({"namespace": "No_Name"}, "/query/namespace"),
    )
    for query, pointer in wrong:
        told = door.refusal(422, "GET", f"/clusters/{crowd}/fleet/pending", **query)
        assert [f["pointer"] for f in told["fields"]] == [pointer]
    told = door.refusal(422, "GET", f"/clusters/{crowd}/fleet", group="-", instance_type="p5")
    assert {f["pointer"] for f in told["fields"]} == {"/query/group", "/query/instance_type"}


def test_an_agent_is_told_the_same_in_few_words(door: Door, crowd: str) -> None:
    told = projections.shaped(Shape.fleet, door.get(f"/clusters/{crowd}/fleet"))
    assert told["accelerators"] == [f"{GPU}: 320 total, 320 allocatable, 320 used, 0 idle, {told['accelerators'][0].split()[-2]} pending"]
    assert told["items"][0]["nodes"] == "10 joined, 10 usable"
    assert len(json.dumps(told)) < 2000


def test_what_aws_said_stays_with_its_age_when_it_cannot_be_asked(
    door: Door,
    crowd: str,
    shared_sandbox: SandboxProcess,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = f"/clusters/{crowd}/fleet"
    door.get(path)
    monkeypatch.setattr(remembered, "FRESH_SECONDS", 0.0)
    shared_sandbox.fault("eks:DescribeCluster", code="unavailable", count=None)
    until(lambda: door.get(path)["freshness"]["groups_because"])
    assert door.get(path)["freshness"]["state"] in ("live", "stale")
    shared_sandbox.clear()
    until(lambda: door.get(path)["freshness"]["groups_because"] is None)


def test_a_forgotten_fact_is_asked_anew(shared_room: Room, crowd: str) -> None:
    kept = Remembered()
    first = kept.facts(shared_room, crowd)
    assert kept.facts(shared_room, crowd) is first
    kept.forget(crowd)
    assert kept.facts(shared_room, crowd) is not first


def test_a_cluster_that_is_gone_is_neither_remembered_nor_watched(
    door: Door,
    crowd: str,
    shared_room: Room,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path, arn = f"/clusters/{crowd}/fleet", kube_of(shared_room, crowd).ref.arn
    door.get(path)
    assert arn in shared_room.kube.watching.watched()
    with monkeypatch.context() as patch:
        patch.setattr(remembered, "FRESH_SECONDS", 0.0)
        patch.setattr(remembered, "read", gone)
        until(lambda: door.call("GET", path).status_code == 404)
        assert arn not in shared_room.kube.watching.watched()
    assert door.get(path)["nodes"]["joined"] == NODES


def gone(room: Room, tag: str) -> ClusterFacts:
    raise problems.NotFound("eks.not_found", f"There is no EKS cluster of {tag}.")


class InProcess(httpx2.BaseTransport):
    """The command line's wire to the app of the test."""

    def __init__(self, door: Door) -> None:
        self.door = door

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        answer = self.door.client.request(request.method, str(request.url), headers=dict(request.headers), content=request.read())
        return httpx2.Response(answer.status_code, headers={"content-type": answer.headers["content-type"]}, content=answer.content)


def test_the_command_line_shows_the_fleet_and_what_waits(
    door: Door, crowd: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(session, "transport", InProcess(door))
    monkeypatch.setenv("INSTANTSTART_URL", "http://127.0.0.1:3099")
    monkeypatch.setenv("INSTANTSTART_TOKEN", door.headers["Authorization"].removeprefix("Bearer "))
    assert cli.run(["fleet", "get", crowd]) == 0
    shown = capsys.readouterr()
    assert [line.split()[:4] for line in shown.out.splitlines()[1:]] == [[f"workers-{n}", TYPE, "-", "10"] for n in range(4)]
    assert f"{GPU}: 320 total" in shown.err
    assert cli.run(["fleet", "get", crowd, "--group", "workers-1", "-o", "json"]) == 0
    assert [g["group"] for g in json.loads(capsys.readouterr().out)["groups"]] == ["workers-1"]
    assert cli.run(["fleet", "pending", crowd, "--limit", "3"]) == 0
    shown = capsys.readouterr()
    assert len(shown.out.splitlines()) == 4
    assert "There are more" in shown.err
    assert cli.run(["fleet", "pending", crowd, "--group", "-"]) == 2
    assert "group must have letters" in capsys.readouterr().err


def test_what_sagemaker_knows_of_a_group_stands_beside_its_nodes(door: Door, standing: Job) -> None:
    told = door.get("/clusters/standing/fleet")
    (group,) = [g for g in told["groups"] if g["group"]]
    assert (group["group"], group["capacity_type"], group["nodes"]["wanted"], group["nodes"]["usable"]) == ("workers", "on_demand", 1, 1)
    assert [(a["total"], a["used"], a["idle"]) for a in group["accelerators"]] == [(1, 0, 1)]
    assert group["idle"]["nodes"] == 1
    assert told["freshness"]["state"] == "live"
