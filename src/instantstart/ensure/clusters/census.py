"""Every EKS and HyperPod cluster of a region, joined by what orchestrates what; one that cannot be described hides no other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from instantstart.aws.session import Aws
from instantstart.base import problems
from instantstart.ensure import eks
from instantstart.ensure.capacity import hyperpod

_KEPT_SECONDS = 2.0


@dataclass
class Entry:
    """What the world says of one cluster before it is named: its EKS and its HyperPod part, or why it cannot be read."""

    region: str
    eks: dict[str, Any] | None = None
    hyperpod: dict[str, Any] | None = None
    unreadable: str | None = None
    name: str = ""
    tags: dict[str, str] = field(default_factory=dict)

    @property
    def is_slurm(self) -> bool:
        """A HyperPod cluster that EKS does not orchestrate (case 15: old ones say nothing about their orchestrator)."""
        return self.hyperpod is not None and orchestrator_of(self.hyperpod) is None


def orchestrator_of(hyperpod_cluster: Mapping[str, Any]) -> str | None:
    """The ARN of the EKS cluster that orchestrates a HyperPod cluster; None for Slurm."""
    found = ((hyperpod_cluster.get("Orchestrator") or {}).get("Eks") or {}).get("ClusterArn")
    return str(found) if found else None


def read(aws: Aws) -> list[Entry]:
    """All clusters of the region; the answer is kept for two seconds, since several reads of a page want it."""
    return aws.cached("clusters", _KEPT_SECONDS, lambda: _read(aws))


def find_hyperpod(aws: Aws, eks_arn: str) -> dict[str, Any] | None:
    """The HyperPod cluster that an EKS cluster orchestrates, or None. Raises what cannot be read only when it was not found."""
    unreadable: problems.Problem | None = None
    for summary in aws.pages("sagemaker", "list_clusters", "ClusterSummaries"):
        try:
            told = hyperpod.find_cluster(aws, summary["ClusterName"])
        except problems.Problem as problem:
            unreadable = problem
            continue
        if told and orchestrator_of(told) == eks_arn:
            return told
    if unreadable is not None:
        raise unreadable
    return None


def _read(aws: Aws) -> list[Entry]:
    found = {}
    for name in aws.pages("eks", "list_clusters", "clusters"):
        entry = Entry(aws.region, name=name)
        try:
            entry.eks = eks.find_cluster(aws, name)
            entry.tags = (entry.eks or {}).get("tags", {})
        except problems.Problem as problem:
            entry.unreadable = problem.detail
        found[(entry.eks or {}).get("arn", f"eks/{name}")] = entry
    for summary in aws.pages("sagemaker", "list_clusters", "ClusterSummaries"):
        try:
            told = hyperpod.find_cluster(aws, summary["ClusterName"])
        except problems.Problem as problem:
            found[summary["ClusterArn"]] = Entry(aws.region, name=summary["ClusterName"], unreadable=problem.detail)
            continue
        arn = orchestrator_of(told or {}) or summary["ClusterArn"]
        found.setdefault(arn, Entry(aws.region, name=summary["ClusterName"])).hyperpod = told
    return list(found.values())
