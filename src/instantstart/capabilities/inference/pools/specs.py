"""What may be asked of model pools. Every description is read by a person in the console and by a model through MCP."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from instantstart.base import patterns
from instantstart.capabilities import server_asks
from instantstart.capabilities.vocabulary import Ask, Target

Business = Annotated[
    str,
    Field(
        min_length=1, max_length=40, pattern=patterns.KUBERNETES_NAME,
        description="Whom workers work for; not unassigned or retiring.", examples=["chat"],
    ),
]  # fmt: skip
Worker = Annotated[str, Field(min_length=1, max_length=253, pattern=patterns.KUBERNETES_NAME, description="Name of the worker's pod.")]
Expected = Annotated[
    str,
    Field(max_length=40, pattern=patterns.KUBERNETES_NAME, description="Whom it is believed to work for now; another's is refused."),
]
Count = Annotated[int, Field(ge=0, le=1000)]


class CreateModelPool(server_asks.ServerAsk):
    """Ask for a pool of warm workers, all free at first. Asked again under the same name, nothing is made twice."""

    workers: Annotated[Count, Field(description="Workers of the pool, free and bound together.")] = 1


class ScaleModelPool(Ask):
    """Ask for another number of workers. A worker that works for somebody is never taken."""

    workers: Annotated[Count, Field(description="Workers of the pool, free and bound together.")]


class AssignWorker(Ask):
    """Give a worker to a business: one label changes, and only while it says what is expected."""

    worker: Worker
    business: Business
    expected: Expected = "unassigned"


class ReleaseWorker(Ask):
    """Let a worker work for nobody again."""

    worker: Worker
    business: Annotated[Business, Field(description="Whom it works for now; another's is refused.")]


class CreateModelBinding(Ask):
    """Ask for the Service of a business, and workers for it."""

    business: Business
    workers: Annotated[Count, Field(description="Free workers to give it now; later ones are assigned one by one.")] = 0


class PoolTarget(Target, CreateModelPool):
    """model_pool.create with its place."""


class ScaleTarget(Target):
    """model_pool.scale with its place."""

    namespace: str
    name: str
    workers: int


class DeleteTarget(Target):
    """model_pool.delete with its place."""

    namespace: str
    name: str


class BindingTarget(Target):
    """model_binding.create with its place."""

    namespace: str
    name: str
    business: str
    workers: int = 0


class UnbindTarget(Target):
    """model_binding.delete with its place."""

    namespace: str
    name: str
    business: str


def subject(target: Any) -> str:
    """What an operation works on: one pool, with its bindings."""
    return f"serving/{target.region}/{target.tag}/{target.namespace}/{target.name}"
