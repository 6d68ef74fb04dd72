"""Which operation works on a cluster now. Shared by the slices: what one does can stand in another's way."""

from __future__ import annotations

from dataclasses import dataclass

from instantstart.base import problems
from instantstart.capabilities.room import Room
from instantstart.ensure import sites
from instantstart.ensure.sites import Site
from instantstart.operations.record import ACTIVE, HOLDING
from instantstart.store.records import OperationFilter


@dataclass(frozen=True)
class ActiveOperation:
    """The operation that works on a cluster now."""

    id: str
    workflow: str
    status: str


def active(room: Room) -> dict[str, ActiveOperation]:
    """The newest active operation of each cluster."""
    page = room.engine.list(OperationFilter(statuses=tuple(sorted(ACTIVE)), oldest_first=True), limit=200)
    return {o.cluster: ActiveOperation(o.id, o.workflow, o.status) for o in page.items if o.cluster}


def check_not_deleting(room: Room, tag: str) -> None:
    """Raise Conflict when the cluster is being deleted: nothing may be asked of it any more (case 20)."""
    found = active(room).get(tag)
    if found and found.workflow == "cluster.delete" and found.status in HOLDING:  # before a person's yes it is but a wish
        raise problems.Conflict(
            "cluster.being_deleted",
            f"The cluster {tag} is being deleted by operation {found.id} ({found.status}).",
            hint=f"Watch operation {found.id} to its end, or cancel it first.",
            evidence={"operation_id": found.id},
        )


def standing(room: Room, tag: str) -> Site:
    """The cluster, unless it is being deleted. Raises NotFound, Conflict."""
    check_not_deleting(room, tag)
    return sites.find(room, tag)
