"""The life of an add-on, one step at a time: installed pinned, configured by merging, upgraded, watched, removed.

Facts: aws-facts A5. A CREATE_FAILED add-on is removed and made again, but told when it is of this very try. DEGRADED is watched: before
the first node it is as far as an add-on gets; with nodes it is waited for until the stage's deadline (case 24).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from instantstart.aws.session import Aws
from instantstart.base import names, problems
from instantstart.base.outcome import Done, Outcome, Progress, Wait
from instantstart.ensure.capacity import nodes
from instantstart.ensure.installs import addon_offers, addons, configurations, workloads
from instantstart.ensure.installs.releases import Check
from instantstart.ensure.managed.components import Component
from instantstart.kube.client import KubeCluster, LogQuery

_LACKS_REPLICAS = "InsufficientNumberOfReplicas"
_LOOK_SECONDS = 5.0
#: from then on the controller's own last words stand in the sentence
_LOG_AFTER_SECONDS = 240.0
_TAIL_LINES, _TAIL_CHARACTERS = 5, 400


@dataclass(frozen=True)
class Wanted:
    """An add-on as it is to be. ``version`` None: EKS's default, or newer when that is below ``minimum``.

    ``configuration`` is for one that is made; ``change`` is what one that is there must hold besides its own values (None: the same).
    """

    name: str
    version: str | None = None
    minimum: str = ""
    role_arn: str | None = None
    configuration: Mapping[str, Any] = field(default_factory=dict)
    change: Mapping[str, Any] | None = None
    overwrite: bool = False

    @property
    def kept(self) -> Mapping[str, Any]:
        """What an add-on that is there must hold."""
        return self.configuration if self.change is None else self.change


@dataclass(frozen=True)
class Place:
    """Where an add-on goes: the cluster, our tags with the try in them, and what makes a call repeatable."""

    aws: Aws
    cluster: str
    kubernetes_version: str
    tags: Mapping[str, str]
    token: Callable[[str], str]

    @property
    def of_this_try(self) -> str | None:
        return self.tags.get(names.OPERATION_TAG)


def install(place: Place, want: Wanted) -> Outcome:
    """One step towards the add-on being there with this role and these values. Done may still be CREATING.

    Raises Conflict ``addon.conflicts`` and ``addon.failed``, NotFound ``addon.no_version``.
    """
    have = addons.find(place.aws, place.cluster, want.name)
    if have is None:
        return _create(place, want)
    status, mine = have["status"], have.get("tags", {}).get(names.OPERATION_TAG) == place.of_this_try
    if status == "CREATE_FAILED":
        if mine:
            raise failure(have)
        place.aws.remove("eks", "delete_addon", clusterName=place.cluster, addonName=want.name, preserve=False)
        return Wait(5, f"{want.name} had failed and is being removed, to be made again")
    if status in ("DELETING", "DELETE_FAILED"):
        return Wait(5, f"An older {want.name} is being removed")
    if status in ("CREATING", "UPDATING"):
        return Done({"version": have["addonVersion"]}) if mine else Wait(5, f"{want.name} is {status}")
    lost = list(configurations.differences(want.kept, configurations.parse(have.get("configurationValues"))))
    if lost or (want.role_arn and have.get("serviceAccountRoleArn") != want.role_arn):
        return _update(place, have, want)
    return Done({"version": have["addonVersion"]}, already=not mine)


def _create(place: Place, want: Wanted) -> Outcome:
    offers = addon_offers.read(place.aws, place.kubernetes_version)
    version = want.version or addon_offers.choose(offers, want.name, want.minimum)
    params: dict[str, Any] = {
        "clusterName": place.cluster,
        "addonName": want.name,
        "addonVersion": version,
        "resolveConflicts": "OVERWRITE" if want.overwrite else "NONE",
        "tags": dict(place.tags),
        "clientRequestToken": place.token(f"create-{want.name}"),
    }
    if want.role_arn:
        params["serviceAccountRoleArn"] = want.role_arn
    if want.configuration:
        params["configurationValues"] = configurations.canonical(want.configuration)
    if place.aws.create("eks", "create_addon", **params) is None:
        return Wait(2, f"{want.name} appeared a moment ago")
    return Wait(2, f"Asked EKS for {want.name} {version}")


def _update(place: Place, have: Mapping[str, Any], want: Wanted, version: str | None = None) -> Wait:
    """An update drops what it is not given, so all is sent: values merged, the role that is there, the version (facts A5, A9)."""
    values = configurations.merged(configurations.parse(have.get("configurationValues")), want.kept)
    role = want.role_arn or have.get("serviceAccountRoleArn")
    params: dict[str, Any] = {
        "clusterName": place.cluster,
        "addonName": want.name,
        "addonVersion": version or have["addonVersion"],
        "resolveConflicts": "OVERWRITE" if want.overwrite else "PRESERVE",
    }
    params |= {"serviceAccountRoleArn": role} if role else {}
    params |= {"configurationValues": configurations.canonical(values)} if values else {}
    params["clientRequestToken"] = place.token(f"update-{configurations.canonical(params)}-{have.get('modifiedAt')}")
    try:
        place.aws.write("eks", "update_addon", **params)
    except problems.Conflict as problem:
        return Wait(5, f"{want.name} cannot be updated yet: {problem.detail}")
    return Wait(3, f"Asked EKS to update {want.name}{f' to {version}' if version else ''}")


def upgrade(place: Place, want: Wanted) -> Outcome:
    """One step towards the add-on being of ``want.version``; role and values stay as they are."""
    have = addons.find(place.aws, place.cluster, want.name)
    if have is None:
        raise problems.NotFound("addon.absent", f"{want.name} is not installed, so there is nothing to upgrade.")
    if have["status"] in ("CREATING", "UPDATING", "DELETING"):
        return Wait(4, f"{want.name} is {have['status']}")
    if have["addonVersion"] == want.version:
        return Done({"version": want.version}, already=True)
    return _update(place, have, want, want.version)


def remove(aws: Aws, cluster: str, name: str) -> Outcome:
    """One step towards the add-on and its objects being gone."""
    have = addons.find(aws, cluster, name)
    if have is None:
        return Done({"addon": name})
    if have["status"] == "DELETE_FAILED":
        raise failure(have)
    if have["status"] == "DELETING":
        return Wait(4, f"EKS is removing {name}")
    held = aws.remove("eks", "delete_addon", clusterName=cluster, addonName=name, preserve=False)
    return Wait(4, f"{name} cannot be removed yet: {held}" if held else f"Asked EKS to remove {name}")


def ready(place: Place, kube: KubeCluster, component: Component, waited_seconds: float) -> Outcome:
    """Done when EKS says ACTIVE and its documented workloads are ready; or when all that lacks is a first node."""
    have = addons.find(place.aws, place.cluster, component.source)
    if have is None:
        raise problems.NotFound("addon.absent", f"{component.source} is gone: somebody removed it meanwhile.")
    status = have["status"]
    if status == "CREATE_FAILED":
        raise failure(have, tail(kube, component))
    issues = have.get("health", {}).get("issues", [])
    if any(i.get("code") == _LACKS_REPLICAS for i in issues) and not any(n.usable for n in nodes.read(kube)):
        return Done({"version": have["addonVersion"], "waits_for_nodes": True}, note="It waits for the first node, as is normal.")
    states = [workloads.look(kube, check, joined=True) for check in _checks(kube, component)]
    open_ones = [s for s in states if s.state is not workloads.State.ready]
    if status == "ACTIVE" and not open_ones:
        return Done({"version": have["addonVersion"], "waits_for_nodes": False})
    told = "; ".join(f"{i.get('code')}: {i.get('message')}" for i in issues)
    because = f"{component.title} is {status}{f': {told}' if told else ''}"
    if open_ones:
        because += f" {open_ones[0].kind} {open_ones[0].namespace}/{open_ones[0].name}: {open_ones[0].why}"
    if waited_seconds > _LOG_AFTER_SECONDS and (last := tail(kube, component)):
        because += f" Its log ends: {last}"
    return Wait(_LOOK_SECONDS, because, Progress(len(states) - len(open_ones), len(states), "workloads") if states else None)


def _checks(kube: KubeCluster, component: Component) -> tuple[Check, ...]:
    """The documented workloads; else those Deployments of its own namespace that EKS made."""
    if component.checks or component.namespace == "kube-system":
        return component.checks
    found = kube.list("Deployment", component.namespace)
    return tuple(Check("Deployment", component.namespace, item["metadata"]["name"]) for item in found)


def tail(kube: KubeCluster, component: Component) -> str:
    """The last words of the component's controller, bounded; empty when it has none."""
    try:
        pods = kube.list("Pod", component.namespace) if component.namespace != "kube-system" else []
        named = [p["metadata"]["name"] for p in pods if any(p["metadata"]["name"].startswith(c.name) for c in component.checks)]
        names_of_pods = named or [p["metadata"]["name"] for p in pods]
        text = kube.log(names_of_pods[0], component.namespace, LogQuery(tail_lines=_TAIL_LINES)) if names_of_pods else ""
    except problems.Problem:
        return ""
    return " ".join(text.split())[-_TAIL_CHARACTERS:]


def failure(have: Mapping[str, Any], log_tail: str = "") -> problems.Conflict:
    """Why an add-on could not be made or removed: somebody else's objects in its way (case 25), or EKS's own sentence."""
    issues = have.get("health", {}).get("issues", [])
    told = "; ".join(f"{i.get('code')}: {i.get('message')}" for i in issues) or "no reason told"
    evidence = {"service": "eks", "addon": have["addonName"], "addon_arn": have.get("addonArn"), "issues": issues}
    if log_tail:
        evidence["untrusted_log_tail"] = log_tail
    if any(issue.get("code") == "ConfigurationConflict" for issue in issues):
        return problems.Conflict(
            "addon.conflicts",
            f"{have['addonName']} collides with objects that somebody else installed: {told}",
            hint="Remove them and retry, or switch the feature on again and name them in overwrite.",
            evidence=evidence,
        )
    return problems.Conflict(
        "addon.failed",
        f"EKS could not {'remove' if have['status'] == 'DELETE_FAILED' else 'install'} {have['addonName']}: {told}",
        hint="Mend the cause and retry: a failed add-on is removed and made again.",
        evidence=evidence,
    )
