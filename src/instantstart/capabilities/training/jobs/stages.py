"""The stages of a submission: check, make the objects once, follow until the job runs. Its end is the job's own, seen in its detail."""

from __future__ import annotations

from typing import Any

from instantstart.base import names, problems
from instantstart.base.outcome import Done, Outcome, Progress, Wait, pace
from instantstart.capabilities.room import Room
from instantstart.capabilities.training.jobs import judging, objects, rules, scene
from instantstart.capabilities.training.jobs.rules import Settled
from instantstart.ensure.installs import workloads
from instantstart.ensure.running import job_pods, pending_reads
from instantstart.ensure.sites import Site, site
from instantstart.ensure.training import job_states
from instantstart.kube.client import KubeCluster, Propagation
from instantstart.operations.declare import Run

_TYPICAL_SECONDS = 120.0
_FOREGROUND = Propagation.foreground


def check(room: Room, run: Run) -> Outcome:
    """The preflight; then what was left open is settled, once and for all tries. Raises all that is in the way at once."""
    where, ask = site(room, run.spec), run.spec
    mine = _made_by(where.kube(room), ask, run.id)
    facts = scene.observe(room, where, ask)
    settled = rules.settle(ask, facts) if facts.offer else None
    found = scene.findings(ask, facts, settled)
    if mine is not None:  # made by this very operation before what was settled could be written down
        found = [f for f in found if f.check != "name"]
    said = [*rules.wrong(ask), *judging.wrong_rules(ask.log_rules)]
    refused = scene.refusal(ask, said, facts, settled, found)
    if refused:
        raise refused
    if settled is None:
        raise problems.Broken("training_job.unsettled", f"Nothing is known of {ask.instance_type}.")
    learned = settled.learned() | ({"name": mine["metadata"]["name"]} if mine else {})
    return Done({**learned, "warnings": [f.detail for f in found if f.level == "warn"]}, note=f"{len(found)} checks")


def submit(room: Room, run: Run) -> Outcome:
    """Make the job under its name, once. One of that name that is not this operation's is refused, or ended first when asked."""
    kube, wanted = site(room, run.spec).kube(room), _wanted(run)
    name, space = wanted.settled.name, run.spec.namespace
    live = kube.find(wanted.kind, name, space)
    if live is not None and _mark_of(live) == run.id:
        return Done({"kind": run.spec.runs_as, "namespace": space, "name": name, "uid": live["metadata"]["uid"]})
    if live is not None:
        return _make_room(kube, wanted, live, run)
    *scripts, job = wanted.resources()
    for resource in scripts:
        kube.apply(resource)
    _make(kube, job, new=run.spec.if_exists == "version")
    return Wait(0.5, f"Made the {wanted.kind.rpartition('/')[2]} {space}/{name}")


def follow(room: Room, run: Run) -> Outcome:
    """Until the job runs: why it does not yet, in one sentence. A job that ends before is told, too."""
    where, made = site(room, run.spec), run.learned["submit"]
    kube = where.kube(room)
    job = kube.find(job_pods.KINDS[made["kind"]], made["name"], made["namespace"])
    if job is None or job["metadata"]["uid"] != made["uid"]:
        raise problems.Conflict("training_job.gone", f"The job {made['namespace']}/{made['name']} was removed.", hint="Submit it again.")
    state = job_states.read(job)
    if state.status in ("running", "succeeded"):
        return Done({**made, "status": state.status, "started_at": str((job.get("status") or {}).get("startTime") or "")})
    if state.status in ("failed", "ending"):
        raise _failure(made, state)
    return _waiting(room, where, job, run)


def _waiting(room: Room, where: Site, job: dict[str, Any], run: Run) -> Wait:
    pods = job_pods.pods_of(where.kube(room), job)
    why = pending_reads.explain(room, where, job, pods) or job_states.stuck(job, pods, job_states.read(job))
    ready = sum((pod.get("status") or {}).get("phase") in ("Running", "Succeeded") for pod in pods)
    total = max(len(pods), run.spec.nodes)
    return Wait(pace(run.waited_seconds, _TYPICAL_SECONDS), f"{why.text} {why.next_step}", Progress(ready, total, "pods"))


def _failure(made: Any, state: job_states.State) -> problems.Problem:
    name = f"{made['namespace']}/{made['name']}"
    if state.status == "ending":
        return problems.Conflict("training_job.gone", f"The job {name} is being removed.", hint="Submit it again.")
    why = job_states.own_words(state)
    detail = f"{name}: {why.text}" if why else f"The job {name} failed."
    return problems.Conflict("training_job.failed", detail, hint=why.next_step if why else None, evidence=dict(why.evidence) if why else {})


def _make_room(kube: KubeCluster, wanted: objects.Wanted, live: dict[str, Any], run: Run) -> Outcome:
    name, space = wanted.settled.name, run.spec.namespace
    if run.spec.if_exists != "replace":
        raise problems.Conflict(
            "training_job.exists",
            f"A {run.spec.runs_as} {space}/{name} appeared meanwhile.",
            hint="Choose another name, or say if_exists: version or replace.",
            evidence={"uid": live["metadata"]["uid"]},
        )
    if not live["metadata"].get("deletionTimestamp"):
        kube.delete(wanted.kind, name, space, propagation=_FOREGROUND, uid=live["metadata"]["uid"])
    return Wait(3, f"The job {space}/{name} that was there is being ended")


def _make(kube: KubeCluster, job: dict[str, Any], *, new: bool) -> None:
    """``new``: two requests that take the next version at the same moment must not both write it."""
    try:
        kube.create(job) if new else kube.apply(job)
    except problems.Busy as problem:
        raise (workloads.explain_webhook(kube, problem) if problem.code == "kubernetes.webhook_not_ready" else problem) from problem


def _wanted(run: Run) -> objects.Wanted:
    return objects.Wanted(run.spec, Settled.of(run.learned["check"]), run.id)


def _mark_of(job: dict[str, Any]) -> str | None:
    return (job["metadata"].get("labels") or {}).get(names.OPERATION_TAG)


def _made_by(kube: KubeCluster, ask: Any, operation: str) -> dict[str, Any] | None:
    """The job that this operation made already."""
    kind = job_pods.KINDS[ask.runs_as]
    if not kube.serves(kind):
        return None
    return next(iter(kube.list(kind, ask.namespace, labels=f"{names.OPERATION_TAG}={operation}")), None)
