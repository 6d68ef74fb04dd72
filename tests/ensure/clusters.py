"""A sandbox cluster without AWS: the API server, controllers, kubelets and nodes are the sandbox's; what AWS says is the test's."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.sandbox.kubernetes.loops_bench import FakeAws

from instantstart.base.clock import Clock
from instantstart.kube.client import KubeCluster
from instantstart.kube.connect import ClusterRef, KubeGateway
from instantstart_sandbox.kubernetes import controllers
from instantstart_sandbox.kubernetes.server import KubernetesServer
from instantstart_sandbox.world.clock import Clock as WorldClock
from instantstart_sandbox.world.seams import Identity, Instance

STAND_INS = Path(__file__).parents[2] / "src" / "instantstart_sandbox" / "bundles"
FACTS = {"region": "eu-west-1", "dns_suffix": "example.invalid"}
ARN = "arn:aws:eks:us-west-2:111122223333:cluster/demo"
RATE = 60.0


class Aws(FakeAws):
    """Admits one token, until it is told not to."""

    def __init__(self) -> None:
        super().__init__()
        self.admitted = {"admin-token"}

    def authenticate(self, cluster: str, token: str) -> Identity | None:
        return Identity("arn:admin", "admin", (), (("AmazonEKSClusterAdminPolicy", ()),)) if token in self.admitted else None


@dataclass
class Sandbox:
    """The running world and the product's client of its one cluster."""

    aws: Aws
    server: KubernetesServer
    gateway: KubeGateway
    ref: ClusterRef

    @property
    def kube(self) -> KubeCluster:
        return self.gateway.cluster(self.ref)

    def join(self, instance_type: str) -> str:
        """Let an instance join; the node's name. It becomes Ready by itself."""
        number = len(self.aws.machines) + 1
        machine = Instance(
            instance_id=f"i-0{number:016x}",
            cluster_name="ml",
            group="gpu",
            instance_type=instance_type,
            status="Running",
            zone="us-west-2b",
            zone_id="usw2-az2",
            private_ip=f"10.1.2.{number}",
            capacity_type="OnDemand",
            joined=True,
        )
        self.aws.machines.append(machine)
        self.server.nudge(ARN)
        return f"hyperpod-{machine.instance_id}"


def pause() -> None:
    """Let the world move a little (real seconds)."""
    time.sleep(0.05)


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    """A cluster of its own for the test, a minute of the world each second."""
    aws = Aws()
    server = KubernetesServer(tmp_path / "kubernetes", WorldClock(RATE), aws, controllers.start_controllers)
    endpoint = server.create_cluster(ARN, "demo", "us-west-2", "1.33")
    gateway = KubeGateway(lambda _: "admin-token", Clock(RATE))
    yield Sandbox(aws, server, gateway, ClusterRef(ARN, "demo", "us-west-2", endpoint.url, endpoint.ca_pem))
    gateway.close()
    server.close()


@pytest.fixture
def kube(sandbox: Sandbox) -> KubeCluster:
    """Its client."""
    return sandbox.kube
