"""What AWS said of a cluster a moment ago: where its Kubernetes is and how its groups were asked for. A read that shows it costs no call.

The first read asks; later ones are answered from memory at once, and the memory is renewed in the background once it is
``FRESH_SECONDS`` old. When AWS cannot be asked, the old word stays, with its age and the reason.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from instantstart.base import log, problems
from instantstart.ensure import eks, sites
from instantstart.ensure.capacity import hyperpod
from instantstart.kube.cluster_ref import ClusterRef

FRESH_SECONDS = 20.0
#: older than this (nobody has looked for a while) is not shown any more: asked anew first
TOO_OLD_SECONDS = 120.0
_log = log.get(__name__)


@dataclass(frozen=True)
class GroupFacts:
    """An instance group as it was asked for. ``instance_type`` is None for a group of several types."""

    name: str
    instance_type: str | None
    capacity_type: str
    current: int
    target: int
    status: str | None


@dataclass(frozen=True)
class ClusterFacts:
    """A cluster's own facts; ``problem`` says why they could not be renewed since ``read_at``."""

    tag: str
    region: str
    ref: ClusterRef
    hyperpod_status: str | None
    groups: tuple[GroupFacts, ...]
    read_at: dt.datetime
    problem: problems.Problem | None = None


@dataclass
class _Slot:
    facts: ClusterFacts | None = None
    #: of the last facts, also when the cluster is gone
    arn: str | None = None
    at: float = 0.0
    asking: threading.Lock = field(default_factory=threading.Lock)


class Remembered:
    """The facts of the clusters that somebody looks at; thread-safe, one for the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._slots: dict[str, _Slot] = {}

    def facts(self, room: Any, tag: str) -> ClusterFacts:
        """The facts of a cluster. Raises NotFound, and on the first read what AWS answers."""
        with self._lock:
            slot = self._slots.setdefault(tag, _Slot())
        found, age = slot.facts, time.monotonic() - slot.at
        if found is None or age > TOO_OLD_SECONDS:
            try:
                with slot.asking:
                    return self._ask(room, tag, slot)
            except problems.NotFound:
                self._gone(room, tag, slot)
                raise
        if age > FRESH_SECONDS and slot.asking.acquire(blocking=False):
            threading.Thread(target=self._renew, args=(room, tag, slot), name=f"facts-{tag}", daemon=True).start()
        return found

    def forget(self, tag: str) -> None:
        """Ask anew next time."""
        with self._lock:
            self._slots.pop(tag, None)

    def _gone(self, room: Any, tag: str, slot: _Slot) -> None:
        """The cluster is there no more: nothing of it is shown, and it is watched no more, also when a late reader began again."""
        arn = slot.arn
        if arn is None:
            self.forget(tag)
        else:
            slot.facts = None
            room.kube.watching.forget(arn)

    def _ask(self, room: Any, tag: str, slot: _Slot) -> ClusterFacts:
        if slot.facts is not None and time.monotonic() - slot.at < FRESH_SECONDS:
            return slot.facts  # somebody else asked while we waited for our turn
        slot.facts = read(room, tag)
        slot.arn, slot.at = slot.facts.ref.arn, time.monotonic()
        return slot.facts

    def _renew(self, room: Any, tag: str, slot: _Slot) -> None:
        """In the background, holding ``slot.asking``."""
        try:
            self._ask(room, tag, slot)
        except problems.NotFound:
            self._gone(room, tag, slot)
        except problems.Problem as problem:
            _log.info("facts of a cluster not renewed", extra={"facts": {"cluster": tag, "code": problem.code}})
            if slot.facts is not None:
                slot.facts = dataclasses.replace(slot.facts, problem=problem)
                slot.at = time.monotonic()
        finally:
            slot.asking.release()


def read(room: Any, tag: str, now: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC)) -> ClusterFacts:
    """The facts, asked of AWS: EKS DescribeCluster and SageMaker DescribeCluster. Raises NotFound or Busy without its API."""
    where = sites.find(room, tag)
    cluster = eks.get_cluster(where.aws, where.eks_cluster)
    if "endpoint" not in cluster:
        raise problems.Busy(
            "eks.no_endpoint_yet", f"The EKS cluster {cluster['name']} is {cluster['status']}: it has no Kubernetes API yet."
        )
    ref = eks.ref(cluster, where.aws.region)
    told = hyperpod.find_cluster(where.aws, where.hyperpod_cluster) or {}
    groups = tuple(
        GroupFacts(
            group["InstanceGroupName"],
            group.get("InstanceType"),
            hyperpod.capacity_type(group),
            group.get("CurrentCount", 0),
            group.get("TargetCount", 0),
            group.get("Status"),
        )
        for group in told.get("InstanceGroups", ())
    )
    return ClusterFacts(tag, where.aws.region, ref, told.get("ClusterStatus"), groups, now())
