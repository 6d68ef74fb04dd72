"""Why a job, an endpoint or a deployment does not do its work: ranked causes from pods, controller, nodes and logs. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from instantstart.base.counting import counted, plural
from instantstart.ensure.capacity.nodes import NodeView
from instantstart.ensure.diagnosis import log_words
from instantstart.ensure.diagnosis.findings import (
    Confidence,
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
from instantstart.ensure.inference import serving_trouble
from instantstart.ensure.running.pending_words import Why

Resource = Mapping[str, Any]
Kind = Literal["job", "endpoint", "deployment"]
_CONFIDENCE: Mapping[str, Confidence] = {"failing": "certain", "blocked": "certain", "waiting": "likely", "starting": "possible"}
#: that something failed, without why: whatever says why goes before it
_VAGUE = re.compile(
    r"container\.failed|pod\.failed|training_job\.(?:failed|program_failed|recovering|rendezvous)|.*\.not_ready|.*\.starting|.*\.operator_says"
)
_MOST = 4
#: how each kind is started again, and given up for another
_AGAIN: Mapping[Kind, DiagnosisStep] = {
    "job": restart("Submit it again when that is mended.", "training_job_resubmit"),
    "endpoint": restart("Change what is wrong: its replicas are started again.", "inference_endpoint_update"),
    "deployment": restart("Change what is wrong: its pods are started again.", "model_deployment_update"),
}
_ANEW: Mapping[Kind, DiagnosisStep] = {
    "job": renew("End it and submit another.", "training_job_delete"),
    "endpoint": renew("Delete it and make it anew.", "inference_endpoint_delete"),
    "deployment": renew("Delete it and make it anew.", "model_deployment_delete"),
}

#: what keeps a container from beginning: there is no log to be read
_WITHOUT_LOG = ("image.", "claim.", "volume.")
#: what is a matter of nodes, not of the work
_OF_NODES = ("nodes.", "resource.", "capacity.", "queue.")


@dataclass(frozen=True)
class WorkFacts:
    """What is known of the work. ``pods``: (name, why, its node) of those that do not run; ``why``: of the whole, as its page says it."""

    kind: Kind
    name: str
    state: str
    why: Why | None = None
    pods: Sequence[tuple[str, Why, str | None]] = ()
    pods_total: int = 0
    #: nodes under its pods, by name
    nodes: Mapping[str, NodeView] = field(default_factory=dict)
    #: the ends of the logs of pods that failed or do not become ready, by pod
    logs: Mapping[str, str] = field(default_factory=dict)
    #: (reference, at, text) of warnings about it and its pods, newest first
    warnings: Sequence[tuple[str, str, str]] = ()
    #: what its operator says is wrong, in its own words
    operator: str | None = None
    #: that its operator does not run, and why
    operator_away: str | None = None
    #: whether its operator has not looked at it as it is asked for now
    unseen: bool = False
    #: that it serves other settings than it shows, and which: some of it in others' words
    taken_back: str | None = None
    #: whether it serves or runs as it should: then only what is certainly wrong is told
    well: bool = False
    #: (what, text) of links around it that do not hold: load balancer, registration
    links: Sequence[tuple[str, str]] = ()


def standing(facts: WorkFacts) -> str:
    """How the work stands, in one sentence."""
    waiting = f", {len(facts.pods)} of them not as they should be" if facts.pods else ""
    return f"The {facts.kind} {facts.name} is {facts.state}; it has {counted(facts.pods_total, 'pod')}{waiting}."


def causes(facts: WorkFacts) -> list[DiagnosisCause]:
    """Every cause that the facts speak for: faults of nodes, what the log says, the pods' own reasons, the operator's words."""
    told = list(_reasons(facts))
    found = [*_nodes(facts), *_sharper(facts), *told, *_of_operator(facts), *_operator(facts, told), *_links(facts)]
    if any(c.confidence != "possible" and not _VAGUE.fullmatch(c.code) for c in found):
        found = [c if not _VAGUE.fullmatch(c.code) else replace(c, confidence="possible") for c in found]
    return found


def _reasons(facts: WorkFacts) -> Iterator[DiagnosisCause]:
    """The reasons of the pods, each once, and that of the whole."""
    by_code: dict[str, list[tuple[str, Why, str | None]]] = {}
    for each in facts.pods:
        by_code.setdefault(each[1].code, []).append(each)
    for code, mine in by_code.items():
        _, why, _ = mine[0]
        count = f"{len(mine)} of {facts.pods_total} pods: " if facts.pods_total > 1 else ""
        evidence = tuple(seen("kubernetes", f"pod {name}", _of_pod(w, why), None, _quoted(w)) for name, w, _ in mine[:_MOST])
        evidence = (*evidence, *_holders(why), *_events(facts))
        yield DiagnosisCause(code, count + own_text(why), _CONFIDENCE[why.kind], evidence, _steps(facts, why))
    whole = facts.why
    if whole is not None and whole.code not in by_code:
        first = seen("kubernetes", f"{facts.kind} {facts.name}", own_text(whole), None, _quoted(whole))
        evidence = (first, *_holders(whole), *_events(facts))
        yield DiagnosisCause(whole.code, own_text(whole), _CONFIDENCE[whole.kind], evidence, _steps(facts, whole))


def _of_pod(its: Why, told: Why) -> str:
    """What a pod's own reason adds: the sentence of the cause is not said again."""
    return f"It is {its.kind} for that." if own_text(its) == own_text(told) else own_text(its)


