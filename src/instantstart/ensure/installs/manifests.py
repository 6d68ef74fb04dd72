"""Put a release into a cluster, compare it, take it out again: looked at first, done once, safe to repeat.

Everything is server-side apply, so fields that others own (an autoscaler's replicas) stay theirs; a field that somebody changed under
us is a Conflict that names the manager. Copies that are not ours are never overwritten without being asked (case 25).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from instantstart.base import problems
from instantstart.base.outcome import Done, Outcome, Progress, Wait
from instantstart.ensure.installs import strangers, workloads
from instantstart.ensure.installs.releases import BUNDLE, DEFINITIONS, NAMESPACES, WORKLOADS, Release, Resource, identity, is_ours, sentence
from instantstart.ensure.installs.strangers import Takeover
from instantstart.kube.client import KubeCluster, Propagation

_DEFINITION_SECONDS = 2.0
_REMOVAL_SECONDS = 3.0
#: What every namespace has of its own.
_BORN_WITH = {("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default")}
_HELD_IN_NAMESPACES = (
    "Pod",
    "Deployment",
    "DaemonSet",
    "StatefulSet",
    "Job",
    "Service",
    "PersistentVolumeClaim",
    "Secret",
    "ConfigMap",
    "ServiceAccount",
)


@dataclass(frozen=True)
class Change:
    """What applying would do to one object: ``create``, ``update``, ``none``, or ``conflict`` with the sentence in ``why``."""

    object: str
    action: str
    why: str | None = None
    fields: tuple[str, ...] = ()


def ensure(cluster: KubeCluster, release: Release, takeover: Takeover = Takeover.refuse) -> Outcome:
    """Make the release be there. Learned: ``applied`` objects changed, ``left_alone`` objects of others kept.

    Waits while definitions become established. Raises Conflict ``bundle.role_taken`` or ``bundle.object_not_ours`` naming
    what is in the way, unless ``takeover`` says what to do with it.
    """
    if strangers.settle_role(cluster, release, takeover) is strangers.Settled.use_theirs:
        return Done({"bundle": release.name, "applied": 0, "adopted": True}, already=True, note="The copy that is there is used.")
    left_alone = strangers.settle_names(cluster, release, takeover)
    applied = 0
    for wave, resources in release.waves():
        for resource in resources:
            if identity(resource) in left_alone:
                continue
            try:
                applied += _apply(cluster, resource, force=takeover is Takeover.overwrite)
            except problems.NotFound as error:
                if error.code != "kubernetes.kind_not_served" or not _defines(release, resource):
                    raise
                # Established is said a moment before every API server serves the kind.
                return Wait(_DEFINITION_SECONDS, f"Kubernetes is taking in {resource['kind']}.")
        waiting = _unestablished(cluster, resources) if wave == DEFINITIONS else []
        if waiting:
            return Wait(_DEFINITION_SECONDS, f"Kubernetes is taking in {sentence(waiting)}.")
    learned = {"bundle": release.name, "version": release.version, "digest": release.digest, "applied": applied, "left_alone": left_alone}
    return Done(learned, already=not applied)


def plan(cluster: KubeCluster, release: Release) -> list[Change]:
    """What :func:`ensure` would change, by the server's own dry run. Changes nothing, raises no Conflict: it lists them."""
    return [_planned(cluster, resource) for _, resources in release.waves() for resource in resources]


def remove(cluster: KubeCluster, release: Release) -> Outcome:
    """Take our objects out in reverse order, each kind gone before the next; others' objects stay.

    Raises Conflict ``bundle.custom_resources_remain`` before anything is touched when objects of its definitions are still there:
    removing the definition would destroy them.
    """
    _refuse_while_used(cluster, release)
    waves = list(reversed(release.waves()))
    for place, (wave, resources) in enumerate(waves):
        left = [name for resource in reversed(resources) if (name := _remove_one(cluster, release, resource, wave))]
        if left:
            return Wait(_REMOVAL_SECONDS, f"Being removed: {sentence(left)}.", Progress(place, len(waves), "steps"))
    cluster.kinds.forget()
    return Done({"bundle": release.name})


def _defines(release: Release, resource: Resource) -> bool:
    """Whether the release itself brings the definition of this object's kind."""
    kinds = (r["spec"]["names"]["kind"] for r in release.resources if r["kind"] == "CustomResourceDefinition")
    return resource["kind"] in kinds


def _apply(cluster: KubeCluster, resource: Resource, *, force: bool) -> bool:
    """Apply one object; whether that changed it."""
    before = _live(cluster, resource)
    if resource["kind"] == "Namespace" and before is not None:
        return False  # shared by several releases, and perhaps by others: its labels are not worth a quarrel
    try:
        after = cluster.apply(resource, force=force)
    except problems.Busy as error:
        raise workloads.explain_webhook(cluster, error) from error
    return before is None or bool(_differences(_bare(before), _bare(after), ""))


