"""Start and stop the reference: etcd, API server, controller-manager and scheduler, each on a free port of loopback."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from tools.kube_reference.binaries import Binaries, UnavailableError, cache, say

_START_SECONDS = 120.0
_STOP_SECONDS = 15.0
#: EKS' range, which the sandbox uses, too
_SERVICES = "10.100.0.0/16"


def folder() -> Path:
    """Data, logs and kubeconfig of the running reference."""
    return cache() / "run"


def kubeconfig() -> Path:
    """What a client needs; there while the reference runs."""
    return folder() / "kubeconfig"


def healthy() -> bool:
    """Whether the reference that was started here last still answers."""
    try:
        known = json.loads((folder() / "state.json").read_text())
    except (OSError, ValueError):
        return False
    return _ready(known["url"], known["token"], folder() / "pki" / "apiserver.crt")


def start(binaries: Binaries) -> Path:
    """Start the servers anew with empty storage; answers the kubeconfig. UnavailableError when one of them does not come up."""
    stop()
    shutil.rmtree(folder(), ignore_errors=True)
    (folder() / "logs").mkdir(parents=True)
    launch = _Launch(binaries)
    try:
        launch.etcd()
        launch.api_server()
        launch.controllers()
    except UnavailableError:
        stop()
        raise
    return kubeconfig()


def stop() -> bool:
    """End the servers, the last started first; answers whether any ran."""
    ran = False
    for record in sorted(folder().glob("*.pid"), reverse=True):
        pid, program = record.read_text().split("\n", 1)
        ran = _end(int(pid), program) or ran
        record.unlink()
    return ran


def _end(pid: int, program: str) -> bool:
    if not _is(pid, program):
        return False
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + _STOP_SECONDS
    while _is(pid, program):
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    return True


def _is(pid: int, program: str) -> bool:
    """Whether a process still is the program that we started: a number may have been given to another."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()
        dead = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return False
    return command == program and not dead


class _Launch:
    """One start, in the order in which the servers need each other."""

    def __init__(self, binaries: Binaries) -> None:
        self.binaries, self.root = binaries, folder()
        self.token = secrets.token_urlsafe(24)
        self.storage, self.port = f"http://127.0.0.1:{free_port()}", free_port()
        self.started = 0

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def etcd(self) -> None:
        peer = f"http://127.0.0.1:{free_port()}"
        self._run("etcd", {
            "data-dir": self.root / "etcd", "listen-client-urls": self.storage, "advertise-client-urls": self.storage,
            "listen-peer-urls": peer, "initial-advertise-peer-urls": peer, "initial-cluster": f"default={peer}",
            "unsafe-no-fsync": "true", "log-level": "warn",
        }, lambda: _answers(f"{self.storage}/health"))  # fmt: skip

    def api_server(self) -> None:
        pki = self.root / "pki"
        pki.mkdir()
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        plain = serialization.NoEncryption()
        pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, plain)
        for path, data in ((pki / "accounts.key", pem), (pki / "tokens.csv", f"{self.token},reference-admin,1,system:masters\n".encode())):
            path.touch(0o600)
            path.write_bytes(data)
        self._run("kube-apiserver", {
            "etcd-servers": self.storage, "bind-address": "127.0.0.1", "secure-port": self.port, "cert-dir": pki,
            "token-auth-file": pki / "tokens.csv", "authorization-mode": "RBAC", "service-cluster-ip-range": _SERVICES,
            "service-account-issuer": "https://kubernetes.default.svc", "service-account-key-file": pki / "accounts.key",
            "service-account-signing-key-file": pki / "accounts.key", "endpoint-reconciler-type": "none", "allow-privileged": "true",
            # EKS switches it on
            "enable-admission-plugins": "ExtendedResourceToleration",
            "etcd-compaction-interval": "60s", "max-requests-inflight": 4000, "max-mutating-requests-inflight": 2000, "profiling": "false",
        }, lambda: _ready(self.url, self.token, pki / "apiserver.crt"))  # fmt: skip
        cluster = {"server": self.url, "certificate-authority": str(pki / "apiserver.crt")}
        kubeconfig().touch(0o600)
        kubeconfig().write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "reference",
            "clusters": [{"name": "reference", "cluster": cluster}], "users": [{"name": "admin", "user": {"token": self.token}}],
            "contexts": [{"name": "reference", "context": {"cluster": "reference", "user": "admin"}}],
        }, indent=1) + "\n")  # fmt: skip
        (self.root / "state.json").write_text(json.dumps({"url": self.url, "token": self.token, "origin": self.binaries.origin}))

    def controllers(self) -> None:
        shared = {"kubeconfig": kubeconfig(), "leader-elect": "false", "bind-address": "127.0.0.1", "profiling": "false"}
        accounts = {
            "service-account-private-key-file": self.root / "pki" / "accounts.key",
            "root-ca-file": self.root / "pki" / "apiserver.crt",
        }
        for server, more in (("kube-controller-manager", accounts), ("kube-scheduler", {})):
            if self.binaries.path(server) is None:
                say(f"{self.binaries.folder} has no {server}: what controllers do cannot be compared.")
                continue
            port = free_port()
            own = {"secure-port": port, "cert-dir": self.root / "pki" / server}
            self._run(server, {**shared, **own, **more}, partial(_listens, port))

    def _run(self, server: str, flags: dict[str, object], ready: Callable[[], bool]) -> None:
        program = self.binaries.path(server)
        if program is None:
            raise UnavailableError(f"{self.binaries.folder} has no {server}")
        log = self.root / "logs" / f"{server}.log"
        command = [str(program), *(f"--{name}={value}" for name, value in flags.items())]
        with log.open("wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True)
        self.started += 1
        (self.root / f"{self.started}-{server}.pid").write_text(f"{process.pid}\n{program}")
        deadline = time.monotonic() + _START_SECONDS
        while not ready():
            if process.poll() is not None or time.monotonic() > deadline:
                tail = "\n".join(log.read_text(errors="replace").splitlines()[-6:])
                raise UnavailableError(f"{server} did not come up ({log}):\n{tail}")
            time.sleep(0.2)


def free_port() -> int:
    """A port of loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _answers(url: str, token: str = "", context: ssl.SSLContext | None = None) -> bool:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(request, timeout=5, context=context) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False


def _ready(url: str, token: str, authority: Path) -> bool:
    """Also that the first namespaces are there: the server answers before it has made them."""
    if not authority.exists():
        return False
    context = ssl.create_default_context(cafile=str(authority))
    return all(_answers(f"{url}{path}", token, context) for path in ("/readyz", "/api/v1/namespaces/default"))
