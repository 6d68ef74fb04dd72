"""The stages of a software update: what the groups run, the one ask, and the end that is seen on every node.

UpdateClusterSoftware has no client token. SageMaker's last status stays from the update before, so the end is told by the nodes:
each one that was there has a newer time of its last update (aws-facts A1.7).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from instantstart.base import problems
from instantstart.base.outcome import Done, Outcome, Progress, Wait, pace
from instantstart.capabilities.capacity.nodes import rules
from instantstart.capabilities.room import Room
from instantstart.ensure.capacity import drains, hyperpod, instances
from instantstart.ensure.capacity.instances import Instance
from instantstart.ensure.sites import Site, site
from instantstart.operations.declare import Run

_RUNNING = frozenset({"Pending", "InProgress", "RollbackInProgress"})
_FAILED = frozenset({"Failed", "RollbackComplete", "RollbackFailed"})
_TYPICAL_SECONDS = 2400.0
_GRACE_SECONDS = 180.0


def survey(room: Room, run: Run) -> Outcome:
    """Write down what each node runs and since when. Raises Blocked when work runs there that the plan did not name."""
    where = site(room, run.spec)
    cluster = rules.described(where)
    found = [each for each in instances.read(where.aws, cluster) if each.group in run.spec.instance_groups and each.instance_id]
    new = sorted(set(rules.names_of(rules.busy(room, where, found))) - set(run.spec.work))
    if new:
        raise problems.Blocked(
            "node.work_changed",
            f"Work runs on the nodes that the plan did not name: {drains.shown(new)}.",
            hint="Let it end or stop it, then retry; or cancel this operation and ask for a new plan.",
            evidence={"work": new[:50]},
        )
    return Done({"nodes": {each.key: _stamp(each) for each in found}, "groups": {name: _release(cluster, name) for name in _groups(run)}})


def update(room: Room, run: Run) -> Outcome:
    """Ask for the update unless it runs or has been done, then wait for every node. Raises Conflict with the reason when it failed."""
    where = site(room, run.spec)
    cluster = rules.described(where)
    found = {each.key: each for each in instances.read(where.aws, cluster)}
    groups = {g["InstanceGroupName"]: g for g in cluster["InstanceGroups"] if g["InstanceGroupName"] in _groups(run)}
    updated = [key for key, before in _nodes(run).items() if key not in found or _stamp(found[key]) != before]
    progress = Progress(len(updated), len(_nodes(run)), "nodes")
    if any(_runs(group) for group in groups.values()) or cluster["ClusterStatus"] == "SystemUpdating":
        told = ", ".join(f"{name}: {g.get('SoftwareUpdateStatus') or g['Status']}" for name, g in groups.items())
        return Wait(pace(run.waited_seconds, _TYPICAL_SECONDS), f"SageMaker updates the nodes: {told}", progress)
    begun = any(key in found for key in updated) or any(_release(cluster, name) != run.learned["survey"]["groups"][name] for name in groups)
    if begun:
        return _ended(where, run, groups, found, progress)
    return _request(where, run, cluster)


def _request(where: Site, run: Run, cluster: Mapping[str, Any]) -> Outcome:
    """The one ask. A refusal because something else changes the cluster is waited for."""
    if cluster["ClusterStatus"] != "InService":
        return Wait(30, f"The HyperPod cluster is {cluster['ClusterStatus']}; it is updated while it is InService")
    try:
        where.aws.write("sagemaker", "update_cluster_software", ClusterName=cluster["ClusterArn"], **request_of(run.spec))
    except problems.Conflict as problem:
        return Wait(30, f"SageMaker does not take the update yet: {problem.detail}")
    return Wait(15, "SageMaker took the update")


def request_of(spec: Any) -> dict[str, Any]:
    """The request's fields beside the cluster; nothing is sent empty. Pure."""
    version = {"ImageReleaseVersion": spec.release_version} if spec.release_version else {}
    asked: dict[str, Any] = {"InstanceGroups": [{"InstanceGroupName": name, **version} for name in spec.instance_groups]}
    deployment: dict[str, Any] = {}
    if spec.batch_size is not None:
        deployment["RollingUpdatePolicy"] = {"MaximumBatchSize": {"Type": spec.batch_type, "Value": spec.batch_size}}
        if spec.rollback_batch_size is not None:
            back = {"Type": spec.batch_type, "Value": spec.rollback_batch_size}
            deployment["RollingUpdatePolicy"]["RollbackMaximumBatchSize"] = back
    if spec.wait_seconds is not None:
        deployment["WaitIntervalInSeconds"] = spec.wait_seconds
    if spec.rollback_alarms:
        deployment["AutoRollbackConfiguration"] = [{"AlarmName": name} for name in spec.rollback_alarms]
    return asked | ({"DeploymentConfig": deployment} if deployment else {}) | ({"ImageId": spec.image_id} if spec.image_id else {})


def _ended(where: Site, run: Run, groups: Mapping[str, Mapping[str, Any]], found: Mapping[str, Instance], progress: Progress) -> Outcome:
    """Nothing runs any more and something has changed: it succeeded, failed, or the lists lag."""
    failed = {name: g["SoftwareUpdateStatus"] for name, g in groups.items() if g.get("SoftwareUpdateStatus") in _FAILED}
    if failed:
        told = ", ".join(f"{name} {status}" for name, status in failed.items())
        reason = hyperpod.last_reason(where.aws, where.hyperpod_cluster) or "no reason told"
        raise problems.Conflict(
            "software.update_failed",
            f"The software update ended as {told}: {reason}",
            hint="Read the events and the lifecycle script's log of a node that failed, mend the cause, then ask for the update again.",
            evidence={"groups": failed, "reason": reason},
        )
    left = [key for key, before in _nodes(run).items() if key in found and _stamp(found[key]) == before]
    if left and run.waited_seconds < _GRACE_SECONDS + _TYPICAL_SECONDS:
        return Wait(15, f"SageMaker is done; not told as updated yet: {drains.shown(left)}", progress)
    releases = {name: group.get("CurrentImageReleaseVersion") for name, group in groups.items()}
    nodes = {key: found[key].software for key in _nodes(run) if key in found}
    note = f"Not told as updated: {drains.shown(left)}." if left else None
    return Done({"groups": releases, "nodes": nodes, "not_updated": left}, note=note)


def _runs(group: Mapping[str, Any]) -> bool:
    return group["Status"] == "SystemUpdating" or group.get("SoftwareUpdateStatus") in _RUNNING


def _groups(run: Run) -> tuple[str, ...]:
    return tuple(run.spec.instance_groups)


def _nodes(run: Run) -> Mapping[str, Any]:
    return dict(run.learned["survey"]["nodes"])


def _stamp(instance: Instance) -> list[str | None]:
    """What is another after an update: the release, and the time of the last update."""
    at: dt.datetime | None = instance.software_updated_at
    return [instance.software, at.isoformat() if at else None]


def _release(cluster: Mapping[str, Any], name: str) -> list[str | None]:
    group: Mapping[str, Any] = next((g for g in cluster["InstanceGroups"] if g["InstanceGroupName"] == name), {})
    return [group.get(field) for field in ("CurrentImageReleaseVersion", "CurrentImageId", "SoftwareUpdateStatus")]
