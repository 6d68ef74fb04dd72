"""Fault rules at an API server: refusals, hang-ups, lost replies, held callers; watches that are cut."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest
from tests.sandbox.kubernetes.conftest import ARN, Aws, World

from instantstart_sandbox.kubernetes.server import KubernetesServer
from instantstart_sandbox.kubernetes.weather import Weather
from instantstart_sandbox.world.clock import Clock
from instantstart_sandbox.world.faults import Faults
from instantstart_sandbox.world.settings import Settings

MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def faults() -> Faults:
    """Fair weather to begin with."""
    return Faults(Settings())


@pytest.fixture
def http(tmp_path: Path, faults: Faults) -> Iterator[httpx2.Client]:
    """A client of a cluster under these faults."""
    clock = Clock()
    server = KubernetesServer(tmp_path / "kubernetes", clock, Aws())
    server.weather = Weather(faults, clock)
    endpoint = server.create_cluster(ARN, "demo", "region-1", "1.33")
    with World(server, endpoint, tmp_path).http() as client:
        yield client
    server.close()


def _names(http: httpx2.Client) -> list[str]:
    return [item["metadata"]["name"] for item in http.get(MAPS).json()["items"]]


def test_only_rules_that_say_kubernetes_strike(http: httpx2.Client, faults: Faults) -> None:
    faults.add(match=".*", code="throttle", count=None)
    assert http.get(MAPS).status_code == 200
    faults.add(match="kubernetes:list/configmaps", code="throttle")
    refused = http.get(MAPS)
    assert (refused.status_code, refused.headers["retry-after"], refused.json()["reason"]) == (429, "1", "TooManyRequests")
    faults.add(match="kubernetes:get/version", code="unavailable")
    assert http.get("/version").status_code == 503
    assert http.get("/version").status_code == 200


def test_away_hangs_up_and_does_nothing(http: httpx2.Client, faults: Faults) -> None:
    faults.add(match="kubernetes:create/.*", code="away")
    with pytest.raises(httpx2.TransportError):
        http.post(MAPS, json={"metadata": {"name": "a"}})
    assert "a" not in _names(http)


def test_a_lost_reply_is_of_an_act_that_happened(http: httpx2.Client, faults: Faults) -> None:
    faults.add(match="kubernetes:create/configmaps", when="after")
    with pytest.raises(httpx2.TransportError):
        http.post(MAPS, json={"metadata": {"name": "a"}})
    assert "a" in _names(http)


@pytest.mark.parametrize(("when", "acted"), [("hold", True), ("halt", False)])
def test_a_caller_is_kept_waiting_until_the_rule_goes(http: httpx2.Client, faults: Faults, when: str, acted: bool) -> None:
    rule = faults.add(match="kubernetes:create/configmaps", when=when)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(http.post, MAPS, json={"metadata": {"name": "a"}})
        until = time.monotonic() + 10
        while time.monotonic() < until and not (rule.struck and (not acted or "a" in _names(http))):
            time.sleep(0.01)
        assert ("a" in _names(http)) is acted
        assert not asked.done()
        faults.take_away(rule.id)
        with pytest.raises(httpx2.TransportError):
            asked.result(timeout=10)
    assert ("a" in _names(http)) is acted


def test_a_watch_is_cut_in_the_middle(http: httpx2.Client, faults: Faults) -> None:
    faults.settings.watch_cut_seconds = 0.3
    with http.stream("GET", f"{MAPS}?watch=true") as stream, pytest.raises(httpx2.TransportError):
        for _ in stream.iter_lines():
            pass
