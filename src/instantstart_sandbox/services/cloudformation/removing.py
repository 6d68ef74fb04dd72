"""Deleting resources: dependents first, independent ones side by side, a busy one tried again for a while."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from instantstart_sandbox.services.cloudformation.events import resource_status
from instantstart_sandbox.services.cloudformation.records import Resource, Stack
from instantstart_sandbox.services.cloudformation.resources.handler import Failure
from instantstart_sandbox.services.cloudformation.wording import handler_message

if TYPE_CHECKING:
    from instantstart_sandbox.services.cloudformation.engine import Engine

OVER = ("DELETE_COMPLETE", "DELETE_SKIPPED")


def step(engine: Engine, stack: Stack, victims: dict[str, Resource]) -> float | None:
    """Advance the deletion of ``victims``; the virtual seconds until the next look, or None when nothing is left to do.

    What could not be deleted has then the status DELETE_FAILED; what it needed is left untouched.
    """
    now = engine.now()
    for name, record in victims.items():
        if record["status"] == "DELETE_IN_PROGRESS" and record["due"] <= now:
            _advance(engine, stack, name, record)
    while ready := [name for name in victims if _may_start(stack, victims, name)]:
        for name in ready:
            _start(engine, stack, name, victims[name])
    due = [r["due"] for r in victims.values() if r["status"] == "DELETE_IN_PROGRESS"]
    return max(0.0, min(due) - now) if due else None


def _may_start(stack: Stack, victims: dict[str, Resource], name: str) -> bool:
    if victims[name]["status"] in (*OVER, "DELETE_IN_PROGRESS", "DELETE_FAILED"):
        return False
    return not any(_plain(name) in r["needs"] for other, r in victims.items() if other != name and r["status"] not in OVER)


def _plain(key: str) -> str:
    """The logical id of a key; a leftover's key has a suffix."""
    return key.partition("#")[0]


def _retained(stack: Stack, name: str, record: Resource) -> bool:
    policy = record["deletion_policy"]
    if stack["phase"] == "rollback":
        return policy == "Retain" and not stack["retain_except_on_create"]
    if stack["phase"] == "delete" and _plain(name) in stack["retain"]:
        return True
    return policy in ("Retain", "RetainExceptOnCreate")


def _start(engine: Engine, stack: Stack, name: str, record: Resource) -> None:
    logical, now = _plain(name), engine.now()
    if record["physical"] and _retained(stack, name, record):
        resource_status(stack, now, logical, record, "DELETE_SKIPPED")
        return
    if not record["physical"]:
        resource_status(stack, now, logical, record, "DELETE_COMPLETE")
        return
    resource_status(stack, now, logical, record, "DELETE_IN_PROGRESS")
    record["token"], record["step"], record["since"] = str(uuid.uuid4()), "start", now
    record["due"] = now
    _advance(engine, stack, name, record)


def _advance(engine: Engine, stack: Stack, name: str, record: Resource) -> None:
    logical, now = _plain(name), engine.now()
    handler = engine.handler(record)
    request = engine.request(stack, logical, record)
    try:
        with engine.guarded(handler.type):
            if record["step"] == "start":
                with engine.weather(stack, f"{handler.type}/{logical}/Delete"):
                    handler.delete(request)
                record["step"], record["since"], record["due"] = "wait", now, now + handler.delete_seconds
                return
            if not handler.gone(request):
                if now - record["since"] > handler.stabilize_seconds:
                    raise Failure(
                        f"Resource of type '{handler.type}' with identifier '{record['physical']}' did not stabilize.", "NotStabilized"
                    )
                record["due"] = now + handler.poll_seconds
                return
    except Failure as failure:
        if failure.code != "NotFound":
            _failed(engine, stack, logical, (record, failure))
            return
    resource_status(stack, now, logical, record, "DELETE_COMPLETE")


def _failed(engine: Engine, stack: Stack, logical: str, what: tuple[Resource, Failure]) -> None:
    record, failure = what
    now, handler = engine.now(), engine.handler(record)
    if failure.busy and now - record["since"] < handler.busy_seconds:
        record["due"] = now + handler.poll_seconds
        return
    status = "DELETE_SKIPPED" if stack["force_delete"] else "DELETE_FAILED"
    resource_status(stack, now, logical, record, status, handler_message(failure.message, record["token"], failure.code))
