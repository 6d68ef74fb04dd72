"""What an update would change: the answer of a change set, and the reason to say that there is nothing to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from instantstart_sandbox.gateway.errors import AwsError
from instantstart_sandbox.services.cloudformation import dynamic
from instantstart_sandbox.services.cloudformation.intrinsics import Made
from instantstart_sandbox.services.cloudformation.plan import Plan
from instantstart_sandbox.services.cloudformation.records import Stack
from instantstart_sandbox.services.cloudformation.template import load
from instantstart_sandbox.services.cloudformation.wording import invalid

if TYPE_CHECKING:
    from instantstart_sandbox.services.cloudformation.engine import Engine

#: what stands in a change set for a value that is known only when the change has been made
UNKNOWN = "{{changeSet:KNOWN_AFTER_APPLY}}"


@dataclass(frozen=True)
class Change:
    """One line: ``action`` Add, Modify or Remove; ``replacement`` True, False or Conditional (Modify only)."""

    action: str
    logical_id: str
    type: str
    physical: str
    replacement: str = ""
    properties: tuple[str, ...] = ()


class _AnyAttribute(dict[str, Any]):
    """The attributes of a resource that is not there yet: every one is unknown."""

    def __contains__(self, key: object) -> bool:
        return True

    def __getitem__(self, key: str) -> Any:
        return UNKNOWN


def changes(engine: Engine, stack: Stack, wanted: Stack, plan: Plan) -> list[Change]:
    """What turning ``stack`` into ``wanted`` (whose plan is given) adds, modifies and removes, in template order."""
    made = engine.made(stack)
    current = {n: r for n, r in stack["resources"].items() if r["physical"] and not r["status"].startswith("DELETE_")}
    plan.scope.made = {**{name: Made(UNKNOWN, _AnyAttribute()) for name in plan.resources}, **made}
    found: list[Change] = []
    for name in _in_order(plan):
        declared = plan.resources[name]
        record = current.get(name)
        if record is None:
            found.append(Change("Add", name, declared["Type"], ""))
            continue
        if record["type"] != declared["Type"]:
            listed = f"The new template modifies resource type of the following resources: [{name}]"
            raise invalid(f"Update of resource type is not permitted. {listed}")
        old, new = record["properties"], _resolved(engine, wanted, plan, name)
        touched = sorted(key for key in set(old) | set(new) if old.get(key) != new.get(key))
        retagged = stack["tags"] != wanted["tags"] or not _settled(record["status"]) or _metadata_differs(stack, name, declared)
        if not touched and not retagged:
            continue
        create_only = engine.handlers[record["type"]].shape.replaced_by(old, new)
        if create_only:
            plan.scope.made = {**plan.scope.made, name: Made(UNKNOWN, _AnyAttribute())}
        found.append(
            Change("Modify", name, record["type"], record["physical"], _replacement(create_only, new), tuple(touched or ("Tags",)))
        )
    gone = [name for name in current if name not in plan.resources]
    return found + [Change("Remove", name, current[name]["type"], current[name]["physical"]) for name in gone]


def _replacement(create_only: list[str], new: dict[str, Any]) -> str:
    """Conditional: only values that are not known yet decide it."""
    if not create_only:
        return "False"
    unknown = all(UNKNOWN in str(new.get(key.split("/", 1)[0])) for key in create_only)
    return "Conditional" if unknown else "True"


def _in_order(plan: Plan) -> list[str]:
    done: list[str] = []
    left = list(plan.resources)
    while left:
        ready = [name for name in left if all(n in done for n in plan.needs[name])]
        done += ready
        left = [name for name in left if name not in ready]
    return done


def _resolved(engine: Engine, wanted: Stack, plan: Plan, name: str) -> dict[str, Any]:
    try:
        return dict(dynamic.replace(plan.properties(name), engine.clients(wanted)))
    except AwsError:
        # A function over a value that is not known yet, such as Fn::Select of an attribute.
        return dict.fromkeys(plan.resources[name].get("Properties") or {}, UNKNOWN)


def _settled(status: str) -> bool:
    return status in ("CREATE_COMPLETE", "UPDATE_COMPLETE")


def _metadata_differs(stack: Stack, name: str, declared: dict[str, Any]) -> bool:
    before = load(stack["template"])["Resources"].get(name) or {}
    return bool(before.get("Metadata") != declared.get("Metadata"))


def outputs_differ(engine: Engine, stack: Stack, plan: Plan) -> bool:
    """Whether the outputs section asks for something else than the stack has."""
    return engine.plan(stack).outputs != plan.outputs
