"""Why the creation of a cluster failed, or does not end: ranked causes from what was read. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from instantstart.base.counting import counted, plural
from instantstart.ensure.capacity.hyperpod_events import Said
from instantstart.ensure.capacity.instances import Instance
from instantstart.ensure.capacity.lifecycle_logs import ScriptLog
from instantstart.ensure.capacity.nodes import NodeView
from instantstart.ensure.diagnosis import causes_told, journal
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
from instantstart.ensure.diagnosis.journal import Journal
from instantstart.ensure.running.pending_words import Why
from instantstart.ensure.stacks import Stack

Resource = Mapping[str, Any]
_COMING = frozenset({"Pending", "AttachInProgress", "SystemUpdating"})
_MOST = 4


@dataclass(frozen=True)
class CreationFacts:
    """What is known of a cluster and its making. None: not there, or not read (the reader's account tells which)."""

    operation: Journal | None = None
    stack: Stack | None = None
    #: the earliest failure of the stack: resource, type, reason, at
    stack_failure: Mapping[str, str] | None = None
    eks: Resource | None = None
    hyperpod: Resource | None = None
    events: Sequence[Said] = ()
    instances: Sequence[Instance] = ()
    #: None: Kubernetes could not be asked
    nodes: Sequence[NodeView] | None = None
    #: where the lifecycle scripts write
    node_logs: str | None = None
    #: the ends of what the scripts of some instances wrote, those that failed
    scripts: Sequence[ScriptLog] = ()
    #: pods of what HyperPod needs that do not run
    broken: Sequence[tuple[str, Why]] = field(default=())


def causes(facts: CreationFacts) -> list[DiagnosisCause]:
    """Every cause that the facts speak for, in the order in which a cluster is made."""
    found = [*_stack(facts), *_eks(facts), *_hyperpod(facts), *_groups(facts), *_not_joined(facts), *_broken(facts)]
    return [*(_now(facts, c) for c in journal.causes(facts.operation) if not _told_by(found, c)), *found]


def _now(facts: CreationFacts, stopped: DiagnosisCause) -> DiagnosisCause:
    """What an operation stopped on, as it is now: nodes that came after it gave up only want a retry."""
    groups = (facts.hyperpod or {}).get("InstanceGroups") or ()
    complete = bool(groups) and all(g.get("CurrentCount", 0) >= g.get("TargetCount", 0) for g in groups)
    if stopped.code != causes_told.CAPACITY.code or not complete:
        return stopped
    text = "The operation gave up waiting for nodes, and all of them are there now: it only has to go on."
    steps = (look("See where it stopped.", "operation_get"), restart("Let it go on.", "operation_retry"))
    return DiagnosisCause("operation.to_be_retried", text, "certain", stopped.evidence, steps)


def _told_by(found: Sequence[DiagnosisCause], operation: DiagnosisCause) -> bool:
    """Whether the operation's wait is explained by what was seen: a wait is never the cause of itself."""
    return operation.code in (journal.OVERDUE, "operation.slow") and any(c.confidence != "possible" for c in found)


def standing(facts: CreationFacts) -> str:
    """How the cluster stands, in one sentence."""
    eks = f"EKS is {facts.eks['status']}" if facts.eks else "EKS is not there"
    pod = f"HyperPod is {facts.hyperpod['ClusterStatus']}" if facts.hyperpod else "HyperPod is not there"
    groups = (facts.hyperpod or {}).get("InstanceGroups") or ()
    counted = ", ".join(f"{g['InstanceGroupName']} {g.get('CurrentCount', 0)}/{g.get('TargetCount', 0)}" for g in groups)
    told = f"{eks}, {pod}{f' with {counted} nodes' if counted else ''}."
    return f"{facts.operation.standing} {told}" if facts.operation else told


def _stack(facts: CreationFacts) -> Iterator[DiagnosisCause]:
    if facts.stack is None or facts.stack_failure is None or facts.stack.is_complete:
        return
    first = facts.stack_failure
    what = f"{first['type']} {first['resource']}"
    text = f"The first failure of the stack {facts.stack.name}, which is {facts.stack.status}."
    evidence = (seen("aws", f"stack event of {first['resource']}", text, first["at"], first["reason"]),)
    known = causes_told.meaning(first["reason"])
    if known is not None:
        yield causes_told.cause(known, what, "certain", evidence)
        return
    steps = (
        look("Read all that CloudFormation said; the first failure is the cause, the rest follows from it.", "cluster_events"),
        restart("Mend the reason and retry: the failed stack is removed and made again.", "operation_retry"),
    )
    yield DiagnosisCause("stack.failed", f"CloudFormation could not make {what}.", "certain", evidence, steps)


def _eks(facts: CreationFacts) -> Iterator[DiagnosisCause]:
    issues = ((facts.eks or {}).get("health") or {}).get("issues") or ()
    steps = (look("Look at what EKS says of the cluster's health.", "cluster_get"), renew("Delete the cluster and make it anew."))
    for issue in issues:
        evidence = (seen("aws", f"EKS cluster {(facts.eks or {}).get('name')}", f"Issue {issue.get('code')}.", None, issue.get("message")),)
        yield DiagnosisCause("eks.unhealthy", f"EKS reports an issue of its cluster: {issue.get('code')}.", "certain", evidence, steps)


def _hyperpod(facts: CreationFacts) -> Iterator[DiagnosisCause]:
    cluster = facts.hyperpod
    if cluster is None or cluster["ClusterStatus"] not in ("Failed", "RollingBack"):
        return
    reason = str(cluster.get("FailureMessage") or "")
    evidence = [seen("aws", f"HyperPod cluster {cluster['ClusterName']}", f"It is {cluster['ClusterStatus']}.", None, reason or None)]
    known = causes_told.meaning(reason)
    evidence += _scripts(facts, None) if known is causes_told.LIFECYCLE else []
    evidence += [seen("aws", facts.node_logs, "Where its nodes wrote.")] if facts.node_logs else []
    if known is not None:
        yield causes_told.cause(known, f"the cluster {cluster['ClusterName']}", "certain", evidence)
        return
    steps: tuple[DiagnosisStep, ...] = (
        look("Read what HyperPod said.", "cluster_events"),
        restart("Mend it and retry: the failed cluster is removed and made again.", "operation_retry"),
    )
    yield DiagnosisCause("hyperpod.failed", "SageMaker could not make the HyperPod cluster.", "certain", tuple(evidence), steps)


def _groups(facts: CreationFacts) -> Iterator[DiagnosisCause]:
    """Groups whose nodes are not all there: what HyperPod said of each, its newest trouble."""
    for group in (facts.hyperpod or {}).get("InstanceGroups") or ():
        name, mine = group["InstanceGroupName"], [i for i in facts.instances if i.group == group["InstanceGroupName"]]
        listed = bool(facts.instances)  # else they were not read, and the group's own count is all there is
        running = sum(i.status == "Running" for i in mine) if listed else int(group.get("CurrentCount", 0))
        if running >= int(group.get("TargetCount", 0)) and not any(i.status == "Failure" for i in mine):
            continue
        yield from _late(facts, group, mine, [e for e in facts.events if e.group in (None, name) and e.is_trouble])


def _late(facts: CreationFacts, group: Resource, mine: Sequence[Instance], said: Sequence[Said]) -> Iterator[DiagnosisCause]:
    name, kind = group["InstanceGroupName"], group.get("InstanceType") or "its type"
    what = f"the group {name} ({kind})"
    newest = {e.text: e for e in reversed(said)}  # HyperPod says the same at each try: its newest is enough
    texts = [(_event(e), text) for text, e in sorted(newest.items(), key=lambda each: each[1].at, reverse=True)[:_MOST]]
    unwell = [i for i in mine if i.message][:_MOST]
    texts += [(seen("aws", f"instance {i.key}", f"It is {i.status}.", i.launched_at, i.message), str(i.message)) for i in unwell]
    count = f"{sum(i.status == 'Running' for i in mine)} of {group.get('TargetCount', 0)} nodes of {what} run"
    for evidence, text in texts:
        known = causes_told.meaning(text)
        more = _scripts(facts, name) if known is causes_told.LIFECYCLE else []
        more += [seen("aws", facts.node_logs, "Where its nodes write.")] if facts.node_logs and known is causes_told.LIFECYCLE else []
        if known is not None:
            yield causes_told.cause(known, what, "certain" if evidence == texts[0][0] else "likely", (evidence, *more))
    if not any(causes_told.meaning(text) for _, text in texts):
        failed = any(i.status == "Failure" for i in mine) or bool(texts)
        step = (look("Read what HyperPod said of the group.", "hyperpod_events"), look("Look at the group.", "instance_group_get"))
        if failed:
            yield DiagnosisCause(
                "hyperpod.nodes_failed", f"{count}; HyperPod told of a failure.", "likely", tuple(e for e, _ in texts), step
            )
        elif not any(i.status in _COMING or i.status == "DeepHealthCheckInProgress" for i in mine):
            yield DiagnosisCause("hyperpod.nodes_missing", f"{count}; nothing was said of the rest.", "possible", (), step)


def _scripts(facts: CreationFacts, group: str | None) -> list[DiagnosisEvidence]:
    """What the scripts of a group (or of any) wrote at their end."""
    return [causes_told.script(each) for each in facts.scripts if group in (None, each.instance_group)]


def failed_scripts(events: Sequence[Said], instances: Sequence[Instance], most: int) -> list[tuple[str, str]]:
    """Group and id of the instances of which it was said that their script failed, the newest first."""
    told = [(e.group, e.instance_id, e.text) for e in events if e.is_trouble]
    told += [(i.group, i.instance_id, i.message or "") for i in instances]
    meant = ((group, one) for group, one, text in told if group and one and causes_told.meaning(text) is causes_told.LIFECYCLE)
    return list(dict.fromkeys(meant))[:most]


def _event(event: Said) -> DiagnosisEvidence:
    about = event.instance_id or event.group or "the cluster"
    return seen("aws", f"HyperPod event {event.event_id}", f"{event.level} about {about}.", event.at, event.text)


def _not_joined(facts: CreationFacts) -> Iterator[DiagnosisCause]:
    """Instances that run and are no nodes of Kubernetes."""
    if facts.nodes is None:
        return
    joined = {n.instance_id for n in facts.nodes}
    alone = [i for i in facts.instances if i.status == "Running" and i.instance_id not in joined]
    if alone:
        evidence = tuple(
            seen("aws", f"instance {i.key}", f"It runs in {i.group}, and Kubernetes has no node of it.", i.launched_at)
            for i in alone[:_MOST]
        )
        steps = (
            look("Read the lifecycle log of the instance, and the access entry of the node role.", "node_get"),
            restart("Reboot it.", "node_reboot"),
            renew("Replace it.", "node_replace"),
        )
        yield DiagnosisCause(
            "node.not_joined",
            f"{counted(len(alone), 'instance')} {plural(len(alone), 'runs and has', 'run and have')} not joined Kubernetes.",
            "likely",
            evidence,
            steps,
        )


def _broken(facts: CreationFacts) -> Iterator[DiagnosisCause]:
    """What HyperPod needs in Kubernetes, and does not run."""
    for name, why in facts.broken:
        quoted = next(iter(quotations(why.evidence)), None)
        evidence = (seen("kubernetes", f"pod {name}", own_text(why), None, quoted),)
        steps = (
            look(why.next_step or "Look at the pod.", "logs_read"),
            restart("Install the dependencies again.", "dependencies_configure"),
        )
        yield DiagnosisCause(f"dependency.{why.code.replace('.', '_')}", f"The pod {name}, which HyperPod needs, does not run.", "likely",
                             evidence, steps)  # fmt: skip
