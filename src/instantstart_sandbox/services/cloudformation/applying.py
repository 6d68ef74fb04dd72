"""Making and changing resources: what a creation, an update and its undoing do to each one."""

from __future__ import annotations

import copy
import uuid
from typing import TYPE_CHECKING, Any

from instantstart_sandbox.gateway.errors import AwsError
from instantstart_sandbox.services.cloudformation import dynamic
from instantstart_sandbox.services.cloudformation.events import resource_status
from instantstart_sandbox.services.cloudformation.plan import Plan
from instantstart_sandbox.services.cloudformation.records import Resource, Stack, blank_resource
from instantstart_sandbox.services.cloudformation.resources.handler import Failure
from instantstart_sandbox.services.cloudformation.wording import CANCELLED, REPLACING, UPDATE_CANCELLED, handler_message

if TYPE_CHECKING:
    from instantstart_sandbox.services.cloudformation.engine import Engine

IN_PROGRESS = ("CREATE_IN_PROGRESS", "UPDATE_IN_PROGRESS")


def settled(record: Resource | None) -> bool:
    """Whether the running operation is through with a resource, and well."""
    return record is not None and "touched" in record and record["status"] in ("CREATE_COMPLETE", "UPDATE_COMPLETE")


def step(engine: Engine, stack: Stack, plan: Plan) -> float | None:
    """Poll what runs and start what can start; the virtual seconds until the next look, or None when nothing runs any more.

    Failed resources are added to ``stack["failed"]``. After a failure nothing new is started, except when failures do not roll back.
    """
    now = engine.now()
    for name in [n for n, r in stack["resources"].items() if r["status"] in IN_PROGRESS and r["due"] <= now]:
        _poll(engine, stack, name, stack["resources"][name])
    while ready := _startable(stack, plan):
        for name in ready:
            if not stack["failed"] or stack["on_failure"] == "DO_NOTHING":
                _start(engine, stack, plan, name)
    due = [r["due"] for r in stack["resources"].values() if r["status"] in IN_PROGRESS]
    return max(0.0, min(due) - now) if due else None


def _startable(stack: Stack, plan: Plan) -> list[str]:
    if stack["failed"] and stack["on_failure"] != "DO_NOTHING":
        return []
    records = stack["resources"]
    fresh = [name for name in plan.resources if "touched" not in records.get(name, {})]
    return [name for name in fresh if all(settled(records.get(n)) for n in plan.needs[name])]


def _start(engine: Engine, stack: Stack, plan: Plan, name: str) -> None:
    declared = plan.resources[name]
    current = stack["resources"].get(name)
    try:
        plan.scope.made = engine.made(stack)
        properties = dynamic.replace(plan.properties(name), engine.clients(stack))
        problem = _violations(engine, declared["Type"], name, properties) or _same_name(engine, name, current, properties)
    except AwsError as error:
        properties, problem = {}, error.message
    if current is None or current["status"] in ("DELETE_COMPLETE", "DELETE_SKIPPED") or not current["physical"]:
        record = stack["resources"][name] = blank_resource(declared["Type"])
        record["touched"], verb = "add", "CREATE"
    else:
        record = _open_update(engine, stack, current, declared, properties)
        stack["resources"][name] = record
        verb = "UPDATE"
    record["needs"] = plan.needs[name]
    record["deletion_policy"] = declared.get("DeletionPolicy", "Delete")
    record["replace_policy"] = declared.get("UpdateReplacePolicy", "Delete")
    record["properties"], record["token"], record["step"] = properties, str(uuid.uuid4()), "start"
    if record["touched"] == "same" and not problem:
        return
    record["since"] = record["due"] = engine.now()
    resource_status(stack, engine.now(), name, record, f"{verb}_IN_PROGRESS", REPLACING if record["touched"] == "replace" else "")
    if problem:
        if record["touched"] == "modify" or record["touched"] == "same":
            record["touched"] = "refused"
        _fail(engine, stack, name, problem)
        return
    _act(engine, stack, name, record)


def _open_update(engine: Engine, stack: Stack, current: Resource, declared: dict[str, Any], properties: dict[str, Any]) -> Resource:
    """The record of a resource for the running update, with what it was before kept inside."""
    before = copy.deepcopy(current)
    before.pop("before", None)
    replaced = engine.handler(current).shape.replaced_by(current["properties"], properties)
    if replaced:
        record = blank_resource(declared["Type"])
        record["status"], record["touched"] = current["status"], "replace"
    else:
        record = copy.deepcopy(current)
        same = current["properties"] == properties and stack["tags"] == stack["before"].get("tags", stack["tags"])
        record["touched"] = "same" if same and current["status"] in ("CREATE_COMPLETE", "UPDATE_COMPLETE") else "modify"
    record["before"] = before
    return record


def _violations(engine: Engine, kind: str, name: str, properties: dict[str, Any]) -> str:
    found = engine.handlers[kind].shape.violations(properties)
    if not found:
        return ""
    return f"Properties validation failed for resource {name} with message:\n" + "\n".join(found)