def _live(cluster: KubeCluster, resource: Resource) -> Resource | None:
    metadata = resource["metadata"]
    return cluster.find(f"{resource['apiVersion']}/{resource['kind']}", metadata["name"], metadata.get("namespace"))


def _unestablished(cluster: KubeCluster, definitions: Sequence[Resource]) -> list[str]:
    """The definitions that the API server does not serve yet."""
    waiting = []
    for resource in definitions:
        live = _live(cluster, resource) or {}
        conditions = {c["type"]: c["status"] for c in (live.get("status") or {}).get("conditions") or ()}
        if conditions.get("Established") != "True":
            waiting.append(resource["metadata"]["name"])
    return waiting


def _planned(cluster: KubeCluster, resource: Resource) -> Change:
    name, live = identity(resource), _live(cluster, resource)
    if live is not None and resource["kind"] == "Namespace":
        return Change(name, "none")
    if live is not None and not is_ours(live):
        return Change(name, "conflict", "It is there and was not made by InstantStart.")
    try:
        wanted = cluster.apply(resource, dry_run=True)
    except problems.Conflict as error:
        return Change(name, "conflict", error.detail, tuple(f.pointer for f in error.fields))
    except problems.NotFound:
        # Its namespace or its definition comes with the same release, so the server cannot judge it yet.
        return Change(name, "create")
    if live is None:
        return Change(name, "create")
    fields = tuple(_differences(_bare(live), _bare(wanted), ""))
    return Change(name, "update" if fields else "none", fields=fields)


def _bare(resource: Resource) -> Resource:
    """Without what the server keeps for itself."""
    kept = {k: v for k, v in resource.items() if k != "status"}
    own = ("managedFields", "resourceVersion", "generation", "uid", "creationTimestamp")
    kept["metadata"] = {k: v for k, v in resource["metadata"].items() if k not in own}
    return kept


def _differences(old: Any, new: Any, pointer: str) -> list[str]:
    """JSON pointers of the values that differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        keys = sorted({*old, *new})
        return [p for k in keys for p in _differences(old.get(k), new.get(k), f"{pointer}/{str(k).replace('~', '~0').replace('/', '~1')}")]
    return [] if old == new else [pointer or "/"]


def _refuse_while_used(cluster: KubeCluster, release: Release) -> None:
    used: dict[str, list[str]] = {}
    for resource in release.resources:
        if resource["kind"] != "CustomResourceDefinition" or _live(cluster, resource) is None:
            continue
        spec = resource["spec"]
        version = next(v["name"] for v in spec["versions"] if v.get("storage"))
        kind = f"{spec['group']}/{version}/{spec['names']['kind']}"
        if cluster.serves(kind):
            items = [identity(item) for item in cluster.list(kind)]
            used.update({resource["metadata"]["name"]: items} if items else {})
    if used:
        everything = [name for names in used.values() for name in names]
        raise problems.Conflict(
            "bundle.custom_resources_remain",
            f"{release.name} cannot be removed while its objects are there: {sentence(everything)}. Removing it would destroy them.",
            hint="Delete these objects first.",
            evidence={"objects": everything[:50]},
        )


def _remove_one(cluster: KubeCluster, release: Release, resource: Resource, wave: int) -> str | None:
    """Ask for the end of one object of ours; its name while it is still there."""
    live = _live(cluster, resource)
    if live is None or not is_ours(live):
        return None
    if wave == NAMESPACES:
        if _inhabited(cluster, live["metadata"]["name"]):
            return None
    elif live["metadata"]["labels"][BUNDLE] != release.name:
        return None
    if not live["metadata"].get("deletionTimestamp"):
        metadata = live["metadata"]
        kind = f"{resource['apiVersion']}/{resource['kind']}"
        # Only a workload has dependents worth waiting for: it is gone when its pods are.
        how = Propagation.foreground if wave == WORKLOADS else Propagation.background
        cluster.delete(kind, metadata["name"], metadata.get("namespace"), propagation=how, uid=metadata["uid"])
        live = _live(cluster, resource)
    return identity(resource) if live is not None else None


def _inhabited(cluster: KubeCluster, namespace: str) -> bool:
    """Whether anything but what every namespace has lives in it: removing a namespace removes all of that."""
    for kind in _HELD_IN_NAMESPACES:
        if any((kind, item["metadata"]["name"]) not in _BORN_WITH for item in cluster.list(kind, namespace)):
            return True
    return False
