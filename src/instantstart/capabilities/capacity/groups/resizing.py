"""Stages of another number of nodes: more are asked for; of fewer, idle ones go first, and the others are drained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from instantstart.base import problems
from instantstart.base.outcome import Done, Outcome, Progress, Wait, pace
from instantstart.capabilities.capacity.groups.stages import await_join
from instantstart.capabilities.room import Room
from instantstart.ensure.capacity import arrivals, drains, groups, nodes, scaling
from instantstart.ensure.sites import Site, site
from instantstart.operations.declare import Cut, Run


def await_scaled(room: Room, run: Run) -> Outcome:
    """The same, and what became of the group: the nodes that it has now, and those that went."""
    start, gone = run.learned["survey"], run.learned["choose"]["nodes"]
    if not gone:
        outcome = await_join(room, run)
        return Done({**outcome.learned, "group": run.spec.group, "from": start["from"]}) if isinstance(outcome, Done) else outcome
    where = site(room, run.spec)
    staying = {n["InstanceId"] for n in arrivals.read(where.aws, where.hyperpod_cluster, run.spec.group).staying}
    ready = [n.name for n in nodes.read(where.kube(room)) if n.instance_id in staying and n.usable]
    removed = [n["node"] or n["instance"] or n["logical"] for n in gone]
    return Done({"ready": len(ready), "nodes": ready, "group": run.spec.group, "from": start["from"], "removed": removed})


def grow(room: Room, run: Run) -> Outcome:
    """Ask for the nodes that are missing, by token: asked twice, it is the same nodes."""
    where, spec, start = site(room, run.spec), run.spec, run.learned["survey"]
    if start["to"] <= start["from"]:
        return Done(already=True)
    cluster = scaling.get_cluster(where)
    have = groups.get(cluster, spec.group)
    if have["TargetCount"] == start["to"]:
        return Done({"target": start["to"]})
    waiting = scaling.await_free(cluster)
    if waiting:
        return waiting
    if not start["by_name"] or have["Status"] not in ("InService", "Degraded"):
        return _resize(where, cluster, have, start)
    scaling.add_nodes(where.aws, cluster["ClusterName"], have, scaling.ladder(start["from"], start["to"]), run.token)
    return Done({"target": start["to"]}, note=f"Asked for {start['to'] - have['TargetCount']} more nodes")


def _resize(where: Site, cluster: Mapping[str, Any], have: Mapping[str, Any], start: Mapping[str, Any]) -> Outcome:
    """By number, where nodes cannot be added or taken by name (aws-facts A1.5): every other setting is carried forward."""
    name = have["InstanceGroupName"]
    scaling.check_count(name, have["TargetCount"], [start["from"]], start["from"])
    groups.check_known(have)
    after = groups.to_request(have) | {"InstanceCount": start["to"]}
    waiting = scaling.update(where.aws, cluster["ClusterName"], InstanceGroups=[after])
    return waiting or Done({"target": start["to"]}, note=f"Asked SageMaker for {start['to']} nodes")


def choose(room: Room, run: Run) -> Outcome:
    """Which nodes go: those that have no instance, then the idle, then the least busy; busy ones only when their plan was approved."""
    where, spec, start = site(room, run.spec), run.spec, run.learned["survey"]
    if start["to"] >= start["from"]:
        return Done({"nodes": []}, already=True)
    picked, work = pick_nodes(room, where, spec.group, start["from"] - start["to"])
    if work and not spec.disturb:
        raise problems.Blocked(
            "instance_group.nodes_busy",
            f"Work has come onto the nodes that would go: {drains.shown([str(w) for w in work])}.",
            hint="Retry when it has ended, or ask again and approve the plan that names it.",
            evidence={"work": [str(w) for w in work][:50]},
        )
    return Done({"nodes": picked})


def pick_nodes(room: Room, where: Site, group: str, count: int) -> tuple[list[dict[str, str]], tuple[drains.Work, ...]]:
    """The ``count`` nodes of a group that would be missed least, and the work on them."""
    staying = arrivals.read(where.aws, where.hyperpod_cluster, group).staying
    asked_only = [n for n in staying if not n["InstanceId"]]
    rest = {n["InstanceId"]: n for n in staying if n["InstanceId"]}
    kube = where.kube(room)
    joined = {n.instance_id: n for n in nodes.read(kube) if n.instance_id in rest}
    strays = [n for i, n in rest.items() if i not in joined]  # instances that no pod can be on
    first = (asked_only + strays)[:count]
    work = drains.busy(kube, [n.name for n in joined.values()])
    names = drains.pick_idle(joined.values(), count - len(first), work)
    by_name = {n.name: n for n in joined.values()}
    picked = [_told(n, "") for n in first] + [_told(rest[str(by_name[name].instance_id)], name) for name in names]
    return picked, tuple(w for w in work if set(w.nodes) & set(names))


def _told(node: Mapping[str, Any], name: str) -> dict[str, str]:
    return {"instance": str(node["InstanceId"]), "logical": str(node.get("NodeLogicalId", "")), "node": name}


def left_cordoned(cut: Cut) -> problems.Problem | None:
    """What a cancel between the drain and the removal leaves."""
    names = [n["node"] for n in cut.learned.get("choose", {}).get("nodes", ()) if n["node"]]
    is_between = "drain" in cut.begun and "shrink" not in cut.learned and cut.spec.drain_minutes
    return drains.left_cordoned(cut.spec.tag, names) if is_between else None


def drain(room: Room, run: Run) -> Outcome:
    """Let the pods of the nodes that go leave within their disruption budgets."""
    names = [n["node"] for n in run.learned["choose"]["nodes"] if n["node"]]
    if not names or run.spec.drain_minutes == 0:
        return Done(already=True)
    kube = site(room, run.spec).kube(room)
    return drains.drain(kube, names, run.waited_seconds, run.spec.drain_minutes * 60.0) or Done({"drained": names})


def shrink(room: Room, run: Run) -> Outcome:
    """Remove the chosen nodes by name: the target goes down with them, and SageMaker chooses none itself (case 40)."""
    where, spec, start = site(room, run.spec), run.spec, run.learned["survey"]
    chosen = run.learned["choose"]["nodes"]
    if not chosen:
        return Done(already=True)
    cluster = scaling.get_cluster(where)
    have = groups.get(cluster, spec.group)
    there = {str(n.get("NodeLogicalId", "")) for n in arrivals.read(where.aws, cluster["ClusterName"], spec.group).staying}
    left = [n for n in chosen if n["logical"] in there]
    if not left:
        return Done({"target": have["TargetCount"]})
    if have["TargetCount"] <= start["to"]:
        drains.uncordon(where.kube(room), [n["node"] for n in left if n["node"]])
        return Done(
            {"target": have["TargetCount"]}, note=f"Somebody else took the group to {have['TargetCount']}; nothing more was removed"
        )
    waiting = scaling.await_free(cluster)
    if waiting:
        return waiting
    scaling.check_count(spec.group, have["TargetCount"], [start["to"] + len(left)], start["from"])
    why = scaling.delete_nodes(where.aws, cluster["ClusterName"], left)
    told = f"; {len(why)} not yet: {why[0]}" if why else ""
    return Wait(5, f"Removing {len(left)} nodes{told}", Progress(len(chosen) - len(left), len(chosen), "nodes"))


def await_gone(room: Room, run: Run) -> Outcome:
    """See the removed nodes gone, from SageMaker: their addresses and capacity are free then."""
    where, chosen = site(room, run.spec), run.learned["choose"]["nodes"]
    if not chosen:
        return Done(already=True)
    seen = arrivals.read(where.aws, where.hyperpod_cluster, run.spec.group)
    mine = {n["logical"] for n in chosen}
    left = [n for n in seen.items if n.get("NodeLogicalId") in mine]
    if not left:
        return Done({"removed": len(chosen)})
    held = next((n["InstanceStatus"]["Message"] for n in left if n["InstanceStatus"].get("Message")), None)
    told = f"{len(chosen) - len(left)}/{len(chosen)} nodes gone" + (f"; {held}" if held else "")
    return Wait(pace(run.waited_seconds, arrivals.GONE_TYPICAL, near_from=0), told, Progress(len(chosen) - len(left), len(chosen), "nodes"))
