"""A cluster of thousands: how fast it is read, what it costs to keep, and how the sandbox's API server bears it."""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx2
import msgspec
from tests.bench.rig import INSTANCE_TYPE, Rig, memory_mib
from tests.clusters.worlds import SandboxProcess

from instantstart.aws import tokens
from instantstart.aws.session import AwsGateway
from instantstart.base import names
from instantstart.kube.client import KubeCluster
from instantstart.kube.connect import ClusterRef, KubeGateway
from instantstart.kube.connection import Ask

SMALL, LARGE = (100, 500), (10_000, 50_000)
_READS = 300
_WATCHERS, _WRITES = 50, 200
_PAGE = 500
_FULL_READ = {
    "detail": ("",),
    "all nodes": ("/nodes?limit=1000",),
    "fleet": ("/fleet",),
    "all three again": ("", "/nodes?limit=1000", "/fleet"),
}
#: a read while the crowd moves: pods patched a second
_CHURN = 20.0


@dataclass
class Crowd:
    """A filled cluster of the rig's account."""

    tag: str
    arn: str
    fill_seconds: float


def fleet() -> Iterator[str]:
    """GET of the fleet view at two sizes, its pages, the first look, and the control plane's memory."""
    with Rig(30) as rig:
        yield f"control plane at rest: {rig.product.memory_mib()[0]:.0f} MiB"
        p95 = {}
        for tag, (nodes, pods) in (("small", SMALL), ("large", LARGE)):
            fill(rig, tag, nodes, pods)
            seconds, told = _first_look(rig, tag)
            seen = f"{told['nodes']['joined']} nodes, {told['pods']} pods"
            yield f"{nodes} nodes, {pods} pods: first look complete after {seconds:.1f} s ({seen})"
            reads = _reads(rig, f"/clusters/{tag}/fleet")
            pages = _reads(rig, f"/clusters/{tag}/fleet/pending?limit=50")
            p95[tag] = percentile(reads, 95), statistics.median(reads)
            yield f"  GET fleet: {words(reads)} (goal p95 50 ms); page of pending pods: {words(pages)} (goal 50 ms)"
        now, most = rig.product.memory_mib()
        ratios = [large / small for large, small in zip(p95["large"], p95["small"], strict=True)]
        yield f"ratio large to small: {ratios[0]:.2f} at p95, {ratios[1]:.2f} at p50 (goal 1.5)"
        yield f"control plane with both watched: {now:.0f} MiB, never more than {most:.0f} (goal 700)"
        moving = _while_moving(rig, "large")
        yield f"GET fleet while {_CHURN:.0f} pods a second change: {words(moving)}"


def load() -> Iterator[str]:
    """The sandbox's API server with ten thousand nodes, fifty thousand pods and fifty watchers."""
    nodes, pods = LARGE
    with Rig(30) as rig:
        assert rig.sandbox.child is not None
        pid = rig.sandbox.child.pid
        yield f"sandbox at rest: {memory_mib(pid)[0]:.0f} MiB"
        crowd = fill(rig, "load", nodes, pods)
        yield f"{nodes + pods} objects written in {crowd.fill_seconds:.1f} s; sandbox {memory_mib(pid)[0]:.0f} MiB"
        kube = kube_of(rig, crowd)
        pages = _timed_pages(kube)
        yield f"all pods in {len(pages)} pages of {_PAGE}: {sum(pages):.1f} s, a page {words(pages)} (goal 50 ms)"
        latencies, missed = asyncio.run(_fan_out(kube))
        yield f"{_WATCHERS} watchers, {_WRITES} writes: write to event {words(latencies)}; {missed} events missed"
        now, most = memory_mib(pid)
        yield f"sandbox with {_WATCHERS} watchers: {now:.0f} MiB, never more than {most:.0f}"


def reads() -> Iterator[str]:
    """AWS calls of a full read of a cluster of 1,000 nodes: its detail, all its nodes, its fleet."""
    with Rig(60) as rig:
        rig.create("thousand")
        _grow(rig, "thousand", 1000)
        for name, paths in _FULL_READ.items():
            before = rig.sandbox.last_call()
            began = time.monotonic()
            found = [_all_pages(rig, f"/clusters/thousand{path}") for path in paths]
            seconds = time.monotonic() - began
            asked = Counter(f"{c['service']}:{c['operation']}" for c in rig.sandbox.calls(before))
            told = ", ".join(f"{count} {call}" for call, count in asked.most_common(4))
            yield f"{name}: {asked.total()} AWS calls, {seconds:.1f} s, items {found} ({told})"
        yield f"a page of 100 nodes: {words(_reads(rig, '/clusters/thousand/nodes?limit=100'))} (goal 50 ms)"


