"""A cluster with some nodes that stands for a whole module, and what is done to it by hand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.clusters.conftest import QUICK, Job
from tests.clusters.crank import Crank, Turned
from tests.clusters.worlds import REGION, SandboxProcess

from instantstart.base.outcome import Outcome
from instantstart.capabilities.capacity.nodes import plans, specs, workflows
from instantstart.capabilities.capacity.nodes.rules import Action
from instantstart.capabilities.room import Room
from instantstart.ensure.capacity import hyperpod, instances, nodes
from instantstart.ensure.capacity.instances import Instance
from instantstart.kube.client import KubeCluster
from instantstart.store.records import ClusterRow
from instantstart_sandbox.world.settings import Settings as Weather

TAG = "nodes"
QUICK_NODES = {**QUICK, "node_reboot_seconds": 30.0, "deep_health_check_seconds": 200.0, "cluster_software_update_seconds": 60.0}
WORKFLOWS = {each.name: each for each in workflows.WORKFLOWS}


class Standing:
    """The cluster, its nodes, and its operations turned by hand."""

    def __init__(self, room: Room, sandbox: SandboxProcess) -> None:
        self.room, self.sandbox = room, sandbox
        self.crank = Crank(room, sandbox)
        self.job = Job(self.crank, tag=TAG)

    @property
    def where(self) -> Any:
        """Its site."""
        return self.job.site

    @property
    def kube(self) -> KubeCluster:
        """Its Kubernetes."""
        found: KubeCluster = self.where.kube(self.room)
        return found

    def described(self) -> dict[str, Any]:
        """DescribeCluster."""
        found = hyperpod.find_cluster(self.where.aws, self.where.hyperpod_cluster)
        assert found is not None
        return found

    def group(self, at: int = 0) -> dict[str, Any]:
        """One group as described."""
        return dict(self.described()["InstanceGroups"][at])

    def nodes(self) -> list[Instance]:
        """The instances, by id."""
        return sorted(instances.read(self.where.aws, self.described()), key=lambda each: each.key)

    def forget(self) -> None:
        """Let nothing be known from before."""
        for aws in self.room.aws._regions.values():
            aws._kept.clear()
        self.room.rosters.clear()

    def settle(self) -> None:
        """Until every node runs and is usable."""
        for _ in range(60):
            have = self.described()
            wanted = sum(g["TargetCount"] for g in have["InstanceGroups"])
            usable = [n for n in nodes.read(self.kube) if n.usable]
            if len(usable) == wanted and all(n.status == "Running" for n in self.nodes()) and have["ClusterStatus"] == "InService":
                return
            self.sandbox.warp(15)
        raise AssertionError([(n.name, n.because) for n in nodes.read(self.kube)], self.nodes())

    def prepared(self, action: Action, ask: Any) -> plans.Prepared:
        """The plan and target that the door would make."""
        return plans.prepare(self.room, TAG, action, ask)

    def run(self, action: Action, ask: Any, until: str | None = None) -> Turned:
        """The operation to its end."""
        wish = self.prepared(action, ask)
        return self.crank.run(WORKFLOWS[wish.workflow], wish.target, until)

    def reboot(self, *names: str, **more: Any) -> Turned:
        """node.reboot."""
        return self.run(Action.reboot, specs.RebootNodes(nodes=list(names), **more))

    def again(self, wish: plans.Prepared) -> Turned:
        """The same operation once more, as one that waited its turn would run."""
        return self.crank.run(WORKFLOWS[wish.workflow], wish.target)

    def old_software(self) -> None:
        """Let the group run an old release, as a cluster of last year does."""
        name = self.group()["InstanceGroupName"]
        wish = {"InstanceGroupName": name, "ImageReleaseVersion": "1.0.0"}
        self.sandbox.client("sagemaker").update_cluster_software(ClusterName=self.where.hyperpod_cluster, InstanceGroups=[wish])
        self.settle()

    def asked(self, operation: str, since: int) -> list[dict[str, Any]]:
        """The calls of one operation since a number."""
        return [call for call in self.sandbox.calls(since) if call["operation"] == operation]

    @contextmanager
    def discarding(self, stage: str, times: int = 1) -> Iterator[None]:
        """The first outcomes of a stage are thrown away after the act: what a kill does."""
        left = [times]

        def discard(name: str, _outcome: Outcome) -> bool:
            left[0] -= name == stage
            return name == stage and left[0] >= 0

        before, self.crank.discard = self.crank.discard, discard
        try:
            yield
        finally:
            self.crank.discard = before

    def serve(self, node: str, name: str = "web", replicas: int = 1, **labels: str) -> None:
        """A deployment whose pods stay on one node, running."""
        marks = {"app": name, **labels}
        pod = {
            "metadata": {"labels": marks, "annotations": {"sandbox.instantstart.dev/run": "sleep"}},
            "spec": {
                "containers": [{"name": "main", "image": "busybox:1"}],
                "nodeSelector": {"kubernetes.io/hostname": node},
                "terminationGracePeriodSeconds": 0,
            },
        }
        spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": pod}
        meta = {"name": name, "namespace": "default"}
        self.kube.create({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec})
        self.until(lambda: self.kube.get("Deployment", name, "default").get("status", {}).get("readyReplicas") == replicas)

    def stop(self, name: str = "web") -> None:
        """Take it away."""
        self.kube.delete("Deployment", name, "default")
        self.until(lambda: not self.kube.list("Pod", "default", labels=f"app={name}"))

    def until(self, true: Any) -> None:
        """Let the world move until something is true."""
        for _ in range(120):
            if true():
                return
            self.sandbox.warp(3)
        raise AssertionError("it never came true")


def stand(room: Room, sandbox: SandboxProcess, count: int) -> Standing:
    """Make the cluster with ``count`` GPU nodes on an empty account."""
    sandbox.clear()
    sandbox.admin("settings", **{**Weather().dump(), **QUICK_NODES})
    sandbox.admin("reset")
    sandbox.admin("quota", service_code="sagemaker", name="ml.g5.8xlarge for cluster usage", value=64, region=REGION)
    for row in room.store.clusters.list():
        room.store.clusters.delete(row.tag)
    room.store.clusters.upsert(ClusterRow(tag=TAG, region=REGION))
    made = Standing(room, sandbox)
    made.forget()
    done = made.job.create(instance_count=count)
    assert done.status == "succeeded", (done.stopped_at, done.problem)
    return made
