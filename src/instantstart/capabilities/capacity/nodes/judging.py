"""Whether what was asked for a node has happened: its baseline held against what is seen now. Pure.

AWS's calls for nodes have no client token. So each is judged by something that changes when it has happened, and by nothing else:
a reboot by the kernel's boot id, a replacement by the instance id, a deletion by absence, a check by HyperPod's own operation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from instantstart.ensure.capacity import nodes
from instantstart.ensure.capacity.instances import NODE_PREFIX, Instance
from instantstart.kube import shapes

#: after an ask whose answer was lost, this long (seconds of the world) is looked for a sign before it is asked again
GRACE_SECONDS = 180.0
_ACTABLE = frozenset({"Running", "Failure"})
_COMMANDS = frozenset({"UnschedulablePendingReplacement", "UnschedulablePendingReboot"})


class Phase(StrEnum):
    """Where a node stands. ``holds``: as it was, nothing has happened. ``moot``: it cannot happen any more, somebody was faster."""

    holds = "holds"
    under_way = "under_way"
    done = "done"
    moot = "moot"


@dataclass(frozen=True)
class Verdict:
    """Phase, and why in one sentence; ``instance_id`` is that of the instance now."""

    phase: Phase
    because: str
    instance_id: str | None = None


@dataclass(frozen=True)
class Before:
    """A node as the baseline recorded it."""

    key: str
    instance_id: str | None
    logical_id: str | None
    group: str
    boot_id: str | None = None

    @property
    def name(self) -> str | None:
        """Its Kubernetes name then."""
        return NODE_PREFIX + self.instance_id if self.instance_id else None


@dataclass(frozen=True)
class Now:
    """The same node now. ``taken_seconds``: how long ago AWS said that it took our wish, None for "not said".

    ``check`` is the status of the HyperPod operation that checks it, ``operations`` whether the cluster has such operations.
    """

    instance: Instance | None
    node: Mapping[str, Any] | None = None
    taken_seconds: float | None = None
    check: str | None = None
    operations: bool = True

    @property
    def boot_id(self) -> str | None:
        """The kernel's boot id; another one after each boot."""
        return boot_id(self.node)

    @property
    def label(self) -> str | None:
        """HyperPod's health label."""
        return self._labels.get(nodes.HEALTH)

    @property
    def deep(self) -> str | None:
        """HyperPod's label of the deep health check."""
        return self._labels.get(nodes.DEEP_HEALTH)

    @property
    def ready(self) -> bool:
        """Whether SageMaker calls it Running and Kubernetes Ready."""
        if self.instance is None or self.instance.status != "Running" or self.node is None:
            return False
        return any(c.type == "Ready" and c.status == "True" for c in shapes.node(self.node).status.conditions)

    @property
    def _labels(self) -> Mapping[str, str]:
        return (self.node or {}).get("metadata", {}).get("labels") or {}


def boot_id(node: Mapping[str, Any] | None) -> str | None:
    """The boot id of a Node object."""
    return ((node or {}).get("status", {}).get("nodeInfo") or {}).get("bootID") or None


def judge_reboot(before: Before, now: Now) -> Verdict:
    """Done when the kernel has another boot id and the node is Ready."""
    if now.instance is None or now.instance.instance_id != before.instance_id:
        return _overtaken(before, now)
    if now.boot_id and before.boot_id and now.boot_id != before.boot_id:
        phase, told = (Phase.done, "it has rebooted") if now.ready else (Phase.under_way, "it has restarted and is coming up")
        return Verdict(phase, told, before.instance_id)
    return _unchanged(now, before.instance_id)


def judge_replacement(before: Before, now: Now) -> Verdict:
    """Done when another instance stands in its place, Running and Ready."""
    if now.instance is None:
        return Verdict(Phase.moot, "the node was removed meanwhile; there is nothing to replace")
    if now.instance.instance_id == before.instance_id:
        return _unchanged(now, before.instance_id)
    if now.instance.instance_id is None:
        return Verdict(Phase.under_way, f"another instance is being asked for{_last(now.instance)}")
    if now.ready:
        return Verdict(Phase.done, f"{now.instance.instance_id} stands in its place", now.instance.instance_id)
    told = (
        f"{now.instance.instance_id} is {now.instance.status}" if now.instance.status != "Running" else "it has not joined Kubernetes yet"
    )
    return Verdict(Phase.under_way, f"{told}{_last(now.instance)}", now.instance.instance_id)


def judge_deletion(before: Before, now: Now) -> Verdict:
    """Done when it is not listed any more."""
    if now.instance is None:
        return Verdict(Phase.done, "it is gone")
    if now.instance.instance_id != before.instance_id:
        return _overtaken(before, now)
    if now.instance.status == "ShuttingDown":
        return Verdict(Phase.under_way, f"it is being shut down{_last(now.instance)}", before.instance_id)
    return Verdict(Phase.holds, f"it is {now.instance.status}", before.instance_id)


def judge_move(before: Before, now: Now, target_group: str) -> Verdict:
    """Done when it belongs to the other group."""
    if now.instance is None or now.instance.instance_id != before.instance_id:
        return _overtaken(before, now)
    if now.instance.group == target_group:
        return Verdict(Phase.done, f"it belongs to {target_group}", before.instance_id)
    return Verdict(Phase.holds, f"it belongs to {now.instance.group}", before.instance_id)


def judge_check(before: Before, now: Now) -> Verdict:
    """Done when HyperPod's operation is; without operations, when its label has an answer some time after AWS took the wish."""
    if now.instance is None or now.instance.instance_id != before.instance_id:
        return _overtaken(before, now)
    if now.instance.status == "DeepHealthCheckInProgress" or now.deep == "InProgress":
        return Verdict(Phase.under_way, "deep health checks are running; they take one to two hours", before.instance_id)
    settled = now.check == "Done" if now.operations else (now.taken_seconds or 0.0) > GRACE_SECONDS
    if settled:
        return Verdict(Phase.done, f"deep health checks: {now.deep or 'no answer on the node'}{_last(now.instance)}", before.instance_id)
    if now.check == "InProgress" or (not now.operations and now.taken_seconds is not None):
        return Verdict(Phase.under_way, "the check has been taken and begins", before.instance_id)
    return Verdict(Phase.holds, f"it is {now.instance.status}", before.instance_id)


def _unchanged(now: Now, instance_id: str | None) -> Verdict:
    """The same instance, not changed yet: HyperPod may be at it, by us or by itself."""
    assert now.instance is not None
    if now.instance.status not in _ACTABLE:
        return Verdict(Phase.under_way, f"it is {now.instance.status}{_last(now.instance)}", instance_id)
    if now.label in _COMMANDS:
        return Verdict(Phase.under_way, f"HyperPod has marked it {now.label}", instance_id)
    return Verdict(Phase.holds, f"it is {now.instance.status} and unchanged", instance_id)


def _overtaken(before: Before, now: Now) -> Verdict:
    if now.instance is None:
        return Verdict(Phase.moot, f"{before.key} is gone: it was deleted or replaced meanwhile")
    if now.instance.instance_id is None:
        return Verdict(Phase.moot, f"HyperPod is replacing {before.key} meanwhile")
    return Verdict(Phase.moot, f"HyperPod replaced {before.key} by {now.instance.instance_id} meanwhile", now.instance.instance_id)


def _last(instance: Instance) -> str:
    """SageMaker's message is sticky: the last problem, not the present one, and none of a node that runs (aws-facts A1.6)."""
    return f" (last problem told: {instance.message})" if instance.message and instance.status != "Running" else ""
