"""Which cluster an import means, under which tag, and what it would change: nothing without its switch."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any

from instantstart.aws.session import Aws
from instantstart.base import names, problems
from instantstart.capabilities import activity
from instantstart.capabilities.clusters.imports import rules
from instantstart.capabilities.clusters.imports.specs import ImportCluster, ImportTarget, Switches
from instantstart.capabilities.planning import Plan
from instantstart.capabilities.room import Room
from instantstart.ensure import eks, sites, stacks
from instantstart.ensure.capacity import hyperpod
from instantstart.ensure.clusters import census
from instantstart.ensure.findings import Finding
from instantstart.ensure.networking import network
from instantstart.ensure.sites import Site
from instantstart.store.records import ClusterRow

_ARN = re.compile(r"arn:[a-z-]+:(?P<service>eks|sagemaker):(?P<region>[a-z0-9-]+):(?P<account>\d{12}):cluster/(?P<name>.+)")
_USABLE = ("ACTIVE", "UPDATING")
_MOST_HYPERPOD = 63


# Which cluster


def locate(room: Room, ask: ImportCluster) -> ImportTarget:
    """What is asked for, found on AWS, with its tag. Raises Invalid at the field that is wrong, NotFound, Conflict."""
    aws = room.aws.region(_region_of(room, ask))
    pod = _named_hyperpod(aws, ask.hyperpod_cluster) if ask.hyperpod_cluster else None
    cluster = _eks_cluster(aws, ask.eks_cluster, pod)
    if pod is None:
        pod = census.find_hyperpod(aws, cluster["arn"])
    where, own = Where(aws, cluster), cluster.get("tags", {}).get(names.CLUSTER_TAG)
    tag = _tag(room, where, ask.tag, own)
    derived = names.Names(tag, aws.region, aws.identity().account)
    return ImportTarget(
        **{name: getattr(ask, name) for name in Switches.model_fields},
        tag=tag,
        region=aws.region,
        eks_cluster=cluster["name"],
        eks_arn=cluster["arn"],
        hyperpod_cluster=pod["ClusterName"] if pod else None,
        hyperpod_arn=pod["ClusterArn"] if pod else None,
        origin="created" if own and derived.eks_cluster == cluster["name"] else "imported",
    )


@dataclass(frozen=True)
class Where:
    """An EKS cluster in its region."""

    aws: Aws
    cluster: dict[str, Any]


def registration(target: ImportTarget) -> ClusterRow:
    """The line of the register for it. A cluster made here is known by its derived names; others by their own."""
    given = target.origin == "imported"
    return ClusterRow(
        tag=target.tag,
        region=target.region,
        eks_name=target.eks_cluster if given else None,
        eks_arn=target.eks_arn,
        hyperpod_name=target.hyperpod_cluster if given else None,
        hyperpod_arn=target.hyperpod_arn if given else None,
        origin=target.origin,
    )


def _region_of(room: Room, ask: ImportCluster) -> str:
    """The region of the ARNs, of the field, or the server's own; they must agree, and the account must be ours."""
    if ask.eks_cluster is None and ask.hyperpod_cluster is None:
        told = "Say which cluster: eks_cluster, or hyperpod_cluster."
        raise problems.Invalid("import.nothing_named", told, fields=[problems.Violation("/eks_cluster", told)])
    regions = {"/region": ask.region} if ask.region else {}
    for pointer, value in (("/eks_cluster", ask.eks_cluster), ("/hyperpod_cluster", ask.hyperpod_cluster)):
        arn = _ARN.fullmatch(value or "")
        if arn:
            regions[pointer] = arn["region"]
            ours = room.aws.region(arn["region"]).identity().account
            if arn["account"] != ours:
                told = f"That cluster is in account {arn['account']}; InstantStart works in {ours}."
                raise problems.Invalid("import.other_account", told, fields=[problems.Violation(pointer, told)])
    if len(set(regions.values())) > 1:
        told = "These name different regions: " + ", ".join(f"{pointer[1:]} {region}" for pointer, region in regions.items()) + "."
        raise problems.Invalid("import.regions_differ", told, fields=[problems.Violation(pointer, told) for pointer in regions])
    return next(iter(regions.values()), room.aws.region().region)


def _plain(value: str) -> str:
    arn = _ARN.fullmatch(value)
    return arn["name"] if arn else value


