"""The figures for Prometheus: behind the door, by routes' patterns, without names of anything."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from instantstart.base import metrics, problems

Sign = Callable[..., dict[str, str]]


def samples(client: TestClient, headers: dict[str, str]) -> dict[tuple[str, ...], float]:
    """name and label values -> value."""
    answer = client.get("/metrics", headers=headers)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    found = {}
    for family in text_string_to_metric_families(answer.text):
        for each in family.samples:
            found[(each.name, *(value for key, value in sorted(each.labels.items()) if key != "le"))] = each.value
    return found


def test_they_are_for_whoever_may_look(client: TestClient, sign: Sign) -> None:
    assert client.get("/metrics").status_code == 401
    told = samples(client, sign("viewer"))
    assert told["process_resident_memory_bytes",] > 0


def test_a_request_is_counted_by_the_pattern_of_its_route(client: TestClient, sign: Sign) -> None:
    key = ("instantstart_http_request_seconds_count", "GET", "/api/v1/operations/{operation_id}", "404")
    before = samples(client, sign("viewer")).get(key, 0)
    client.get("/api/v1/operations/op-hidden-name", headers=sign("viewer"))
    after = samples(client, sign("viewer"))
    assert after.get(key) == before + 1, sorted(name for name in after if name[0] == key[0])
    assert "op-hidden-name" not in client.get("/metrics", headers=sign("viewer")).text
    assert not [name for name in after if "/nowhere/secret" in name]


def test_what_fails_is_counted_by_its_kind() -> None:
    def count(outcome: str) -> float:
        return float(metrics.AWS.labels("ec2", "describe_vpcs", outcome)._sum.get() > 0)

    with pytest.raises(problems.Busy), metrics.timed(metrics.AWS, "ec2", "describe_vpcs"):
        raise problems.Busy("x.y", "no")
    with metrics.timed(metrics.AWS, "ec2", "describe_vpcs"):
        pass
    assert count("Busy") == 1
    assert count("ok") == 1
