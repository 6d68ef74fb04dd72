"""When things happened in a run, in seconds of the sandbox: from the journal, stack and cluster events, nodes and pods."""

from __future__ import annotations

import datetime as dt
import os
import time
from dataclasses import dataclass
from typing import Any

import boto3
from tests.bench.rig import Rig
from tests.clusters.worlds import REGION

from instantstart.aws import tokens
from instantstart.aws.session import Aws
from instantstart.ensure import eks
from instantstart.kube.client import KubeCluster
from instantstart.kube.connect import KubeGateway


@dataclass(frozen=True)
class Reaction:
    """A remote end state, and when the product had done with it."""

    what: str
    ended: float
    acted: float

    @property
    def seconds(self) -> float:
        return self.acted - self.ended


class Timeline:
    """One cluster that a finished operation made. All moments are the sandbox's seconds since the epoch."""

    def __init__(self, rig: Rig, operation: dict[str, Any], of: int = 1) -> None:
        self._rig, self.operation, self._of = rig, operation, of
        self.tag = str(operation["cluster"])
        self.calls = rig.sandbox.calls()
        wall, self._now = time.time(), float(rig.sandbox.ask("now")["now"])
        self._wall = (wall + time.time()) / 2
        #: what the journal knows the HyperPod cluster by, once it is there
        self.hyperpod_arn = str(rig.sandbox.client("sagemaker").describe_cluster(ClusterName=f"hp-{self.tag}")["ClusterArn"])
        self._effective = float(rig.sandbox.ask("settings")["access_entry_effective_seconds"])

    def world(self, wall: str) -> float:
        """A moment that the control plane wrote down, which keeps the wall's time."""
        return self._now + (dt.datetime.fromisoformat(wall).timestamp() - self._wall) * self._rig.rate

    def ended(self, stage: str) -> float:
        """When a stage was done."""
        return self.world(next(s["since"] for s in self.operation["stages"] if s["name"] == stage))

    def call(self, operation: str) -> float:
        """When the last call of a name about this cluster was answered."""
        mine = [c for c in self.calls if c["operation"] == operation and any(self.tag in r for r in c["resources"])]
        return float(mine[-1]["time"])

    @property
    def stack(self) -> tuple[float, float]:
        """First and last event of the stack."""
        client = self._rig.sandbox.client("cloudformation")
        told = client.get_paginator("describe_stack_events").paginate(StackName=f"instantstart-{self.tag}-eks")
        moments = [event["Timestamp"].timestamp() for page in told for event in page["StackEvents"]]
        return min(moments), max(moments)

    def cluster_event(self, says: str) -> float:
        """When HyperPod said it last."""
        told = self._rig.sandbox.client("sagemaker").list_cluster_events(ClusterName=f"hp-{self.tag}", MaxResults=100)["Events"]
        return float(max(event["EventTime"].timestamp() for event in told if says in event["Description"]))

    def kubernetes(self) -> tuple[float, float]:
        """When the last node became Ready, and when the last pod did."""
        kube = _kube(self._rig, f"eks-{self.tag}")
        return max(_ready(n) for n in kube.list("Node")), max(_ready(p) for p in kube.list("Pod"))

    def addons(self) -> float:
        """When the last add-on changed its state."""
        client, name = self._rig.sandbox.client("eks"), f"eks-{self.tag}"
        told = [client.describe_addon(clusterName=name, addonName=each)["addon"] for each in client.list_addons(clusterName=name)["addons"]]
        return float(max(addon["modifiedAt"].timestamp() for addon in told))

    def imposed(self) -> dict[str, float]:
        """The critical path that the emulated AWS imposes, link by link."""
        begun, complete = self.stack
        node_ready, pods_ready = self.kubernetes()
        return {
            "stack (VPC, NAT, EKS)": complete - begun,
            "access entry in force": self._effective,
            "HyperPod cluster and node Ready": node_ready - self.call("CreateCluster"),
            "dependencies ready on the node": max(0.0, max(pods_ready, self.addons()) - node_ready),
        }

    def reactions(self) -> list[Reaction]:
        """Every remote end that a stage waits for."""
        node_ready, pods_ready = self.kubernetes()
        in_force = max(self.call("CreateAccessEntry"), self.call("AssociateAccessPolicy")) + self._effective
        return [
            Reaction("stack CREATE_COMPLETE -> CreateAccessEntry", self.stack[1], self.call("CreateAccessEntry")),
            Reaction("access entry in force -> API server answered", in_force, self.ended("reach")),
            Reaction("HyperPod InService -> next stage", self.cluster_event("is in service"), self.ended("hyperpod")),
            Reaction("node Running -> next stage", max(self.cluster_event("is running"), self.ended("hyperpod")), self.ended("nodes")),
            Reaction("node Ready -> next stage", max(node_ready, self.ended("nodes")), self.ended("join")),
            Reaction("dependencies ready -> next stage", max(pods_ready, self.addons(), self.ended("join")), self.ended("dependencies")),
        ]

    def calls_a_minute(self, services: set[str], begin: float, end: float) -> tuple[float, float]:
        """AWS calls a minute about this cluster between two moments: on average, and in the worst minute."""
        mine = [c["time"] for c in self.calls if c["service"] in services and begin < c["time"] <= end and self._mine(c)]
        shared = [c for c in self.calls if c["service"] in services and begin < c["time"] <= end and c["resources"] == ["*"]]
        minutes = max((end - begin) / 60, 1.0)
        worst = max((sum(t <= u < t + 60 for u in mine) for t in mine), default=0)
        return (len(mine) + len(shared) / self._of) / minutes, worst

    def _mine(self, call: dict[str, Any]) -> bool:
        return any(self.tag in resource or resource == self.hyperpod_arn for resource in call["resources"])


def _kube(rig: Rig, name: str) -> KubeCluster:
    os.environ.update(rig.sandbox.environment())
    aws = Aws(boto3.Session(region_name=REGION), REGION)
    return KubeGateway(lambda ref: tokens.make(aws, ref.name)).cluster(eks.ref(eks.get_cluster(aws, name), REGION))


def _ready(thing: dict[str, Any]) -> float:
    conditions = thing.get("status", {}).get("conditions", ())
    moments = [c["lastTransitionTime"] for c in conditions if c["type"] == "Ready" and c["status"] == "True"]
    return max((dt.datetime.fromisoformat(m).timestamp() for m in moments), default=0.0)
