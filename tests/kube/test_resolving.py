"""A name that is never answered holds nobody up (case 17); one that is not there is said to be not there."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.kube.scripted import _certificate

from instantstart.base import problems
from instantstart.base.clock import Clock
from instantstart.kube import connection
from instantstart.kube.client import KubeCluster
from instantstart.kube.cluster_ref import ClusterRef
from instantstart.kube.connection import Connection
from instantstart.kube.resolving import Names

HOST = "endpoint.gone.invalid"


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The system's resolver never answers for HOST while the test runs; the names that it was asked for."""
    released, asked, truth = threading.Event(), [], socket.getaddrinfo

    def resolve(host: Any, *more: Any, **named: Any) -> Any:
        if host == HOST:
            asked.append(host)
            released.wait()
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return truth(host, *more, **named)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    yield asked
    released.set()


@pytest.fixture
def cluster(tmp_path: Path) -> KubeCluster:
    """A cluster at an address that only has a name."""
    _, pem = _certificate(tmp_path)
    ref = ClusterRef("arn:aws:eks:us-west-2:111122223333:cluster/demo", "demo", "us-west-2", f"https://{HOST}", pem)
    return KubeCluster(Connection(ref, lambda ref: "token", Clock()))


def test_a_name_that_never_answers_is_unreachable_and_looked_up_once(
    cluster: KubeCluster, hanging: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "CONNECT_SECONDS", 0.05)
    monkeypatch.setattr(connection, "DOWN_SECONDS", 0.0)
    for _ in range(3):
        with pytest.raises(problems.Unreachable) as away:
            cluster.list("Namespace")
        assert away.value.code == "kubernetes.unreachable"
        assert "not resolved" in away.value.evidence["error"]
        assert away.value.hint
        assert "forget it" in away.value.hint
    assert hanging == [HOST]


def test_a_name_that_does_not_exist_is_unreachable_too(cluster: KubeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", nowhere)
    with pytest.raises(problems.Unreachable) as away:
        cluster.list("Namespace")
    assert "cannot be resolved" in away.value.evidence["error"]


def test_a_name_that_was_found_and_an_address_are_not_looked_up_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def resolve(host: str, *_: Any, **__: Any) -> Any:
        asked.append(host)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    names = Names()
    for url in ("https://one.invalid/x", "https://one.invalid/y", "https://127.0.0.1:8443", "https://[::1]:1"):
        names.check(httpx2.URL(url), 1.0)
    assert asked == ["one.invalid"]
