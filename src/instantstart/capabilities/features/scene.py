"""What the parts of a switch work on, on the way in and on the way out: one component of one cluster, within one run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from instantstart.base import names
from instantstart.capabilities.room import Room
from instantstart.ensure import eks
from instantstart.ensure.iam import roles as iam_roles
from instantstart.ensure.identity_chains import chain_steps
from instantstart.ensure.identity_chains import chains as declared
from instantstart.ensure.identity_chains.chain_steps import Hands
from instantstart.ensure.identity_chains.chains import Chain, Ground
from instantstart.ensure.installs.releases import Release
from instantstart.ensure.managed import component_settings
from instantstart.ensure.managed.addon_steps import Place
from instantstart.ensure.managed.components import COMPONENTS, Component
from instantstart.ensure.sites import Site, site
from instantstart.kube.client import KubeCluster
from instantstart.operations.declare import Run


@dataclass(frozen=True)
class Scene:
    """What a part works on: one component of one cluster, within one run."""

    room: Room
    run: Run
    where: Site
    cluster: Mapping[str, Any]
    kube: KubeCluster
    component: Component
    ask: Mapping[str, Any]

    @property
    def look(self) -> Mapping[str, Any]:
        """What the first stage decided; empty before it has, and in a repair."""
        return self.run.learned.get("look", {})

    @property
    def hands(self) -> Hands:
        return Hands(self.where, self.kube, self.run.token, self.run.waited_seconds)

    @property
    def place(self) -> Place:
        """Where the add-on goes, with the try in its tags; AWS's own policies look at the tag SageMaker on some."""
        tags = {**self.where.tags, names.OPERATION_TAG: f"{self.run.id}-{self.run.attempt}"}
        if self.component.name == "observability":
            tags[names.SAGEMAKER_TAG] = "true"
        return Place(self.where.aws, self.where.eks_cluster, str(self.cluster["version"]), tags, self.run.token)

    def chains(self) -> list[Chain]:
        """The component's chains, with the choices of this ask or of the one before."""
        flags = {"keda": bool(self.look.get("keda", True)), "balancer": bool(self.look.get("balancer", True))}
        return [self.chain(name) for name in component_settings.chain_names(self.component, **flags)]

    def chain(self, name: str) -> Chain:
        """One chain: what its role remembers, and what is asked now on top."""
        usual = declared.declare(name, Ground(self.where, self.cluster))
        if not usual.remembers:
            return usual
        kept = chain_steps.choices(iam_roles.find(self.where.aws, usual.role))
        asked = {key: str(self.ask[key]) for key in usual.remembers if self.ask.get(key)}
        return declared.declare(name, Ground(self.where, self.cluster, {**kept, **asked}))


def scene(room: Room, run: Run, name: str | None = None) -> Scene:
    """The scene of a run's own feature, or of one that it needs (about which nothing was asked)."""
    where = site(room, run.spec)
    cluster = eks.get_cluster(where.aws, where.eks_cluster)
    kube: KubeCluster = room.kube.cluster(eks.ref(cluster, where.aws.region))
    own = getattr(run.spec, "feature", None)
    ask = run.spec.ask if name in (None, own) and hasattr(run.spec, "ask") else {}
    return Scene(room, run, where, cluster, kube, COMPONENTS[name or str(own)], ask)


def release(here: Scene) -> Release:
    """The component's pinned bundle for this place."""
    facts = {
        "region": here.where.aws.region,
        "partition": here.where.aws.partition,
        "account": here.where.names.account,
        "cluster": here.where.eks_cluster,
        "dns_suffix": here.where.aws.dns_suffix,
    }
    return here.room.bundles.get(here.component.source).release(facts)
