"""(b) Drawn sequences of writes give the same answers on both sides; what needs no second side holds on the sandbox alone."""

from __future__ import annotations

import secrets
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from tests.differential.grounds import ground
from tests.differential.normalising import Names, differences, normal
from tests.differential.operations import Operation, Writer, drawn, scripts
from tests.differential.sides import Side

_SETTINGS = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, phases=[Phase.generate])
_DEEP = settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)


def answers(writer: Writer, script: list[Operation]) -> list[Any]:
    """What one side says to each operation, comparable."""
    names = Names({writer.namespace: "<ns>", writer.word: "<word>"})
    return [{"code": a.status_code, "body": normal(a.json(), names)} for a in map(writer.act, script)]


def compare(real: Writer, ours: Writer, script: list[Operation]) -> None:
    """Both sides say the same to each operation."""
    word = "w" + secrets.token_hex(4)
    real.word = ours.word = word
    for number, (operation, a, b) in enumerate(zip(script, answers(real, script), answers(ours, script), strict=True)):
        found = list(differences(a, b))
        told = "\n".join(f"  {path}: real {x!r}, ours {y!r}" for path, x, y in found)
        assert not found, f"operation {number} ({operation.verb} {operation.kind.kind} {operation.name} by {operation.manager}):\n{told}"


def test_drawn_writes_are_answered_alike(real: Side, ours: Side) -> None:
    with ground(real) as theirs, ground(ours) as mine:
        writers = Writer(*theirs, ""), Writer(*mine, "")

        @given(scripts)
        @_SETTINGS
        def law(script: list[Operation]) -> None:
            compare(*writers, script)

        law()


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_many_drawn_writes_are_answered_alike(real: Side, ours: Side) -> None:
    with ground(real) as theirs, ground(ours) as mine:
        writers = Writer(*theirs, ""), Writer(*mine, "")

        @given(scripts)
        @_DEEP
        def law(script: list[Operation]) -> None:
            compare(*writers, script)

        law()


def test_a_forced_apply_done_twice_is_done_once(ours: Side) -> None:
    """Holds by the API's own definition, so it needs no second side."""
    with ground(ours) as (client, namespace):

        @given(scripts, drawn)
        @_SETTINGS
        def law(script: list[Operation], last: Operation) -> None:
            writer = Writer(client, namespace, "w" + secrets.token_hex(4))
            answers(writer, script)
            apply = Operation("force", last.kind, last.name, last.manager, {}, last.replicas, last.containers)
            once = writer.act(apply)
            if once.status_code >= 300:
                return
            present = writer.act(Operation("get", last.kind, last.name, last.manager, {}, None, last.containers))
            if present.status_code == 404:
                return  # the apply took the last finalizer of an object that was being deleted
            again = writer.act(apply)
            assert again.status_code == 200
            # controllers write the status of a Deployment at any moment
            assert _still(again.json()) == _still(once.json())

        law()


def _still(obj: dict[str, Any]) -> Any:
    return normal(obj, Names({}))
