"""Whether a pod fits a node, in the scheduler's own words. Pure functions over objects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from .objects import Object, labels_of, name_of, namespace_of, selects, spec_of, status_of
from .quantity import amount

BLOCKING_EFFECTS = ("NoSchedule", "NoExecute")
_ZERO = Decimal(0)


@dataclass
class Place:
    """A node with what its pods already hold."""

    node: Object
    used: dict[str, Decimal] = field(default_factory=dict)
    pods: list[Object] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The node's name."""
        return name_of(self.node)

    @property
    def labels(self) -> dict[str, str]:
        """The node's labels."""
        return labels_of(self.node)

    def free(self, resource: str) -> Decimal:
        """What is left of an allocatable resource; a resource the node does not have is 0."""
        have = (status_of(self.node).get("allocatable") or {}).get(resource)
        return (amount(have) if have is not None else _ZERO) - self.used.get(resource, _ZERO)


def place_changed(before: Object | None, after: Object | None) -> bool:
    """Whether a node's change can matter to where pods may run: its labels, spec or allocatable, not its heartbeat."""
    if before is None or after is None:
        return True
    return (labels_of(before), spec_of(before), status_of(before).get("allocatable")) != (
        labels_of(after),
        spec_of(after),
        status_of(after).get("allocatable"),
    )


def tolerates(tolerations: Iterable[Object], taint: Object) -> bool:
    """Whether one of the tolerations matches the taint."""
    for t in tolerations:
        if t.get("effect") and t["effect"] != taint.get("effect"):
            continue
        if t.get("key") and t["key"] != taint.get("key"):
            continue
        if t.get("operator", "Equal") == "Exists":
            return True
        if t.get("key") and (t.get("value") or "") == (taint.get("value") or ""):
            return True
    return False


def untolerated(pod: Object, node: Object, effects: tuple[str, ...] = BLOCKING_EFFECTS) -> Object | None:
    """The first taint of the node that keeps the pod away."""
    tolerations = spec_of(pod).get("tolerations") or []
    taints = spec_of(node).get("taints") or []
    return next((t for t in taints if t.get("effect") in effects and not tolerates(tolerations, t)), None)


def _number(text: str | None) -> int | None:
    try:
        return int(text or "")
    except ValueError:
        return None


def _node_expression(requirement: Object, labels: Mapping[str, str]) -> bool:
    operator, values = requirement["operator"], requirement.get("values") or []
    have = labels.get(requirement["key"])
    if operator in ("Gt", "Lt"):
        left, right = _number(have), _number(values[0] if values else None)
        if left is None or right is None:
            return False
        return left > right if operator == "Gt" else left < right
    tests: dict[str, bool] = {
        "In": have in values,
        "NotIn": have not in values,
        "Exists": have is not None,
        "DoesNotExist": have is None,
    }
    return tests.get(operator, False)


def _term(term: Object, node: Object) -> bool:
    expressions, fields = term.get("matchExpressions") or [], term.get("matchFields") or []
    if not expressions and not fields:
        return False
    labels, names = labels_of(node), {"metadata.name": name_of(node)}
    return all(_node_expression(e, labels) for e in expressions) and all(_node_expression(e, names) for e in fields)


def node_selector_terms(selector: Object | None, node: Object) -> bool:
    """Whether a NodeSelector (its terms are alternatives) matches; an absent one matches every node."""
    if selector is None:
        return True
    return any(_term(term, node) for term in selector.get("nodeSelectorTerms") or [])


