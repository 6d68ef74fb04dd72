"""The stages of an import: each does nothing unless its switch is on; the last reads everything anew."""

from __future__ import annotations

import dataclasses

from instantstart.base import problems
from instantstart.base.outcome import Done, Outcome, Wait
from instantstart.capabilities.clusters.imports import rules
from instantstart.capabilities.room import Room
from instantstart.ensure import eks
from instantstart.ensure.iam import identity
from instantstart.ensure.networking import network_plugin
from instantstart.ensure.sites import site
from instantstart.operations.declare import Run

#: how long a new access entry may take to count (AWS's Terraform modules wait ten seconds)
_ACCESS_GRACE = 120.0


def look(room: Room, run: Run) -> Outcome:
    """See that the cluster is still there, and under this tag."""
    where = site(room, run.spec)
    row = room.store.clusters.find(where.tag)
    if row is None or row.eks_arn != run.spec.eks_arn:
        raise problems.Conflict(
            "import.forgotten", f"{where.tag} was taken off the list while it was being imported.", hint="Import it again."
        )
    cluster = eks.get_cluster(where.aws, where.eks_cluster)
    return Done({"eks_arn": cluster["arn"], "status": cluster["status"], "version": cluster["version"]})


def set_authentication_mode(room: Room, run: Run) -> Outcome:
    """From CONFIG_MAP to API_AND_CONFIG_MAP, to its end; EKS does not let it go back."""
    where = site(room, run.spec)
    cluster = eks.get_cluster(where.aws, where.eks_cluster)
    if cluster["status"] == "UPDATING":
        return Wait(10, "EKS is updating the cluster")
    if cluster.get("accessConfig", {}).get("authenticationMode", "CONFIG_MAP") != "CONFIG_MAP":
        return Done(already=run.waited_seconds < 1)
    where.aws.write(
        "eks",
        "update_cluster_config",
        name=cluster["name"],
        accessConfig={"authenticationMode": "API_AND_CONFIG_MAP"},
        clientRequestToken=run.token("mode"),
    )
    return Wait(10, "Asked EKS for the authentication mode API_AND_CONFIG_MAP")


def make_access_entry(room: Room, run: Run) -> Outcome:
    """An access entry for our own principal, and the first answer of the API server to it."""
    where = site(room, run.spec)
    made = identity.ensure_access_entry(where.aws, where.eks_cluster, where.aws.identity().principal_arn, where.tags, run.token("entry"))
    if isinstance(made, Wait):
        return made
    try:
        where.kube(room).list("Namespace")
    except problems.Denied as problem:
        if run.waited_seconds > _ACCESS_GRACE:
            raise
        return Wait(2, f"The new access entry is not in force yet: {problem.detail}")
    return made


def mend_network_plugin(room: Room, run: Run) -> Outcome:
    """The VPC network plugin as asked: its version, ENABLE_PREFIX_DELEGATION, or both."""
    where, spec = site(room, run.spec), run.spec
    wanted = network_plugin.Wanted(newest=spec.update_network_plugin, prefix_delegation=spec.enable_prefix_delegation)
    cluster = eks.get_cluster(where.aws, where.eks_cluster)
    return network_plugin.ensure(where.aws, where.kube(room), cluster, wanted, run.token("plugin"))


def look_again(room: Room, run: Run) -> Outcome:
    """Read everything anew: what is good, and what is left to mend with the cure of each."""
    where = site(room, run.spec)
    found = rules.findings(rules.observe(room, where))
    left = [f.detail for f in found if f.level == "fail"]
    result = {
        "tag": where.tag,
        "account": where.names.account,
        "region": where.aws.region,
        "eks": where.eks_cluster,
        "hyperpod": run.spec.hyperpod_cluster,
        "ready": not left,
        "findings": [dataclasses.asdict(f) for f in found],
    }
    return Done(result, note=f"Imported; to be mended before HyperPod can be used: {' '.join(left)}" if left else "Imported; it fits.")
