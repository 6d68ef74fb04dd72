"""Why no node fits a pod: judged from the nodes themselves where they are known, else from kube-scheduler's sentence.

The scheduler counts every node, also those that the pod never wanted, and each by the first filter that fails: the clause that matters
is rarely the first (case 57). Here only the nodes that the pod's selector and affinity let it go to are looked at.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from instantstart.base import quantities
from instantstart.ensure.capacity import nodes
from instantstart.ensure.running.pending_words import Resource, Why, short
from instantstart.kube.shapes import Node

_MOST_HOLDERS = 8
_CLAUSE = re.compile(r"(\d+) ((?:node\(s\)|Insufficient|Too many|Preemption|No preemption)[^{},]*(?:\{[^}]*\})?[^,]*)")
_TAINT = re.compile(r"untolerated taint \{([^:}]+):? ?([^}]*)\}")
_OPERATORS: Mapping[str, Callable[[str | None, list[str]], bool]] = {
    "In": lambda have, values: have in values,
    "NotIn": lambda have, values: have not in values,
    "Exists": lambda have, values: have is not None,
    "DoesNotExist": lambda have, values: have is None,
    "Gt": lambda have, values: have is not None and have.isdigit() and int(have) > int(values[0]),
    "Lt": lambda have, values: have is not None and have.isdigit() and int(have) < int(values[0]),
}


@dataclass(frozen=True)
class Place:
    """A node, and what its pods hold of it by resource (accelerators at least). ``holders``: the same by whose pods they are."""

    node: Node
    held: Mapping[str, int] = field(default_factory=dict)
    #: ``Job train/first`` or ``pod default/one`` -> resource -> count
    holders: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


def no_place(pod: Resource, said: str, places: Sequence[Place] | None, coming: str | None) -> Why:
    """The one reason why the scheduler has no node for a pod. ``said`` is its own message."""
    evidence: dict[str, Any] = {"untrusted_message": short(said)}
    if coming:
        return Why("capacity.coming", "waiting", f"No node fits yet: {coming}", evidence, "It is placed when the nodes are ready.")
    if "persistentvolumeclaim" in said.lower():
        return _claim(said, evidence)
    found = _judged(pod, places, evidence) if places else None
    return found or _from_words(said, evidence)


def _claim(said: str, evidence: Mapping[str, Any]) -> Why:
    missing = re.search(r'persistentvolumeclaim "([^"]+)" (not found|is being deleted)', said)
    if missing and missing[2] == "not found":
        text = f"The volume claim {missing[1]} is not in the namespace."
        return Why("claim.missing", "blocked", text, evidence, "Make the volume, or name a claim of this namespace.")
    if missing:
        return Why("claim.ending", "blocked", f"The volume claim {missing[1]} is being removed.", evidence, "Make the volume anew.")
    text = "A volume claim of it is not bound to a volume yet."
    return Why("claim.unbound", "waiting", text, evidence, "Look at the claim: its storage class or volume does not answer.")


def _judged(pod: Resource, places: Sequence[Place], evidence: dict[str, Any]) -> Why | None:
    wanted = [place for place in places if matches(pod, place.node)]
    asked = _words(pod)
    if not wanted:
        return _nowhere(asked, places, evidence)
    evidence["nodes_asked_for"] = len(wanted)
    views = {place.node.metadata.name: nodes.view(place.node) for place in wanted}
    standing = [place for place in wanted if views[place.node.metadata.name].usable]
    if not standing:
        reasons = sorted({str(v.because) for v in views.values()})
        text = f"No pod can be put on {_all(len(wanted), asked)} now: {reasons[0]}"
        return Why("nodes.not_usable", "waiting", text, evidence | {"reasons": reasons}, "It is placed when a node is back.")
    welcome = [place for place in standing if untolerated(pod, place.node) is None]
    if not welcome:
        taint = untolerated(pod, standing[0].node)
        text = f"The pod does not tolerate the taint {taint} of {_all(len(standing), asked)}."
        return Why("nodes.tainted", "blocked", text, evidence | {"taint": taint}, "Let the job tolerate it, or choose another group.")
    return _short(pod, welcome, asked, evidence)


def _nowhere(asked: str, places: Sequence[Place], evidence: Mapping[str, Any]) -> Why:
    there = sorted({p.node.metadata.labels.get(nodes.INSTANCE_TYPE, "?") for p in places})
    text = f"There is no node{_of(asked)}" if asked else "No node has the labels that it asks for"
    text += f"; the cluster has {', '.join(there)}." if there else "."
    step = "Add or scale a group that fits, or ask for what is there."
    return Why("nodes.none_match", "blocked", text, {**evidence, "instance_types": there}, step)


def _short(pod: Resource, places: Sequence[Place], asked: str, evidence: Mapping[str, Any]) -> Why | None:
    """What the pod asks for and no node has: never, or not now."""
    for resource, count in devices(pod).items():
        have = {p.node.metadata.name: quantities.whole(p.node.status.allocatable.get(resource)) for p in places}
        largest = max(have.values())
        if largest < count:
            text = f"It asks for {count} {resource}, and no node{_of(asked)} has more than {largest}."
            step = "Ask for less on each node, or choose another type; a device may be faulty." if largest else "Look at the device plugin."
            return Why("nodes.too_small", "blocked", text, {**evidence, "resource": resource, "largest": largest}, step)
        free = {p.node.metadata.name: have[p.node.metadata.name] - p.held.get(resource, 0) for p in places}
        if max(free.values()) < count:
            total, held = sum(max(n, 0) for n in free.values()), _held(places, resource)
            text = f"It asks for {count} {resource}; no node{_of(asked)} has that many free ({_left(free, total)})."
            text += f" Held by {held[0]}{f' and {len(held) - 1} more' if len(held) > 1 else ''}." if held else ""
            step = "It starts when other work ends; scale the group, or end something."
            more = {"resource": resource, "free": total} | ({"holders": held} if held else {})
            return Why("resource.insufficient", "waiting", text, {**evidence, **more}, step)
    return None


def _left(free: Mapping[str, int], total: int) -> str:
    """What is free, in words."""
    if total == 0:
        return "none is free"
    most = max(free.values())
    return f"{most} free on one node" if total == most else f"{most} free on one node at most, {total} on all together"


def _held(places: Sequence[Place], resource: str) -> list[str]:
    """Who holds a resource, the greatest first: ``PyTorchJob default/first: 8 (node-1: 4, node-2: 4)``."""
    found: dict[str, dict[str, int]] = {}
    for place in places:
        for who, holds in place.holders.items():
            if holds.get(resource):
                found.setdefault(who, {})[place.node.metadata.name] = holds[resource]
    order = sorted(found.items(), key=lambda each: (-sum(each[1].values()), each[0]))
    return [f"{who}: {sum(at.values())} ({_by_node(at)})" for who, at in order[:_MOST_HOLDERS]]


def _by_node(at: Mapping[str, int]) -> str:
    told = [f"{node}: {count}" for node, count in sorted(at.items())[:_MOST_HOLDERS]]
    return ", ".join([*told, *(["..."] if len(at) > len(told) else [])])


def _from_words(said: str, evidence: Mapping[str, Any]) -> Why:
    """The most telling clause of the scheduler's own sentence."""
    head = said.split("preemption:")[0]
    clauses = [(int(count), text.strip().rstrip(".")) for count, text in _CLAUSE.findall(head)]
    short_of = next((text for _, text in clauses if text.startswith("Insufficient")), None)
    if short_of:
        resource = short_of.removeprefix("Insufficient ").strip()
        text = f"No node has enough {resource} free."
        step = "It starts when other work ends; scale the group, or ask for less on each node."
        return Why("resource.insufficient", "waiting", text, {**evidence, "resource": resource}, step)
    for pattern, code, kind, text, step in _CLAUSES:
        if any(re.search(pattern, clause) for _, clause in clauses) or re.search(pattern, head):
            taint = _TAINT.search(head)
            named = f"{taint[1]}={taint[2]}" if taint and taint[2] else taint[1] if taint else "?"
            return Why(code, kind, text.format(taint=named), evidence, step)  # type: ignore[arg-type]
    return Why("nodes.none_fit", "waiting", f"No node fits: {short(said) or 'no reason given'}", evidence, "Look at the cluster's nodes.")