def _same_name(engine: Engine, name: str, current: Resource | None, properties: dict[str, Any]) -> str:
    """Why a resource cannot be replaced: its new self would need the name that the old one still has."""
    if current is None or not current["physical"] or current["status"] in ("DELETE_COMPLETE", "DELETE_SKIPPED"):
        return ""
    handler, old = engine.handler(current), current["properties"]
    key = handler.name_property
    if not key or key not in old or old[key] != properties.get(key) or not handler.shape.replaced_by(old, properties):
        return ""
    return (
        "CloudFormation cannot update a stack when a custom-named resource requires replacing. "
        f"Rename {old[key]} and update the stack again."
    )


def _act(engine: Engine, stack: Stack, name: str, record: Resource) -> None:
    """Let the handler create or update the resource."""
    handler, request = engine.handler(record), engine.request(stack, name, record)
    had_id = record["physical"]
    try:
        verb = "Update" if record["touched"] == "modify" else "Create"
        with engine.weather(stack, f"{handler.type}/{name}/{verb}"), engine.guarded(handler.type):
            if record["touched"] == "modify":
                handler.update(request, record["before"]["properties"])
            else:
                handler.create(request)
    except Failure as failure:
        if failure.busy and record["touched"] == "modify" and engine.now() - record["since"] < handler.busy_seconds:
            record["due"] = engine.now() + handler.poll_seconds
            return
        _fail(engine, stack, name, handler_message(failure.message, record["token"], failure.code))
        return
    if not had_id and record["physical"]:
        resource_status(stack, engine.now(), name, record, record["status"], "Resource creation Initiated")
    record["step"], record["since"] = "wait", engine.now()
    record["due"] = engine.now() + (handler.poll_seconds if record["touched"] == "modify" else handler.seconds)


def _poll(engine: Engine, stack: Stack, name: str, record: Resource) -> None:
    if record["step"] == "start":
        _act(engine, stack, name, record)
        return
    handler, request = engine.handler(record), engine.request(stack, name, record)
    try:
        with engine.guarded(handler.type):
            if handler.ready(request):
                record["ref"] = handler.ref(request)
                record["attributes"] = handler.attributes(request)
                resource_status(stack, engine.now(), name, record, record["status"].replace("IN_PROGRESS", "COMPLETE"))
                return
    except Failure as failure:
        _fail(engine, stack, name, handler_message(failure.message, record["token"], failure.code))
        return
    if engine.now() - record["since"] > handler.stabilize_seconds:
        message = f"Resource of type '{handler.type}' with identifier '{record['physical']}' did not stabilize."
        _fail(engine, stack, name, handler_message(message, record["token"], "NotStabilized"))
        return
    record["due"] = engine.now() + handler.poll_seconds


def _fail(engine: Engine, stack: Stack, name: str, reason: str) -> None:
    record = stack["resources"][name]
    resource_status(stack, engine.now(), name, record, record["status"].replace("IN_PROGRESS", "FAILED"), reason)
    if name not in stack["failed"]:
        stack["failed"].append(name)


def cancel(engine: Engine, stack: Stack) -> None:
    """End what still runs: it failed, because something else did."""
    for name, record in stack["resources"].items():
        if record["status"] in IN_PROGRESS:
            verb = record["status"].split("_", 1)[0]
            resource_status(stack, engine.now(), name, record, f"{verb}_FAILED", CANCELLED if verb == "CREATE" else UPDATE_CANCELLED)
            stack["failed"].append(name)


def open_restore(stack: Stack) -> None:
    """Turn the records of a failed update round: added and replaced ones become leftovers, modified ones are to be changed back."""
    for name, record in list(stack["resources"].items()):
        touched, before = record.pop("touched", "same"), record.pop("before", None)
        if touched in ("add", "replace") and record["physical"]:
            leftover = copy.deepcopy(record)
            leftover["deletion_policy"] = "Delete"
            stack["leftovers"][f"{name}#new"] = leftover
        if touched == "add":
            del stack["resources"][name]
        elif before is not None and touched in ("replace", "refused"):
            stack["resources"][name] = before
        elif before is not None and touched == "modify":
            back = copy.deepcopy(before)
            back["work"] = {**record["work"], **before["work"]}
            back["before"], back["touched"], back["status"] = record, "modify", ""
            stack["resources"][name] = back


def step_restore(engine: Engine, stack: Stack) -> float | None:
    """Change modified resources back, in their order; None when all are through."""
    now, records = engine.now(), stack["resources"]
    for name in [n for n, r in records.items() if r["status"] in IN_PROGRESS and r["due"] <= now]:
        _poll(engine, stack, name, records[name])
    waiting = {n for n, r in records.items() if "touched" in r and r["status"] not in ("UPDATE_COMPLETE", "UPDATE_FAILED")}
    for name in sorted(waiting):
        record = records[name]
        if not record["status"] and not waiting & set(record["needs"]):
            record["token"], record["step"], record["since"] = str(uuid.uuid4()), "start", now
            resource_status(stack, now, name, record, "UPDATE_IN_PROGRESS")
            _act(engine, stack, name, record)
    due = [r["due"] for r in records.values() if r["status"] in IN_PROGRESS]
    if due:
        return max(0.0, min(due) - now)
    return 0.0 if any("touched" in r and not r["status"] for r in records.values()) else None