def _holders(why: Why) -> list[DiagnosisEvidence]:
    """Who holds what is missing, a line each."""
    told = [str(each).partition(": ") for each in why.evidence.get("holders") or ()]
    return [seen("kubernetes", who, f"Holds {how_many} of {why.evidence['resource']}.") for who, _, how_many in told]


def _quoted(why: Why) -> str | None:
    return next(iter(quotations(why.evidence)), None)


def _events(facts: WorkFacts) -> list[DiagnosisEvidence]:
    return [seen("kubernetes", reference, "A warning.", at, text) for reference, at, text in facts.warnings[:_MOST]]


def _steps(facts: WorkFacts, why: Why) -> tuple[DiagnosisStep, ...]:
    first = [look(why.next_step)] if why.next_step else []
    if why.code.startswith(_OF_NODES):
        see = look("See which nodes are free, and what waits.", "fleet_get")
        return (*first, see, renew("Scale or add a group that fits.", "instance_group_scale"))
    read = look("Read its log from the end.", "logs_read")
    if why.code.startswith(_WITHOUT_LOG):
        return (*first, _AGAIN[facts.kind], _ANEW[facts.kind])
    first = [step for step in first if step.text != read.text]
    return (*first, read, _AGAIN[facts.kind], _ANEW[facts.kind])


def _sharper(facts: WorkFacts) -> Iterator[DiagnosisCause]:
    """What the logs' own words tell beyond the reason: of model servers, and of training."""
    if facts.well:
        return
    if facts.kind == "job":
        yield from log_words.causes(facts.logs)
        return
    for name, why, _ in facts.pods:
        said = str(why.evidence.get("untrusted_last_words") or facts.logs.get(name) or "")
        sharper = serving_trouble.refine(replace(why, evidence={**why.evidence, "untrusted_last_words": said})) if said else why
        if sharper.code != why.code:
            evidence = (seen("log", f"log of {name}", own_text(why), None, log_words.last_lines([said], 6)),)
            yield DiagnosisCause(sharper.code, sharper.text, "certain", evidence, _steps(facts, sharper))
    yield from log_words.causes(facts.logs)


