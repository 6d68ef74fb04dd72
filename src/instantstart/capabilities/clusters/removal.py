"""The stages of a deletion: dependants first, each resumable, nothing removed that is not ours.

The order is aws-facts A5 and A1.7: HyperPod before the roles and subnets its nodes need to leave by, the network last.
"""

from __future__ import annotations

from typing import Any

from instantstart.base import names, problems
from instantstart.base.outcome import Done, Outcome, Wait, pace
from instantstart.capabilities.room import Room
from instantstart.ensure import eks, stacks
from instantstart.ensure.capacity import hyperpod
from instantstart.ensure.clusters import belongings
from instantstart.ensure.iam import identity
from instantstart.ensure.networking import compute_group, leftovers, network
from instantstart.ensure.sites import Site, site
from instantstart.ensure.storage import buckets, filesystems, outside
from instantstart.operations.declare import Run

#: how long the API server may be away before its load balancers are looked for by tag instead
_API_GRACE_SECONDS = 120.0
#: how long something that should go by itself may stay before its owner is named
_PATIENCE_SECONDS = 180.0
#: how often CloudFormation is asked again for one try of the stage (case 5: a group may be held for ten minutes by what is going)
_MOST_DELETIONS = 5


def survey(room: Room, run: Run) -> Outcome:
    """Write down what the later stages need once the cluster itself is gone."""
    where = site(room, run.spec)
    cluster = eks.find_cluster(where.aws, where.eks_cluster)
    stack = stacks.find_stack(where.aws, where.names.stack)
    if stack:
        stacks.check_ours(stack, where.tag)
    if not run.spec.delete_data and not where.imported:
        _check_file_systems(where)
    theirs = cluster if cluster and where.imported else None  # it stays, but what of it is ours lies in its VPC
    if cluster and (where.imported or cluster.get("tags", {}).get(names.CLUSTER_TAG) != where.tag):
        cluster = None  # somebody else's: it is why ours was never made, and is not looked at any more
    place = cluster or theirs
    vpc_id = place["resourcesVpcConfig"]["vpcId"] if place else stack.outputs.get("VpcId") if stack else None
    vpc_id = vpc_id or (network.find_tagged_vpc(where.aws, where.tag))
    ours = identity.list_our_oidc_providers(where.aws, where.tag)
    return Done({"vpc_id": vpc_id, "has_eks": cluster is not None, "stays": theirs and theirs["name"], "providers": ours})


def _check_file_systems(where: Site) -> None:
    """A file system of ours lies in the compute subnet: it cannot outlive the network, and its data is not ours to drop unasked."""
    made = filesystems.list_made(where.aws, where.tag)
    if made:
        told = ", ".join(f"{f.id} (claim {f.tags[filesystems.CLAIM_TAG]}, {f.size_gib} GiB)" for f in made[:5])
        raise problems.Blocked(
            "cluster.holds_data",
            f"FSx file systems made for this cluster hold data and cannot outlive its network: {told}. Nothing was deleted.",
            hint="Save what is needed and remove the volumes with delete_file_system, then retry; or delete the cluster with delete_data.",
            evidence={"file_systems": [f.id for f in made]},
        )


def release_services(room: Room, run: Run) -> Outcome:
    """Remove what in Kubernetes owns something outside: load balancers, volumes. No draining: everything goes (case 7)."""
    where = site(room, run.spec)
    cluster = eks.find_cluster(where.aws, where.eks_cluster) if run.learned["survey"]["has_eks"] else None
    if cluster is None or cluster["status"] not in ("ACTIVE", "UPDATING"):
        return Done(already=True)
    try:
        left = outside.release_step(room.kube.cluster(eks.ref(cluster, where.aws.region)))
    except (problems.Unreachable, problems.Denied, problems.Busy) as problem:
        if run.waited_seconds < _API_GRACE_SECONDS:
            return Wait(10, f"The API server is asked again: {problem.detail}")
        told = "The API server could not be asked; its load balancers are looked for by tag instead."
        return Done({"unreachable": problem.detail}, note=f"{told} {problem.detail}")
    if left and run.waited_seconds < _PATIENCE_SECONDS:
        return Wait(5, f"Waiting for {', '.join(left[:5])} to be released")
    note = f"Not released in time, so looked for by tag instead: {', '.join(left[:5])}" if left else None
    return Done({"not_released": left}, note=note)


