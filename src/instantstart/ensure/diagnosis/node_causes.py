"""What is wrong with a node: ranked causes from what SageMaker, HyperPod and Kubernetes say of it. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from instantstart.base.counting import counted, plural
from instantstart.ensure.capacity import nodes
from instantstart.ensure.capacity.accelerators import Offer
from instantstart.ensure.capacity.hyperpod_events import Said
from instantstart.ensure.capacity.instances import Instance
from instantstart.ensure.capacity.lifecycle_logs import ScriptLog
from instantstart.ensure.capacity.nodes import NodeView
from instantstart.ensure.diagnosis import causes_told
from instantstart.ensure.diagnosis.findings import (
    DiagnosisCause,
    DiagnosisEvidence,
    DiagnosisStep,
    look,
    own_text,
    quotations,
    renew,
    restart,
    seen,
)
from instantstart.ensure.running.pending_words import Why

Resource = Mapping[str, Any]
FAULT_DETAILS = nodes.PREFIX + "fault-details"
_RECOVERING = {"UnschedulablePendingReplacement": "replaces", "UnschedulablePendingReboot": "reboots"}
_PRESSURE = frozenset({"MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"})
_NO_NETWORK_YET = "NetworkPluginNotReady"
_MOST = 4


@dataclass(frozen=True)
class NodeFacts:
    """What is known of one node. ``offer``: what EC2 says that its type has; ``siblings``: the other nodes of its group."""

    name: str
    instance: Instance | None = None
    raw: Resource | None = None
    node: NodeView | None = None
    #: whether Kubernetes was asked: only then "it is no node" is known
    kubernetes_read: bool = False
    automatic: bool = False
    events: Sequence[Said] = ()
    offer: Offer | None = None
    siblings: Sequence[NodeView] = ()
    broken: Sequence[tuple[str, Why]] = ()
    node_logs: str | None = None
    #: the end of what its lifecycle script wrote, where it is in trouble
    script: ScriptLog | None = None


def standing(facts: NodeFacts) -> str:
    """How the node stands, in one sentence."""
    told = f"SageMaker says {facts.instance.status}" if facts.instance else "SageMaker does not tell of it"
    if facts.node is None:
        inside = "it is no node of Kubernetes" if facts.kubernetes_read else "Kubernetes was not asked"
    else:
        inside = "Kubernetes can put pods on it" if facts.node.usable else f"Kubernetes cannot put pods on it: {facts.node.because}"
    return f"{told}; {inside}".rstrip(".") + "."


def causes(facts: NodeFacts) -> list[DiagnosisCause]:
    """Every cause that the facts speak for, the most telling first."""
    return [cause for rule in _RULES for cause in rule(facts)]


def _replace_steps(facts: NodeFacts) -> tuple[DiagnosisStep, ...]:
    waits = "HyperPod recovers it by itself: wait some minutes." if facts.automatic else "HyperPod does not recover it by itself here."
    return (
        look(f"Read its events and whose work it carries. {waits}", "node_get"),
        restart("Reboot it, if it does not come back; volumes stay.", "node_reboot"),
        renew("Replace it, if that does not help; its volumes are lost.", "node_replace"),
    )


def _hardware(facts: NodeFacts) -> Iterator[DiagnosisCause]:
    """HyperPod's agent found a fault: its label, its reasons, its details."""
    node = facts.node
    if node is None or (node.health in (None, nodes.SCHEDULABLE) and not node.faults):
        return
    acts = _RECOVERING.get(node.health or "")
    doing = f"; HyperPod {acts} it" if acts and facts.automatic else ""
    faults = f" ({', '.join(node.faults)})" if node.faults else ""
    evidence = [seen("kubernetes", f"node {node.name}", f"Label node-health-status={node.health}{faults}.")]
    evidence += [
        seen("kubernetes", f"node {node.name}, annotation fault-details", "What the agent wrote.", None, text) for text in _details(facts)
    ]
    evidence += _said(facts)
    text = f"HyperPod's health agent found a fault of the hardware{faults}{doing}."
    code = "node.hardware_fault" if node.faults or any(e.is_trouble for e in facts.events) else "node.unhealthy"
    yield DiagnosisCause(code, text, "certain", tuple(evidence), _replace_steps(facts))


def _details(facts: NodeFacts) -> list[str]:
    text = ((facts.raw or {}).get("metadata") or {}).get("annotations", {}).get(FAULT_DETAILS)
    if not text:
        return []
    try:
        told = json.loads(text)
    except ValueError:
        return [str(text)]
    return [json.dumps(each) for each in (told if isinstance(told, list) else [told])][:_MOST]