_REPAIR = "HyperPod repairs or replaces the node; it is placed when one is healthy."
_CLAUSES: tuple[tuple[str, str, str, str, str], ...] = (
    (r"Too many pods", "nodes.no_slot", "waiting", "Every node that fits has as many pods as it takes.", "Add nodes, or end pods."),
    (r"free ports", "nodes.port_taken", "waiting", "The host port that it asks for is taken on every node.", "Use another port."),
    (r"volume node affinity conflict", "nodes.volume_elsewhere", "blocked", "Its volume is in another zone than the nodes.",
     "Use nodes in the volume's zone, or another volume."),
    (r"untolerated taint \{sagemaker\.amazonaws\.com/node-health-status", "nodes.not_usable", "waiting",
     "The nodes that fit are unhealthy or under a deep health check.", _REPAIR),
    (r"untolerated taint \{node\.kubernetes\.io/(not-ready|unreachable)", "nodes.not_usable", "waiting",
     "The nodes that fit are not ready.", "It is placed when a node is ready."),
    (r"untolerated taint", "nodes.tainted", "blocked", "The nodes bear the taint {taint}, which the pod does not tolerate.",
     "Let the job tolerate it, or choose another group."),
    (r"anti-affinity", "nodes.apart", "waiting", "Each node that fits runs a pod of the same job already.", "Add nodes, or use fewer."),
    (r"pod affinity rules", "nodes.together", "waiting", "No node in the zone of the job's other pods is free.", "Add nodes in that zone."),
    (r"topology spread", "nodes.spread", "waiting", "Its spreading rule leaves no node.", "Add nodes, or loosen the rule."),
    (r"affinity/selector", "nodes.none_match", "blocked", "No node has the labels that it asks for.",
     "Add or scale a group that fits, or ask for what is there."),
    (r"were unschedulable", "nodes.not_usable", "waiting", "The nodes that fit are cordoned.", "Uncordon a node, or wait for its repair."),
    (r"no nodes available", "nodes.none", "blocked", "The cluster has no node.", "Add an instance group, or wait for its nodes."),
)  # fmt: skip