def wanted_node(pod: Object, node: Object) -> bool:
    """Whether nodeSelector and the required node affinity allow the node."""
    spec, labels = spec_of(pod), labels_of(node)
    if any(labels.get(k) != v for k, v in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    return node_selector_terms(affinity.get("requiredDuringSchedulingIgnoredDuringExecution"), node)


def _host_ports(pod: Object) -> set[tuple[str, int]]:
    spec = spec_of(pod)
    found = set()
    for container in spec.get("containers") or []:
        for port in container.get("ports") or []:
            number = port.get("hostPort") or (port.get("containerPort") if spec.get("hostNetwork") else None)
            if number:
                found.add((port.get("protocol") or "TCP", int(number)))
    return found


def short_of(asked: Mapping[str, Decimal], place: Place) -> list[str]:
    """``Insufficient <resource>`` for everything the node has too little of."""
    found = []
    for resource, value in sorted(asked.items()):
        if value > 0 and place.free(resource) < value:
            found.append("Too many pods" if resource == "pods" else f"Insufficient {resource}")
    return found


def _in_term(term: Object, pod: Object, other: Object) -> bool:
    spaces = term.get("namespaces") or []
    # A namespaceSelector counts as "every namespace": the placement knows no namespace labels.
    everywhere = "namespaceSelector" in term and not spaces
    fits = everywhere or namespace_of(other) in (spaces or [namespace_of(pod)])
    return fits and selects(term.get("labelSelector"), labels_of(other))


def _near(term: Object, pod: Object, place: Place, places: list[Place]) -> bool:
    key = term["topologyKey"]
    here = place.labels.get(key)
    if here is None:
        return False
    return any(p.labels.get(key) == here and any(_in_term(term, pod, other) for other in p.pods) for p in places)


def _company(pod: Object, place: Place, places: list[Place]) -> str | None:
    affinity = spec_of(pod).get("affinity") or {}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    for term in (affinity.get("podAffinity") or {}).get(required) or []:
        alone = not any(_in_term(term, pod, other) for p in places for other in p.pods)
        if not _near(term, pod, place, places) and not (alone and _in_term(term, pod, pod)):
            return "node(s) didn't match pod affinity rules"
    for term in (affinity.get("podAntiAffinity") or {}).get(required) or []:
        if _near(term, pod, place, places):
            return "node(s) didn't match pod anti-affinity rules"
    return None


def _spread(pod: Object, place: Place, places: list[Place]) -> str | None:
    for rule in spec_of(pod).get("topologySpreadConstraints") or []:
        if rule.get("whenUnsatisfiable", "DoNotSchedule") != "DoNotSchedule":
            continue
        key = rule["topologyKey"]
        here = place.labels.get(key)
        if here is None:
            return "node(s) didn't match pod topology spread constraints (missing required label)"
        counts = Counter({p.labels[key]: 0 for p in places if key in p.labels and wanted_node(pod, p.node)})
        for p in places:
            if p.labels.get(key) in counts:
                counts[p.labels[key]] += sum(1 for other in p.pods if _in_term(rule, pod, other))
        if counts and counts[here] + 1 - min(counts.values()) > int(rule.get("maxSkew", 1)):
            return "node(s) didn't match pod topology spread constraints"
    return None


def obstacles(pod: Object, asked: Mapping[str, Decimal], place: Place, places: list[Place]) -> list[str]:
    """Why the pod cannot go to that node; empty when it can. Only the first failing filter speaks, as in kube-scheduler."""
    filters: tuple[Callable[[], list[str]], ...] = (
        lambda: _unschedulable(pod, place.node),
        lambda: _tainted(pod, place.node),
        lambda: [] if wanted_node(pod, place.node) else ["node(s) didn't match Pod's node affinity/selector"],
        lambda: _ports_taken(pod, place),
        lambda: short_of(asked, place),
        lambda: [r for r in (_spread(pod, place, places),) if r],
        lambda: [r for r in (_company(pod, place, places),) if r],
    )
    for ask in filters:
        if found := ask():
            return found
    return []


def _unschedulable(pod: Object, node: Object) -> list[str]:
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    blocked = spec_of(node).get("unschedulable") and not tolerates(spec_of(pod).get("tolerations") or [], taint)
    return ["node(s) were unschedulable"] if blocked else []


def _tainted(pod: Object, node: Object) -> list[str]:
    taint = untolerated(pod, node)
    return [f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value') or ''}}}"] if taint else []


def _ports_taken(pod: Object, place: Place) -> list[str]:
    wanted = _host_ports(pod)
    taken = wanted and any(wanted & _host_ports(other) for other in place.pods)
    return ["node(s) didn't have free ports for the requested pod ports"] if taken else []


def sentence(total: int, reasons: list[list[str]]) -> str:
    """kube-scheduler's message: ``0/3 nodes are available: 1 Insufficient cpu, 2 node(s) were unschedulable. preemption: ...``."""
    if not total:
        return "no nodes available to schedule pods"
    counts = Counter(reason for found in reasons for reason in found)
    parts = sorted(f"{count} {reason}" for reason, count in counts.items())
    resources = sum(1 for found in reasons if all(r.startswith(("Insufficient", "Too many")) for r in found))
    victims = []
    if resources:
        victims.append(f"{resources} No preemption victims found for incoming pod")
    if total - resources:
        victims.append(f"{total - resources} Preemption is not helpful for scheduling")
    head = f"0/{total} nodes are available"
    return f"{head}: {', '.join(parts)}. preemption: {head}: {', '.join(victims)}."
