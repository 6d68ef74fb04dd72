"""Puts the sandbox together: the world, the gateway, the services and the Kubernetes side."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path

from instantstart_sandbox.gateway import guards
from instantstart_sandbox.gateway.server import Server
from instantstart_sandbox.kubernetes.controllers import start_controllers
from instantstart_sandbox.kubernetes.server import KubernetesServer
from instantstart_sandbox.kubernetes.weather import Weather
from instantstart_sandbox.services import (
    amp,
    balanced,
    cloudformation,
    eks,
    fsx,
    hub,
    hyperpod,
    iam_simulation,
    invocations,
    mlflow,
    quotas,
    sts_tokens,
)
from instantstart_sandbox.services.aws_world import EmulatedAws
from instantstart_sandbox.services.eks.state import clusters
from instantstart_sandbox.world.admin import Admin
from instantstart_sandbox.world.clock import Clock
from instantstart_sandbox.world.settings import Settings
from instantstart_sandbox.world.state import DEFAULT_REGION, World

DEFAULT_RATE = 12.0
#: a harmless call of each service that a cluster's making begins with
_WARMED = (
    ("sts", "get_caller_identity"),
    ("eks", "list_clusters"),
    ("sagemaker", "list_clusters"),
    ("ec2", "describe_vpcs"),
    ("cloudformation", "describe_stacks"),
    ("iam", "list_roles"),
    ("s3", "list_buckets"),
    ("service-quotas", "list_services"),
    ("logs", "describe_log_groups"),
)
_SERVICES = (quotas, sts_tokens, iam_simulation, fsx, hub, hyperpod, mlflow, eks, cloudformation, invocations, amp, balanced)


class Sandbox:
    """A world and the sockets on which it is reached."""

    def __init__(self, world: World, kubernetes: KubernetesServer) -> None:
        self.world, self.kubernetes = world, kubernetes
        self._server: Server | None = None

    def start(self, port: int = 0) -> str:
        """Listen on 127.0.0.1; the endpoint's URL, which is also written to ``credentials.json``."""
        self._server = Server(self.world, port)
        endpoint = self._server.start()
        if self.world.gateway.mlflow is not None:
            self.world.gateway.mlflow.endpoint = endpoint
            self.world.gateway.mlflow.resume()
        if self.world.data_dir is not None:
            _write_credentials(self.world.data_dir / "credentials.json", self.world.credentials() | {"endpoint_url": endpoint})
        self.world.save()
        return endpoint

    def warm(self) -> None:
        """Make the first call of each service: no client waits, with the clock running, while its model is read. A second of CPU."""
        for service, operation in _WARMED:
            getattr(self.world.client(service), operation)()

    def stop(self) -> None:
        """Stop listening and save. What a world without a data folder kept in a temporary one is removed."""
        if self._server is not None:
            self._server.stop()
        if self.world.gateway.mlflow is not None:
            self.world.gateway.mlflow.close()
        self.kubernetes.close()
        self.world.save()
        if self.world.data_dir is None:
            shutil.rmtree(self.kubernetes.data_dir, ignore_errors=True)


def build(
    data_dir: Path | None = None, *, region: str = DEFAULT_REGION, rate: float | None = None, settings_file: Path | None = None
) -> Sandbox:
    """A sandbox, with what ``data_dir`` has saved. ``rate`` None: as saved, else 30.

    One process holds one sandbox: moto's state is the process's. ValueError for bad settings or a foreign snapshot.
    """
    data_dir = None if data_dir is None else data_dir.absolute()  # pods' processes work in folders of their own
    world = World(data_dir, clock=Clock(rate or DEFAULT_RATE), settings=Settings(), region=region)
    world.gateway.admin = Admin(world)
    guards.install(world)
    for service in _SERVICES:
        service.install(world)
    restored = world.persist() if data_dir is not None else False
    if settings_file is not None:
        world.settings.update(json.loads(settings_file.read_text()))
    if restored and rate is not None:
        world.clock.set_rate(rate)
    world.gateway.iam.seed()
    folder = Path(tempfile.mkdtemp(prefix="sandbox-kubernetes-")) if data_dir is None else data_dir / "kubernetes"
    kubernetes = KubernetesServer(folder, world.clock, EmulatedAws(world), start_controllers)
    kubernetes.weather = Weather(world.faults, world.clock)
    world.kubernetes = kubernetes
    for arn in kubernetes.restore():
        if arn not in clusters(world):  # the process was killed between the two sides' deletions
            kubernetes.delete_cluster(arn)
    return Sandbox(world, kubernetes)


def _write_credentials(path: Path, credentials: dict[str, str]) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(credentials, file, indent=2)
        file.write("\n")
