"""What is kept of a stack: plain JSON, so that it survives a restart in the middle of any operation. Times are virtual epoch seconds."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict


class Resource(TypedDict):
    """One resource of a stack. ``work`` belongs to the type's handler; ``needs`` are the logical ids it was made after."""

    type: str
    physical: str
    status: str
    reason: str
    properties: dict[str, Any]
    #: the value of Ref, and the attributes of GetAtt; filled when the resource is complete
    ref: str
    attributes: dict[str, Any]
    needs: list[str]
    deletion_policy: str
    replace_policy: str
    #: RequestToken of the running handler call
    token: str
    #: ``start``: the handler's act has still to be (re)tried; ``wait``: it was done and is polled
    step: str
    #: when the running step began, and when it is looked at next
    since: float
    due: float
    updated: float
    work: dict[str, Any]
    #: what the resource was before the running update; absent outside an update
    before: NotRequired[Resource]
    #: how the running operation treats it: ``add``, ``modify``, ``replace``, ``same``, or ``refused`` (nothing was done)
    touched: NotRequired[str]


class Event(TypedDict):
    """One line of DescribeStackEvents."""

    id: str
    at: float
    logical: str
    physical: str
    type: str
    status: str
    reason: str
    properties: str
    token: str


class Export(TypedDict):
    """One output; ``export`` is the name other stacks import it by, or empty."""

    key: str
    value: str
    description: str
    export: str


class Stack(TypedDict):
    """A stack and the operation that runs on it."""

    id: str
    name: str
    region: str
    account: str
    principal: str
    status: str
    reason: str
    created: float
    updated: float | None
    deleted: float | None
    template: str
    #: text values as given, and as resolved (an SSM parameter's value)
    parameters: dict[str, str]
    resolved: dict[str, str]
    tags: dict[str, str]
    capabilities: list[str]
    notification_arns: list[str]
    role: str
    #: ROLLBACK, DELETE or DO_NOTHING
    on_failure: str
    timeout_minutes: int | None
    protected: bool
    #: delete, after a failed creation, even what the template says to retain
    retain_except_on_create: bool
    force_delete: bool
    #: the request token of the operation that runs or ran last
    token: str
    #: one of PHASES, or empty when nothing runs
    phase: str
    deadline: float | None
    failed: list[str]
    retain: list[str]
    resources: dict[str, Resource]
    #: physical resources that are no longer part of the template and still have to be deleted
    leftovers: dict[str, Resource]
    outputs: list[Export]
    imports: list[str]
    events: list[Event]
    #: template, parameters, resolved and tags as they were before the running update
    before: dict[str, Any]
    change_set: str
    #: number of the timer that is in force; others are stale
    tick: int


#: create and update apply the template; rollback undoes a creation and restore an update; cleanup deletes leftovers; delete the stack
PHASES = ("create", "update", "rollback", "restore", "cleanup", "delete")


def blank_resource(kind: str) -> Resource:
    """A resource of which nothing has been made yet."""
    return Resource(
        type=kind, physical="", status="", reason="", properties={}, ref="", attributes={}, needs=[], deletion_policy="Delete",
        replace_policy="Delete", token="", step="", since=0.0, due=0.0, updated=0.0, work={},
    )  # fmt: skip
