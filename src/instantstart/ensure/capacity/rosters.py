"""The instances of a cluster as SageMaker listed them a moment ago, for lists that are looked at again and again (case 80).

A list is answered from memory while it is young, and renewed in the background; older ones are read anew first. Acts never use it.
"""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from instantstart.base import log, problems
from instantstart.ensure import eks
from instantstart.ensure.capacity import hyperpod, instances
from instantstart.ensure.capacity.instances import Instance
from instantstart.ensure.sites import Site
from instantstart.kube.cluster_ref import ClusterRef

#: real seconds: as it is; then still shown while it is renewed; then read anew first
FRESH_SECONDS, TOO_OLD_SECONDS = 5.0, 20.0
_log = log.get(__name__)


@dataclass(frozen=True)
class Roster:
    """One reading. ``cluster`` is None while there is no HyperPod cluster; ``unknown`` says why ``ref`` is not known."""

    cluster: Mapping[str, Any] | None
    instances: tuple[Instance, ...]
    ref: ClusterRef | None
    unknown: str | None
    read_at: dt.datetime
    #: what a reader makes of each instance, kept as long as nothing about it changes: key -> (what it was made of, what was made)
    made: dict[str, tuple[Any, Any]] = field(default_factory=dict)


@dataclass
class _Slot:
    roster: Roster | None = None
    at: float = 0.0
    asking: threading.Lock = field(default_factory=threading.Lock)


class Rosters:
    """The rosters of the clusters that somebody looks at; thread-safe, one for the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._slots: dict[tuple[str, str], _Slot] = {}

    def of(self, where: Site) -> Roster:
        """The roster of a cluster, at most ``TOO_OLD_SECONDS`` old. Raises what the read does."""
        with self._lock:
            slot = self._slots.setdefault((where.aws.region, where.tag), _Slot())
        found, age = slot.roster, time.monotonic() - slot.at
        if found is None or age > TOO_OLD_SECONDS:
            with slot.asking:
                return self._ask(where, slot)
        if age > FRESH_SECONDS and slot.asking.acquire(blocking=False):
            threading.Thread(target=self._renew, args=(where, slot), name=f"roster-{where.tag}", daemon=True).start()
        return found

    def clear(self) -> None:
        """Read everything anew next time."""
        with self._lock:
            self._slots.clear()

    def _ask(self, where: Site, slot: _Slot) -> Roster:
        if slot.roster is not None and time.monotonic() - slot.at < FRESH_SECONDS:
            return slot.roster  # somebody else asked while we waited for our turn
        made = slot.roster.made if slot.roster else {}
        slot.roster = read(where, made)
        slot.at = time.monotonic()
        return slot.roster

    def _renew(self, where: Site, slot: _Slot) -> None:
        """In the background, holding ``slot.asking``. What cannot be read stays until it is too old; then its reader is told why."""
        try:
            self._ask(where, slot)
        except problems.Problem as problem:
            _log.info("roster of a cluster not renewed", extra={"facts": {"cluster": where.tag, "code": problem.code}})
        finally:
            slot.asking.release()


def read(where: Site, made: dict[str, tuple[Any, Any]] | None = None) -> Roster:
    """Read a cluster's instances: two calls, and one for each hundred nodes."""
    now = dt.datetime.now(dt.UTC)
    cluster = hyperpod.find_cluster(where.aws, where.hyperpod_cluster)
    if cluster is None:
        return Roster(None, (), None, None, now)
    found = instances.read(where.aws, cluster)
    kept = {each.key: made[each.key] for each in found if each.key in made} if made else {}
    try:
        return Roster(cluster, found, eks.ref(eks.get_cluster(where.aws, where.eks_cluster), where.aws.region), None, now, kept)
    except problems.Problem as problem:
        return Roster(cluster, found, None, f"Kubernetes could not be asked: {problem.detail}", now, kept)
