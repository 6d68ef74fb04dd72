"""What a request would do: checked whole, filled in, and told before anything changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from instantstart.base import problems, trees
from instantstart.base.trees import Tree
from instantstart.capabilities.inference.endpoints import objects, parts, restoring, rules, scene, specs
from instantstart.capabilities.inference.endpoints.scene import Scene
from instantstart.capabilities.planning import Plan
from instantstart.capabilities.room import Room
from instantstart.ensure.findings import Finding
from instantstart.ensure.inference import endpoint_judging as judging
from instantstart.ensure.inference import endpoints
from instantstart.ensure.sites import Site

#: groups of settings by which the operator makes new replicas
_RESTARTING = ("server.", "source.", "cache.", "instance_types")


@dataclass(frozen=True)
class Prepared:
    """A request made ready: its target, its plan, and whether the world is already so. ``refusal``: why it cannot be."""

    target: Any
    plan: Plan
    equal: bool = False
    refusal: problems.Problem | None = None
    exact: str | None = None

    def checked(self) -> Any:
        """The target. Raises the refusal."""
        if self.refusal is not None:
            raise self.refusal
        return self.target


def prepare_create(room: Room, where: Site, ask: specs.CreateInferenceEndpoint) -> Prepared:
    """What inference_endpoint.create would make."""
    here = Scene.of(room, where, ask.namespace, ask.name)
    given = trees.merge({}, ask.model_dump(exclude_unset=True, exclude={"name", "namespace"}), rules.WHOLE)
    kind = endpoints.JUMPSTART if trees.get(given, "source.type") == "jumpstart" else endpoints.CONFIG
    foreign = objects.foreign_to_jumpstart(given) if kind == endpoints.JUMPSTART else []
    settings, facts = scene.look(here, rules.defaults(ask.name, given), True, foreign)
    target = specs.CreateTarget(
        tag=where.tag, region=where.aws.region, namespace=ask.namespace, name=ask.name, kind=kind, settings=settings
    )
    if here.live is not None:
        return _there_already(here.live, target)
    found = rules.findings(settings, facts)
    refused = rules.refusal(found)
    found += [] if refused else _tried(here, objects.resource(target))
    made = f"{kind} {ask.namespace}/{ask.name}: {_told(settings)}"
    plan = Plan(make=(made, *_beside(settings)), findings=tuple(found))
    return Prepared(target, plan, refusal=refused or rules.refusal(found))


def _there_already(live: Mapping[str, Any], target: specs.CreateTarget) -> Prepared:
    """The name is in use: by the same wish, or by another, which is then a change and not a creation."""
    name, wanted = f"{target.namespace}/{target.name}", objects.build(target.settings, target.kind)
    kept = Plan(keep=(f"{live['kind']} {name}",))
    if live["kind"] == target.kind and not trees.missing(wanted, live["spec"]) and not live["metadata"].get("deletionTimestamp"):
        return Prepared(target, kept, equal=True)
    differing = ", ".join(list(trees.missing(wanted, live["spec"]))[:10])
    going = " and is being deleted" if live["metadata"].get("deletionTimestamp") else ""
    told = f"The endpoint {name} is there already ({live['kind']}){going}, with other settings: {differing or 'none that differs'}."
    problem = problems.Conflict(
        "inference_endpoint.exists",
        told,
        hint="Change that endpoint, delete it first, or choose another name.",
        fields=[problems.Violation("/name", told)],
    )
    return Prepared(target, Plan(keep=kept.keep, findings=(Finding("name", "fail", told),)), refusal=problem)


def _tried(here: Scene, resource: Tree) -> list[Finding]:
    """What the cluster itself says of the object, by its own dry run."""
    try:
        here.kube.apply(resource, dry_run=True)
    except problems.Invalid as problem:
        return [Finding("whole", "fail", f"The cluster refuses the object: {problem.detail}", problem.hint)]
    except problems.Problem as problem:
        return [Finding("whole", "unknown", f"The cluster could not try the object: {problem.detail}")]
    return [Finding("whole", "ok", "The cluster would take the object.")]


def prepare_update(room: Room, where: Site, place: tuple[str, str], ask: specs.UpdateInferenceEndpoint) -> Prepared:
    """What inference_endpoint.update would change. Raises NotFound."""
    here = Scene.of(room, where, *place)
    live = existing(here)
    before = objects.read(live)
    patch, wanted = _wanted(room, here, before, ask)
    foreign = objects.foreign_to_jumpstart(wanted) if live["kind"] == endpoints.JUMPSTART else []
    after, facts = scene.look(here, wanted, False, foreign)
    found = [*rules.fixed(before, after), *rules.changed_by(rules.findings(after, facts), rules.findings(before, facts), patch)]
    refused = rules.refusal(found)
    if refused is None:
        after, tried = _tried_change(here, live, before, after)
        found += tried
    changed = trees.differences(before, after, rules.WHOLE)
    said = endpoints.rolled_back(live)
    target = specs.UpdateTarget(
        tag=where.tag, region=where.aws.region, namespace=here.namespace, name=here.name, kind=live["kind"],
        before=parts.kept(before), settings=parts.kept(after), word=judging.mark(said) if said else None,
    )  # fmt: skip
    change = tuple(f"{name}: {_value(was)} -> {_value(now)}" for name, (was, now) in changed.items())
    plan = Plan(change=change, findings=tuple(found), warnings=tuple(_restarts(before, changed)))
    return Prepared(target, plan, equal=not changed, refusal=refused or rules.refusal(found))


def _wanted(room: Room, here: Scene, before: Tree, ask: specs.UpdateInferenceEndpoint) -> tuple[Tree, Tree]:
    """What is asked, and the settings as they would be with it. Raises Invalid for as_serving beside other settings."""
    patch = ask.model_dump(exclude_unset=True, exclude={"as_serving"})
    if ask.as_serving and patch:
        told = "as_serving asks for what is served now: leave the other settings out."
        raise problems.Invalid("inference_endpoint.invalid", told, fields=[problems.Violation("/as_serving", told)])
    if ask.as_serving:
        wanted = restoring.served(room, here, existing(here))
        return {name: wanted.get(name) for name in wanted if wanted.get(name) != before.get(name)}, wanted
    wanted = trees.merge(before, patch, rules.WHOLE)
    if patch.get("autoscaling") and "replicas" not in patch:
        wanted.pop("replicas", None)  # from now on it is the autoscaler's
    return patch, wanted


def _tried_change(here: Scene, live: Mapping[str, Any], before: Tree, after: Tree) -> tuple[Tree, list[Finding]]:
    """The settings as the cluster would have them after the change (it fills in what is taken away), by its own dry run."""
    patch = trees.patch_between(objects.build(before, live["kind"]), objects.build(after, live["kind"]))
    if not patch:
        return before, []
    try:
        made = here.kube.preview(endpoints.api(live["kind"]), here.name, {"spec": patch}, here.namespace)
    except problems.Invalid as problem:
        return after, [Finding("whole", "fail", f"The cluster refuses the change: {problem.detail}", problem.hint)]
    return objects.read({"kind": live["kind"], **made}), [Finding("whole", "ok", "The cluster would take the change.")]


def _restarts(before: Tree, changed: Mapping[str, Any]) -> list[str]:
    if not any(name.startswith(_RESTARTING) for name in changed):
        return []
    alone = before.get("replicas") == 1
    return [
        "Every replica is replaced by a new one, which loads the model anew."
        + (" There is but one: unless a second node has room, it does not answer meanwhile." if alone else "")
    ]


def plan_delete(room: Room, where: Site, namespace: str, name: str) -> Prepared:
    """What inference_endpoint.delete would end. Raises NotFound."""
    here = Scene.of(room, where, namespace, name)
    live = existing(here)
    deployed, ingress = endpoints.deployment(here.kube, live), endpoints.balancer(here.kube, live)
    remove = [f"{live['kind']} {namespace}/{name}"]
    remove += [f"Deployment {namespace}/{name} with {trees.get(deployed, 'spec.replicas')} replicas"] if deployed else []
    remove += [f"load balancer {endpoints.hostname(ingress) or '(without an address yet)'}"] if ingress else []
    registered = endpoints.endpoint_name(live)
    remove += [f"SageMaker endpoint {registered}"] if registered else []
    target = specs.DeleteTarget(
        tag=where.tag, region=where.aws.region, namespace=namespace, name=name, kind=live["kind"], uid=live["metadata"]["uid"]
    )
    plan = Plan(remove=tuple(remove), keep=("the model's files",), warnings=("Whoever calls it gets no answer any more.",))
    exact = f"inference_endpoint.delete {where.aws.region} {where.tag} {namespace}/{name} {target.uid}"
    return Prepared(target, plan, exact=exact)


def existing(here: Scene) -> dict[str, Any]:
    """The endpoint. Raises NotFound naming those there are."""
    if here.live is not None:
        return here.live
    have = ", ".join(sorted(e["metadata"]["name"] for e in endpoints.list_all(here.kube, here.namespace))) or "none"
    raise problems.NotFound(
        "inference_endpoint.unknown", f"There is no endpoint {here.name} in the namespace {here.namespace}.", hint=f"There are: {have}."
    )


def _told(settings: Tree) -> str:
    source, server = settings.get("source") or {}, settings.get("server") or {}
    model = next((source[k] for k in ("repository", "model_id", "location", "claim") if source.get(k)), "?")
    count = f"{settings['replicas']} replicas" if settings.get("replicas") is not None else "as many replicas as its triggers say"
    image = f", served by {server['image']}" if server.get("image") else ""
    return f"{model} from {source.get('type')}{image}, {count} on {' or '.join(settings.get('instance_types') or ['?'])}"


def _beside(settings: Tree) -> list[str]:
    """What the operator makes beside the replicas."""
    made = ["an application load balancer with a TLS certificate"]
    made += [f"SageMaker endpoint {settings['sagemaker_endpoint']}"] if settings.get("sagemaker_endpoint") else []
    made += ["a router in front of the replicas"] if trees.get(settings, "routing.enabled") else []
    return made + (["a ScaledObject of KEDA"] if settings.get("autoscaling") else [])


def _value(value: Any) -> str:
    return "(nothing)" if value is None else str(value)
