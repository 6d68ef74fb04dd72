"""Stages of the HyperPod cluster: its role and scripts, the ask, its nodes, and Kubernetes seeing them."""

from __future__ import annotations

from functools import partial
from typing import Any

from instantstart.base import names, problems
from instantstart.base.outcome import Done, Outcome, Progress, Wait, pace
from instantstart.capabilities.clusters.stages import kube_of, tags_of_this_try
from instantstart.capabilities.room import Room
from instantstart.ensure import eks, stacks
from instantstart.ensure.capacity import hyperpod, nodes, offers, scripts, shortages
from instantstart.ensure.iam import identity
from instantstart.ensure.networking import compute_group, network
from instantstart.ensure.sites import Site, site
from instantstart.ensure.storage import buckets
from instantstart.operations.declare import Run

HYPERPOD_TYPICAL, NODES_TYPICAL, JOIN_TYPICAL = 300.0, 60.0, 60.0


def make_node_role(room: Room, run: Run) -> Outcome:
    """The execution role of the nodes: also what HyperPod itself uses to remove their interfaces at the end."""
    where = site(room, run.spec)
    wanted = hyperpod.node_role(where.aws, where.names, where.eks_cluster, where.boundary)
    return identity.ensure_role(where.aws, wanted, where.tags)


def make_scripts(room: Room, run: Run) -> Outcome:
    """The lifecycle script bucket, and every script in it, verified before SageMaker is asked."""
    where = site(room, run.spec)
    outcome = buckets.ensure_bucket(where.aws, where.names.scripts_bucket, where.tags)
    if isinstance(outcome, Wait):
        return outcome
    contents = scripts.contents()
    missing = buckets.missing_objects(where.aws, where.names.scripts_bucket, contents)
    if missing:
        buckets.put_object(where.aws, where.names.scripts_bucket, missing[0], contents[missing[0]])
        return Wait(0, f"Wrote {missing[0]}")
    return Done({"uri": scripts.uri(where.names.scripts_bucket), "objects": sorted(contents)})


def place_subnet(room: Room, run: Run) -> Outcome:
    """The compute subnet of the zone: the asked one, the shared one, or a new one with a way out and a way to S3."""
    where, spec = site(room, run.spec), run.spec
    zone = offers.find_zone(where.aws, spec.zone)
    if zone is None:
        raise problems.Invalid("zone.unknown", f"{spec.zone} is no zone this account can use in {where.aws.region}.")
    vpc_id = eks.get_cluster(where.aws, where.eks_cluster)["resourcesVpcConfig"]["vpcId"]
    return network.ensure_compute_subnet(where.aws, vpc_id, zone.zone_id, spec.subnet_id, where.tags, run.token("subnet"))


def request_cluster(room: Room, run: Run) -> Outcome:
    """Ask SageMaker once: the derived name is the token, our tag says whose it is."""
    where = site(room, run.spec)
    have = hyperpod.find_cluster(where.aws, where.hyperpod_cluster)
    if have is None:
        return _create_hyperpod(where, run)
    where.aws.cached(f"ours {have['ClusterArn']}", 60, lambda: hyperpod.check_ours(where.aws, have, where.tag))
    status = have["ClusterStatus"]
    if status == "Failed":
        return _clear_failed(where, run, have)
    if status == "InService":
        return Done({"hyperpod_arn": have["ClusterArn"], "hyperpod_name": have["ClusterName"]})
    return Wait(pace(run.waited_seconds, HYPERPOD_TYPICAL), f"The HyperPod cluster is {status}")


