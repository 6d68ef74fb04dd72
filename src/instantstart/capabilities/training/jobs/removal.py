"""Ending a job: its object, and with it its pods; what holds the name is gone before the end is told."""

from __future__ import annotations

from instantstart.base import problems
from instantstart.base.outcome import Done, Outcome, Wait
from instantstart.capabilities.room import Room
from instantstart.ensure.running import job_pods
from instantstart.ensure.sites import site
from instantstart.kube.client import Propagation
from instantstart.operations.declare import Run


def remove_job(room: Room, run: Run) -> Outcome:
    """Delete the very object that was seen, and wait until it and its pods are gone. One made anew under the name is left alone."""
    kube, spec = site(room, run.spec).kube(room), run.spec
    kind, told = job_pods.KINDS[spec.kind], {"kind": spec.kind, "namespace": spec.namespace, "name": spec.name}
    job = kube.find(kind, spec.name, spec.namespace)
    if job is None or job["metadata"]["uid"] != spec.uid:
        return Done(told, already=run.waited_seconds == 0)
    if not job["metadata"].get("deletionTimestamp"):
        try:
            kube.delete(kind, spec.name, spec.namespace, propagation=Propagation.foreground, uid=spec.uid)
        except problems.Conflict:
            return Wait(1, "Another job took the name meanwhile")
        return Wait(2, f"Asked for the end of {spec.namespace}/{spec.name}")
    left = job_pods.pods_of(kube, job)
    holds = ", ".join(job["metadata"].get("finalizers") or ())
    return Wait(3, f"{len(left)} pods of {spec.namespace}/{spec.name} are ending" if left else f"Waiting for {holds or 'its end'}")
