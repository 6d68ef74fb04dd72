"""Which clusters of a region could be imported, and why the others cannot."""

from __future__ import annotations

from dataclasses import dataclass

from instantstart.base import names
from instantstart.capabilities.room import Room
from instantstart.ensure.clusters import census


@dataclass(frozen=True)
class Candidate:
    """One cluster that AWS lists. ``why`` says why it cannot be imported, or that it is on the list already (as ``tag``)."""

    region: str
    eks_name: str | None
    eks_arn: str | None
    eks_status: str | None
    kubernetes_version: str | None
    hyperpod_name: str | None
    hyperpod_arn: str | None
    hyperpod_status: str | None
    importable: bool
    why: str | None
    tag: str | None
    suggested_tag: str | None


@dataclass(frozen=True)
class CandidateList:
    """Every cluster of the region that is no cluster of ours yet comes first."""

    account: str
    region: str
    items: tuple[Candidate, ...]


def list_candidates(room: Room, region: str | None) -> CandidateList:
    """Every EKS and HyperPod cluster of the region, importable ones first, then by name."""
    aws = room.aws.region(region)
    registered = {row.eks_name: row.tag for row in room.store.clusters.list() if row.origin == "imported" and row.region == aws.region}
    listed = {row.tag for row in room.store.clusters.list() if row.region == aws.region}
    found = [_candidate(entry, registered, listed) for entry in census.read(aws)]
    found.sort(key=lambda c: (not c.importable, c.eks_name or c.hyperpod_name or ""))
    return CandidateList(aws.identity().account, aws.region, tuple(found))


def _candidate(entry: census.Entry, registered: dict[str | None, str], listed: set[str]) -> Candidate:
    cluster, pod = entry.eks or {}, entry.hyperpod or {}
    own, name = entry.tags.get(names.CLUSTER_TAG), cluster.get("name")
    tag = registered.get(name) or (own if own in listed else None)
    why = _why_not(entry, tag)
    return Candidate(
        region=entry.region,
        eks_name=name,
        eks_arn=cluster.get("arn"),
        eks_status=cluster.get("status"),
        kubernetes_version=cluster.get("version"),
        hyperpod_name=pod.get("ClusterName") or (entry.name if not cluster else None),
        hyperpod_arn=pod.get("ClusterArn"),
        hyperpod_status=pod.get("ClusterStatus"),
        importable=why is None,
        why=why,
        tag=tag,
        suggested_tag=None if why else own or names.suggest(str(name)) or None,
    )


def _why_not(entry: census.Entry, tag: str | None) -> str | None:
    if entry.unreadable:
        return f"It cannot be read: {entry.unreadable}"
    if entry.is_slurm:
        return "A Slurm cluster: not managed here."
    if entry.eks is None:
        return "Its EKS cluster is not there any more."
    if tag is not None:
        return f"It is on the list as {tag}."
    return None if entry.eks["status"] in ("ACTIVE", "UPDATING") else f"Its EKS cluster is {entry.eks['status']}."
