"""What a request would do before it does it: the dry run of every changing route, and the preflight."""

from __future__ import annotations

from typing import TypeVar

from instantstart.base import problems
from instantstart.capabilities import activity
from instantstart.capabilities.clusters import reads, rules, specs, stages
from instantstart.capabilities.planning import Plan
from instantstart.capabilities.room import Room
from instantstart.capabilities.vocabulary import Target
from instantstart.ensure import sites
from instantstart.ensure.capacity import hyperpod
from instantstart.ensure.clusters import belongings
from instantstart.ensure.findings import Finding, refusal
from instantstart.ensure.installs import addons, manifests
from instantstart.ensure.mlflow import tracking
from instantstart.ensure.networking import network_plugin
from instantstart.ensure.sites import Site
from instantstart.ensure.storage import filesystems

#: findings about the words of a request, which no retry will make right
_OF_THE_ASK = frozenset({"kubernetes_version", "instance_type", "zone", "subnet_id", "bucket"})
T = TypeVar("T", specs.EksTarget, specs.ClusterTarget)


def preflight(room: Room, ask: specs.RunPreflight | specs.ClusterTarget) -> list[Finding]:
    """Every finding about a cluster that might be made."""
    region = room.aws.region(ask.region).region
    where = sites.site(room, Target(tag=ask.tag or "preflight", region=region))
    return rules.findings(where, ask, reads.observe(where, ask, room.clock.now().timestamp()))


def admitted(room: Room, target: T) -> T:
    """The same target, when what it says is right: a name that is none is refused at the door. Raises the refusal, Unreachable, Denied.

    What the account lacks (quota, addresses, permissions) is the operation's to say, which goes on by a retry. What is on its way or
    stands already is asked for again rightly: the engine answers with the operation, or names the one in the way.
    While AWS is busy, the operation asks again by itself.
    """
    where = sites.site(room, target)
    try:
        if target.tag in activity.active(room) or hyperpod.find_cluster(where.aws, where.hyperpod_cluster):
            return target
        refused = refusal([each for each in stages.judge(room, where, target)[1] if each.check in _OF_THE_ASK])
    except problems.Busy:
        return target
    if refused:
        raise refused
    return target


def plan_create(room: Room, target: specs.ClusterTarget, tag: str | None) -> Plan:
    """What cluster.create would make, with the findings of the preflight. ``tag``: as it was asked for."""
    where = sites.site(room, target)
    derived = where.names
    group = f"{target.instance_count} x {target.instance_type} in {target.zone} ({target.capacity_type})"
    network = f"VPC with two public and two control-plane subnets, NAT gateway, S3 endpoint (stack {derived.stack})"
    make = (
        f"in account {derived.account}, region {derived.region}:",
        f"in {target.vpc_id}: security group and role (stack {derived.stack})" if target.vpc_id else network,
        f"EKS cluster {derived.eks_cluster}",
        f"roles {derived.eks_role}, {derived.execution_role}, {derived.s3_csi_role}",
        f"buckets {derived.scripts_bucket}" + ("" if target.bucket else f", {derived.data_bucket}"),
        f"HyperPod cluster {derived.hyperpod_cluster}: {group}",
        f"claim {target.namespace}/{target.claim_name} on {target.bucket or derived.data_bucket}",
    )
    return Plan(make=make, findings=tuple(preflight(room, target)), warnings=_of_the_tag(target, tag))


def plan_eks(room: Room, target: specs.EksTarget, tag: str | None) -> Plan:
    """What eks.create would make. ``tag``: as it was asked for."""
    where = sites.site(room, target)
    ask = specs.ClusterTarget(**target.model_dump(), zone="none", instance_type="ml.t3.medium", instance_count=0)
    found = rules.findings(where, ask, reads.observe(where, ask, room.clock.now().timestamp()), rules.EKS_RULES)
    return Plan(
        make=(f"stack {where.names.stack} in {where.aws.region}", f"EKS cluster {where.names.eks_cluster}", f"role {where.names.eks_role}"),
        findings=tuple(found),
        warnings=_of_the_tag(target, tag),
    )


def _of_the_tag(target: Target, tag: str | None) -> tuple[str, ...]:
    """A made-up tag is made up again when the request is made again: the names of the plan are only like those to come."""
    return () if tag else (f"No tag was given: another one like {target.tag} is made up when it begins. Pass a tag to choose it.",)


def plan_dependencies(room: Room, where: Site) -> Plan:
    """What dependencies.configure would make or change in the cluster, by the server's own dry run."""
    kube = where.kube(room)
    changes = [c for release in where.dependencies(room) for c in manifests.plan(kube, release)]
    by = {action: tuple(c.object for c in changes if c.action == action) for action in ("create", "update", "conflict")}
    states = [(name, addons.observe(where.aws, where.eks_cluster, name)["status"]) for name in (stages.POD_IDENTITY, stages.S3_CSI)]
    asked = tuple(f"add-on {name}" for name, status in states if status in ("ABSENT", "CREATE_FAILED"))
    clashes = tuple(f"{name} is somebody else's; overwrite_conflicts takes it over." for name in by["conflict"])
    return Plan(make=(*asked, *by["create"]), change=by["update"], warnings=clashes)


