"""Copies of a component that somebody else installed (case 25): found, named, and left to the person's choice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum, StrEnum
from typing import Any

from instantstart.base import problems
from instantstart.ensure.installs.releases import Release, Resource, Role, identity, is_ours, manager_of, sentence
from instantstart.kube.client import KubeCluster, Propagation


class Takeover(StrEnum):
    """What to do with a copy that is not ours: say so and stop, use it as it is, or put ours in its place."""

    refuse = "refuse"
    adopt = "adopt"
    overwrite = "overwrite"


class Settled(Enum):
    """Whose copy is to be used."""

    use_ours = 1
    use_theirs = 2


def find(cluster: KubeCluster, release: Release) -> list[Resource]:
    """Workloads of others, in any namespace, that already play a role of this release."""
    own = {identity(resource) for resource in release.resources}
    return [found for role in release.roles for found in players(cluster, role) if identity(found) not in own]


def standing(cluster: KubeCluster, release: Release) -> list[Resource]:
    """What of others stands for this release: copies that play its role, else its last object by name when that is not ours."""
    last = next((r for r in reversed(release.resources) if r["kind"] != "Namespace"), None)
    metadata = last["metadata"] if last else {}
    live = cluster.find(f"{last['apiVersion']}/{last['kind']}", metadata["name"], metadata.get("namespace")) if last else None
    return find(cluster, release) or ([live] if live is not None and not is_ours(live) else [])


def told(others: Sequence[Resource]) -> str:
    """Whose copies these are: ``by Helm release x: DaemonSet kube-system/y``."""
    return _told(_named(others))


def settle_role(cluster: KubeCluster, release: Release, takeover: Takeover) -> Settled:
    """Decide between ours and theirs. ``overwrite`` removes theirs. Raises Conflict ``bundle.role_taken``."""
    others = find(cluster, release)
    if not others:
        return Settled.use_ours
    if takeover is Takeover.adopt:
        return Settled.use_theirs
    if takeover is Takeover.refuse:
        named = _named(others)
        detail = f"The cluster already has {release.roles[0].name}: {_told(named)}."
        raise problems.Conflict("bundle.role_taken", detail, hint=_choice(release), evidence=_evidence(release, named))
    for other in others:
        metadata = other["metadata"]
        cluster.delete(other["kind"], metadata["name"], metadata["namespace"], propagation=Propagation.foreground, uid=metadata["uid"])
    return Settled.use_ours


def settle_names(cluster: KubeCluster, release: Release, takeover: Takeover) -> list[str]:
    """The objects to leave alone: they bear our names, are not ours, and ``takeover`` is ``adopt``.

    Raises Conflict ``bundle.object_not_ours`` naming all of them at once when it is ``refuse``.
    """
    if takeover is Takeover.overwrite:
        return []
    others = list(_namesakes(cluster, release))
    if others and takeover is Takeover.refuse:
        named = _named(others)
        detail = f"Objects of these names were not made by InstantStart: {_told(named)}."
        raise problems.Conflict("bundle.object_not_ours", detail, hint=_choice(release), evidence=_evidence(release, named))
    return [identity(other) for other in others]


def players(cluster: KubeCluster, role: Role) -> Iterator[Resource]:
    """The workloads of others that play a role."""
    for kind in role.kinds:
        for found in cluster.list(kind):
            if not is_ours(found) and _plays(found, role):
                yield found


def _plays(workload: Resource, role: Role) -> bool:
    if workload["metadata"]["name"] in role.names:
        return True
    containers = workload.get("spec", {}).get("template", {}).get("spec", {}).get("containers") or ()
    images = [str(c.get("image", "")) for c in containers]
    return any(part in image for part in role.images for image in images)


def _namesakes(cluster: KubeCluster, release: Release) -> Iterator[Resource]:
    for resource in release.resources:
        if resource["kind"] == "Namespace":
            continue  # a namespace may be shared
        metadata = resource["metadata"]
        live = cluster.find(f"{resource['apiVersion']}/{resource['kind']}", metadata["name"], metadata.get("namespace"))
        if live is not None and not is_ours(live):
            yield live


def _named(others: Sequence[Resource]) -> list[dict[str, str]]:
    return [{"object": identity(o), "manager": manager_of(o)} for o in others]


def _told(named: Sequence[dict[str, str]]) -> str:
    return sentence(f"{n['object']} (by {n['manager']})" for n in named)


def _choice(release: Release) -> str:
    return (
        f"Choose adopt (keep what is there; InstantStart does not manage it) or overwrite (put {release.name} {release.version} "
        "in its place; whoever installed it may put it back)."
    )


def _evidence(release: Release, named: list[dict[str, str]]) -> dict[str, Any]:
    return {"bundle": release.name, "version": release.version, "found": named[:50], "choices": ["adopt", "overwrite"]}
