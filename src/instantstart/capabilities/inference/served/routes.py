"""The door of what is served."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from instantstart.base import patterns
from instantstart.capabilities.doors import ClusterPath, RoomDep, Viewer
from instantstart.capabilities.inference.served import views
from instantstart.ensure.inference import served

router = APIRouter(tags=["inference"])

NamespacePath = Annotated[str, Path(max_length=63, pattern=patterns.KUBERNETES_NAME, description="Its namespace.")]
NamePath = Annotated[str, Path(max_length=63, pattern=patterns.KUBERNETES_NAME, description="Its name.")]
_BASE = "/clusters/{cluster}/served-models"


@router.get(_BASE, operation_id="served_model_list", summary="List served models")
def list_served_models(
    room: RoomDep,
    _caller: Viewer,
    cluster: ClusterPath,
    namespace: Annotated[str, Query(max_length=63, pattern=patterns.ONLY_NAMESPACE, description="Only of this namespace.")] = "",
    contains: Annotated[str, Query(max_length=100, description="Only names that contain this.")] = "",
    path: Annotated[served.Path | None, Query(description="Only of this path.")] = None,
    limit: Annotated[int, Query(ge=1, le=200, description="Most to answer.")] = 50,
    cursor: Annotated[str | None, Query(max_length=300, description="The cursor of the page before.")] = None,
) -> views.ServedPage:
    """Everything that serves a model: managed endpoints, own deployments, pools, routers and bindings, and what others run."""
    return views.list_served(room, cluster, views.Filter(namespace, contains, path), limit, cursor)


@router.get(_BASE + "/{namespace}/{name}", operation_id="served_model_get", summary="Get a served model")
def get_served_model(room: RoomDep, _caller: Viewer, cluster: ClusterPath, namespace: NamespacePath, name: NamePath) -> views.ServedDetail:
    """One thing that serves: replicas, why one is not ready, events."""
    return views.get_served(room, cluster, namespace, name)


@router.get(_BASE + "/{namespace}/{name}/metrics", operation_id="served_model_metrics", summary="Get a served model's metrics")
def get_served_model_metrics(
    room: RoomDep, _caller: Viewer, cluster: ClusterPath, namespace: NamespacePath, name: NamePath
) -> views.ServedMetrics:
    """Requests running and waiting, cache use, tokens a second, time to first token: from the servers' own metrics, with a history."""
    return views.get_metrics(room, cluster, namespace, name)
