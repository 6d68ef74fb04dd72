"""The stages of an endpoint: asked for once, watched until what runs is what was asked, and not complete before the model has answered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from instantstart.base import problems, trees
from instantstart.base.outcome import Done, Outcome, Progress, Wait, pace
from instantstart.capabilities.inference.endpoints import objects, parts, rules
from instantstart.capabilities.room import Room
from instantstart.ensure.inference import endpoint_judging as judging
from instantstart.ensure.inference import endpoints, first_answers, serving, serving_trouble
from instantstart.ensure.inference.endpoint_judging import Seen
from instantstart.ensure.inference.first_answers import NoAnswer
from instantstart.ensure.installs import pods, workloads
from instantstart.ensure.running import events
from instantstart.ensure.sites import Site, site
from instantstart.kube import shapes
from instantstart.kube.client import Door, KubeCluster, Resources
from instantstart.operations.declare import Run

TYPICAL_SECONDS = 600.0
#: between the operator's word and the Deployment that follows it
_GRACE_SECONDS = 60.0


def request(room: Room, run: Run) -> Outcome:
    """The object, applied once. Raises Conflict when another one bears the name."""
    kube, spec = site(room, run.spec).kube(room), run.spec
    live = endpoints.find(kube, spec.namespace, spec.name)
    if live is None:
        _apply(kube, objects.resource(spec))
        return Wait(2, f"Asked the inference operator for {spec.namespace}/{spec.name}")
    differing = trees.missing(objects.build(spec.settings, spec.kind), live["spec"])
    if live["kind"] != spec.kind or differing:
        told = f"Another endpoint {spec.namespace}/{spec.name} was made meanwhile, with other settings: {', '.join(list(differing)[:10])}."
        raise problems.Conflict("inference_endpoint.exists", told, hint="Change that endpoint, or choose another name.")
    return Done({"generation": live["metadata"]["generation"], "uid": live["metadata"]["uid"]}, already=run.waited_seconds == 0)


def change(room: Room, run: Run) -> Outcome:
    """Only the fields that were asked, and only while the endpoint is as it was when the change was planned."""
    kube, spec = site(room, run.spec).kube(room), run.spec
    live = _get(kube, spec)
    now, changed = parts.kept(objects.read(live)), trees.differences(spec.before, spec.settings, rules.WHOLE)
    if all(trees.get(now, name) == asked for name, (_, asked) in changed.items()):
        return Done({"generation": live["metadata"]["generation"]}, already=run.waited_seconds == 0)
    moved = trees.differences(spec.before, now, rules.WHOLE)
    if moved:
        told = f"The endpoint {spec.namespace}/{spec.name} was changed by somebody else meanwhile: {', '.join(list(moved)[:10])}."
        raise problems.Conflict("inference_endpoint.changed_meanwhile", told, hint="Look at it again, then ask again.")
    patch = trees.patch_between(objects.build(spec.before, spec.kind), objects.build(spec.settings, spec.kind))
    body = {"metadata": {"resourceVersion": live["metadata"]["resourceVersion"]}, "spec": patch}
    kube.patch(endpoints.api(spec.kind), spec.name, body, namespace=spec.namespace)
    return Wait(2, f"Changed {spec.namespace}/{spec.name}; the operator is told")


def _apply(kube: KubeCluster, resource: dict[str, Any]) -> None:
    try:
        kube.apply(resource)
    except problems.Busy as error:
        raise workloads.explain_webhook(kube, error) from error


def deploy(room: Room, run: Run) -> Outcome:
    """Done when the operator says complete of this very generation, and what runs is what was asked."""
    where, spec = site(room, run.spec), run.spec
    kube = where.kube(room)
    name = f"{spec.namespace}/{spec.name}"
    live = _get(kube, spec)
    seen = Seen(live, endpoints.deployment(kube, live))
    asked, said = _asked(spec), endpoints.trouble(live)
    _check_kept(run, name, seen, asked)
    if not seen.observed:
        return Wait(3, f"The operator has not looked at it yet. {endpoints.operator_away(kube) or ''}".rstrip())
    why = _why(room, where, seen)
    if seen.state == endpoints.FAILED:
        raise judging.failed(name, said, why)
    if seen.state != endpoints.COMPLETE:
        return _wait(run, seen, why or said)
    return _verify(run, name, seen, asked)


def _check_kept(run: Run, name: str, seen: Seen, asked: dict[str, Any]) -> None:
    """Raise Conflict when what was asked was taken back: in the object, by the operator's own word, or by what it runs instead."""
    said = endpoints.trouble(seen.endpoint)
    taken_back = judging.lost(asked, seen)
    if taken_back:
        raise judging.rolled_back(name, taken_back, said)
    word = endpoints.rolled_back(seen.endpoint)
    before = getattr(run.spec, "word", None)
    late = not seen.observed and seen.state == endpoints.COMPLETE and run.waited_seconds > 2 * _GRACE_SECONDS
    if (word and judging.mark(word) != before) or late:
        other = judging.not_running(asked, seen)
        if other or word:
            raise judging.rolled_back(name, other, said)