def _grow(rig: Rig, tag: str, count: int) -> None:
    """Let the cluster's first group have ``count`` nodes, as another client would ask, and wait until they run."""
    sandbox, name = rig.sandbox, names.Names(tag, "us-west-2", "").hyperpod_cluster
    sagemaker = sandbox.client("sagemaker")
    told = sagemaker.describe_cluster(ClusterName=name)
    group = told["InstanceGroups"][0]
    eks = told["Orchestrator"]["Eks"]["ClusterArn"]
    sandbox.admin("populate", cluster=eks, nodes=count, pods=0)
    for zone in zones(sandbox):
        sandbox.admin("capacity", instance_type=INSTANCE_TYPE, zone=zone, available=count * 2)
    for quota in (f"{INSTANCE_TYPE} for cluster usage", "Maximum number instances allowed per SageMaker HyperPod cluster",
                  "Total number of instances allowed across SageMaker HyperPod clusters"):  # fmt: skip
        sandbox.admin("quota", service_code="sagemaker", name=quota, value=count * 2)
    kept = ("InstanceGroupName", "InstanceType", "ExecutionRole", "LifeCycleConfig", "InstanceStorageConfigs", "CapacityRequirements")
    sent = {key: group[key] for key in kept if key in group} | {"InstanceCount": count}
    sagemaker.update_cluster(ClusterName=name, InstanceGroups=[sent])
    for _ in range(60):
        sandbox.warp(60)
        group = sagemaker.describe_cluster(ClusterName=name)["InstanceGroups"][0]
        if group["CurrentCount"] == count:
            return
    events = sagemaker.list_cluster_events(ClusterName=name, MaxResults=3)["Events"]
    raise RuntimeError(f"{group['CurrentCount']} of {count} nodes: {[e['Description'] for e in events]}")


def zones(sandbox: SandboxProcess) -> list[str]:
    """The names of the region's zones."""
    return [zone["ZoneName"] for zone in sandbox.client("ec2").describe_availability_zones()["AvailabilityZones"]]


def _all_pages(rig: Rig, path: str) -> int:
    """Read a path to its last page; how many items."""
    found, cursor = 0, ""
    while True:
        told = rig.product.ask("GET", f"{path}{cursor}")
        found += len(told.get("items", told.get("groups", ())))
        if not told.get("cursor"):
            return found
        cursor = f"{'&' if '?' in path else '?'}cursor={told['cursor']}"


