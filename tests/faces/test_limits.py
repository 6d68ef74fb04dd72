"""How much may be asked: buckets that fill again, of bounded number, dearer for changes; refused with a word on when to come back."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.faces import toys

from instantstart import store
from instantstart.base.clock import Clock
from instantstart.base.settings import Settings
from instantstart.faces.api import limits, origin
from instantstart.faces.api.app import build


def _scope(**more: Any) -> dict[str, Any]:
    return {"type": "http", "method": "GET", "path": "/api/v1/me", **more}


def test_a_bucket_fills_again_at_its_rate_and_a_refusal_costs_nothing() -> None:
    now = 0.0
    buckets = limits.Buckets(per_second=2, burst=10)
    buckets.now = lambda: now
    assert [buckets.take("a", 5) for _ in range(2)] == [0, 0]
    assert buckets.take("a", 1) == 0.5
    assert buckets.take("a", 4) == 2.0
    assert buckets.take("b", 10) == 0, "another's is another's"
    now = 2.0
    assert buckets.take("a", 4) == 0
    now = 1000.0
    assert buckets.take("a", 10) == 0
    assert buckets.take("a", 1) == 0.5, "it never holds more than its burst"
    assert buckets.take("c", 50) == 0, "what costs more than a full bucket costs a full one"


def test_buckets_are_of_a_bounded_number_and_zero_means_no_limit() -> None:
    buckets = limits.Buckets(per_second=1, burst=1, most=100)
    for number in range(1000):
        buckets.take(str(number), 1)
    assert len(buckets) == 100
    assert {limits.Buckets(0, 1).take("a", 5) for _ in range(50)} == {0.0}


def test_prices_and_keys() -> None:
    assert limits.price_of(_scope()) < limits.price_of(_scope(method="POST"))
    assert limits.price_of(_scope(method="POST", path="/mcp")) == limits.READ_PRICE, "its tools pay for what they ask"
    assert limits.address_key(_scope(client=("2001:db8:1:2:3:4:5:6", 1))) == "2001:db8:1:2::/64"
    assert limits.address_key(_scope(client=("10.0.0.1", 1))) == "10.0.0.1"
    with origin.remembered(_scope(path="/mcp", client=("10.0.0.7", 1))):
        inner = _scope(client=("127.0.0.1", 123))
        assert limits.address_key(inner) is None, "counted when the tool was called"
        assert origin.address_of(inner) == "10.0.0.7"
    assert origin.address_of(_scope(client=("10.0.0.1", 1))) == "10.0.0.1"


@pytest.fixture
def tight(tmp_path: Path) -> Any:
    """A server that gives each identity ten reads, and an address forty."""
    room = SimpleNamespace(
        settings=Settings(data_dir=tmp_path, rate_limit_per_second=0.001, rate_limit_burst=10),
        clock=Clock(), store=store.open(None, tmp_path), engine=toys.ToyEngine(),
    )  # fmt: skip
    yield build(room, (toys.toys,), web=tmp_path / "web"), room  # type: ignore[arg-type]
    room.store.close()


def test_who_asks_too_much_is_told_when_to_come_back_and_others_go_on(tight: Any) -> None:
    app, room = tight
    one, two = ({"Authorization": f"Bearer {room.store.identities.create_token(name, 'operator', 'agent')[1]}"} for name in ("a", "b"))
    with TestClient(app, base_url=toys.HOST) as client:
        assert [client.get("/api/v1/me", headers=one).status_code for _ in range(6)] == [200] * 6
        refused = client.post("/api/v1/clusters", headers=one, json={"zone": "use1-az1"})
        assert (refused.status_code, refused.json()["code"], refused.json()["retryable"]) == (429, "request.too_many", True)
        assert int(refused.headers["retry-after"]) > 60
        assert "Retry-After" in refused.json()["hint"]
        assert client.get("/api/v1/me", headers=one).status_code == 200, "a read is still paid for"
        assert client.get("/api/v1/me", headers=two).status_code == 200
        statuses = [client.get("/api/v1/me").status_code for _ in range(40)]
        assert statuses.count(401) == 27, "thirteen of the address' forty were asked before: eight reads and a change"
        assert set(statuses) == {401, 429}
        assert client.get("/healthz").status_code == 200
        assert room.store.audit.list(_refusals()).items[-1].code == "request.too_many"


def _refusals() -> Any:
    from instantstart.store.records import AuditFilter

    return AuditFilter(outcome="refused")
