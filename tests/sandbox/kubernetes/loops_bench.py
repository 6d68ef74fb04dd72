"""A cluster on a bench: its controllers are stepped by hand and time passes only when a test says so."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from instantstart_sandbox.kubernetes.aws_view import AwsView
from instantstart_sandbox.kubernetes.cluster import About, Cluster
from instantstart_sandbox.kubernetes.controllers import assemble
from instantstart_sandbox.kubernetes.loops.engine import Engine
from instantstart_sandbox.world.clock import Clock
from instantstart_sandbox.world.seams import Addon, Identity, Instance

Object = dict[str, Any]
ARN = "arn:aws:eks:us-west-2:111122223333:cluster/bench"
START = 1_790_000_000.0


def instance(name: str = "i-0aaaaaaaaaaaaaaa1", kind: str = "ml.m5.4xlarge", **changes: Any) -> Instance:
    """A running instance that has joined."""
    given: dict[str, Any] = {
        "instance_id": name,
        "cluster_name": "ml",
        "group": "gpu",
        "instance_type": kind,
        "status": "Running",
        "zone": "us-west-2b",
        "zone_id": "usw2-az2",
        "private_ip": "10.1.2.10",
        "capacity_type": "OnDemand",
        "joined": True,
    }
    return Instance(**{**given, **changes})


class FakeAws:
    """The AWS side: what a test puts into it, and what was asked of it."""

    def __init__(self) -> None:
        self.machines: list[Instance] = []
        self.installed: list[Addon] = []
        #: the copies that EKS brings with a new cluster
        self.self_managed = ["vpc-cni", "kube-proxy", "coredns"]
        self.buckets: set[str] = set()
        self.actions: list[tuple[str, str]] = []
        self.balancers: dict[str, str] = {}
        self.refuse_balancers = False

    def authenticate(self, cluster: str, token: str) -> Identity | None:
        return None

    def instances(self, cluster: str) -> list[Instance]:
        return list(self.machines)

    def addons(self, cluster: str) -> list[Addon]:
        named = {n: Addon(n, "v1", "ACTIVE") for n in self.self_managed}
        return list({**named, **{a.name: a for a in self.installed}}.values())

    def request_node_action(self, cluster: str, instance_id: str, action: str) -> None:
        self.actions.append((instance_id, action))

    def create_load_balancer(self, cluster: str, service: str, scheme: str) -> str:
        if self.refuse_balancers:
            raise RuntimeError("no subnet is tagged for load balancers")
        self.balancers[service] = scheme
        return f"k8s-{service.replace('/', '-')}.elb.example"

    def delete_load_balancer(self, cluster: str, service: str) -> None:
        self.balancers.pop(service, None)

    def file_system_ready(self, dns_name: str) -> bool:
        return True

    def bucket_exists(self, bucket: str) -> bool:
        return bucket in self.buckets


class Bench:
    """Cluster, engine, clock and AWS together."""

    def __init__(self, data: Path, aws: FakeAws, clock: Clock) -> None:
        self.aws, self.clock = aws, clock
        self.cluster = Cluster(About(ARN, "bench", "us-west-2", "1.33"), data, clock, aws)
        self.client = self.cluster.client.named("tester")
        self.engine: Engine
        self.view: AwsView

    async def __aenter__(self) -> Bench:
        self.cluster.bind(asyncio.get_running_loop())
        self.engine, self.view = assemble(self.cluster)
        self.engine.begin()
        await self.hear()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cluster.stop()
        # processes that were killed are waited for: else their transports outlive the loop and complain from within the garbage collector
        ending = [t for t in asyncio.all_tasks() if getattr(t.get_coro(), "__qualname__", "") == "_watch"]
        if ending:
            await asyncio.wait(ending, timeout=3)
        assert self.cluster.crashes == []

    async def settle(self) -> None:
        """Work until nothing is to be done at this moment."""
        while True:
            while await self.engine.step():
                pass
            # answers of the AWS side come from threads, and what they bring is work again
            if not await self._answered():
                return

    async def _answered(self) -> bool:
        asked = [
            t
            for t in asyncio.all_tasks()
            if t.get_name().startswith("bench:") and not any(word in t.get_name() for word in ("expire", "for ever"))
        ]
        if asked:
            await asyncio.wait(asked)
        return bool(asked)

    async def hear(self) -> None:
        """Let the view of AWS be refreshed, and settle."""
        await self.view.ask()
        await self.settle()

    async def wait(self, seconds: float) -> None:
        """Let virtual seconds pass, moment by moment."""
        end = self.clock.now() + seconds
        await self.settle()
        while (due := self.engine.next_due) is not None and due <= end:
            self.clock.warp(max(due - self.clock.now(), 0.0))
            await self.settle()
        self.clock.warp(max(end - self.clock.now(), 0.0))
        await self.settle()

    async def machine(self, name: str = "i-0aaaaaaaaaaaaaaa1", kind: str = "ml.g5.8xlarge", **changes: Any) -> str:
        """Let an instance join and become ready; answers the node's name."""
        others = [m for m in self.aws.machines if m.instance_id != name]
        self.aws.machines = [*others, instance(name, kind, **{"private_ip": f"10.1.2.{len(self.aws.machines) + 10}", **changes})]
        await self.hear()
        await self.wait(30)
        return f"hyperpod-{name}"

    def get(self, resource: str, name: str, namespace: str | None = None) -> Object:
        """An object that must be there."""
        found = self.cluster.read(resource, name, namespace)
        assert found is not None, f"{resource} {namespace}/{name} is not there"
        return found

    def pods(self, namespace: str = "default") -> list[Object]:
        """The pods of a namespace."""
        return self.cluster.read_all("pods", namespace)

    def events(self, namespace: str = "default") -> list[tuple[str, str]]:
        """(reason, message) of the events of a namespace."""
        return [(e["reason"], e["message"]) for e in self.cluster.read_all("events", namespace)]


def on_bench(data: Path, test: Callable[[Bench], Awaitable[None]], aws: FakeAws | None = None, start: float = START) -> None:
    """Run a test on a new bench. Real time counts for nothing beside the warps: the rate is a thousandth."""

    async def run() -> None:
        async with Bench(data, aws or FakeAws(), Clock(rate=0.001, start=start)) as bench:
            await test(bench)

    asyncio.run(run())


def pod_spec(image: str = "busybox", **spec: Any) -> Object:
    """A pod's spec with one container."""
    return {"containers": [{"name": "main", "image": image, **spec.pop("container", {})}], **spec}


def workload(kind: str, name: str, **spec: Any) -> Object:
    """A Deployment, DaemonSet, StatefulSet or Job with one label ``app``."""
    annotations = spec.pop("annotations", {})
    metadata = {"labels": {"app": name}, **({"annotations": annotations} if annotations else {})}
    template = {"metadata": metadata, "spec": spec.pop("pod", pod_spec())}
    selector = {} if kind == "Job" else {"selector": {"matchLabels": {"app": name}}}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {**selector, "template": template, **spec}}