def _nodes(facts: WorkFacts) -> Iterator[DiagnosisCause]:
    """Faulty nodes under the pods: a fault of the hardware explains what a log cannot."""
    bad = {name: node for name, node in facts.nodes.items() if node.faults or (node.health not in (None, "Schedulable"))}
    if not bad:
        return
    under = {place for _, _, place in facts.pods}
    hit = any(name in under for name in bad)
    evidence = tuple(
        seen("kubernetes", f"node {n.name}", f"{n.health}{f' ({chr(44).join(n.faults)})' if n.faults else ''}") for n in bad.values()
    )
    steps = (
        look("Diagnose the node.", "diagnosis_get"),
        restart("Let the work start again on other nodes; the operator does it within its budget.", _AGAIN[facts.kind].tool),
        renew("Reboot the node, then replace it.", "node_replace"),
    )
    text = f"{counted(len(bad), 'node')} under its pods {plural(len(bad), 'has', 'have')} a fault: {', '.join(sorted(bad))}."
    yield DiagnosisCause("node.hardware_fault", text, "certain" if hit else "likely", evidence, steps)


def _of_operator(facts: WorkFacts) -> Iterator[DiagnosisCause]:
    """An operator that is not there, or has not looked; and one that went back to what ran before."""
    name = f"{facts.kind} {facts.name}"
    if facts.operator_away:
        evidence = (seen("kubernetes", "the inference operator", facts.operator_away),)
        steps: tuple[DiagnosisStep, ...] = (
            look("See how the operator stands.", "feature_list"),
            restart("Switch it on, or bring its pods back.", "feature_update"),
        )
        text = f"Nobody looks at the {name}. {facts.operator_away}"
        yield DiagnosisCause("operator.not_running", text, "certain" if facts.unseen else "likely", evidence, steps)
    elif facts.unseen:
        evidence = (seen("kubernetes", name, "Its operator runs, and has not looked at its newest settings."),)
        steps = (look("Look again a little later; then read the operator's log.", "inference_endpoint_get"),)
        yield DiagnosisCause("operator.not_looked", "Its operator has not looked at it yet.", "possible", evidence, steps)
    if facts.taken_back:
        evidence = (seen("kubernetes", name, "What is asked, and what runs.", None, facts.taken_back),)
        steps = (
            look("Compare what is asked with what is served.", "inference_endpoint_get"), look("Read the server's log.", "logs_read"),
            restart("Ask again with what was wrong put right, or for what is served (as_serving).", _AGAIN[facts.kind].tool),
        )  # fmt: skip
        text = "It was rolled back, and serves other settings than it shows."
        yield DiagnosisCause("endpoint.rolled_back", text, "certain", evidence, steps)


def _operator(facts: WorkFacts, told: Sequence[DiagnosisCause]) -> Iterator[DiagnosisCause]:
    if facts.operator is None or facts.well:
        return
    evidence = (seen("kubernetes", f"{facts.kind} {facts.name}", "What its operator says.", None, facts.operator),)
    steps = (look("Look at it in full.", f"{'inference_endpoint' if facts.kind == 'endpoint' else 'training_job'}_get"), _AGAIN[facts.kind])
    confidence: Confidence = "possible" if any(c.confidence == "certain" for c in told) else "likely"
    yield DiagnosisCause(f"{facts.kind}.operator_says", "Its operator says that something is wrong.", confidence, evidence, steps)


def _links(facts: WorkFacts) -> Iterator[DiagnosisCause]:
    for what, text in facts.links:
        evidence = (seen("kubernetes", f"{what} of {facts.name}", f"The {what} is not as it should be.", None, text),)
        steps = (look(f"Look at the {what}.", "inference_endpoint_get" if facts.kind == "endpoint" else "model_deployment_get"),
                 _AGAIN[facts.kind])  # fmt: skip
        code = what.replace(" ", "_")
        yield DiagnosisCause(f"{code}.not_ready", f"Its {what} is not ready: callers cannot reach it.", "likely", evidence, steps)
