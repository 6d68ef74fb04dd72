"""The two sides that are compared: the sandbox's Kubernetes, and a real one when there is one."""

from __future__ import annotations

import base64
import json
import os
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import yaml

from instantstart_sandbox.kubernetes.controllers import start_controllers
from instantstart_sandbox.kubernetes.server import KubernetesServer
from instantstart_sandbox.world.clock import Clock
from instantstart_sandbox.world.seams import Addon, Endpoint, Identity, Instance

ARN = "arn:test:eks:region-1:000000000000:cluster/differential"
TOKEN = "administrator"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "instantstart" / "kube-reference"
#: what a skipped test says
NO_REFERENCE = "no real Kubernetes to compare with: `make kube-reference` starts one, INSTANTSTART_REFERENCE_KUBECONFIG names one"


class EmptyAccount:
    """An AwsWorld with one administrator and no machines."""

    def authenticate(self, cluster: str, token: str) -> Identity | None:
        return (
            Identity("arn:admin", "reference-admin", ("system:masters",), (("AmazonEKSClusterAdminPolicy", ()),))
            if token == TOKEN
            else None
        )

    def instances(self, cluster: str) -> list[Instance]:
        return []

    def addons(self, cluster: str) -> list[Addon]:
        return []

    def request_node_action(self, cluster: str, instance_id: str, action: str) -> None:
        raise AssertionError("there are no machines")

    def create_load_balancer(self, cluster: str, service: str, scheme: str) -> str:
        return "lb.example"

    def delete_load_balancer(self, cluster: str, service: str) -> None:
        return

    def file_system_ready(self, dns_name: str) -> bool:
        return True

    def bucket_exists(self, bucket: str) -> bool:
        return False


@dataclass(frozen=True)
class Side:
    """How to reach one of the two. ``kubeconfig`` is a file for kubectl."""

    name: str
    url: str
    headers: Mapping[str, str]
    tls: ssl.SSLContext
    kubeconfig: Path

    def authority(self, cluster: Mapping[str, Any]) -> str:
        """The PEM text of the certificate authority in a kubeconfig's cluster."""
        return _text(cluster, "certificate-authority")

    def client(self) -> httpx2.Client:
        """A client whose requests look the same on both sides (a manager is named by the user agent)."""
        return httpx2.Client(base_url=self.url, headers={"User-Agent": "differential/1.0", **self.headers}, verify=self.tls, timeout=60)


def sandbox(folder: Path) -> tuple[KubernetesServer, Side]:
    """Start the sandbox's Kubernetes with its controllers; whoever calls this closes the server."""
    server = KubernetesServer(folder / "kubernetes", Clock(), EmptyAccount(), start_controllers)
    endpoint: Endpoint = server.create_cluster(ARN, "differential", "region-1", "1.34")
    config = folder / "kubeconfig"
    cluster = {"server": endpoint.url, "certificate-authority-data": base64.b64encode(endpoint.ca_pem.encode()).decode()}
    config.write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "sandbox", "clusters": [{"name": "sandbox", "cluster": cluster}],
        "contexts": [{"name": "sandbox", "context": {"cluster": "sandbox", "user": "admin"}}],
        "users": [{"name": "admin", "user": {"token": TOKEN}}],
    }))  # fmt: skip
    return server, connect("sandbox", config)


def reference() -> Side | None:
    """The real one: that of INSTANTSTART_REFERENCE_KUBECONFIG, else the one that tools/kube-reference has started; None without."""
    given = os.environ.get("INSTANTSTART_REFERENCE_KUBECONFIG")
    path = Path(given) if given else CACHE / "run" / "kubeconfig"
    if not path.exists():
        return None
    side = connect("reference", path)
    try:
        with side.client() as client:
            client.get("/readyz", timeout=10).raise_for_status()
    except httpx2.HTTPError:
        if given:
            raise
        return None
    return side


def connect(name: str, kubeconfig: Path) -> Side:
    """A side from a kubeconfig with a token or a client certificate."""
    config = yaml.safe_load(kubeconfig.read_text())
    context = next(c["context"] for c in config["contexts"] if c["name"] == config["current-context"])
    cluster = next(c["cluster"] for c in config["clusters"] if c["name"] == context["cluster"])
    user = next(u["user"] for u in config["users"] if u["name"] == context["user"])
    authority = _text(cluster, "certificate-authority")
    tls = ssl.create_default_context(cadata=authority) if authority else ssl.create_default_context()
    certificate, key = _text(user, "client-certificate"), _text(user, "client-key")
    if certificate and key:
        with tempfile.TemporaryDirectory() as folder:
            pair = Path(folder) / "pair.pem"
            pair.touch(0o600)
            pair.write_text(certificate + "\n" + key)
            tls.load_cert_chain(pair)
    token = _text(user, "token")
    return Side(name, cluster["server"], {"Authorization": f"Bearer {token}"} if token else {}, tls, kubeconfig)


def _text(place: Mapping[str, Any], field: str) -> str:
    """A value given in line, as base64 or as a file."""
    if f"{field}-data" in place:
        return base64.b64decode(place[f"{field}-data"]).decode()
    if field == "token":
        return Path(place["tokenFile"]).read_text().strip() if "tokenFile" in place else str(place.get("token", ""))
    return Path(place[field]).read_text() if field in place else ""
