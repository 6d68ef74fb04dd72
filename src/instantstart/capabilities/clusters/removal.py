"""The stages of a deletion: dependants first, each resumable, nothing removed that is not ours.

The order is aws-facts A5 and A1.7: HyperPod before the roles and subnets its nodes need to leave by, the network last.
"""

from __future__ import annotations

from typing import Any

from instantstart.base import problems
from instantstart.base.outcome import Done, Outcome, Wait, pace
from instantstart.capabilities.clusters.rules import Site, site
from instantstart.capabilities.room import Room
from instantstart.ensure import buckets, eks, hyperpod, identity, leftovers, network, outside, stacks
from instantstart.operations.declare import Run


def survey(room: Room, run: Run) -> Outcome:
    """Write down what the later stages need once the cluster itself is gone."""
    where = site(room, run.spec)
    cluster = eks.find_cluster(where.aws, where.names.eks_cluster)
    if cluster:
        eks.check_ours(cluster, where.tag)
    stack = stacks.find_stack(where.aws, where.names.stack)
    if stack:
        stacks.check_ours(stack, where.tag)
    vpc_id = cluster["resourcesVpcConfig"]["vpcId"] if cluster else stack.outputs.get("VpcId") if stack else None
    vpc_id = vpc_id or (network.find_tagged_vpc(where.aws, where.tag))
    return Done({"vpc_id": vpc_id, "has_eks": cluster is not None, "providers": identity.list_our_oidc_providers(where.aws, where.tag)})


def release_services(room: Room, run: Run) -> Outcome:
    """Remove what in Kubernetes owns something outside: load balancers, volumes. No draining: everything goes."""
    where = site(room, run.spec)
    cluster = eks.find_cluster(where.aws, where.names.eks_cluster)
    if cluster is None or cluster["status"] not in ("ACTIVE", "UPDATING"):
        return Done(already=True)
    try:
        left = outside.release_step(room.kube.cluster(eks.ref(cluster, where.aws.region)))
    except (problems.Unreachable, problems.Denied) as problem:
        return Done(
            {"unreachable": problem.detail}, note="The API server could not be asked; its load balancers are looked for by tag instead."
        )
    return Wait(5, f"Waiting for {', '.join(left[:5])} to be released") if left else Done()


def remove_hyperpod(room: Room, run: Run) -> Outcome:
    """The HyperPod cluster, to the end: roles and subnets must outlive it, or it hangs in Deleting."""
    where = site(room, run.spec)
    have = hyperpod.find_cluster(where.aws, where.names.hyperpod_cluster)
    if have is None:
        return Done(already=run.waited_seconds < 5)
    try:
        return _delete_hyperpod(where, run, have)
    except problems.NotFound:  # its deletion ended between two of our calls
        return Wait(1, "The HyperPod cluster has just gone")


def _delete_hyperpod(where: Site, run: Run, have: dict[str, Any]) -> Outcome:
    hyperpod.check_ours(where.aws, have, where.tag)
    if have["ClusterStatus"] == "Deleting":
        stuck = hyperpod.stuck_reason(where.aws, have["ClusterName"])
        return Wait(pace(run.waited_seconds, 240), f"SageMaker is deleting the nodes{f'; it says: {stuck}' if stuck else ''}")
    try:
        where.aws.write("sagemaker", "delete_cluster", ClusterName=have["ClusterName"])
    except problems.Conflict as problem:
        return Wait(15, f"The HyperPod cluster is {have['ClusterStatus']} and cannot be deleted yet: {problem.detail}")
    return Wait(10, "SageMaker took the deletion")


def remove_leftovers(room: Room, run: Run) -> Outcome:
    """Load balancers, interfaces and groups that Kubernetes made and nobody removed."""
    where, vpc_id = site(room, run.spec), run.learned["survey"]["vpc_id"]
    return (leftovers.remove_step(where.aws, vpc_id, where.names.eks_cluster) if vpc_id else None) or Done()


def remove_subnets(room: Room, run: Run) -> Outcome:
    """The compute subnets and route tables that are ours."""
    where, vpc_id = site(room, run.spec), run.learned["survey"]["vpc_id"]
    return (network.remove_compute_subnet_step(where.aws, vpc_id, where.tag) if vpc_id else None) or Done()


def remove_stack(room: Room, run: Run) -> Outcome:
    """The stack, or each thing that keeps it and why that is not ours to delete."""
    where, vpc_id = site(room, run.spec), run.learned["survey"]["vpc_id"]
    stack = stacks.find_stack(where.aws, where.names.stack)
    if stack is None:
        return Done(already=run.waited_seconds < 5)
    mine = f"{run.id}-{run.attempt}"
    if stack.status == "DELETE_FAILED" and run.waited_seconds > 60:
        step = leftovers.remove_step(where.aws, vpc_id, where.names.eks_cluster) if vpc_id else None
        if step:
            return step
        raise leftovers.refusal(where.aws, stack, vpc_id, where.names.eks_cluster)
    if not stack.status.startswith("DELETE"):
        stacks.delete_stack(where.aws, stack.name, run.token(f"delete-{mine}"))
        return Wait(10, "CloudFormation took the deletion")
    if stack.status == "DELETE_FAILED":
        stacks.delete_stack(where.aws, stack.name, run.token(f"again-{mine}"))
    return Wait(pace(run.waited_seconds, 420), f"CloudFormation: {stack.status}")


def remove_identity(room: Room, run: Run) -> Outcome:
    """The roles and the OIDC provider that are ours."""
    where = site(room, run.spec)
    for role in (where.names.execution_role, where.names.s3_csi_role):
        step = identity.remove_role(where.aws, role, where.tag)
        if step:
            return step
    for provider in run.learned["survey"]["providers"]:
        step = identity.remove_oidc_provider(where.aws, provider, where.tag)
        if step:
            return step
    return Done()


def remove_buckets(room: Room, run: Run) -> Outcome:
    """The script bucket always; the data bucket when it is empty or its loss was asked for."""
    where = site(room, run.spec)
    step = buckets.remove_bucket(where.aws, where.names.scripts_bucket, where.tag, with_contents=True)
    return step or buckets.remove_bucket(where.aws, where.names.data_bucket, where.tag, with_contents=run.spec.delete_data) or Done()


def sign_off(room: Room, run: Run) -> Outcome:
    """Look once more for anything that carries the tag, then strike the cluster off the register."""
    where = site(room, run.spec)
    left = leftovers.tagged(where.aws, where.tag)
    if left and run.waited_seconds < 120:
        return Wait(10, f"Still listed: {', '.join(left[:3])}")
    if left:
        raise problems.Blocked(
            "cluster.not_empty", f"Something with the tag {where.tag} is left: {', '.join(left[:10])}.", evidence={"left": left}
        )
    room.store.clusters.delete(where.tag)
    return Done({"tag": where.tag, "region": where.aws.region, "left": []})
