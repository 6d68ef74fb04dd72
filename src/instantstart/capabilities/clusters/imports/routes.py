"""The door of imports: what could be imported, and the import itself."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from instantstart.base import patterns
from instantstart.capabilities.clusters.imports import plans, specs, views
from instantstart.capabilities.doors import (
    DryRun,
    IdempotencyKey,
    Operator,
    RoomDep,
    Viewer,
    Wish,
    begin,
    promise,
)  # fmt: skip
from instantstart.capabilities.planning import Plan
from instantstart.operations.record import Operation

router = APIRouter(tags=["clusters"])


@router.get("/cluster-candidates", operation_id="cluster_candidates", summary="List clusters that could be imported")
def list_candidates(
    room: RoomDep,
    _caller: Viewer,
    region: Annotated[str | None, Query(pattern=patterns.REGION, description="AWS region; left out: the server's own.")] = None,
) -> views.CandidateList:
    """EKS clusters that others made, with the HyperPod cluster on each; those that cannot be imported say why."""
    return views.list_candidates(room, region)


@router.post(
    "/cluster-imports", operation_id="cluster_import", summary="Import a cluster", status_code=202, response_model=Operation | Plan
)
def import_cluster(
    room: RoomDep, caller: Operator, ask: specs.ImportCluster, response: Response, key: IdempotencyKey = None, dry_run: DryRun = False
) -> Any:
    """Manage an EKS cluster that others made, and the HyperPod cluster on it. Nothing on AWS changes but what a switch asks for.

    The plan (dry_run) lists the checks, each with its cure; the operation's result lists them again after the changes.
    """
    target = plans.locate(room, ask)
    if dry_run:
        return promise(response, plans.plan_import(room, target))
    plans.claim(room, target)
    return begin(room, caller, response, Wish("cluster.import", target, key))
