"""The door of the fleet: reads only, answered from live copies."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from instantstart.base import patterns
from instantstart.capabilities.capacity.fleet import views
from instantstart.capabilities.doors import ClusterPath, RoomDep, Viewer
from instantstart.capabilities.vocabulary import CapacityType

router = APIRouter(tags=["capacity"])

GroupQuery = Annotated[
    str | None, Query(max_length=63, pattern=patterns.INSTANCE_GROUP, description="Only this instance group.", examples=["workers"])
]
TypeQuery = Annotated[
    str | None, Query(pattern=patterns.INSTANCE_TYPE, description="Only this instance type.", examples=["ml.p5.48xlarge"])
]


@router.get("/clusters/{cluster}/fleet", operation_id="fleet_get", summary="Get the fleet")
def get_fleet(
    room: RoomDep,
    _caller: Viewer,
    cluster: ClusterPath,
    group: GroupQuery = None,
    instance_type: TypeQuery = None,
    capacity_type: Annotated[CapacityType | None, Query(description="Only groups that are paid for like this.")] = None,
) -> views.Fleet:
    """Nodes and accelerators (total, allocatable, used, idle, pending) by group and type, kept by watches; says when it is stale."""
    return views.get_fleet(room, cluster, views.Filter(group, instance_type, capacity_type))


@router.get("/clusters/{cluster}/fleet/pending", operation_id="fleet_pending", summary="List pods that wait")
def list_pending(
    room: RoomDep,
    _caller: Viewer,
    cluster: ClusterPath,
    namespace: Annotated[
        str | None, Query(max_length=63, pattern=patterns.KUBERNETES_NAME, description="Only pods of this namespace.")
    ] = None,
    group: Annotated[
        str | None, Query(max_length=63, pattern=patterns.INSTANCE_GROUP, description="Only pods that may go to this group alone.")
    ] = None,
    instance_type: Annotated[
        str | None, Query(pattern=patterns.INSTANCE_TYPE, description="Only pods that may go to this instance type alone.")
    ] = None,
    accelerated: Annotated[bool, Query(description="Only pods that ask for accelerators.")] = True,
    limit: Annotated[int, Query(ge=1, le=500, description="Most pods to answer.")] = 50,
    cursor: Annotated[str | None, Query(max_length=500, description="The cursor of the page before.")] = None,
) -> views.PendingPage:
    """Pods that are wanted and do not run, oldest first, each with the scheduler's or the kubelet's reason."""
    return views.list_pending(room, cluster, views.PodFilter(namespace, group, instance_type, accelerated), limit, cursor)
