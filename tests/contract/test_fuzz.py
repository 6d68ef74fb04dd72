"""Schemathesis on the real routes: whatever is sent, the answer is one that the OpenAPI document promises, and never our own fault."""

from __future__ import annotations

import contextlib
import dataclasses
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS

from instantstart import main
from instantstart.base import problems
from instantstart.base.settings import Settings
from instantstart.capabilities.routes import ROUTERS
from instantstart.faces.api.app import build

#: an unreachable AWS is a documented 502 here; the Allow header of two routes at one address is the framework's
LEFT_OUT = ("not_a_server_error", "unsupported_method", "allow_header_conformance", "ignored_auth", "positive_data_acceptance")


class NoAws:
    """AWS that cannot be reached: what may be asked is judged before anybody is called."""

    default_region = "us-west-2"

    def region(self, _name: str | None = None) -> Any:
        """Raises Unreachable."""
        raise problems.Unreachable("aws.unreachable", "There is no AWS in this test.")


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The app's own document, asked for as an administrator. The engine is not launched: what is accepted stays queued."""
    room = main.compose(Settings(data_dir=tmp_path_factory.mktemp("fuzz"), region="us-west-2", allowed_hosts="testserver"))
    _, token = room.store.identities.create_token("fuzz", "admin", "person")
    app = build(dataclasses.replace(room, aws=NoAws()), ROUTERS)  # type: ignore[arg-type]
    headers = {"Authorization": f"Bearer {token}"}
    yield schemathesis.openapi.from_asgi("/openapi.json", app, headers=headers), headers
    room.store.close()


@pytest.mark.slow
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_every_answer_is_a_documented_one(described: Any, mode: GenerationMode) -> None:
    schema, headers = described
    checks = [check for check in CHECKS.get_all() if check.__name__ not in LEFT_OUT]
    seen: Counter[int] = Counter()
    for found in schema.exclude(operation_id=["session_delete", "operation_wait"]).get_all_operations():
        operation = found.ok()

        @given(case=operation.as_strategy(generation_mode=mode))
        @settings(max_examples=20, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        def holds(case: Any) -> None:
            answer = case.call(headers=headers)
            seen[answer.status_code] += 1
            assert answer.status_code != 500, answer.text
            case.validate_response(answer, checks=checks)

        with contextlib.suppress(Unsatisfiable):  # a route without arguments has no wrong ones
            holds()
    assert seen[422] > 50 if mode is GenerationMode.NEGATIVE else seen[200] > 50