def _script(facts: NodeFacts) -> list[DiagnosisEvidence]:
    return [causes_told.script(facts.script)] if facts.script else []


def _said(facts: NodeFacts) -> list[DiagnosisEvidence]:
    return [seen("aws", f"HyperPod event {e.event_id}", f"{e.level} about the node.", e.at, e.text) for e in facts.events if e.is_trouble][
        :_MOST
    ]


def _deep_check(facts: NodeFacts) -> Iterator[DiagnosisCause]:
    node = facts.node
    if node is not None and node.deep_health == "Failed":
        evidence = (seen("kubernetes", f"node {node.name}", "Label deep-health-check-status=Failed."), *_said(facts))
        yield DiagnosisCause("node.deep_check_failed", "Its deep health check failed.", "certain", evidence, _replace_steps(facts))
    elif (node and node.deep_health == "InProgress") or (facts.instance and facts.instance.status == "DeepHealthCheckInProgress"):
        evidence = (seen("aws", f"instance {facts.name}", "Deep health checks run."),)
        steps = (look("Wait: they take one to two hours.", "hyperpod_operations"),)
        yield DiagnosisCause(
            "node.being_checked", "Deep health checks run on it; it takes no pods until they end.", "certain", evidence, steps
        )


def _instance(facts: NodeFacts) -> Iterator[DiagnosisCause]:
    """What SageMaker says of an instance that does not run."""
    told = facts.instance
    if told is None or told.status == "Running":
        return
    evidence = [
        seen("aws", f"instance {told.key}", f"It is {told.status}.", told.launched_at, told.message),
        *_script(facts),
        *_said(facts),
    ]
    evidence += [seen("aws", facts.node_logs, "Where it wrote.")] if facts.node_logs else []
    texts = [told.message or "", *(e.text for e in facts.events if e.is_trouble)]
    known = next((m for text in texts if (m := causes_told.meaning(text)) is not None), None)
    if known is not None:
        yield causes_told.cause(known, f"the group {told.group}", "certain", evidence)
    elif told.status == "Failure":
        yield DiagnosisCause("node.failed", "SageMaker could not make the instance.", "certain", tuple(evidence), _replace_steps(facts))
    elif told.status == "ShuttingDown":
        text = "The instance is going: it is being replaced, deleted, or interrupted (Spot)."
        steps = (look("See what HyperPod does with it.", "hyperpod_events"),)
        yield DiagnosisCause("node.leaving", text, "certain", tuple(evidence), steps)


def _absent(facts: NodeFacts) -> Iterator[DiagnosisCause]:
    if facts.node is None and facts.kubernetes_read and facts.instance is not None and facts.instance.status == "Running":
        evidence = [seen("aws", f"instance {facts.instance.key}", "It runs, and Kubernetes has no node of it.", facts.instance.launched_at)]
        evidence += _script(facts)
        evidence += [seen("aws", facts.node_logs, "Where its lifecycle script wrote.")] if facts.node_logs else []
        steps = (
            look("Read its lifecycle log; see whether the node role has its access entry.", "hyperpod_events"),
            restart("Reboot it.", "node_reboot"),
            renew("Replace it.", "node_replace"),
        )
        yield DiagnosisCause("node.not_joined", "It runs and has not joined Kubernetes.", "likely", tuple(evidence), steps)


def _conditions(facts: NodeFacts) -> Iterator[DiagnosisCause]:
    """What the kubelet says: not ready, short of memory, disk or processes."""
    name = facts.name
    for each in ((facts.raw or {}).get("status") or {}).get("conditions") or ():
        kind, status = each.get("type"), each.get("status")
        evidence = (
            seen(
                "kubernetes",
                f"node {name}, condition {kind}",
                f"{status}: {each.get('reason')}",
                each.get("lastTransitionTime"),
                each.get("message"),
            ),
        )
        if kind == "Ready" and status != "True":
            yield _not_ready(facts, f"{each.get('reason')} {each.get('message')}", evidence)
        elif kind in _PRESSURE and status == "True":
            steps = (
                look("See which pods use it up.", "node_get"),
                restart("End the pods that need not run there; reboot the node.", "node_reboot"),
                renew("Replace the node, or give its group larger volumes.", "node_replace"),
            )
            yield DiagnosisCause(f"node.{_snake(str(kind))}", f"The node reports {kind}.", "certain", evidence, steps)


