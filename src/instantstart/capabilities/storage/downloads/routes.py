"""The door of the downloads slice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response

from instantstart.base import patterns
from instantstart.capabilities import activity
from instantstart.capabilities.doors import (
    ClusterPath,
    DryRun,
    IdempotencyKey,
    Operator,
    OperatorInPerson,
    RoomDep,
    Viewer,
    Wish,
    begin,
    promise,
)  # fmt: skip
from instantstart.capabilities.planning import Plan
from instantstart.capabilities.storage.downloads import objects, plans, rules, specs, views
from instantstart.ensure import sites
from instantstart.operations.record import TERMINAL, Operation, OperationStatus

router = APIRouter(tags=["storage"])

NamePath = Annotated[str, Path(max_length=63, pattern=patterns.KUBERNETES_NAME)]


@dataclass(frozen=True)
class StoredToken:
    """Where the token is now. The token itself is never answered."""

    namespace: str
    secret: str


@router.post(
    "/clusters/{cluster}/downloads", operation_id="model_download", summary="Download a model", status_code=202,
    response_model=Operation | Plan,
)  # fmt: skip
def download_model(
    room: RoomDep, caller: Operator, cluster: ClusterPath, ask: specs.DownloadModel, response: Response,
    key: IdempotencyKey = None, dry_run: DryRun = False,
) -> Any:  # fmt: skip
    """Bring a model or dataset of the hub into a volume, verified. Asked again, only what is missing is fetched."""
    where = activity.standing(room, cluster)
    target = specs.DownloadTarget(**ask.model_dump(), tag=cluster, region=where.aws.region)
    if dry_run:
        return promise(response, plans.plan_download(room, where, target))
    return begin(room, caller, response, Wish("model.download", plans.checked(room, where, target), key))


@router.get("/clusters/{cluster}/downloads", operation_id="download_list", summary="List downloads")
def list_downloads(
    room: RoomDep,
    _caller: Viewer,
    cluster: ClusterPath,
    limit: Annotated[int, Query(ge=1, le=200, description="Most downloads to answer.")] = 50,
    cursor: Annotated[str | None, Query(max_length=200, description="The cursor of the page before.")] = None,
) -> views.DownloadPage:
    """Downloads that were asked for, newest first, with their progress."""
    return views.list_downloads(room, cluster, limit, cursor)


@router.delete("/clusters/{cluster}/downloads/{operation_id}", operation_id="download_cancel", summary="Cancel a download", status_code=202)
def cancel_download(
    room: RoomDep, caller: Operator, cluster: ClusterPath, response: Response,
    operation_id: Annotated[str, Path(max_length=64, description="The operation that downloads.")], key: IdempotencyKey = None,
) -> Operation:  # fmt: skip
    """End the job and its operation. Files that are complete stay: the same request goes on with the rest."""
    found = views.get_download(room, cluster, operation_id)
    if found.status not in TERMINAL or found.status == OperationStatus.succeeded:  # what has succeeded is refused
        room.engine.cancel(operation_id, caller.id)
    return begin(room, caller, response, Wish("download.cancel", _job_of(found), key))


@router.get("/clusters/{cluster}/models", operation_id="model_list", summary="List downloaded models")
def list_models(room: RoomDep, _caller: Viewer, cluster: ClusterPath) -> views.ModelList:
    """Models and datasets that downloads completed in the mounted buckets."""
    return views.list_models(room, cluster)


@router.put("/clusters/{cluster}/hub-tokens/{namespace}/{secret}", operation_id="hub_token_put", summary="Store a hub token")
def put_hub_token(
    room: RoomDep, _caller: OperatorInPerson, cluster: ClusterPath, namespace: NamePath, secret: NamePath, ask: specs.PutHubToken
) -> StoredToken:
    """Keep a token of the hub as a Kubernetes Secret, where downloads and servers name it. It is kept nowhere else."""
    kube = sites.find(room, cluster).kube(room)
    rules.check_token_secret(kube.find("Secret", secret, namespace))
    kube.apply(rules.token_secret(namespace, secret, ask.token.get_secret_value().strip()), force=True)
    return StoredToken(namespace, secret)


def _job_of(found: Operation) -> specs.CancelTarget:
    spec = views.asked(found)
    name = objects.Wanted(spec, {}, "", "").name
    return specs.CancelTarget(tag=spec.tag, region=spec.region, namespace=spec.namespace, job=name, operation_id=found.id)