def _verify(run: Run, name: str, seen: Seen, asked: dict[str, Any]) -> Outcome:
    """The operator's "complete" is believed when the Deployment bears it out (case 68)."""
    other = judging.not_running(asked, seen)
    if other:
        if run.waited_seconds < _GRACE_SECONDS:
            return Wait(3, "The operator says complete; its Deployment does not show the change yet.")
        raise judging.rolled_back(name, other, endpoints.trouble(seen.endpoint))
    if not judging.rolled_out(seen.deployment):
        return _wait(run, seen, "replicas of the change are not all there yet.")
    return Done({"generation": seen.endpoint["metadata"]["generation"]}, already=run.waited_seconds == 0)


def _wait(run: Run, seen: Seen, why: str | None) -> Wait:
    status = (seen.deployment or {}).get("status") or {}
    wanted = int(trees.get(seen.deployment or {}, "spec.replicas") or 0)
    progress = Progress(int(status.get("readyReplicas") or 0), wanted, "replicas") if wanted else None
    ready = judging.rolled_out(seen.deployment)
    told = why or ("the replicas are ready; its load balancer or SageMaker endpoint is not yet." if ready else "the operator works on it.")
    return Wait(pace(run.waited_seconds, TYPICAL_SECONDS), f"{seen.state or 'The operator has begun'}: {told}", progress)


def _asked(spec: Any) -> dict[str, Any]:
    """What must be in the object: everything of a new endpoint, what a change changed of an old one."""
    wanted = objects.build(spec.settings, spec.kind)
    before = objects.build(spec.before, spec.kind) if hasattr(spec, "before") else {}
    return trees.merge({}, trees.patch_between(before, wanted))


def _why(room: Room, where: Site, seen: Seen) -> str | None:
    """Why its pods are not ready, in one sentence."""
    if seen.deployment is None:
        return None
    found = _pods(where.kube(room), seen.deployment)
    why = serving_trouble.explain(room, where, seen.deployment, found)
    return why.text if why else None


def _pods(kube: KubeCluster, deployed: Mapping[str, Any]) -> Resources:
    selector = trees.get(deployed, "spec.selector.matchLabels") or {}
    labels = ",".join(f"{key}={value}" for key, value in sorted(selector.items()))
    return kube.list("Pod", deployed["metadata"]["namespace"], labels=labels) if selector else []


