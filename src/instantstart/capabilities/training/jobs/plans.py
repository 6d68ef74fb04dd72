"""What a request would do before it does it: the exact objects, the exact arguments, the findings; and what an end would lose."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from instantstart.base import names, problems, sentences
from instantstart.base.problems import Violation
from instantstart.capabilities.planning import Plan
from instantstart.capabilities.room import Room
from instantstart.capabilities.training.jobs import judging, objects, rules, scene, specs
from instantstart.ensure.findings import Finding
from instantstart.ensure.running import job_pods
from instantstart.ensure.sites import Site
from instantstart.ensure.training import job_states
from instantstart.kube.client import KubeCluster
from instantstart.operations.record import TERMINAL


@dataclass(frozen=True)
class TrainingJobPreview:
    """A job before it is submitted: ``objects`` exactly as they would be applied, ``argv`` exactly as the work would be started.

    ``rendezvous`` is what the operator gives each pod besides; ``settings`` is what was left open and how it was decided.
    """

    kind: str
    namespace: str
    name: str
    objects: tuple[dict[str, Any], ...]
    argv: tuple[str, ...]
    rendezvous: dict[str, str]
    settings: dict[str, Any]
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class Ending:
    """A deletion that is ready to be asked for."""

    target: specs.JobTarget
    plan: Plan
    exact: str
    needs_approval: bool
    #: the operation that follows the job
    follower: str | None


def checked(room: Room, where: Site, target: specs.SubmitTarget) -> specs.SubmitTarget:
    """The same target, when nothing that can be known stands in its way: what the operation's first stage would refuse, the door does.

    Raises Invalid with every violation, Conflict ``training_job.exists``. A cluster that does not answer is the operation's to wait for.
    """
    try:
        facts = scene.observe(room, where, target)
    except (problems.Unreachable, problems.Busy):
        check_said(target)
        return target
    if facts.existing is not None and _is_followed(room, facts.existing, target):
        return target
    settled = rules.settle(target, facts) if facts.offer else None
    refused = scene.refusal(target, _said(target), facts, settled, scene.findings(target, facts, settled))
    if refused:
        raise refused
    return target


def check_said(target: specs.SubmitTarget) -> None:
    """Raise Invalid with everything that is wrong with what was said, whatever the cluster has."""
    said = _said(target)
    if said:
        raise scene.invalid(said)


def _said(target: specs.SubmitTarget) -> list[Violation]:
    return [*rules.wrong(target), *judging.wrong_rules(target.log_rules)]


def _is_followed(room: Room, job: Mapping[str, Any], target: specs.SubmitTarget) -> bool:
    """Whether an operation for this very request is on its way: asked again, that one is the answer."""
    follower = _follower(room, job)
    return follower is not None and room.engine.get(follower).spec == target.model_dump(mode="json")


def _follower(room: Room, job: Mapping[str, Any]) -> str | None:
    """The operation that made a job, while it goes on."""
    operation_id = (job["metadata"].get("labels") or {}).get(names.OPERATION_TAG)
    try:
        found = room.engine.get(operation_id) if operation_id else None
    except problems.NotFound:
        return None
    return found.id if found is not None and found.status not in TERMINAL else None


def plan_submit(room: Room, where: Site, target: specs.SubmitTarget) -> Plan:
    """What training_job.submit would make. Raises Invalid for what does not fit together by itself."""
    shown = preview(room, where, target)
    made = tuple(f"{each['kind']} {each['metadata']['namespace']}/{each['metadata']['name']}" for each in shown.objects)
    started = (f"{target.nodes} x {target.instance_type}: {json.dumps(list(shown.argv), ensure_ascii=False)}",) if shown.argv else ()
    replaced = [f.detail for f in shown.findings if f.check == "name" and f.level == "warn"]
    return Plan(make=made + started, remove=tuple(replaced), findings=shown.findings)


def preview(room: Room, where: Site, target: specs.SubmitTarget) -> TrainingJobPreview:
    """The job as it would be applied now. Raises Invalid for what does not fit together by itself."""
    check_said(target)
    facts = scene.observe(room, where, target)
    settled = rules.settle(target, facts) if facts.offer else None
    found = scene.findings(target, facts, settled)
    if settled is None:
        return TrainingJobPreview(target.runs_as, target.namespace, target.name, (), (), {}, {}, tuple(found))
    wanted = objects.Wanted(target, settled)
    found += [Finding(each.pointer, "fail", each.message) for each in settled.sizing.wrong]
    made = wanted.resources()
    if facts.served and facts.namespace:
        found.append(_tried(where.kube(room), made[-1]))
    settings = {**settled.learned(), "offer": facts.offer.source if facts.offer else None}
    return TrainingJobPreview(
        target.runs_as, target.namespace, settled.name, made, tuple(wanted.argv()), wanted.rendezvous(), settings, tuple(found)
    )


def _tried(kube: KubeCluster, job: dict[str, Any]) -> Finding:
    """Let the cluster say whether it would take the object, its policies too."""
    try:
        kube.apply(job, dry_run=True)
    except problems.Problem as problem:
        level = "fail" if isinstance(problem, (problems.Invalid, problems.Denied)) else "unknown"
        return Finding("object", level, f"The cluster would not take it: {problem.detail}", problem.hint)  # type: ignore[arg-type]
    return Finding("object", "ok", "The cluster would take it.")


def try_rules(ask: specs.TryLogRules) -> judging.TrialResult:
    """What the rules make of the sample. Raises Invalid with every violation."""
    wrong = judging.wrong_rules(ask.rules, "/rules")
    if wrong:
        told = " ".join(f"{each.pointer} {each.message}" for each in wrong)
        raise problems.Invalid("training_job.log_rules", told, fields=wrong)
    return judging.try_rules(ask)


def prepare_end(room: Room, where: Site, target: specs.JobTarget) -> Ending:
    """The end of a job: one that has not ended loses what it has not saved, and takes an approval. Raises NotFound."""
    job = get_job(where.kube(room), target.kind, target.namespace, target.name)
    exact_target = target.model_copy(update={"uid": job["metadata"]["uid"]})
    state = job_states.read(job)
    pods = job_pods.pods_of(where.kube(room), job)
    loses = state.status not in job_states.ENDED
    warnings: tuple[str, ...] = (f"It is {state.status}: what it has not written to a volume is lost.",) if loses else ()
    kept = job_states.held(state, pods)
    warnings += (f"Its {kept.pods} pods still hold {kept.accelerators} accelerators: they become free.",) if kept else ()
    told = f"{job['kind']} {target.namespace}/{target.name} ({state.status}, {len(pods)} pods)"
    place = f"{target.region} {target.tag} {target.kind} {target.namespace}/{target.name}"
    exact = f"training_job.delete {place} {exact_target.uid}"
    return Ending(exact_target, Plan(remove=(told,), warnings=warnings), exact, loses, _follower(room, job))


def again(where: Site, kube: KubeCluster, target: specs.JobTarget, ask: specs.ResubmitTrainingJob) -> specs.SubmitTarget:
    """The job once more, from what is kept on it. Raises NotFound, Conflict ``training_job.not_ours``, ``training_job.asked_otherwise``."""
    job = get_job(kube, target.kind, target.namespace, target.name)
    asked = objects.asked_of(job)
    if asked is None:
        raise problems.Conflict(
            "training_job.not_ours",
            f"{target.namespace}/{target.name} was not submitted here: what was asked for is not known.",
            hint="Submit a new job.",
        )
    name = ask.name or asked.get("name")
    told = {**asked, "name": name, "if_exists": ask.if_exists, "tag": where.tag, "region": where.aws.region}
    try:
        return specs.SubmitTarget.model_validate_json(json.dumps(told))
    except ValidationError as error:
        fields = sentences.violations(error.errors())
        raise problems.Conflict(
            "training_job.asked_otherwise",
            f"{target.namespace}/{target.name} was asked for in a way that is not taken any more.",
            hint="Submit a new job.",
            fields=fields,
        ) from error


def get_job(kube: KubeCluster, kind: str, namespace: str, name: str) -> dict[str, Any]:
    """The object. Raises NotFound ``training_job.unknown``."""
    found = kube.find(job_pods.KINDS[kind], name, namespace)
    if found is None:
        raise problems.NotFound("training_job.unknown", f"There is no {kind} {namespace}/{name}.", hint="List the training jobs.")
    return found
