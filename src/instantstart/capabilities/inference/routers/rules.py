"""What must hold before a router is made: a target with workers it understands, thresholds that mean something, one router for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from instantstart.base import names, problems, quantities
from instantstart.capabilities.inference.routers import specs
from instantstart.capabilities.room import Room
from instantstart.ensure.findings import Finding, invalid
from instantstart.ensure.inference import pools, serving, targets
from instantstart.ensure.inference.targets import Target
from instantstart.ensure.sites import Site
from instantstart.ensure.storage import images


@dataclass(frozen=True)
class Facts:
    """What was read. ``others``: routers of the same workers under another name; ``taken``: somebody else's object of the name."""

    target: Target
    live: dict[str, Any] | None
    taken: str | None
    others: tuple[str, ...]
    bindings: frozenset[str]
    image: Finding


def named(ask: specs.CreateSglangRouter) -> specs.CreateSglangRouter:
    """The ask with its name."""
    made = names.service_name(f"{ask.target}-{ask.business}-router" if ask.business else f"{ask.target}-router")
    return ask if ask.name else ask.model_copy(update={"name": made})


def image_of(room: Room, ask: specs.CreateSglangRouter) -> str:
    """The image: its own, or SGLang's pinned one, which holds the router too."""
    return ask.image or room.settings.sglang_image


def observe(room: Room, where: Site, ask: specs.CreateSglangRouter) -> Facts:
    """Read everything the checks need. Raises NotFound for a target that is not there."""
    kube = where.kube(room)
    target = targets.get(kube, ask.namespace, ask.target)
    found = {kind: kube.find(kind, str(ask.name), ask.namespace) for kind in ("Deployment", "Service", "ServiceAccount", "Role")}
    taken = [f"{kind} {ask.name}" for kind, it in found.items() if it is not None and not _is_router(it)]
    listed = kube.list("Deployment", ask.namespace, labels=serving.selector("sglang-router"))
    same = [r["metadata"]["name"] for r in listed if _leads(r) == (ask.target, ask.business)]
    bindings = frozenset(b.business for b in pools.bindings(kube, ask.namespace, ask.target)) if pools.is_pool(target.live) else frozenset()
    live = found["Deployment"] if found["Deployment"] is not None and _is_router(found["Deployment"]) else None
    others = tuple(n for n in same if n != ask.name)
    return Facts(target, live, taken[0] if taken else None, others, bindings, images.check(where.aws, image_of(room, ask)))


def _is_router(resource: dict[str, Any]) -> bool:
    marks = serving.marks(resource)
    return marks is not None and marks.part == "sglang-router"


def _leads(router: dict[str, Any]) -> tuple[str | None, str | None]:
    return serving.target_of(router), (router["metadata"].get("annotations") or {}).get(specs.BUSINESS_OF)


def findings(ask: specs.CreateSglangRouter, facts: Facts) -> list[Finding]:
    """Everything that was found, each ``fail`` at its field."""
    found = [*_thresholds(ask), *_target(ask, facts), facts.image]
    if ask.port == ask.metrics_port:
        found.append(Finding("metrics_port", "fail", f"port and metrics_port are both {ask.port}: make them differ."))
    for field in ("cpu", "memory"):
        told = quantities.find(getattr(ask, field))
        if told is None or told <= 0:
            found.append(Finding(field, "fail", f"{getattr(ask, field)} is no amount: write it as 500m, 2 or 4Gi."))
    if facts.taken:
        found.append(
            Finding("name", "fail", f"{facts.taken} of {ask.namespace} is there already, and is no router's.", "Choose another name.")
        )
    if ask.replicas > 1 and ask.policy == "cache_aware":
        found.append(Finding("replicas", "warn", "Each router remembers for itself: some cached beginnings are missed."))
    return found


def _thresholds(ask: specs.CreateSglangRouter) -> list[Finding]:
    if ask.policy == "cache_aware":
        return []
    given = [field for field in specs.CACHE_FLAGS if getattr(ask, field) is not None]
    return [Finding(f, "fail", f"{f} is about cache_aware; the policy is {ask.policy}: leave it out, or change the policy.") for f in given]


def _target(ask: specs.CreateSglangRouter, facts: Facts) -> list[Finding]:
    target, found = facts.target, []
    pool = pools.is_pool(target.live)
    if target.marks.engine == "custom":
        text = f"{ask.target} is no SGLang or vLLM server: the router would not understand its workers."
        found.append(Finding("target", "fail", text, "Choose a deployment of SGLang."))
    elif target.marks.engine != "sglang":
        text = f"{ask.target} is served by {serving.ENGINES[target.marks.engine].title}: the router leads to it as to any OpenAI server."
        found.append(Finding("target", "warn", text))
    if pool and not ask.business:
        text = f"{ask.target} is a pool: without a business, the router would lead to workers of everybody."
        found.append(Finding("business", "fail", text, f"Name one of: {', '.join(sorted(facts.bindings)) or 'none is bound yet'}."))
    if pool and ask.business and ask.business not in facts.bindings:
        known = ", ".join(sorted(facts.bindings)) or "none is bound yet"
        found.append(Finding("business", "fail", f"{ask.business} is not bound to {ask.target}.", f"Bound are: {known}."))
    if not pool and ask.business:
        found.append(Finding("business", "fail", f"{ask.target} is no pool: leave business out."))
    if facts.others:
        text = f"{', '.join(facts.others)} leads to the same workers already."
        found.append(Finding("target", "fail", text, "One router for each target: delete that one first."))
    if not target.ready:
        found.append(Finding("target", "warn", f"{ask.target} has no ready worker: the router is not ready until one is."))
    return found


def refusal(found: Sequence[Finding]) -> problems.Problem | None:
    """All violations at once, or None."""
    return invalid(found, "sglang_router.refused")