def _not_ready(facts: NodeFacts, told: str, evidence: tuple[DiagnosisEvidence, ...]) -> DiagnosisCause:
    if _NO_NETWORK_YET in told:
        steps = (look("See whether the network plugin's pod (aws-node) runs on it.", "node_get"), *_replace_steps(facts)[1:])
        return DiagnosisCause("node.no_network", "Its network plugin is not up, so it is not ready.", "certain", evidence, steps)
    return DiagnosisCause("node.not_ready", "Its kubelet is not ready, or does not report.", "certain", evidence, _replace_steps(facts))


def _snake(text: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() and i and not text[i - 1].isupper() else c.lower() for i, c in enumerate(text))


def _cordoned(facts: NodeFacts) -> Iterator[DiagnosisCause]:
    node = facts.node
    if node is not None and not node.schedulable and node.health in (None, nodes.SCHEDULABLE) and node.deep_health != "InProgress":
        evidence = (seen("kubernetes", f"node {node.name}", "It is cordoned (spec.unschedulable)."),)
        steps = (look("See which operation cordoned it, and whether that still goes on.", "operation_list"),
                 restart("Uncordon it.", "node_uncordon"))  # fmt: skip
        yield DiagnosisCause("node.cordoned", "It is cordoned: it takes no new pods.", "certain", evidence, steps)


def _devices(facts: NodeFacts) -> Iterator[DiagnosisCause]:
    """Cards that the type has and the node does not offer."""
    node, offer = facts.node, facts.offer
    if node is None or offer is None or not node.ready:
        return
    for word, have, wanted in (("GPU", node.gpus, offer.gpus), ("EFA card", node.efa, offer.efa)):
        if have >= wanted:
            continue
        evidence = (
            seen("kubernetes", f"node {node.name}", f"It offers {have} {word}s."),
            seen("aws", f"type {offer.instance_type}", f"It has {wanted}."),
        )
        plugin = "GPU" if word == "GPU" else "EFA"
        steps = (
            look(f"See whether the {plugin} device plugin's pod runs on it and what it wrote.", "node_get"),
            restart("Reboot the node.", "node_reboot"),
            renew("Replace it: a card is faulty.", "node_replace"),
        )
        code = "node.gpus_missing" if word == "GPU" else "node.efa_missing"
        what = f"It offers no {word}" if not have else f"It offers {have} of {wanted} {word}s"
        yield DiagnosisCause(code, f"{what}: the device plugin does not run, or a card is faulty.", "likely", evidence, steps)


def _pods(facts: NodeFacts) -> Iterator[DiagnosisCause]:
    """Pods on it that fail: of one, the work's fault is as likely; of several, the node's."""
    if not facts.broken:
        return
    evidence = []
    for name, why in facts.broken[:_MOST]:
        quoted = next(iter(quotations(why.evidence)), None)
        evidence.append(seen("kubernetes", f"pod {name}", own_text(why), None, quoted))
    doubt = "if they are of different work, it is the node" if len(facts.broken) > 1 else "it may be the work, not the node"
    text = f"{counted(len(facts.broken), 'pod')} on it {plural(len(facts.broken), 'does', 'do')} not run well; {doubt}."
    steps = (look("Diagnose the work; compare with pods of the same work on other nodes.", "diagnosis_get"), *_replace_steps(facts)[1:])
    yield DiagnosisCause("node.pods_failing", text, "possible", tuple(evidence), steps)


def _group(facts: NodeFacts) -> Iterator[DiagnosisCause]:
    """Whether the rest of the group suffers too: then it is not this one's hardware."""
    bad = [n for n in facts.siblings if not n.usable]
    if (facts.node is not None and facts.node.usable) or len(bad) < 2 or len(bad) * 2 < len(facts.siblings):
        return
    evidence = tuple(seen("kubernetes", f"node {n.name}", str(n.because)) for n in bad[:_MOST])
    text = f"{len(bad)} of the {len(facts.siblings)} other nodes of its group cannot be used either: the cause is not this node alone."
    steps = (look("See what was changed for the group: script, software, network.", "hyperpod_events"),)
    yield DiagnosisCause("node.group_suffers", text, "possible", evidence, steps)


_RULES: tuple[Callable[[NodeFacts], Iterator[DiagnosisCause]], ...] = (
    _hardware, _deep_check, _instance, _absent, _conditions, _cordoned, _devices, _pods, _group,
)  # fmt: skip
