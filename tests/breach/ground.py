"""A ready cluster in a sandbox and the product's own process before it: what is tried to be broken into."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import httpx2
from tests.clusters.conftest import QUICK
from tests.clusters.processes import ControlPlane
from tests.clusters.worlds import REGION, SandboxProcess

from instantstart.aws import tokens
from instantstart.aws.session import Aws
from instantstart.base.clock import Clock
from instantstart.ensure import eks
from instantstart.kube.client import KubeCluster
from instantstart.kube.connect import KubeGateway
from instantstart_sandbox.world.settings import Settings as Weather

RATE = 30.0
TAG = "demo"
#: no limit for one who tries a lot, and a secret in the settings that must be seen nowhere
SETTINGS = {
    "INSTANTSTART_RATE_LIMIT_PER_SECOND": "0",
    "INSTANTSTART_OIDC_CLIENT_SECRET": "oidc-Zt6Xw4Vq8Rn2",
}
TYPE, ZONE = "ml.g5.8xlarge", "usw2-az2"


class Sandbox(SandboxProcess):
    """Its ledgers of what it did not know are for those who ask for sensible things; here anything is asked for."""

    def hold(self) -> None:
        """Nothing is held against anybody."""


@dataclass
class Ground:
    """The process, its sandbox, and callers of every role. ``tag`` is the ready cluster."""

    plane: ControlPlane
    sandbox: SandboxProcess
    tag: str = TAG
    _tokens: dict[tuple[str, str], str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """Where it listens."""
        return self.plane.url

    def make_token(self, role: str, kind: str = "person", **more: Any) -> dict[str, Any]:
        """A new identity: its id and its token."""
        return dict(self.plane.call("POST", "/tokens", {"name": f"{role} {kind}", "role": role, "kind": kind, **more}))

    def token(self, role: str, kind: str = "person") -> str:
        """The token of a role, made once."""
        if (role, kind) not in self._tokens:
            self._tokens[role, kind] = str(self.make_token(role, kind)["token"])
        return self._tokens[role, kind]

    def sign(self, role: str = "admin", kind: str = "person") -> dict[str, str]:
        """Headers of a role."""
        return {"Authorization": f"Bearer {self.token(role, kind)}"}

    def ask(self, method: str, path: str, *, headers: Mapping[str, str] | None = None, **more: Any) -> httpx2.Response:
        """Any request to the process, as an administrator unless ``headers`` say otherwise."""
        signed = self.sign() if headers is None else headers
        return httpx2.request(method, f"{self.url}{path}", headers=dict(signed), timeout=60, **more)

    def kube(self) -> KubeCluster:
        """The cluster's Kubernetes, as the account's administrator sees it."""
        os.environ.update(self.sandbox.environment())
        aws = Aws(boto3.Session(region_name=REGION), REGION)
        name = self.sandbox.client("eks").list_clusters()["clusters"][0]
        return KubeGateway(lambda ref: tokens.make(aws, ref.name), Clock()).cluster(eks.ref(eks.get_cluster(aws, name), REGION))

    def log(self) -> str:
        """All that the process has written."""
        return (self.plane.folder / "control-plane.log").read_text(errors="replace")


@contextlib.contextmanager
def standing(folder: Path, settings: Mapping[str, str] | None = None, *, cluster: bool = True) -> Iterator[Ground]:
    """The world, made and taken away. ``cluster``: with a ready cluster in it."""
    sandbox = Sandbox(folder / "world", RATE)
    sandbox.start()
    plane = ControlPlane(folder / "house", sandbox, {**SETTINGS, **(settings or {})})
    try:
        sandbox.admin("settings", **{**Weather().dump(), **QUICK})
        plane.start()
        ground = Ground(plane, sandbox)
        if cluster:
            _make_cluster(ground)
        yield ground
    finally:
        plane.stop()
        sandbox.stop()


def _make_cluster(ground: Ground) -> None:
    ask = {"tag": TAG, "zone": ZONE, "instance_type": TYPE, "instance_count": 1}
    operation = ground.plane.call("POST", "/clusters", ask)["id"]
    while (made := ground.plane.follow(operation))["status"] == "blocked" and made["problem"]["code"] == "operation.stage_overdue":
        ground.plane.call("POST", f"/operations/{operation}:retry")  # the world goes faster than a machine that others need, too
    assert made["status"] == "succeeded", made["problem"]
