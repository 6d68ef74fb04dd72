"""The preflight of a job: what the cluster has of what is asked, each answer a finding. ``refusal`` tells all that fails at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from instantstart.base import problems, quantities
from instantstart.base.problems import Violation
from instantstart.capabilities.room import Room
from instantstart.capabilities.training.jobs import rules
from instantstart.capabilities.training.jobs.rules import Facts, Settled
from instantstart.capabilities.training.jobs.specs import SubmitTarget
from instantstart.ensure.capacity import accelerators, hyperpod, nodes
from instantstart.ensure.findings import Finding
from instantstart.ensure.running import job_pods, pending_reads
from instantstart.ensure.running.pending_places import Place
from instantstart.ensure.sites import Site
from instantstart.ensure.storage import images
from instantstart.kube.client import KubeCluster

LOCAL_QUEUE, QUEUE_PRIORITY = "kueue.x-k8s.io/v1beta1/LocalQueue", "kueue.x-k8s.io/v1beta1/WorkloadPriorityClass"
_OPERATORS = {
    "pytorch": ("training_operator", "HyperPod's training operator"),
    "ray_job": ("kuberay", "KubeRay"),
    "ray_cluster": ("kuberay", "KubeRay"),
}
T = TypeVar("T")


def observe(room: Room, where: Site, ask: SubmitTarget) -> Facts:
    """Read everything the checks need. Raises what passes: a job settled without the nodes that are there would be sized for others."""
    unread: list[str] = []
    kube = where.kube(room)
    roster = _try(lambda: room.rosters.of(where), None, unread)
    cluster: Mapping[str, Any] = (roster.cluster if roster else None) or {}
    tiered = accelerators.tiered_percent(cluster) if cluster else None
    nowhere: list[Place] = []
    places = _try(lambda: pending_reads.places(room.kube.watching, kube), nowhere, unread)
    offer, offer_problem = None, None
    try:
        offer = accelerators.look(where, kube, ask.instance_type, [p.node for p in places], tiered or 0)
    except problems.Problem as problem:
        offer_problem = problem.detail
    kind = job_pods.KINDS[ask.runs_as]
    served = kube.serves(kind)
    present = kube.list(kind, ask.namespace) if served else []
    groups = cluster.get("InstanceGroups") or []
    return Facts(
        offer=offer,
        offer_problem=offer_problem,
        places=places,
        capacity_types={g["InstanceGroupName"]: hyperpod.capacity_type(g) for g in groups},
        group_types={g["InstanceGroupName"]: g.get("InstanceType", "") for g in groups},
        tiered_percent=tiered,
        served=served,
        namespace=kube.find("Namespace", ask.namespace) is not None,
        claims=_named(kube, "PersistentVolumeClaim", ask.namespace) if ask.mounts else {},
        secrets={s: _keys(kube, s, ask.namespace) for s in sorted({k.secret for k in ask.secret_env.values()})},
        account=ask.runs_under is None or kube.find("ServiceAccount", ask.runs_under, ask.namespace) is not None,
        queues=_queues(kube, ask),
        priorities=_priorities(kube, ask),
        image=_try(
            lambda: images.check(where.aws, ask.image), Finding("image", "unknown", f"{ask.image} could not be looked for."), unread
        ),
        existing=next((job for job in present if job["metadata"]["name"] == ask.name), None),
        taken=frozenset(job["metadata"]["name"] for job in present),
        unread=tuple(unread),
    )


def findings(ask: SubmitTarget, facts: Facts, settled: Settled | None) -> list[Finding]:
    """Every answer of the preflight."""
    misplaced = _places(ask, facts)  # where nothing can run, how much is free there says nothing
    found = [_operator(ask, facts), *_name(ask, facts), *misplaced, facts.image]
    if not facts.namespace:
        found.append(Finding("namespace", "fail", f"There is no namespace {ask.namespace}.", "Make it, or choose one of the cluster's."))
    if settled is not None and facts.offer is not None:
        found += [
            Finding("resources", "ok", _resources(ask, settled)),
            *_network(ask, facts, settled),
            *_shared(ask, settled),
            *([] if misplaced else [_capacity(ask, facts)]),
        ]
        found += [Finding("resources", "warn", note) for note in facts.offer.notes]
    found += [*_volumes(ask, facts), *_identities(ask, facts), *_queueing(ask, facts), *_elastic(ask, facts), *_checkpoints(ask, facts)]
    found += _keeping(ask)
    return found + [Finding("cluster", "unknown", told) for told in facts.unread]


def refusal(
    ask: SubmitTarget, said: Sequence[Violation], facts: Facts, settled: Settled | None, found: Sequence[Finding]
) -> problems.Problem | None:
    """The Problem that stands in the way, all of it at once; None when nothing does. ``said``: what is wrong with the words themselves."""
    fields = list(said)
    if settled is not None:
        fields += [Violation("/" + each.pointer, each.message) for each in settled.sizing.wrong]
    failing = [f for f in found if f.level == "fail"]
    fields += [Violation("/" + f.check, f.detail) for f in failing]
    if not fields:
        return None
    if len(fields) == len(failing) == 1 and failing[0].check == "name":
        return _exists(ask, facts, failing[0])
    return invalid(fields, " ".join(f.hint for f in failing if f.hint) or None)


def invalid(fields: Sequence[Violation], hint: str | None = None) -> problems.Invalid:
    """All that is wrong, in one Problem."""
    return problems.Invalid("training_job.invalid", " ".join(_told(field) for field in fields), fields=fields, hint=hint)


def _told(field: Violation) -> str:
    """A violation as a sentence of its own: those of one field begin with its name."""
    return field.message if field.message[:1].isupper() or " " not in field.message else f"{field.pointer.strip('/')} {field.message}"


def _exists(ask: SubmitTarget, facts: Facts, failing: Finding) -> problems.Conflict:
    found: Mapping[str, Any] = facts.existing or {"metadata": {}}
    return problems.Conflict(
        "training_job.exists",
        failing.detail,
        hint=failing.hint,
        fields=[Violation("/name", failing.detail)],
        evidence={"kind": ask.runs_as, "namespace": ask.namespace, "name": ask.name, "uid": found["metadata"].get("uid")},
    )


def _operator(ask: SubmitTarget, facts: Facts) -> Finding:
    feature, title = _OPERATORS[ask.runs_as]
    if facts.served:
        return Finding("kind", "ok", f"{title} is there.")
    return Finding("kind", "fail", f"The cluster has no {title}: nobody would run the job.", f"{_switched_on(feature)}.")


def _switched_on(feature: str) -> str:
    return f"Switch the feature {feature} on (Features; command line: instantstart feature enable {feature.replace('_', '-')})"


def _name(ask: SubmitTarget, facts: Facts) -> list[Finding]:
    if facts.existing is None or ask.if_exists == "version":
        return []
    made = facts.existing["metadata"]
    by = (made.get("labels") or {}).get("app.kubernetes.io/managed-by", "somebody else")
    told = f"A {ask.runs_as} {ask.namespace}/{ask.name} is there already (made by {by} at {made.get('creationTimestamp')})."
    if ask.if_exists == "replace":
        return [Finding("name", "warn", told + " It is ended and replaced.")]
    return [Finding("name", "fail", told, "Choose another name, or say if_exists: version (name-2, name-3 ...) or replace.")]


def _places(ask: SubmitTarget, facts: Facts) -> list[Finding]:
    """What is wrong with where it is to run: type, group, zone. One thing is told once, by its cause."""
    if facts.offer is None:
        return [Finding("instance_type", "fail", str(facts.offer_problem), "Choose a type of the cluster's groups."), *_zone(ask, facts)]
    group = ask.instance_group
    if group and facts.group_types and group not in facts.group_types:
        there = ", ".join(sorted(facts.group_types)) or "none"
        return [Finding("instance_group", "fail", f"There is no instance group {group}; the cluster has {there}.", "Choose one of them.")]
    fitting = sorted(g for g, kind in facts.group_types.items() if kind == ask.instance_type)
    if group and facts.group_types.get(group) not in (None, "", ask.instance_type):
        told = f"The instance group {group} has {facts.group_types[group]}, not {ask.instance_type}."
        others = f", or a group that has {ask.instance_type}: {', '.join(fitting)}" if fitting else ""
        return [Finding("instance_group", "fail", told, f"Ask for the group's type{others}.")]
    types = sorted({kind for kind in facts.group_types.values() if kind})
    if types and not fitting:
        told = f"No instance group of the cluster has {ask.instance_type}; it has {', '.join(types)}."
        return [Finding("instance_type", "warn", told, "Add a group of this type, or choose one that is there: until then it waits.")]
    return _zone(ask, facts)


def _zone(ask: SubmitTarget, facts: Facts) -> list[Finding]:
    """Whether there are nodes where the zone says: of the cluster, and of the group where one is named."""
    if ask.zone is None:
        return []
    everywhere = {p.node.metadata.labels.get(nodes.ZONE) for p in facts.places} - {None}
    mine = {p.node.metadata.labels.get(nodes.ZONE) for p in facts.places if p.node.metadata.labels.get(nodes.GROUP) == ask.instance_group}
    if everywhere and ask.zone not in everywhere:
        told = f"No node is in {ask.zone} (they are in {', '.join(sorted(map(str, everywhere)))}): the job waits until one is."
        return [Finding("zone", "warn", told, "Write the zone's name as its nodes bear it.")]
    if mine and ask.zone not in mine:
        told = f"No node of {ask.instance_group} is in {ask.zone} (they are in {', '.join(sorted(map(str, mine)))}): the job would wait."
        return [Finding("zone", "warn", told, "Leave the zone out, or choose a group that is there.")]
    return []


def _resources(ask: SubmitTarget, settled: Settled) -> str:
    each = ", ".join(f"{name} {value}" for name, value in settled.sizing.resources.items())
    workers = f"{settled.processes} process{'es' if settled.processes > 1 else ''}"
    return f"{ask.nodes} x {ask.instance_type}, each with {each}; {workers} on each."


def _network(ask: SubmitTarget, facts: Facts, settled: Settled) -> list[Finding]:
    most = ask.elastic.max_nodes if ask.elastic else ask.nodes
    if most == 1 or facts.offer is None:
        return []
    if not settled.sizing.efa:
        why = f"{ask.instance_type} has no EFA" if not facts.offer.efa else "none is asked for"
        return [Finding("efa", "warn", f"Several nodes without EFA ({why}): they talk over TCP only, many times slower.")]
    if settled.sizing.efa < facts.offer.efa and settled.sizing.accelerators == facts.offer.accelerators:
        return [Finding("efa", "warn", f"{settled.sizing.efa} of {facts.offer.efa} EFA cards are asked for: slower than it could be.")]
    return [Finding("efa", "ok", f"{settled.sizing.efa} EFA cards on each node.")]


def _capacity(ask: SubmitTarget, facts: Facts) -> Finding:
    there = rules.candidates(ask, facts)
    free = sum(rules.is_free(place, facts) for place in there)
    told = f"{free} of {len(there)} usable {ask.instance_type} nodes are free now; {ask.nodes} are asked for."
    if free >= ask.nodes:
        return Finding("nodes", "ok", told)
    hint = "It waits until other work ends, or nodes are added." if len(there) >= ask.nodes else "Scale the group: until then it waits."
    return Finding("nodes", "warn", told, hint)


def _volumes(ask: SubmitTarget, facts: Facts) -> list[Finding]:
    found = []
    for index, mount in enumerate(ask.mounts):
        here, claim = f"mounts/{index}/claim", facts.claims.get(mount.claim)
        if claim is None:
            told = f"There is no volume claim {mount.claim} in {ask.namespace}."
            found.append(Finding(here, "fail", told, "Add the volume, or name a claim of the namespace."))
            continue
        phase = (claim.get("status") or {}).get("phase")
        if phase != "Bound":
            found.append(Finding(here, "warn", f"The volume claim {mount.claim} is {phase}: the job waits until it is bound."))
        modes = claim["spec"].get("accessModes") or ["ReadWriteMany"]
        if ask.nodes > 1 and not {"ReadWriteMany", "ReadOnlyMany"} & set(modes):
            told = f"The volume claim {mount.claim} is {', '.join(modes)}: only one node can mount it, and {ask.nodes} would."
            found.append(Finding(here, "fail", told, "Use a volume on S3 or FSx for Lustre."))
    return found


def _identities(ask: SubmitTarget, facts: Facts) -> list[Finding]:
    found = []
    if not facts.account:
        told = f"There is no service account {ask.runs_under} in {ask.namespace}."
        tracked = "Let pods of the namespace log to MLflow first, or name another account that may."
        found.append(Finding("service_account", "fail", told, "Make it, or leave it out." if ask.service_account else tracked))
    for name, at in ask.secret_env.items():
        keys = facts.secrets.get(at.secret)
        if keys is None:
            told = f"There is no Secret {at.secret} in {ask.namespace}."
            found.append(Finding(f"secret_env/{name}/secret", "fail", told, "Store it there first."))
        elif at.key not in keys:
            told = f"The Secret {at.secret} has no key {at.key}; it has {', '.join(keys) or 'none'}."
            found.append(Finding(f"secret_env/{name}/key", "fail", told))
    return found


def _queueing(ask: SubmitTarget, facts: Facts) -> list[Finding]:
    found = []
    if ask.queue is not None:
        if facts.queues is None:
            found.append(
                Finding("queue", "fail", "The cluster has no queues: task governance is off.", "Leave queue out, or switch it on.")
            )
        elif ask.queue not in facts.queues:
            there = ", ".join(facts.queues) or "none"
            found.append(Finding("queue", "fail", f"There is no queue {ask.queue} in {ask.namespace}; there are: {there}.", "Choose one."))
    elif facts.queues:
        told = f"Without a queue the job passes task governance by; {ask.namespace} has {', '.join(facts.queues)}."
        found.append(Finding("queue", "warn", told, "Name a queue, where quotas are to hold."))
    if ask.priority is not None and ask.priority not in facts.priorities:
        there = ", ".join(facts.priorities) or "none"
        found.append(Finding("priority", "fail", f"There is no priority class {ask.priority}; there are: {there}.", "Choose one of them."))
    return found


def _elastic(ask: SubmitTarget, facts: Facts) -> list[Finding]:
    groups = [g for g, kind in facts.group_types.items() if kind == ask.instance_type and ask.instance_group in (None, g)]
    spot = [g for g in groups if facts.capacity_types.get(g) == "spot"]
    if ask.elastic is None:
        told = f"{', '.join(spot)} is Spot: its nodes end with two minutes' notice, which the recovery budget has to bear."
        return (
            [Finding("instance_group", "warn", told, "Write checkpoints often.")] if spot and (ask.instance_group or spot == groups) else []
        )
    if spot and spot == groups:
        told = f"Elastic training does not run on Spot, and {', '.join(spot)} is Spot."
        return [Finding("elastic", "fail", told, "Use an on-demand group, or leave elastic out.")]
    if facts.tiered_percent:
        told = "The cluster keeps tiered checkpoints: an elastic job must not use them."
        return [Finding("elastic", "warn", told, "Let the job write its own checkpoints.")]
    return []


def _checkpoints(ask: SubmitTarget, facts: Facts) -> list[Finding]:
    """Whether the cluster has what the job's way of keeping its state rests on (aws-facts A17)."""
    if ask.checkpointing == "tiered" and facts.tiered_percent == 0:
        told = "Managed tiered checkpointing is off in this cluster: its nodes keep no memory for checkpoints, and the job finds none."
        return [Finding("checkpointing", "fail", told, f"{_switched_on('tiered_checkpointing')}, or let the job keep its own.")]
    if ask.checkpointing == "tiered" and facts.tiered_percent:
        told = f"Tiered checkpoints have {facts.tiered_percent} % of each node's memory; the script writes them with HyperPod's library."
        return [Finding("checkpointing", "ok", told)]
    if ask.checkpointing == "checkpointless":
        told = "Checkpointless recovery is the framework's: the image must have HyperPod's checkpointless package, and the script use it."
        return [Finding("checkpointing", "warn", told, f"{_switched_on('training_operator')}; nothing else of the cluster is needed.")]
    return []