def _named_hyperpod(aws: Aws, value: str) -> dict[str, Any]:
    found = hyperpod.find_cluster(aws, value)
    if found is None:
        raise _not_there(aws, f"HyperPod cluster {_plain(value)}", "/hyperpod_cluster")
    if census.orchestrator_of(found) is None:
        told = f"{found['ClusterName']} is orchestrated by Slurm; only clusters on EKS are managed here."
        raise problems.Invalid("import.slurm", told, fields=[problems.Violation("/hyperpod_cluster", told)])
    return found


def _eks_cluster(aws: Aws, value: str | None, pod: dict[str, Any] | None) -> dict[str, Any]:
    """The EKS cluster: named, or the one that orchestrates ``pod``; both must be the same one."""
    arn = census.orchestrator_of(pod) if pod else None
    found = eks.find_cluster(aws, _plain(value or arn or ""))
    if found is None:
        _refuse_slurm_name(aws, value)
        raise _not_there(aws, f"EKS cluster {_plain(value or arn or '')}", "/eks_cluster")
    if pod and found["arn"] != arn:
        told = f"{pod['ClusterName']} runs on {_plain(arn or '')}, not on {found['name']}."
        raise problems.Invalid(
            "import.pair_differs", told, fields=[problems.Violation(p, told) for p in ("/eks_cluster", "/hyperpod_cluster")]
        )
    if found["status"] not in _USABLE:
        why = eks.misfit(found, ())
        told = why[0] if why and found["status"] == "FAILED" else f"The EKS cluster {found['name']} is {found['status']}."
        raise problems.Conflict("import.not_active", told, hint="Import it when it is ACTIVE.", evidence={"cluster_arn": found["arn"]})
    return found


def _refuse_slurm_name(aws: Aws, value: str | None) -> None:
    """Somebody may give a HyperPod cluster's name as the EKS cluster's: a Slurm one is told as such."""
    pod = hyperpod.find_cluster(aws, value) if value and not value.startswith("arn:") and len(value) <= _MOST_HYPERPOD else None
    if pod and census.orchestrator_of(pod) is None:
        told = f"{pod['ClusterName']} is a HyperPod cluster orchestrated by Slurm; only clusters on EKS are managed here."
        raise problems.Invalid("import.slurm", told, fields=[problems.Violation("/eks_cluster", told)])


def _not_there(aws: Aws, what: str, pointer: str) -> problems.NotFound:
    place = f"account {aws.identity().account}, region {aws.region}"
    return problems.NotFound(
        "import.not_found",
        f"There is no {what} in {place}.",
        hint="List the candidates of that region; for another region give the cluster's ARN, or the region.",
        fields=[problems.Violation(pointer, f"not in {aws.region}")],
        evidence={"account": aws.identity().account, "region": aws.region},
    )


# Under which tag


def _tag(room: Room, where: Where, asked: str | None, own: str | None) -> str:
    """The asked tag, or one derived from the EKS cluster's name; one tag for a cluster, and one cluster for a tag."""
    known = next((r for r in room.store.clusters.list() if _is_row_of(r, where)), None)
    if own and asked not in (None, own):
        raise _wrong_tag(f"{where.cluster['name']} was made by InstantStart as {own}; it is imported under that tag.")
    if known and asked not in (None, known.tag):
        raise already_imported(known)
    tag = asked or own or (known.tag if known else None)
    if tag is None:
        return _derived_tag(room, where)
    why = _taken(room, where, tag)
    if why:
        raise problems.Conflict(
            "import.tag_taken", why, hint="Choose another tag, or forget the other cluster first.", fields=[problems.Violation("/tag", why)]
        )
    return tag


def already_imported(row: ClusterRow) -> problems.Conflict:
    """One cluster under two tags would be two owners of one thing."""
    return problems.Conflict(
        "import.already_imported",
        f"{row.eks_name or row.eks_arn} is on the list as {row.tag}.",
        hint=f"Use {row.tag}; or forget it first, and import it under the other tag.",
        fields=[problems.Violation("/tag", f"is {row.tag} already")],
        evidence={"tag": row.tag, "region": row.region},
    )


def _wrong_tag(told: str) -> problems.Invalid:
    return problems.Invalid("import.tag_differs", told, fields=[problems.Violation("/tag", told)])


