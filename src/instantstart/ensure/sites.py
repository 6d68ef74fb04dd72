"""Where one cluster lives: its region of AWS, the names derived from its tag, what its AWS objects are really called.

``room`` is the Room of capabilities/room.py, which this floor may not import: it needs ``aws``, ``store`` and ``settings``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from instantstart.aws.session import Aws
from instantstart.base import names, problems
from instantstart.ensure import eks, stacks
from instantstart.ensure.installs.releases import Release
from instantstart.kube.client import KubeCluster
from instantstart.store.records import ClusterRow

#: the set of bundles that HyperPod needs before it makes a cluster
_DEPENDENCIES = "hyperpod-dependencies"


@dataclass(frozen=True)
class Site:
    """Where one cluster lives: AWS in its region, and every name derived from its tag."""

    aws: Aws
    names: names.Names
    #: tags that the organisation asks for on everything (settings)
    extra_tags: Mapping[str, str] = field(default_factory=dict)
    #: the permissions boundary of every role (settings), or None
    boundary: str | None = None
    #: the names of a cluster that others made and we imported; None: the derived ones
    eks_name: str | None = None
    hyperpod_name: str | None = None

    @property
    def tag(self) -> str:
        return self.names.tag

    @property
    def eks_cluster(self) -> str:
        """What the EKS cluster is called."""
        return self.eks_name or self.names.eks_cluster

    @property
    def hyperpod_cluster(self) -> str:
        """What the HyperPod cluster is called."""
        return self.hyperpod_name or self.names.hyperpod_cluster

    @property
    def imported(self) -> bool:
        """Whether others made the cluster: what does not bear our tags is then never ours to delete."""
        return self.eks_name is not None

    @cached_property
    def tags(self) -> dict[str, str]:
        return {**self.extra_tags, **self.names.tags()}

    def kube(self, room: Any) -> KubeCluster:
        """Its Kubernetes. Raises NotFound when there is no EKS cluster; the connection itself is made on first use."""
        found: KubeCluster = room.kube.cluster(eks.ref(eks.get_cluster(self.aws, self.eks_cluster), self.aws.region))
        return found

    def dependencies(self, room: Any) -> list[Release]:
        """The pinned HyperPod dependencies for this place. Raises NotFound that says where bundles are looked for when there are none."""
        facts = {
            "region": self.aws.region,
            "partition": self.aws.partition,
            "account": self.names.account,
            "cluster": self.eks_cluster,
            "dns_suffix": self.aws.dns_suffix,
        }
        found = room.bundles.in_set(_DEPENDENCIES)
        if not found:
            room.bundles.get(_DEPENDENCIES)
        return [bundle.release(facts) for bundle in found]


def site(room: Any, spec: Any) -> Site:
    """The site of a spec that has ``tag`` and ``region``."""
    return _placed(room, spec.tag, spec.region, room.store.clusters.find(spec.tag))


def find(room: Any, tag: str) -> Site:
    """Where a cluster of ours lives: by the register, else by the tag on its EKS cluster in the default region.

    Raises Invalid for what is no tag, NotFound that says where was looked.
    """
    wrong = names.check_tag(tag)
    if wrong:
        raise problems.Invalid("cluster.tag_invalid", wrong.message, fields=[wrong])
    row = room.store.clusters.find(tag)
    where = _placed(room, tag, row.region if row else room.aws.region().region, row)
    if row is None and not _is_ours(where):
        raise problems.NotFound(
            "cluster.unknown",
            f"There is no cluster {tag} of InstantStart in account {where.names.account}, region {where.aws.region}.",
            hint="List the clusters; one in another region must be imported or created from here first.",
        )
    return where


def placed(room: Any, row: ClusterRow) -> Site:
    """The site of a line of the register, also of one that is not written yet."""
    return _placed(room, row.tag, row.region, row)


def _placed(room: Any, tag: str, region: str, row: ClusterRow | None) -> Site:
    aws = room.aws.region(region)
    extra = dict(pair.split("=", 1) for pair in room.settings.tags.split(",") if pair)
    imported = row is not None and row.origin == "imported" and row.region == region
    given = (row.eks_name, row.hyperpod_name) if row and imported else (None, None)
    return Site(aws, names.Names(tag, region, aws.identity().account), extra, room.settings.permissions_boundary, *given)


def _is_ours(where: Site) -> bool:
    """Whether EKS cluster or stack bear our tag: a lost register loses no cluster, and a failed creation can be deleted (case 1)."""
    found = eks.find_cluster(where.aws, where.names.eks_cluster)
    stack = None if found else stacks.find_stack(where.aws, where.names.stack)
    tags = found.get("tags", {}) if found else stack.tags if stack else {}
    return bool(tags.get(names.CLUSTER_TAG) == where.tag)
