"""Where the reference's binaries come from: given (KUBEBUILDER_ASSETS), built before, or built now from Go modules.

What is built is said in go.mod beside this file: Kubernetes and etcd as published by their projects. The first build takes 15 to 40 minutes
on two cores; the binaries stay in ``~/.cache/instantstart/kube-reference/<version>/``.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
#: started in this order; the last two are missing from the envtest archives
SERVERS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
_NEEDED = SERVERS[:2]
_VERSION_PACKAGES = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
_COMMANDS = (
    "k8s.io/kubernetes/cmd/kube-apiserver",
    "k8s.io/kubernetes/cmd/kube-controller-manager",
    "k8s.io/kubernetes/cmd/kube-scheduler",
)
_OLDEST_GO = (1, 24)


class UnavailableError(Exception):
    """No reference can be had on this machine; the text says why and what would help."""


@dataclass(frozen=True)
class Binaries:
    """A folder with the servers, and where it came from."""

    folder: Path
    origin: str

    def path(self, server: str) -> Path | None:
        """A server's program, if the folder has it."""
        found = self.folder / server
        return found if os.access(found, os.X_OK) else None


def cache() -> Path:
    """Outside the repository, so that a fresh clone finds the binaries of the last one."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "instantstart" / "kube-reference"


def version() -> str:
    """The Kubernetes version that go.mod names, such as v1.34.4."""
    found = re.search(r"^\s*k8s\.io/kubernetes (v[\d.]+)\b", (HERE / "go.mod").read_text(), re.MULTILINE)
    if found is None:
        raise UnavailableError("go.mod names no version of k8s.io/kubernetes")
    return found[1]


def find(*, build: bool = True) -> Binaries:
    """The binaries, built if need be and allowed. UnavailableError says why there are none."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets:
        given = Binaries(Path(assets), "KUBEBUILDER_ASSETS")
        lacking = [server for server in _NEEDED if given.path(server) is None]
        if not lacking:
            return given
        say(f"KUBEBUILDER_ASSETS is {assets}, which has no {' and no '.join(lacking)}: passed over.")
    built = Binaries(cache() / version() / "bin", f"Kubernetes {version()}, built from Go modules")
    if all(built.path(server) for server in SERVERS):
        return built
    if not build:
        raise UnavailableError("no binaries in KUBEBUILDER_ASSETS, none built before")
    _build(built.folder)
    return built


def _build(folder: Path) -> None:
    go = _go()
    say(f"Building Kubernetes {version()} and etcd from Go modules; 15 to 40 minutes on two cores. It is done once.")
    building = folder.parent / f"building-{os.getpid()}"
    building.mkdir(parents=True)
    log = folder.parent / "build.log"
    environment = {**os.environ, "GOWORK": "off", "CGO_ENABLED": "0", "GOTOOLCHAIN": "local"}
    environment["GOFLAGS"] = f"{os.environ.get('GOFLAGS', '')} -buildvcs=false -mod=readonly".strip()
    command = [go, "build", "-trimpath", "-ldflags", f"-s -w {_stamps()}", "-o", f"{building}/", *_COMMANDS, "./etcd"]
    try:
        with log.open("wb") as output:
            done = subprocess.run(_gently(command), cwd=HERE, env=environment, stdout=output, stderr=subprocess.STDOUT, check=False)
        if done.returncode:
            raise UnavailableError(f"the build failed ({log}):\n" + "\n".join(log.read_text(errors="replace").splitlines()[-8:]))
        if folder.exists():
            shutil.rmtree(folder)
        building.rename(folder)
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _gently(command: list[str]) -> list[str]:
    return ["nice", "-n", "10", *command] if shutil.which("nice") else command


def _stamps() -> str:
    """What ``/version`` is to say; without it the server calls itself v0.0.0-master, and kubectl misjudges it."""
    name = version()
    major, minor = name.removeprefix("v").split(".")[:2]
    facts = {"gitVersion": name, "gitMajor": major, "gitMinor": minor, "gitTreeState": "archive"}
    return " ".join(f"-X {package}.{key}={value}" for package in _VERSION_PACKAGES for key, value in facts.items())


def _go() -> str:
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if go is None:
        raise UnavailableError(
            "no binaries in KUBEBUILDER_ASSETS, none built before, and no Go here to build them with. Any of these helps: Go "
            f"{_OLDEST_GO[0]}.{_OLDEST_GO[1]} or newer on the PATH, an envtest archive in KUBEBUILDER_ASSETS, a cluster's kubeconfig in "
            "INSTANTSTART_REFERENCE_KUBECONFIG"
        )
    told = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"go(\d+)\.(\d+)", told)
    if found is None or (int(found[1]), int(found[2])) < _OLDEST_GO:
        raise UnavailableError(f"{go} is {told.strip()}; Kubernetes {version()} wants Go {_OLDEST_GO[0]}.{_OLDEST_GO[1]} or newer")
    return go


def say(text: str) -> None:
    """To the person at the terminal; standard output is for the kubeconfig's path alone."""
    print(text, file=sys.stderr, flush=True)