def remove_hyperpod(room: Room, run: Run) -> Outcome:
    """The HyperPod cluster, to the end: roles and subnets must outlive it, or it hangs in Deleting."""
    where = site(room, run.spec)
    have = hyperpod.find_cluster(where.aws, where.hyperpod_cluster)
    if have is None:
        return Done(already=run.waited_seconds < 5)
    try:
        return _delete_hyperpod(where, run, have)
    except problems.NotFound:  # its deletion ended between two of our calls
        return Wait(1, "The HyperPod cluster has just gone")


def _delete_hyperpod(where: Site, run: Run, have: dict[str, Any]) -> Outcome:
    if not hyperpod.is_ours(where.aws, have, where.tag):
        return Done(already=True, note=f"{have['ClusterName']} was not made for {where.tag} and is left alone.")
    if have["ClusterStatus"] == "Deleting":
        stuck = hyperpod.stuck_reason(where.aws, have["ClusterName"])
        return Wait(pace(run.waited_seconds, 240), f"SageMaker is deleting the nodes{f'; it says: {stuck}' if stuck else ''}")
    held = where.aws.remove("sagemaker", "delete_cluster", ClusterName=have["ClusterName"])
    if held:
        return Wait(15, f"The HyperPod cluster is {have['ClusterStatus']} and cannot be deleted yet: {held}")
    return Wait(10, "SageMaker took the deletion")


def remove_inside(room: Room, run: Run) -> Outcome:
    """What is ours inside an imported cluster, which stays: claims, dependencies, add-ons."""
    where = site(room, run.spec)
    if not run.learned["survey"]["stays"]:
        return Done(already=True)
    return belongings.remove_inside(where, where.kube(room), where.dependencies(room))


def remove_access(room: Room, run: Run) -> Outcome:
    """Our own way into an imported cluster, when we had made it: last, as all the rest inside needs it."""
    where = site(room, run.spec)
    return (belongings.remove_access(where) if run.learned["survey"]["stays"] else None) or Done()


def remove_leftovers(room: Room, run: Run) -> Outcome:
    """Load balancers, interfaces and groups that Kubernetes made and nobody removed. Those of a cluster that stays are its own."""
    where = site(room, run.spec)
    going = filesystems.remove_made_step(where.aws, where.tag, run.token("file-system")) if run.spec.delete_data else None
    if going or where.imported:
        return going or Done(already=True)
    place = _vpc(where, run)
    return (leftovers.remove_step(where.aws, place) if place else None) or Done()


def _vpc(where: Site, run: Run) -> leftovers.Vpc | None:
    vpc_id = run.learned["survey"]["vpc_id"]
    return leftovers.look(where.aws, vpc_id, where.eks_cluster, where.tag) if vpc_id else None


def remove_subnets(room: Room, run: Run) -> Outcome:
    """The compute subnets and route tables that are ours; what somebody else put into them is named, not removed."""
    where = site(room, run.spec)
    place = _vpc(where, run)
    step = network.remove_compute_subnet_step(where.aws, place.vpc_id, where.tag) if place else None
    if place and step is None:
        step = network.remove_endpoint_step(where.aws, place.vpc_id, where.tag)
        step = step or compute_group.remove_step(where.aws, place.vpc_id, where.tag)
    if place and step and run.waited_seconds > _PATIENCE_SECONDS:
        ours = {s.subnet_id for s in network.list_subnets(where.aws, place.vpc_id) if s.tags.get(names.CLUSTER_TAG) == where.tag}
        found = leftovers.blockers(where.aws, place, ours)
        if found:
            told = "; ".join(f"{b.kind} {b.resource} ({b.why})" for b in found[:5])
            raise problems.Blocked(
                "cluster.delete_blocked",
                f"A compute subnet cannot be removed because of {told}.",
                hint="What is named was not made by InstantStart. Remove it, then retry the deletion.",
                evidence={"blockers": [vars(b) for b in found]},
            )
    return step or Done()


