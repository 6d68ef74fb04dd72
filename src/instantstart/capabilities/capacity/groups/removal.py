"""The way back: an instance group emptied, deleted, and seen gone. Its dedicated subnet stays for a successor."""

from __future__ import annotations

from instantstart.base import problems
from instantstart.base.outcome import Done, Outcome, Progress, Wait, pace
from instantstart.capabilities.capacity.groups import judging
from instantstart.capabilities.room import Room
from instantstart.ensure.capacity import arrivals, drains, groups, nodes, scaling
from instantstart.ensure.sites import site
from instantstart.operations.declare import Cut, Run


def empty(room: Room, run: Run) -> Outcome:
    """Let the pods of every node of the group leave within their disruption budgets."""
    where, spec = site(room, run.spec), run.spec
    if groups.find(scaling.get_cluster(where), spec.group) is None or spec.drain_minutes == 0:
        return Done(already=True)
    kube = where.kube(room)
    mine = [n.name for n in nodes.read(kube, where.hyperpod_cluster) if n.group == spec.group]
    return drains.drain(kube, mine, run.waited_seconds, spec.drain_minutes * 60.0) or Done({"drained": mine})


def left_cordoned(cut: Cut) -> problems.Problem | None:
    """What a cancel between the drain and the deletion leaves."""
    if "drain" not in cut.begun or "request" in cut.learned or not cut.spec.drain_minutes:
        return None
    return drains.left_cordoned(cut.spec.tag, cut.learned.get("drain", {}).get("drained", [f"of {cut.spec.group}"]))


def request_deletion(room: Room, run: Run) -> Outcome:
    """Ask SageMaker to delete the group, read again right before: it may have become the last one, or Karpenter's."""
    where, name = site(room, run.spec), run.spec.group
    cluster = scaling.get_cluster(where)
    have = groups.find(cluster, name)
    if have is None or have["Status"] == "Deleting":
        return Done({"group": name}, already=have is None)
    judging.check_not_last(cluster, name)
    judging.check_owner(where.kube(room), name, "deleted")
    waiting = scaling.await_free(cluster) or scaling.update(where.aws, cluster["ClusterName"], InstanceGroupsToDelete=[name])
    return waiting or Done({"group": name}, note=f"SageMaker took the deletion of {name}")


def await_end(room: Room, run: Run) -> Outcome:
    """See group and nodes gone: only then are its addresses free."""
    where, name = site(room, run.spec), run.spec.group
    have = groups.find(scaling.get_cluster(where), name)
    left = arrivals.read(where.aws, where.hyperpod_cluster, name).items
    if have is None and not left:
        return Done({"group": name, "deleted": True})
    held = next((n["InstanceStatus"]["Message"] for n in left if n["InstanceStatus"].get("Message")), None)
    told = f"{len(left)} nodes of {name} are shutting down" + (f"; {held}" if held else "")
    return Wait(pace(run.waited_seconds, arrivals.GONE_TYPICAL, near_from=0), told, Progress(0, max(len(left), 1), "nodes"))
