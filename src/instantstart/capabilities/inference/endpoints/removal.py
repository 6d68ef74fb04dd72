"""The end of an endpoint: asked for once, awaited until nothing of it is left, and what holds it back is named."""

from __future__ import annotations

from typing import Any

from instantstart.base import problems, trees
from instantstart.base.outcome import Done, Outcome, Wait, pace
from instantstart.capabilities.inference.endpoints import specs
from instantstart.capabilities.room import Room
from instantstart.ensure.inference import endpoints
from instantstart.ensure.running import events
from instantstart.ensure.sites import site
from instantstart.kube.client import KubeCluster
from instantstart.operations.declare import Run

_TYPICAL_SECONDS = 120.0


def request(room: Room, run: Run) -> Outcome:
    """Ask for the end of that very object; one made anew under its name stays."""
    kube, spec = site(room, run.spec).kube(room), run.spec
    live = _find(kube, spec)
    if live is None:
        return Done({"name": spec.name}, already=run.waited_seconds == 0)
    if not live["metadata"].get("deletionTimestamp"):
        kube.delete(endpoints.api(spec.kind), spec.name, spec.namespace, uid=spec.uid)
        return Wait(2, f"Asked for the end of {spec.namespace}/{spec.name}")
    return Done({"name": spec.name}, already=run.waited_seconds == 0)


def gone(room: Room, run: Run) -> Outcome:
    """Nothing of it is left: the object, its replicas, its load balancer, its SageMaker endpoint."""
    kube, spec = site(room, run.spec).kube(room), run.spec
    live = _find(kube, spec)
    if live is not None:
        return _held(kube, run, live)
    left = [f"{kind} {spec.namespace}/{name}" for kind, name in _left(kube, spec)]
    if left:
        return Wait(pace(run.waited_seconds, _TYPICAL_SECONDS), f"The object is gone; still there: {', '.join(left)}.")
    return Done({"name": spec.name}, already=run.waited_seconds == 0)


def _held(kube: KubeCluster, run: Run, live: dict[str, Any]) -> Outcome:
    """Who holds it: the finalizers, the operator's own word, and whether there is an operator at all."""
    spec, said, state = run.spec, endpoints.trouble(live), str(trees.get(live, "status.state") or "")
    held = ", ".join(live["metadata"].get("finalizers") or ()) or "nothing that it names"
    if state == endpoints.DELETION_FAILED:
        raise problems.Blocked(
            "inference_endpoint.deletion_failed",
            f"The operator could not delete {spec.namespace}/{spec.name}: {said or 'it does not say why'}. It is held by {held}.",
            hint="Mend what the operator names (often its role), then retry.",
            evidence={"finalizers": live["metadata"].get("finalizers") or [], "untrusted_message": said},
        )
    if endpoints.operator_away(kube):
        raise problems.Blocked(
            "inference_endpoint.nobody_deletes",
            f"{spec.namespace}/{spec.name} is held by {held}, which only the inference operator lets go, and no pod of it is ready.",
            hint="Switch the feature inference_operator on, or repair it, then retry.",
        )
    told = events.last_warning(kube, live) or said
    return Wait(pace(run.waited_seconds, _TYPICAL_SECONDS), f"{state or 'Ending'}: held by {held}." + (f" {told}" if told else ""))


def _find(kube: KubeCluster, spec: specs.DeleteTarget) -> dict[str, Any] | None:
    found = kube.find(endpoints.api(spec.kind), spec.name, spec.namespace)
    return found if found is not None and found["metadata"].get("uid") == spec.uid else None


def _left(kube: KubeCluster, spec: specs.DeleteTarget) -> list[tuple[str, str]]:
    """What was made for it and is not gone: by its owner, which is no more."""
    registration = endpoints.api(endpoints.REGISTRATION)
    found = []
    for kind in ("Deployment", "Ingress", *((registration,) if kube.serves(registration) else ())):
        for each in kube.list(kind, spec.namespace):
            owners = each["metadata"].get("ownerReferences") or ()
            if any(o.get("uid") == spec.uid for o in owners):
                found.append((each["kind"], each["metadata"]["name"]))
    return found