def plan_hyperpod(room: Room, where: Site, target: specs.HyperPodTarget) -> Plan:
    """What hyperpod.create would make, with the preflight's findings about the group."""
    derived = where.names
    group = f"{target.instance_count} x {target.instance_type} in {target.zone} ({target.capacity_type})"
    make = (f"HyperPod cluster {derived.hyperpod_cluster}: {group}", f"role {derived.execution_role}", f"bucket {derived.scripts_bucket}")
    return Plan(make=make, findings=tuple(_group_findings(room, where, target)))


def plan_storage(where: Site, ask: specs.StorageAsk) -> Plan:
    """What storage.configure would make."""
    bucket = () if ask.bucket else (f"bucket {where.names.data_bucket}",)
    return Plan(make=(*bucket, f"claim {ask.namespace}/{ask.claim_name} on {ask.bucket or where.names.data_bucket}/{ask.prefix}"))


def checked(room: Room, where: Site, target: specs.HyperPodTarget) -> specs.HyperPodTarget:
    """The same target, when nothing the preflight can know stands in its way. Raises its refusal."""
    if hyperpod.find_cluster(where.aws, where.hyperpod_cluster) is None:
        if where.imported:
            network_plugin.check(where.kube(room))
        refused = refusal(_group_findings(room, where, target))
        if refused:
            raise refused
    return target


def _group_findings(room: Room, where: Site, target: specs.HyperPodTarget) -> list[Finding]:
    ask = specs.ClusterTarget(**target.model_dump())
    return rules.findings(where, ask, reads.observe(where, ask, room.clock.now().timestamp()), rules.GROUP_RULES)


def plan_delete(room: Room, where: Site, delete_data: bool) -> Plan:
    """What cluster.delete would remove and keep, and the running work it would end."""
    if where.imported:
        return _plan_delete_imported(room, where, delete_data)
    derived, warnings = where.names, []
    have = hyperpod.find_cluster(where.aws, derived.hyperpod_cluster)
    if have:
        warnings.append(f"{sum(g['CurrentCount'] for g in have['InstanceGroups'])} nodes and everything on their volumes go.")
    warnings += _running_work(room, where)
    systems = [f"file system {f.id} ({f.size_gib} GiB)" for f in filesystems.list_made(where.aws, where.tag)]
    if systems and not delete_data:
        warnings.append(f"It will not begin while these stand, which hold data in its network: {', '.join(systems)}.")
    remove = (
        f"in account {derived.account}, region {derived.region}:",
        f"HyperPod cluster {derived.hyperpod_cluster}",
        f"EKS cluster {derived.eks_cluster} and its network (stack {derived.stack})",
        f"roles {derived.execution_role}, {derived.s3_csi_role}",
        f"bucket {derived.scripts_bucket}" + (f", bucket {derived.data_bucket} WITH ITS DATA" if delete_data else ""),
        *(f"{each} WITH ITS DATA" for each in systems if delete_data),
    )
    keep = () if delete_data else (f"bucket {derived.data_bucket}, if it holds data",)
    return Plan(remove=remove, keep=(*keep, *_tracking(where)), warnings=tuple(warnings))


def _tracking(where: Site) -> tuple[str, ...]:
    """Tracking servers and apps of MLflow: they hold history, and outlive the cluster."""
    try:
        ours = [server for server in tracking.list_all(where.aws) if server.cluster == where.tag]
    except problems.Problem as problem:
        return (f"tracking servers and apps of MLflow, which could not be listed: {problem.detail}",)
    return tuple(f"MLflow {server.kind.replace('_', ' ')} {server.name}, with the runs in it; delete it by itself" for server in ours)


def deletable(where: Site, target: specs.DeleteTarget) -> specs.DeleteTarget:
    """The same target, when the cluster is ours to delete or holds something that is. Raises Conflict that offers to forget it."""
    if where.imported:
        belongings.check_deletable(where)
    return target


def _plan_delete_imported(room: Room, where: Site, delete_data: bool) -> Plan:
    """Of a cluster that others made only what bears our tag goes. Raises Conflict when nothing does, or others' nodes rest on it."""
    belongings.check_deletable(where)
    remove, warnings = belongings.on_aws(where), []
    try:
        remove += belongings.in_kubernetes(where.kube(room), where.dependencies(room))
    except problems.Problem as problem:
        warnings.append(f"What is ours inside the cluster could not be read: {problem.detail}")
    data = f"bucket {where.names.data_bucket}"
    spared = [] if delete_data or data not in remove else [f"{data}, if it holds data"]
    return Plan(
        remove=(f"in account {where.names.account}, region {where.names.region}:", *remove),
        keep=(f"EKS cluster {where.eks_cluster}, its network and whatever others made", *spared, *_tracking(where)),
        warnings=(*warnings, *_running_work(room, where)),
    )


def _running_work(room: Room, where: Site) -> list[str]:
    try:
        kube = where.kube(room)
        pods = [p["metadata"] for p in kube.list("Pod", fields="status.phase=Running")]
    except problems.Problem as problem:
        return [f"Running work could not be read: {problem.detail}"]
    own = ("kube-", "aws-hyperpod", "cert-manager")
    mine = [f"{m['namespace']}/{m['name']}" for m in pods if not m["namespace"].startswith(own)]
    return [f"{len(mine)} running pods end: {', '.join(mine[:5])}"] if mine else []