def remove_stack(room: Room, run: Run) -> Outcome:
    """The stack, or each thing that keeps it and why that is not ours to delete."""
    where = site(room, run.spec)
    stack = stacks.find_stack(where.aws, where.names.stack)
    if stack is None:
        return Done(already=run.waited_seconds < 5)
    stacks.check_ours(stack, where.tag)
    if stack.status == "DELETE_FAILED":
        return _delete_again(where, run, stack)
    if stack.status == "CREATE_IN_PROGRESS" or not stack.is_going:
        stacks.delete_stack(where.aws, stack.name, run.token("delete"))
        return Wait(10, "CloudFormation took the deletion")
    return Wait(pace(run.waited_seconds, 420), f"CloudFormation: {stack.status}{_removing(where, stack)}")


def _removing(where: Site, stack: stacks.Stack) -> str:
    step = stacks.latest_step(where.aws, stack.stack_id)
    return f", removing {step}" if step else ""


def _delete_again(where: Site, run: Run, stack: stacks.Stack) -> Outcome:
    """A deletion failed: free what is ours to free and ask again while that helps; else name what is in the way."""
    place = _vpc(where, run)
    step = leftovers.remove_step(where.aws, place) if place else None
    if step:
        return step
    asked = stacks.tokens(where.aws, stack.stack_id)
    again = next((t for t in (run.token(f"again-{n}") for n in range(_MOST_DELETIONS)) if t not in asked), None)
    if again is None or (place and leftovers.blockers(where.aws, place)):
        raise leftovers.refusal(where.aws, stack, place)
    stacks.delete_stack(where.aws, stack.name, again)
    last = stacks.last_failure(where.aws, stack.stack_id)
    why = f": {last['type']} {last['resource']}: {last['reason']}" if last else ""
    return Wait(20, f"CloudFormation could not remove everything and is asked again{why}")


def remove_identity(room: Room, run: Run) -> Outcome:
    """The roles and the OIDC provider that are ours."""
    where = site(room, run.spec)
    for role in where.names.roles():
        step = identity.remove_role(where.aws, role, where.tag)
        if step:
            return step
    for provider in run.learned["survey"]["providers"]:
        step = identity.remove_oidc_provider(where.aws, provider, where.tag)
        if step:
            return step
    return Done()


def remove_buckets(room: Room, run: Run) -> Outcome:
    """The script bucket always; the data bucket when it is empty or its loss was asked for. Data that is kept is named."""
    where, data = site(room, run.spec), site(room, run.spec).names.data_bucket
    for bucket in (where.names.scripts_bucket, where.names.tls_bucket):
        step = buckets.remove_bucket(where.aws, bucket, where.tag)
        if step:
            return step
    if not run.spec.delete_data and buckets.holds_data(where.aws, data, where.tag):
        return Done({"kept": [f"bucket {data}"]}, note=f"The bucket {data} holds data and is kept; delete_data would remove it.")
    return buckets.remove_bucket(where.aws, data, where.tag) or Done({"kept": []})


def sign_off(room: Room, run: Run) -> Outcome:
    """Look once more for anything that carries the tag, then strike the cluster off the register."""
    where = site(room, run.spec)
    left = leftovers.tagged(where.aws, where.tag)
    if left and run.waited_seconds < 120:
        return Wait(10, f"Still listed: {', '.join(left[:3])}")
    if left:
        raise problems.Blocked(
            "cluster.not_empty",
            f"Something with the tag {where.tag} is left: {', '.join(left[:10])}.",
            hint="Look at what it is and remove it, then retry.",
            evidence={"left": left},
        )
    room.store.clusters.delete(where.tag)
    return Done({"tag": where.tag, "region": where.aws.region, "left": [], "kept": run.learned["buckets"]["kept"]})
