"""What can be done with SGLang routers: the table of contents of this slice. Declarations only."""

from __future__ import annotations

from instantstart.base.clock import minutes
from instantstart.capabilities.inference.routers import specs, stages
from instantstart.operations.declare import Stage, Workflow

CREATE_SGLANG_ROUTER = Workflow(
    "sglang_router.create",
    "Make a router",
    specs.RouterTarget,
    specs.subject,
    (
        Stage("objects", stages.apply, "Check, and make router, Service and its rights", within=minutes(15), typical=3),
        Stage("rollout", stages.roll_out, "Wait until it knows a healthy worker", within=minutes(120), typical=60),
        Stage("answer", stages.await_answer, "Ask for a first token through it", within=minutes(20), typical=3),
    ),
)
DELETE_SGLANG_ROUTER = Workflow(
    "sglang_router.delete",
    "Delete a router",
    specs.DeleteTarget,
    specs.subject,
    (Stage("remove", stages.remove, "Remove its objects and wait until they are gone", within=minutes(30), typical=30),),
    destructive=True,
    overtakes=frozenset({"sglang_router.create"}),
)

WORKFLOWS = (CREATE_SGLANG_ROUTER, DELETE_SGLANG_ROUTER)