def balance(room: Room, run: Run) -> Outcome:
    """The load balancer has an address; else the controller's own reason why not (case 64)."""
    kube = site(room, run.spec).kube(room)
    ingress = endpoints.balancer(kube, _get(kube, run.spec))
    if ingress is None:
        if run.waited_seconds < _GRACE_SECONDS:
            return Wait(5, "The operator has made no load balancer yet.")
        return Done({"hostname": None}, already=True, note="The operator makes no load balancer here.")
    address = endpoints.hostname(ingress)
    if address:
        return Done({"hostname": address}, already=run.waited_seconds == 0)
    told = events.last_warning(kube, ingress)
    return Wait(10, f"The load balancer has no address yet: {told or 'its controller says nothing.'}")


def register(room: Room, run: Run) -> Outcome:
    """The SageMaker endpoint is in service."""
    kube = site(room, run.spec).kube(room)
    live = _get(kube, run.spec)
    wanted = endpoints.endpoint_name(live)
    if wanted is None:
        return Done({"endpoint": None}, already=True)
    made = endpoints.registration(kube, live)
    state = str(trees.get(live, "status.endpoints.sagemaker.state") or trees.get(made or {}, "status.state") or "")
    arn = trees.get(live, "status.endpoints.sagemaker.endpointArn") or trees.get(made or {}, "status.endpoint.arn")
    if state in endpoints.IN_SERVICE:
        return Done({"endpoint": wanted, "arn": arn}, already=run.waited_seconds == 0)
    if "Fail" in state:
        said = endpoints.trouble(made or {"status": {}})
        raise problems.Conflict(
            "inference_endpoint.not_registered",
            f"The SageMaker endpoint {wanted} was not made ({state}). {said or ''}".rstrip(),
            hint="The model answers inside the cluster; look at the operator's role, then retry.",
            evidence={"state": state, "untrusted_message": said},
        )
    return Wait(10, f"The SageMaker endpoint {wanted} is {state or 'not begun'}.")


def answer(room: Room, run: Run) -> Outcome:
    """One token from a replica: "ready" means that the model answers."""
    kube, spec = site(room, run.spec).kube(room), run.spec
    live = _get(kube, spec)
    deployed = endpoints.deployment(kube, live)
    if deployed is None or trees.get(deployed, "spec.replicas") == 0:
        return Done({"answered": False}, already=True, note="There is no replica to ask.")
    door = _door(kube, live, deployed)
    if door is None:
        return Wait(5, "No replica is ready to be asked.")
    container = endpoints.server(deployed, spec.name) or {}
    argv = [*(container.get("command") or ()), *(container.get("args") or ())]
    engine = serving.engine_of(argv, container.get("image"))
    health = trees.get(spec.settings, "server.health_path") if engine == "custom" else None
    told = first_answers.ask(kube, door, engine, health)
    if isinstance(told, NoAnswer):
        return Wait(pace(run.waited_seconds, 60.0), f"{told.why} {told.untrusted or ''}".rstrip())
    learned = {"answered": True, "model": told.model, "path": told.path, "milliseconds": told.milliseconds}
    return Done(learned, note=f"{told.model or 'The server'} answered after {told.milliseconds} ms.")


def _door(kube: KubeCluster, live: Mapping[str, Any], deployed: Mapping[str, Any]) -> Door | None:
    """The port of a ready replica."""
    namespace, port = live["metadata"]["namespace"], endpoints.port(live, deployed)
    for each in _pods(kube, deployed):
        pod = shapes.pod(each)
        if pods.why(pod) is None and pod.metadata.deletion_timestamp is None and port:
            return Door(namespace, pod.metadata.name, port, kind="Pod")
    return None


def _get(kube: KubeCluster, spec: Any) -> dict[str, Any]:
    """The endpoint. Raises Conflict when it has gone, or is going."""
    live = endpoints.find(kube, spec.namespace, spec.name)
    if live is None or live["metadata"].get("deletionTimestamp"):
        told = "is being deleted" if live else "is not there any more"
        raise problems.Conflict("inference_endpoint.gone", f"The endpoint {spec.namespace}/{spec.name} {told}.", hint="Create it anew.")
    return live
