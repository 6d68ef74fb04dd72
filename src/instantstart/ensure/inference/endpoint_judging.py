"""Whether an endpoint is what was asked: by the operator's word, by the object, and by what really runs. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from instantstart.base import problems, trees
from instantstart.base.trees import Tree
from instantstart.ensure.inference import endpoints

Differences = dict[str, tuple[Any, Any]]
_SHOWN = 300
AFTER_ROLL_BACK = (
    "Look at its events and the server's log, then ask again with what was wrong put right; or ask for what is served (as_serving), "
    "so that the failed change is not tried again."
)


@dataclass(frozen=True)
class Seen:
    """What is there: the endpoint, and the Deployment that the operator made of it."""

    endpoint: Mapping[str, Any]
    deployment: dict[str, Any] | None

    @property
    def state(self) -> str:
        return str(trees.get(self.endpoint, "status.state") or "")

    @property
    def observed(self) -> bool:
        return endpoints.observed(self.endpoint)


def lost(asked: Tree, seen: Seen) -> Differences:
    """What was asked and is not in the object any more: somebody, or the operator, took it back. (asked, there now)."""
    return trees.missing(asked, seen.endpoint.get("spec") or {})


def not_running(asked: Tree, seen: Seen) -> Differences:
    """What was asked and is not what the Deployment runs, though the object says so: (asked, runs)."""
    worker = asked.get("worker") or {}
    container = endpoints.server(seen.deployment, seen.endpoint["metadata"]["name"]) if seen.deployment else None
    if container is None:
        return {}
    found: Differences = {}
    for name in ("image", "command"):
        if worker.get(name) and worker[name] != container.get(name):
            found[f"worker.{name}"] = (worker[name], container.get(name))
    if worker.get("args") and not _is_within(worker["args"], container.get("args") or []):
        found["worker.args"] = (worker["args"], container.get("args"))
    found |= _resources(trees.get(worker, "resources.requests") or {}, trees.get(container, "resources.requests") or {})
    return found | _replicas(asked, seen)


def _is_within(asked: list[str], runs: list[str]) -> bool:
    """The operator adds words of its own (cache, metrics): those asked must all be there, in their order."""
    rest = iter(runs)
    return all(word in rest for word in asked)


def _resources(asked: Mapping[str, Any], runs: Mapping[str, Any]) -> Differences:
    devices = [name for name in asked if "/" in name]
    return {f"worker.resources.{n}": (asked[n], runs.get(n)) for n in devices if str(asked[n]) != str(runs.get(n))}


def _replicas(asked: Tree, seen: Seen) -> Differences:
    wanted, runs = asked.get("replicas"), trees.get(seen.deployment or {}, "spec.replicas")
    scaled = (seen.endpoint.get("spec") or {}).get("autoScalingSpec")
    return {"replicas": (wanted, runs)} if wanted is not None and not scaled and runs is not None and wanted != runs else {}


def rolled_out(deployment: Mapping[str, Any] | None) -> bool:
    """Whether every replica of a Deployment is one of the newest, and there."""
    status, wanted = (deployment or {}).get("status") or {}, trees.get(deployment or {}, "spec.replicas")
    wanted = 1 if wanted is None else int(wanted)
    current = int(status.get("observedGeneration") or 0) >= int(trees.get(deployment or {}, "metadata.generation") or 1)
    updated, there = int(status.get("updatedReplicas") or 0), int(status.get("replicas") or 0)
    available = int(status.get("availableReplicas") or 0)
    return deployment is not None and current and updated >= wanted and there <= wanted and available >= wanted


def mark(condition: Mapping[str, Any]) -> str:
    """What tells one saying of the operator from a later one of the same kind."""
    return f"{condition.get('type')} {condition.get('lastTransitionTime')} {condition.get('message')}"


def rolled_back(name: str, differences: Differences, said: str | None) -> problems.Conflict:
    """The failure that a silent rollback is (case 68): what was asked, and what there is instead."""
    told = "; ".join(f"{field} was asked as {_short(asked)} and is {_short(now)}" for field, (asked, now) in differences.items())
    because = f" The operator says: {said}" if said else ""
    return problems.Conflict(
        "inference_endpoint.rolled_back",
        f"The endpoint {name} was rolled back: it does not run what was asked{': ' if told else ''}{told}.{because}",
        hint=AFTER_ROLL_BACK,
        evidence={"asked": {f: a for f, (a, _) in differences.items()}, "runs": {f: n for f, (_, n) in differences.items()}},
    )


@dataclass(frozen=True)
class ServedOtherwise:
    """A setting of an endpoint that asks for one thing and serves another."""

    setting: str
    asked: Any
    served: Any


def served_otherwise(seen: Seen) -> tuple[ServedOtherwise, ...]:
    """Each setting that is asked and not served, by our names, of an endpoint that the operator calls complete."""
    found = _other(seen)
    return tuple(ServedOtherwise(_ours(name), asked, _number(name, now)) for name, (asked, now) in found.items())


def _ours(name: str) -> str:
    return "server.accelerators" if name.startswith("worker.resources.") else name.replace("worker.", "server.", 1)


def _number(name: str, value: Any) -> Any:
    return int(value) if name.startswith("worker.resources.") and str(value).isdigit() else value


def _other(seen: Seen) -> Differences:
    """What is asked and not run, once the operator has looked; somebody's scaling is no roll-back."""
    settled = endpoints.rolled_back(seen.endpoint) is not None or seen.observed
    if seen.state != endpoints.COMPLETE or seen.deployment is None or not settled:
        return {}
    return not_running({k: v for k, v in (seen.endpoint.get("spec") or {}).items() if k != "replicas"}, seen)


def other_than_asked(seen: Seen) -> str | None:
    """What is to be told of an endpoint that serves, and not what it asks for: taken back, by the operator's word or without one."""
    if seen.state != endpoints.COMPLETE or seen.deployment is None:
        return None
    word, other = endpoints.rolled_back(seen.endpoint), _other(seen)
    if word is None and not other:
        return None
    told = "; ".join(f"{field} is asked as {_short(asked)} and runs as {_short(now)}" for field, (asked, now) in other.items())
    said = endpoints.trouble(seen.endpoint) if word is not None else None
    because = f" The operator says: {said}" if said else ""
    return f"It was rolled back and serves other settings than it shows{': ' if told else ''}{told}.{because}"


def failed(name: str, said: str | None, why: str | None) -> problems.Conflict:
    """The operator gave the deployment up."""
    told = " ".join(text for text in (said, why) if text) or "The operator does not say why."
    return problems.Conflict(
        "inference_endpoint.failed",
        f"The operator gave up deploying {name}: {told}",
        hint="Look at the server's log; then change what is wrong, or retry.",
        evidence={"untrusted_message": said, "pods": why},
    )


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