def _derived_tag(room: Room, where: Where) -> str:
    """The EKS cluster's own name as far as a tag can be it; with a digest of its ARN when that is taken."""
    plain = names.suggest(where.cluster["name"]) or "imported"
    digest = hashlib.sha256(where.cluster["arn"].encode()).hexdigest()[:6]
    tag = plain if _taken(room, where, plain) is None else f"{plain[: names.TAG_LIMIT - 7]}-{digest}"
    why = _taken(room, where, tag)
    if why:
        raise problems.Conflict("import.tag_taken", why, hint="Give a tag.", fields=[problems.Violation("/tag", why)])
    return tag


def _taken(room: Room, where: Where, tag: str) -> str | None:
    """Why a tag stands for another cluster already, in the register or by what bears it on AWS; None when it is free for this one."""
    row, aws = room.store.clusters.find(tag), where.aws
    if row is not None and not _is_row_of(row, where):
        held = f"the EKS cluster {row.eks_name}" if row.eks_name else "a cluster made here"
        return f"The tag {tag} stands for {held} in {row.region}."
    derived = names.Names(tag, aws.region, aws.identity().account)
    own = where.cluster.get("tags", {}).get(names.CLUSTER_TAG)
    if own is None and stacks.find_stack(aws, derived.stack):
        return f"The stack {derived.stack} of a cluster {tag} stands in {aws.region}."
    vpc = network.find_tagged_vpc(aws, tag)
    if vpc and vpc != where.cluster["resourcesVpcConfig"].get("vpcId"):
        return f"{vpc} in {aws.region} belongs to a cluster {tag}."
    return None


def _is_row_of(row: ClusterRow, where: Where) -> bool:
    """Whether a line of the register is about this cluster: by its ARN, or (made here) by its own tag."""
    if row.origin == "imported":
        return bool(row.eks_arn == where.cluster["arn"])
    own = where.cluster.get("tags", {}).get(names.CLUSTER_TAG)
    return row.region == where.aws.region and row.tag == own


def claim(room: Room, target: ImportTarget) -> None:
    """Put it on the register: one tag for one cluster, however many ask. Raises Conflict that names the other one."""
    activity.check_not_deleting(room, target.tag)
    other = room.store.clusters.claim(registration(target))
    if other is not None and other.tag != target.tag:
        raise already_imported(other)
    if other is not None:
        why = f"The tag {target.tag} stands for another cluster in {other.region} since a moment ago."
        raise problems.Conflict("import.tag_taken", why, hint="Choose another tag.", fields=[problems.Violation("/tag", why)])


# What it would change


def plan_import(room: Room, target: ImportTarget) -> Plan:
    """The checks, each with its cure, and what the switches that are on would make or change."""
    where = sites.placed(room, registration(target))
    facts = rules.observe(room, where)
    found = rules.findings(facts)
    on = f"{target.eks_cluster} in {target.region}, account {facts.account}"
    pod = f" with HyperPod cluster {target.hyperpod_cluster}" if target.hyperpod_cluster else ", no HyperPod cluster"
    change = [
        says
        for says, asked, needed in (
            ("authentication mode to API_AND_CONFIG_MAP", target.set_authentication_mode, _fails(found, "authentication_mode")),
            ("VPC network plugin to the default version of its add-on", target.update_network_plugin, True),
            (
                "ENABLE_PREFIX_DELEGATION of the VPC network plugin to true",
                target.enable_prefix_delegation,
                _fails(found, "prefix_delegation"),
            ),
        )
        if asked and needed
    ]
    make = [f"entry {target.tag} in the register: EKS cluster {on}{pod}"]
    make += [f"access entry of {facts.principal}"] if target.make_access_entry and facts.entry is None else []
    make += _dependencies(where, facts) if target.install_dependencies else []
    kept = ("everything on AWS and in Kubernetes that is not named here; what does not bear our tag is never deleted",)
    return Plan(make=tuple(make), change=tuple(change), keep=kept, findings=found)


def _fails(found: tuple[Finding, ...], check: str) -> bool:
    return any(f.check == check and f.level in ("fail", "warn") for f in found)


def _dependencies(where: Site, facts: rules.Facts) -> list[str]:
    """What install_dependencies would add: only what is missing."""
    absent = [f"add-on {name}" for name in (*rules.NEEDED_ADDONS,) if facts.addons[name]["status"] == "ABSENT"]
    bundles = [f"bundle {name}" for name, (there, _) in facts.components.items() if not there]
    provider = [] if facts.has_provider else ["OIDC provider of the cluster's issuer"]
    return [*provider, f"role {where.names.s3_csi_role}", *absent, *bundles]
