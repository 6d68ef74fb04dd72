"""One emulated cluster over real HTTPS, with a token that is an administrator and others with less."""

from __future__ import annotations

import json
import shutil
import ssl
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from instantstart_sandbox.kubernetes.cluster import Cluster
from instantstart_sandbox.kubernetes.server import KubernetesServer
from instantstart_sandbox.world.clock import Clock
from instantstart_sandbox.world.seams import Addon, Endpoint, Identity, Instance

Object = dict[str, Any]
ARN = "arn:test:eks:region-1:000000000000:cluster/demo"

IDENTITIES = {
    "admin-token": Identity("arn:admin", "admin-user", (), (("AmazonEKSClusterAdminPolicy", ()),)),
    "viewer-token": Identity("arn:viewer", "viewer-user", (), (("AmazonEKSViewPolicy", ()),)),
    "editor-token": Identity("arn:editor", "editor-user", (), (("AmazonEKSEditPolicy", ("team-a",)),)),
    "nobody-token": Identity("arn:nobody", "nobody-user", ("some-group",)),
}


class Aws:
    """An AwsWorld that knows four tokens and nothing else."""

    def authenticate(self, cluster: str, token: str) -> Identity | None:
        return IDENTITIES.get(token)

    def instances(self, cluster: str) -> list[Instance]:
        return []

    def addons(self, cluster: str) -> list[Addon]:
        return []

    def request_node_action(self, cluster: str, instance_id: str, action: str) -> None:
        raise AssertionError("not asked for here")

    def create_load_balancer(self, cluster: str, service: str, scheme: str) -> str:
        return "lb.example"

    def delete_load_balancer(self, cluster: str, service: str) -> None:
        raise AssertionError("not asked for here")

    def file_system_ready(self, dns_name: str) -> bool:
        return True

    def bucket_exists(self, bucket: str) -> bool:
        return False


@dataclass
class World:
    """The running server and how to speak to it."""

    server: KubernetesServer
    endpoint: Endpoint
    folder: Path

    @property
    def cluster(self) -> Cluster:
        return self.server.cluster(ARN)

    def http(self, token: str | None = "admin-token") -> httpx2.Client:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        context = ssl.create_default_context(cadata=self.endpoint.ca_pem)
        return httpx2.Client(base_url=self.endpoint.url, headers={"User-Agent": "tester/1.0", **headers}, verify=context, timeout=30)


def start(folder: Path) -> World:
    server = KubernetesServer(folder, Clock(), Aws())
    return World(server, server.create_cluster(ARN, "demo", "region-1", "1.33"), folder)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    running = start(tmp_path / "kubernetes")
    yield running
    running.server.close()


@pytest.fixture
def http(world: World) -> Iterator[httpx2.Client]:
    with world.http() as client:
        yield client


@pytest.fixture
def kubectl(world: World, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs kubectl against the cluster; skips where there is none."""
    program = shutil.which("kubectl")
    if program is None:
        pytest.skip("kubectl is not installed")
    (tmp_path / "ca.crt").write_text(world.endpoint.ca_pem)
    config = {
        "apiVersion": "v1", "kind": "Config", "current-context": "demo",
        "clusters": [{"name": "demo", "cluster": {"server": world.endpoint.url, "certificate-authority": str(tmp_path / "ca.crt")}}],
        "users": [{"name": "admin", "user": {"token": "admin-token"}}],
        "contexts": [{"name": "demo", "context": {"cluster": "demo", "user": "admin"}}],
    }  # fmt: skip
    (tmp_path / "config").write_text(json.dumps(config))

    def run(*arguments: str, stdin: str | None = None, code: int | None = 0) -> subprocess.CompletedProcess[str]:
        environment = {"KUBECONFIG": str(tmp_path / "config"), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin:/usr/local/bin"}
        done = subprocess.run([program, *arguments], input=stdin, env=environment, capture_output=True, text=True, timeout=60, check=False)
        if code is not None:
            assert done.returncode == code, f"kubectl {' '.join(arguments)}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    return run
