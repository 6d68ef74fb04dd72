"""How many tracking servers the role of the training pods can remember, and that it is told before anything is made."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from instantstart.base import problems
from instantstart.capabilities.training.mlflow import rules, specs
from instantstart.ensure.identity_chains import tracking_access
from instantstart.ensure.mlflow.tracking import Server, TrackingKind

STORE = "s3://instantstart-demo-123456789012-us-west-2-data/mlflow"


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What the role remembers."""
    choices: dict[str, str] = {}
    monkeypatch.setattr(tracking_access, "remembered", lambda _ground: dict(choices))
    return choices


def target(name: str, **more: Any) -> specs.CreateTarget:
    """An ask with every choice made."""
    told = {"tag": "demo", "region": "us-west-2", "kind": TrackingKind.tracking_server, "name": name, "artifact_store": f"{STORE}/{name}"}
    return specs.CreateTarget(**{**told, "namespaces": ["default"], **more})


def why(name: str, **more: Any) -> str | None:
    """Why there is no room for it."""
    asked = target(name, **more)
    where: Any = SimpleNamespace()
    return tracking_access.no_room(where, asked.kind, asked.name, asked.artifact_store, asked.namespaces)


def test_servers_are_taken_until_a_tag_is_full_and_the_limit_is_named(kept: dict[str, str]) -> None:
    made = 0
    while (told := why(f"server-{made}")) is None:
        kept |= tracking_access._with(
            kept, f"mlflow-tracking-server/server-{made}", f"{STORE}/server-{made}".removeprefix("s3://"), ["default"]
        )
        made += 1
        assert all(len(value) <= 256 for value in kept.values())
    assert made >= 4
    assert "256 characters" in told
    assert f"{made + 1} artifact folders" in told
    assert why("server-0") is None, "what is remembered takes no more room"
    shared = f"{STORE}/server-0"
    assert why("one-more", artifact_store=shared) is None, "a shared folder takes none either"
    assert "namespaces" in str(why("server-0", namespaces=[f"team-{n}-of-the-house" for n in range(20)]))


def test_a_creation_is_refused_before_anything_is_made(kept: dict[str, str]) -> None:
    kept["servers"] = " ".join(f"mlflow-tracking-server/server-{n}" for n in range(8))
    told = why("one-more")
    assert told
    facts = rules.Facts(None, "bucket", "us-west-2", True, told)
    where: Any = SimpleNamespace(tag="demo", aws=SimpleNamespace(region="us-west-2"))
    refused = rules.refusal(rules.findings(where, target("one-more"), facts))
    assert refused is not None
    assert [field.pointer for field in refused.fields] == ["/name"]
    assert "256 characters" in refused.detail
    assert "Delete a tracking server" in str(refused.hint)


def test_pods_are_not_let_to_one_more_either(kept: dict[str, str]) -> None:
    kept["servers"] = " ".join(f"mlflow-tracking-server/server-{n}" for n in range(8))
    arn = "arn:aws:sagemaker:us-west-2:123456789012:mlflow-tracking-server/one-more"
    server = Server(TrackingKind.tracking_server, "one-more", arn, "Created", True, "")
    where: Any = SimpleNamespace()
    with pytest.raises(problems.Conflict) as refused:
        tracking_access.check_room(where, tracking_access.Wish(server, ("default",)))
    assert refused.value.code == "mlflow.too_many"
