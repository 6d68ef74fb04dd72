"""What of an imported cluster is ours: found by our tags and marks, told before a deletion, and taken out of a cluster that stays.

The EKS cluster, its network and whatever else others made bear no tag of ours and are never touched.
"""

from __future__ import annotations

from typing import Any

from instantstart.base import names, problems
from instantstart.base.outcome import Done, Outcome, Wait
from instantstart.ensure import eks
from instantstart.ensure.capacity import hyperpod
from instantstart.ensure.iam import identity
from instantstart.ensure.installs import addons, manifests
from instantstart.ensure.installs.releases import Release, is_ours
from instantstart.ensure.installs.releases import identity as named
from instantstart.ensure.networking import leftovers
from instantstart.ensure.sites import Site
from instantstart.ensure.storage import buckets, outside, volumes
from instantstart.kube.client import KubeCluster


def foreign_hyperpod(where: Site) -> dict[str, Any] | None:
    """The HyperPod cluster that stands there and does not bear our tag, or None."""
    have = hyperpod.find_cluster(where.aws, where.hyperpod_cluster)
    return have if have and not hyperpod.is_ours(where.aws, have, where.tag) else None


def on_aws(where: Site) -> list[str]:
    """What bears our tag in the account, each as a person calls it."""
    aws, derived = where.aws, where.names
    have = hyperpod.find_cluster(aws, where.hyperpod_cluster)
    found = [f"HyperPod cluster {where.hyperpod_cluster}"] if have and hyperpod.is_ours(aws, have, where.tag) else []
    found += [f"add-on {name}" for name in our_addons(where)]
    entry = our_access_entry(where)
    found += [f"access entry of {entry}"] if entry else []
    found += [f"role {role}" for role in (derived.execution_role, derived.s3_csi_role) if identity.is_our_role(aws, role, where.tag)]
    found += [f"OIDC provider {arn.partition('/')[2]}" for arn in identity.list_our_oidc_providers(aws, where.tag)]
    found += [f"bucket {name}" for name in (derived.scripts_bucket, derived.data_bucket) if buckets.is_ours(aws, name, where.tag)]
    return found + sorted(set(leftovers.tagged(aws, where.tag)))


def in_kubernetes(kube: KubeCluster, releases: list[Release]) -> list[str]:
    """What bears our mark inside the cluster: claims, and the objects of our bundles."""
    found = [f"claim {claim['namespace']}/{claim['claim']}" for claim in outside.list_s3_claims(kube)]
    for release in releases:
        for resource in release.resources:
            metadata = resource["metadata"]
            live = kube.find(f"{resource['apiVersion']}/{resource['kind']}", metadata["name"], metadata.get("namespace"))
            if live is not None and is_ours(live) and resource["kind"] != "Namespace":
                found.append(named(live))
    return found


def remove_inside(where: Site, kube: KubeCluster, releases: list[Release]) -> Outcome:
    """Move one step towards nothing of ours being left in the cluster; our own access goes last. Raises what is in use."""
    for claim in outside.list_s3_claims(kube):
        gone = volumes.remove(kube, volumes.S3Volume(claim["claim"], claim["namespace"], claim["bucket"], where.aws.region))
        return gone if isinstance(gone, Wait) else Wait(0, f"Removed the claim {claim['namespace']}/{claim['claim']}")
    for release in reversed(releases):
        gone = manifests.remove(kube, release)
        if isinstance(gone, Wait):
            return gone
    for name in our_addons(where):
        held = where.aws.remove("eks", "delete_addon", clusterName=where.eks_cluster, addonName=name, preserve=False)
        return Wait(5, f"Removing the add-on {name}" + (f": {held}" if held else ""))
    return Done()


def remove_access(where: Site) -> Wait | None:
    """Take our access entry out, and the one that SageMaker made for our nodes' role; None when there is none of ours."""
    role = where.aws.arn("iam", f"role/{where.names.execution_role}", regional=False)
    entries = (role if _entry(where, role) else None, our_access_entry(where))
    for entry in entries:
        if entry is not None:
            where.aws.remove("eks", "delete_access_entry", clusterName=where.eks_cluster, principalArn=entry)
            return Wait(1, f"Removed the access entry of {entry}")
    return None


def our_addons(where: Site) -> list[str]:
    """The add-ons that bear our tag; none when the cluster is gone."""
    try:
        listed = where.aws.pages("eks", "list_addons", "addons", clusterName=where.eks_cluster)
    except problems.NotFound:
        return []
    told = [addons.find(where.aws, where.eks_cluster, name) for name in listed]
    return [a["addonName"] for a in told if a and a.get("tags", {}).get(names.CLUSTER_TAG) == where.tag]


def our_access_entry(where: Site) -> str | None:
    """The principal of the access entry that we made for ourselves, or None."""
    principal = where.aws.identity().principal_arn
    told = _entry(where, principal)
    return principal if told and told.get("tags", {}).get(names.CLUSTER_TAG) == where.tag else None


def _entry(where: Site, principal: str) -> dict[str, Any] | None:
    try:
        told = where.aws.read("eks", "describe_access_entry", clusterName=where.eks_cluster, principalArn=principal)
    except (problems.NotFound, problems.Conflict, problems.Invalid):  # no cluster, no entry, or a cluster that keeps none
        return None
    return dict(told["accessEntry"])


def check_deletable(where: Site) -> None:
    """Raise Conflict when an imported cluster holds nothing that is ours to delete, or a HyperPod cluster of others rests on what is."""
    foreign = foreign_hyperpod(where)
    if foreign is None and (on_aws(where) or eks.find_cluster(where.aws, where.eks_cluster) is None):
        return
    why = f"the HyperPod cluster {foreign['ClusterName']} was made by others" if foreign else "nothing of it was made by InstantStart"
    raise problems.Conflict(
        "cluster.not_ours_to_delete",
        f"{where.tag} was imported, and {why}: it is not deleted from here.",
        hint="Forget it: it goes off the list, and nothing on AWS changes.",
        evidence={"eks_cluster": where.eks_cluster, "hyperpod_cluster": foreign["ClusterName"] if foreign else None},
    )
