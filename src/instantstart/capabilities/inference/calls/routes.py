"""The door of calls. The stream of an answer, which must not hold a thread, is in faces/api/model_streams.py."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from instantstart.base import patterns
from instantstart.capabilities.doors import ClusterPath, Operator, RoomDep
from instantstart.capabilities.inference.calls import specs, views

router = APIRouter(tags=["inference"])

NamespacePath = Annotated[str, Path(max_length=63, pattern=patterns.KUBERNETES_NAME, description="Namespace of what is asked.")]
NamePath = Annotated[
    str, Path(max_length=63, pattern=patterns.KUBERNETES_NAME, description="Name of an endpoint, deployment, pool, router or binding.")
]


@router.post("/clusters/{cluster}/served-models/{namespace}/{name}/calls", operation_id="model_call", summary="Call a model")
def call_model(
    room: RoomDep, caller: Operator, cluster: ClusterPath, namespace: NamespacePath, name: NamePath, ask: specs.CallModel
) -> views.CallResult:
    """Ask a served model and wait for its answer. What the model refuses is answered with ok false; a problem is one of the way to it."""
    return views.call(room, cluster, (namespace, name), ask, caller.face)
