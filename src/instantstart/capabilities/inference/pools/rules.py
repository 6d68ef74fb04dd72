"""What must hold before a pool is made, scaled or bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from instantstart.base import problems
from instantstart.capabilities.inference.pools import specs
from instantstart.capabilities.room import Room
from instantstart.ensure.findings import Finding, invalid
from instantstart.ensure.inference import autoscalers, pools, server_checks
from instantstart.ensure.inference.serving import RETIRING, UNASSIGNED
from instantstart.ensure.sites import Site
from instantstart.kube.client import KubeCluster


@dataclass(frozen=True)
class Facts:
    """What was read. ``taken``: somebody else's object of that name, in words; ``live``: our pool, when it is there."""

    server: server_checks.Facts
    live: dict[str, Any] | None
    taken: str | None
    namespace: bool


def observe(room: Room, where: Site, ask: specs.CreateModelPool) -> Facts:
    """Read everything the checks need. Raises what passes."""
    kube = where.kube(room)
    read = server_checks.observe(room, where, ask)
    live = kube.find("Deployment", read.meant.name, ask.namespace)
    ours = live is not None and pools.is_pool(live)
    taken = f"Deployment {read.meant.name}" if live is not None and not ours else None
    return Facts(read, live if ours else None, taken, kube.find("Namespace", ask.namespace) is not None)


def findings(ask: specs.CreateModelPool, facts: Facts) -> list[Finding]:
    """Everything that was found, each ``fail`` at its field."""
    found = server_checks.findings(ask, facts.server)
    if not facts.namespace:
        found.append(Finding("namespace", "fail", f"There is no namespace {ask.namespace}.", "Make it, or choose one that is there."))
    if facts.taken:
        found.append(Finding("name", "fail", f"{facts.taken} of {ask.namespace} is no model pool.", "Choose another name."))
    return found


def refusal(found: Sequence[Finding]) -> problems.Problem | None:
    """All violations at once, or None."""
    return invalid(found, "model_pool.refused")


def check_business(business: str) -> None:
    """Raises Invalid for a name that means something else."""
    if business in (UNASSIGNED, RETIRING):
        told = f"{business} is what a worker is called that works for nobody: choose another name."
        raise problems.Invalid("model_pool.business_reserved", told, fields=[problems.Violation("/business", told)])


def check_size(kube: KubeCluster, pool: pools.Pool, wanted: int) -> None:
    """Raises Conflict while somebody else scales it, or when bound workers would not fit."""
    owner = autoscalers.owner(kube, pool.namespace, "Deployment", pool.name)
    if owner is not None and wanted != pool.size:
        raise problems.Conflict(
            "model_pool.autoscaled",
            f"{owner} owns the number of workers of {pool.name}: what is set by hand would be undone.",
            hint="Change the autoscaler's bounds, or delete it first.",
            evidence={"autoscaler": owner},
        )
    if wanted < len(pool.bound()):
        raise pools.too_small(pool, wanted)


def check_unbound(pool: pools.Pool) -> None:
    """Raises Conflict while businesses are bound."""
    held = sorted({b.business for b in pool.bindings} | {str(w.business) for w in pool.bound()})
    if held:
        raise problems.Conflict(
            "model_pool.in_use",
            f"{pool.name} works for {', '.join(held)}.",
            hint="Delete these bindings first: that releases their workers.",
            evidence={"businesses": held},
        )