def _create_hyperpod(where: Site, run: Run) -> Wait:
    cluster = eks.get_cluster(where.aws, where.eks_cluster)
    stack = stacks.find_stack(where.aws, where.names.stack)
    vpc = cluster["resourcesVpcConfig"]
    own = (
        Done({"group_id": stack.outputs["ComputeSecurityGroupId"]}) if stack else compute_group.ensure(where.aws, vpc["vpcId"], where.tags)
    )
    if isinstance(own, Wait):
        return own
    groups = (own.learned["group_id"], vpc["clusterSecurityGroupId"])
    network.check_efa_rules(where.aws, groups[0])
    place = hyperpod.Place(
        cluster["arn"], run.learned["subnet"]["subnet_id"], groups, scripts.uri(where.names.scripts_bucket), scripts.ENTRY
    )
    request = hyperpod.create_request(where.aws, where.names, run.spec, place, tags_of_this_try(where, run))
    return Wait(10, hyperpod.request(where.aws, request, run.waited_seconds))


def _clear_failed(where: Site, run: Run, have: dict[str, Any]) -> Wait:
    tags = hyperpod.cluster_tags(where.aws, have["ClusterArn"])
    if tags.get(names.OPERATION_TAG) == f"{run.id}-{run.attempt}":
        raise hyperpod.create_failure(where.aws, have)
    where.aws.remove("sagemaker", "delete_cluster", ClusterName=have["ClusterName"])
    return Wait(15, "The failed HyperPod cluster of an earlier try is being removed, to be made again")


def await_nodes(room: Room, run: Run) -> Outcome:
    """Every wanted node Running in SageMaker; a partial arrival is shown as such, with the event that says why."""
    where = site(room, run.spec)
    have = hyperpod.find_cluster(where.aws, where.hyperpod_cluster)
    if have is None:
        raise problems.NotFound("hyperpod.not_found", f"The HyperPod cluster {where.hyperpod_cluster} is gone.")
    seen = hyperpod.arrival(where.aws, have, run.spec.instance_group_name)
    if seen.is_complete:
        return Done({"running": seen.running, "wanted": seen.wanted})
    last = f"; last problem: {_advised(where, run, have, seen.reason)}" if seen.reason else ""
    told = f"{seen.running}/{seen.wanted} nodes Running{last}"
    short = partial(shortages.exhausted, where.aws, _shortage(run, seen)) if shortages.is_one(seen.reason) else None
    return Wait(pace(run.waited_seconds, NODES_TYPICAL, near_from=0), told, Progress(seen.running, seen.wanted, "nodes"), short)


def _shortage(run: Run, seen: hyperpod.Arrival) -> shortages.Shortage:
    subnet, spot = run.learned.get("subnet", {}).get("subnet_id", ""), run.spec.capacity_type == "spot"
    return shortages.Shortage(run.spec.instance_type, subnet, spot, seen.running, seen.wanted, run.waited_seconds, str(seen.reason))


def _advised(where: Site, run: Run, have: dict[str, Any], reason: str) -> str:
    """The reason, and where to look or to go next: other zones that have the type (case 38), the scripts' log (case 21)."""
    if "capacity" in reason.lower():
        others = offers.other_zones(where.aws, run.spec.instance_type, run.spec.zone)
        return f"{reason} {run.spec.instance_type} is also offered in {', '.join(others)}." if others else reason
    return f"{reason} See {hyperpod.node_logs(where.aws, have)}." if "ifecycle" in reason else reason


def await_join(room: Room, run: Run) -> Outcome:
    """The same nodes Ready in Kubernetes: only then are they nodes."""
    where = site(room, run.spec)
    kube = kube_of(room, where)
    running = {
        n["InstanceId"] for n in hyperpod.list_nodes(where.aws, where.hyperpod_cluster) if n["InstanceStatus"]["Status"] == "Running"
    }
    joined = [n for n in nodes.read(kube) if n.instance_id in running]
    ready = [n for n in joined if n.usable]
    if len(ready) >= len(running):
        return Done({"ready": len(ready), "nodes": [n.name for n in ready]})
    late = next((n for n in joined if n not in ready), None)
    told = f"{late.name}: {late.because}" if late else "the instances have not registered yet"
    return Wait(
        pace(run.waited_seconds, JOIN_TYPICAL, near_from=0.4),
        f"{len(ready)}/{len(running)} nodes Ready; {told}",
        Progress(len(ready), len(running), "nodes"),
    )