def matches(pod: Resource, node: Node) -> bool:
    """Whether a node is one that the pod's selector and required affinity let it go to."""
    labels, spec = node.metadata.labels, pod["spec"]
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms = [_without_health(term) for term in required.get("nodeSelectorTerms") or ()]
    return not terms or any(all(_holds(rule, labels) for rule in term) for term in terms)


def _without_health(term: Resource) -> list[Resource]:
    """Health passes: an unhealthy node is one that was wanted, and is told as such."""
    return [rule for rule in term.get("matchExpressions") or () if rule["key"] != nodes.HEALTH]


def _holds(rule: Resource, labels: Mapping[str, str]) -> bool:
    return _OPERATORS[rule["operator"]](labels.get(rule["key"]), rule.get("values") or [])


def untolerated(pod: Resource, node: Node) -> str | None:
    """The first taint of a node that keeps the pod out."""
    for taint in node.spec.taints:
        if taint.effect != "PreferNoSchedule" and not any(_tolerates(t, taint) for t in pod["spec"].get("tolerations") or ()):
            return f"{taint.key}={taint.value}" if taint.value else taint.key
    return None


def _tolerates(toleration: Resource, taint: Any) -> bool:
    if toleration.get("effect") not in (None, "", taint.effect):
        return False
    key = toleration.get("key")
    if toleration.get("operator") == "Exists":
        return key in (None, "", taint.key)
    return key == taint.key and (toleration.get("value") or "") == (taint.value or "")


def devices(pod: Resource) -> dict[str, int]:
    """Extended resources that a pod's containers ask for together."""
    found: dict[str, int] = {}
    for container in pod["spec"].get("containers") or ():
        resources = container.get("resources") or {}
        for name, text in {**(resources.get("limits") or {}), **(resources.get("requests") or {})}.items():
            if "/" in name:
                found[name] = found.get(name, 0) + quantities.whole(str(text))
    return found


def _words(pod: Resource) -> str:
    """Where a pod wants to go, for a sentence."""
    selector = dict(pod["spec"].get("nodeSelector") or {})
    kind, group, zone = (selector.pop(key, None) for key in (nodes.INSTANCE_TYPE, nodes.GROUP, nodes.ZONE))
    parts = [kind or "", f"in group {group}" if group else "", f"in zone {zone}" if zone else ""]
    parts += [f"with {key}={value}" for key, value in selector.items()]
    return " ".join(filter(None, parts))


def _all(count: int, asked: str) -> str:
    return f"{'the only node' if count == 1 else f'all {count} nodes'}{_of(asked)}"


def _of(asked: str) -> str:
    """What follows "node": its type, or where it is."""
    return f" of {asked}" if asked.startswith("ml.") else f" {asked}" if asked else " that fits"
