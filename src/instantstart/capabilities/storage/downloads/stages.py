"""The stages of a download. A Job in the cluster does the work; we ask for it once, read what it says, and tell it."""

from __future__ import annotations

import json
from typing import Any

from instantstart.base import names, problems
from instantstart.base.outcome import Done, Outcome, Progress, Wait, pace
from instantstart.capabilities.room import Room
from instantstart.capabilities.storage.downloads import objects, rules
from instantstart.ensure.installs import pods
from instantstart.ensure.sites import site
from instantstart.kube import shapes
from instantstart.kube.client import KubeCluster, LogQuery, Propagation
from instantstart.operations.declare import Run

_TYPICAL_SECONDS = 600.0
_MIB = 1024 * 1024
_LINES = 20
#: what the job's own words mean: kind of problem, and what to do
_ENDINGS: dict[str, tuple[type[problems.Problem], str]] = {
    "gated": (problems.Denied, "Accept the licence on the hub with the token's account, store the token, and retry."),
    "denied": (problems.Denied, "Name the Secret of a token that may read it, and retry."),
    "missing": (problems.NotFound, "Check repository and revision."),
    "no_space": (problems.Blocked, "Free space on the volume or the node, then retry: what is complete is not fetched again."),
    "unsafe_path": (problems.Conflict, "Do not use this repository."),
    "nothing_chosen": (problems.Invalid, "Widen include, or leave it out."),
}
_OTHER = (problems.Conflict, "Look at the job's log, then retry: what is complete is not fetched again.")


def inspect(room: Room, run: Run) -> Outcome:
    """Pin the revision to its commit, before anything is started: a missing or gated repository is told here."""
    where = site(room, run.spec)
    facts = rules.observe(room, where, run.spec)
    refused = rules.refusal(run.spec, facts, rules.findings(run.spec, facts))
    if refused:
        raise refused
    if facts.repository is None:
        raise problems.Broken("hub.unread", f"The hub told nothing of {run.spec.repository}.")
    taken = rules.chosen(facts.repository.files, run.spec)
    size = sum(f.size for f in taken)
    return Done({"commit": facts.repository.commit, "files": len(taken), "bytes": size, "on_s3": facts.on_s3}, already=True)


def transfer(room: Room, run: Run) -> Outcome:
    """The job of this try: made once, watched, its progress told in MiB; its end is the job's own."""
    kube, wanted = (
        site(room, run.spec).kube(room),
        objects.Wanted.of(run.spec, run.learned["inspect"], room.hub.url, f"{run.id}.{run.attempt}"),
    )
    live = kube.find("Job", wanted.name, wanted.namespace)
    if live is not None and live["metadata"].get("labels", {}).get(names.OPERATION_TAG) != wanted.mark:
        kube.delete("Job", wanted.name, wanted.namespace, propagation=Propagation.foreground)
        return Wait(3, "An earlier job of this folder is being removed")
    if live is None:
        for resource in wanted.resources():
            kube.apply(resource)
        return Wait(5, f"Made the job {wanted.namespace}/{wanted.name}")
    return _follow(kube, wanted, live, run)


def _follow(kube: KubeCluster, wanted: objects.Wanted, live: dict[str, Any], run: Run) -> Outcome:
    ends = {c["type"] for c in live.get("status", {}).get("conditions") or () if c["status"] == "True"}
    found = [shapes.pod(p) for p in kube.list("Pod", wanted.namespace, labels=f"batch.kubernetes.io/job-name={wanted.name}")]
    said = _last_words(kube, wanted.namespace, found)
    if "Complete" in ends:
        facts: dict[str, Any] = {**run.learned["inspect"], **(said if said.get("event") == "done" else {})}
        kept = {key: facts[key] for key in ("commit", "files", "bytes")} | {"already": facts.get("already", 0)}
        return Done({**kept, "claim": f"{wanted.namespace}/{run.spec.claim_name}", "folder": run.spec.place})
    if "Failed" in ends:
        raise _failure(wanted, said, live)
    if said.get("event") == "progress":
        told = f"{said['files']} of {said['of']} files"
        return Wait(pace(run.waited_seconds, _TYPICAL_SECONDS), told, Progress(said["done"] // _MIB, max(said["total"] // _MIB, 1), "MiB"))
    reason = pods.explain(found)
    return Wait(5, reason.text if reason else "The job has begun")


def _last_words(kube: KubeCluster, namespace: str, found: list[shapes.Pod]) -> dict[str, Any]:
    """The newest thing that a pod of the job said; empty when none has said anything that can be read."""
    for pod in sorted(found, key=lambda p: p.metadata.name, reverse=True):
        try:
            text = kube.log(pod.metadata.name, namespace, LogQuery(container=objects.CONTAINER, tail_lines=_LINES))
        except problems.Problem:
            continue  # not started, or its log is gone with its node
        for line in reversed(text.splitlines()):
            try:
                told = json.loads(line)
            except ValueError:
                continue
            if isinstance(told, dict) and "event" in told:
                return told
    return {}


def _failure(wanted: objects.Wanted, said: dict[str, Any], live: dict[str, Any]) -> problems.Problem:
    conditions = live.get("status", {}).get("conditions") or ()
    told = next((c.get("message", "") for c in conditions if c["type"] == "Failed"), "")
    code = str(said.get("code", "ended")) if said.get("event") == "failed" else "ended"
    kind, hint = _ENDINGS.get(code, _OTHER)
    detail = str(said.get("message")) if code != "ended" else f"The job ended without success: {told or 'no reason told'}."
    evidence = {"job": f"{wanted.namespace}/{wanted.name}", "untrusted_message": told}
    return kind(f"download.{code}", detail, hint=hint, evidence=evidence)


def remove_job(room: Room, run: Run) -> Outcome:
    """End the job of a download. Files that are complete stay: the same request goes on with the rest."""
    kube, spec = site(room, run.spec).kube(room), run.spec
    if kube.find("Job", spec.job, spec.namespace) is None:
        return Done({"job": spec.job}, already=run.waited_seconds == 0)
    kube.delete("Job", spec.job, spec.namespace, propagation=Propagation.foreground)
    return Wait(3, f"The job {spec.namespace}/{spec.job} is ending")