def fill(rig: Rig, tag: str, nodes: int, pods: int) -> Crowd:
    """An EKS cluster of ours, as crowded as asked; each hundredth pod waits."""
    sandbox = rig.sandbox
    sandbox.admin("settings", eks_create_seconds=1.0)
    trust = {"Effect": "Allow", "Principal": {"Service": "eks.amazonaws.com"}, "Action": "sts:AssumeRole"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    role = sandbox.client("iam").create_role(RoleName=f"bench-{tag}", AssumeRolePolicyDocument=document)["Role"]["Arn"]
    sandbox.warp(120)
    subnets = [s["SubnetId"] for s in sandbox.client("ec2").describe_subnets()["Subnets"]][:2]
    made = sandbox.client("eks").create_cluster(
        name=names.Names(tag, "us-west-2", "").eks_cluster, roleArn=role, resourcesVpcConfig={"subnetIds": subnets},
        accessConfig={"authenticationMode": "API"}, tags={names.CLUSTER_TAG: tag},
    )["cluster"]  # fmt: skip
    sandbox.warp(60)
    asked = {"cluster": made["arn"], "nodes": nodes, "pods": pods, "waiting": pods // 100}
    while not (told := sandbox.admin("populate", **asked))["done"]:
        time.sleep(0.2)
    return Crowd(tag, made["arn"], told["seconds"])


def kube_of(rig: Rig, crowd: Crowd) -> KubeCluster:
    """The product's own client of a crowd."""
    import base64
    import os

    os.environ.update(rig.sandbox.environment())
    aws = AwsGateway("us-west-2").region()
    told = rig.sandbox.client("eks").describe_cluster(name=crowd.arn.rpartition("/")[2])["cluster"]
    authority = base64.b64decode(told["certificateAuthority"]["data"]).decode()
    gateway = KubeGateway(lambda ref: tokens.make(aws, ref.name))
    return gateway.cluster(ClusterRef(crowd.arn, told["name"], "us-west-2", told["endpoint"], authority))


def words(seconds: list[float]) -> str:
    """A distribution in milliseconds."""
    told = ", ".join(f"p{rank} {percentile(seconds, rank) * 1000:.1f}" for rank in (50, 95, 99))
    return f"{told} ms"


def percentile(values: list[float], rank: int) -> float:
    """The value at a rank of a hundred."""
    return sorted(values)[min(len(values) - 1, len(values) * rank // 100)]


def _first_look(rig: Rig, tag: str) -> tuple[float, Any]:
    began = time.monotonic()
    while (told := rig.product.ask("GET", f"/clusters/{tag}/fleet"))["freshness"]["state"] != "live":
        time.sleep(0.1)
    return time.monotonic() - began, told


def _reads(rig: Rig, path: str, until: Callable[[], bool] | None = None) -> list[float]:
    """How long reads take, one after another on one connection; the first few are not counted."""
    found = []
    headers = {"Authorization": f"Bearer {rig.product.token}"}
    with httpx2.Client(base_url=f"{rig.product.url}/api/v1", headers=headers, timeout=60) as http:
        for number in range(_READS + 10):
            began = time.monotonic()
            http.get(path).raise_for_status()
            if number >= 10:
                found.append(time.monotonic() - began)
            if until is not None and until():
                break
    return found


def _while_moving(rig: Rig, tag: str) -> list[float]:
    import threading

    told = rig.sandbox.client("eks").describe_cluster(name=names.Names(tag, "us-west-2", "").eks_cluster)["cluster"]
    kube = kube_of(rig, Crowd(tag, told["arn"], 0.0))
    stop = threading.Event()

    def churn() -> None:
        number = 0
        while not stop.wait(1 / _CHURN):
            kube.patch("Pod", f"worker-0-{number % LARGE[0]:06}", {"metadata": {"labels": {"turn": str(number)}}}, namespace="default")
            number += 1

    mover = threading.Thread(target=churn)
    mover.start()
    try:
        return _reads(rig, f"/clusters/{tag}/fleet")
    finally:
        stop.set()
        mover.join()


class _Token(msgspec.Struct):
    continue_: str | None = msgspec.field(default=None, name="continue")


class _ListHead(msgspec.Struct):
    metadata: _Token


def _timed_pages(kube: KubeCluster) -> list[float]:
    """How long each page of all pods takes, as bytes: from the question to the last byte."""
    seconds: list[float] = []
    params = {"limit": str(_PAGE)}
    while True:
        began = time.monotonic()
        page = kube.connection.send(Ask("GET", "/api/v1/pods", params))
        seconds.append(time.monotonic() - began)
        token = msgspec.json.decode(page, type=_ListHead).metadata.continue_
        if not token:
            return seconds
        params["continue"] = token


async def _fan_out(kube: KubeCluster) -> tuple[list[float], int]:
    """From a write's answer being asked for to the event at each watcher: latencies, and how many events never came."""
    sent: dict[str, float] = {}
    latencies: list[float] = []
    version = json.loads(await asyncio.to_thread(kube.connection.send, Ask("GET", "/api/v1/pods", {"limit": "1"})))["metadata"][
        "resourceVersion"
    ]
    watchers = [asyncio.create_task(_watch(kube, version, sent, latencies)) for _ in range(_WATCHERS)]
    await asyncio.sleep(2)
    for number in range(_WRITES):
        sent[str(number)] = time.monotonic()
        patch = {"metadata": {"labels": {"turn": str(number)}}}
        await asyncio.to_thread(kube.patch, "Pod", f"worker-0-{number:06}", patch, namespace="default")
    end = time.monotonic() + 20
    while len(latencies) < _WRITES * _WATCHERS and time.monotonic() < end:
        await asyncio.sleep(0.05)
    for watcher in watchers:
        watcher.cancel()
    await asyncio.gather(*watchers, return_exceptions=True)
    return latencies, _WRITES * _WATCHERS - len(latencies)


async def _watch(kube: KubeCluster, version: str, sent: dict[str, float], latencies: list[float]) -> None:
    params = {"watch": "true", "resourceVersion": version}
    async with kube.connection.open_async() as http, http.stream("GET", "/api/v1/pods", params=params, timeout=60) as response:
        async for line in response.aiter_lines():
            turn = json.loads(line)["object"]["metadata"]["labels"].get("turn")
            if turn in sent:
                latencies.append(time.monotonic() - sent[turn])
