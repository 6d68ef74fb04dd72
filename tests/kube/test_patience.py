"""A busy API server says when to come back, and we do: a pass over many objects need not begin anew for one of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.kube.scripted import Asked, Reply, Wire

from instantstart.base import problems
from instantstart.base.clock import Clock
from instantstart.kube import connection
from instantstart.kube.client import KubeCluster
from instantstart.kube.connection import TRIES, Connection

_FOUND = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a", "namespace": "default"}}


@pytest.fixture
def cluster(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> Iterator[KubeCluster]:
    """A client that does not really wait."""
    monkeypatch.setattr(connection, "LONGEST_PAUSE_SECONDS", 0.0)
    made = Connection(wire.ref, lambda _: "token", Clock())
    yield KubeCluster(made)
    made.close()


def _busy(code: int, told: str | None = "1") -> Reply:
    reason = {429: "TooManyRequests", 503: "ServiceUnavailable"}[code]
    body = {"kind": "Status", "status": "Failure", "reason": reason, "message": "later", "code": code}
    return Reply(code, body, headers={} if told is None else {"Retry-After": told})


def _then(wire: Wire, *replies: Reply) -> None:
    left = list(replies)

    def answer(_: Asked) -> Reply:
        return left.pop(0) if left else Reply(200, _FOUND)

    wire.answer = answer


@pytest.mark.parametrize("code", [429, 503])
def test_a_busy_server_is_asked_again(wire: Wire, cluster: KubeCluster, code: int) -> None:
    _then(wire, _busy(code), _busy(code))
    assert cluster.get("ConfigMap", "a", "default")["metadata"]["name"] == "a"
    assert len(wire.asked) == 3


def test_one_that_stays_busy_is_told_as_busy(wire: Wire, cluster: KubeCluster) -> None:
    _then(wire, *[_busy(429)] * 10)
    with pytest.raises(problems.Busy):
        cluster.apply(_FOUND)
    assert len(wire.asked) == TRIES


def test_an_internal_error_that_names_no_time_stands(wire: Wire, cluster: KubeCluster) -> None:
    _then(wire, _busy(503, None))
    with pytest.raises(problems.Problem):
        cluster.get("ConfigMap", "a", "default")
    assert len(wire.asked) == 1


def test_a_budgets_no_is_an_answer(wire: Wire, cluster: KubeCluster) -> None:
    _then(wire, *[_busy(429)] * 10)
    with pytest.raises(problems.Busy):
        cluster.evict("a", "default")
    assert len(wire.asked) == 1