def _shared(ask: SubmitTarget, settled: Settled) -> list[Finding]:
    if ask.shared_memory is None or quantities.whole(ask.shared_memory) < settled.sizing.memory_bytes:
        return []
    left = quantities.shown(settled.sizing.memory_bytes)
    told = f"/dev/shm of {ask.shared_memory} leaves nothing of the pod's {left}: it counts against that limit."  # noqa: S108
    return [Finding("shared_memory", "fail", told, "Leave it out for half of the memory, or ask for less.")]


def _keeping(ask: SubmitTarget) -> list[Finding]:
    if ask.keep_seconds == 0 and ask.runs_as == "pytorch":
        return [Finding("keep_seconds", "warn", "With 0 the job vanishes when it ends, with its reasons.", "Leave it out for a week.")]
    return []


def _named(kube: KubeCluster, kind: str, namespace: str) -> dict[str, Mapping[str, Any]]:
    return {each["metadata"]["name"]: each for each in kube.list(kind, namespace)}


def _keys(kube: KubeCluster, secret: str, namespace: str) -> tuple[str, ...] | None:
    found = kube.find("Secret", secret, namespace)
    return None if found is None else tuple(sorted(found.get("data") or {}))


def _queues(kube: KubeCluster, ask: SubmitTarget) -> tuple[str, ...] | None:
    return tuple(sorted(_named(kube, LOCAL_QUEUE, ask.namespace))) if kube.serves(LOCAL_QUEUE) else None


def _priorities(kube: KubeCluster, ask: SubmitTarget) -> tuple[str, ...]:
    kind = QUEUE_PRIORITY if ask.queue is not None else "PriorityClass"
    if ask.priority is None or not kube.serves(kind):
        return ()
    return tuple(sorted(each["metadata"]["name"] for each in kube.list(kind)))


def _try(ask: Callable[[], T], otherwise: T, unread: list[str]) -> T:
    try:
        return ask()
    except (problems.Busy, problems.Unreachable):
        raise
    except problems.Problem as problem:
        unread.append(problem.detail)
        return otherwise
