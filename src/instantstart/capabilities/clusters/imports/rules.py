"""What HyperPod and we would miss in a cluster that others made, who installed what is there, and the cure of each.

Reads first, then pure checks. A cluster that lacks something can be imported all the same: what rests on it is refused later, by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from instantstart.base import problems
from instantstart.capabilities.clusters import stages
from instantstart.capabilities.room import Room
from instantstart.ensure import eks
from instantstart.ensure.capacity import offers
from instantstart.ensure.clusters import census
from instantstart.ensure.findings import Finding, Level
from instantstart.ensure.iam import identity
from instantstart.ensure.installs import addons, strangers
from instantstart.ensure.installs.releases import Role, is_ours, manager_of
from instantstart.ensure.installs.releases import identity as named
from instantstart.ensure.networking import network_plugin
from instantstart.ensure.sites import Site
from instantstart.kube.client import KubeCluster

NEEDED_ADDONS = (stages.POD_IDENTITY, stages.S3_CSI)
_ADDONS = (*NEEDED_ADDONS, stages.CERT_MANAGER, network_plugin.ADDON)
_KARPENTER = Role("a Karpenter", ("Deployment",), ("karpenter/controller",), ("karpenter",))
_CERT_MANAGER = Role("a cert-manager", ("Deployment",), ("cert-manager-controller",), ("cert-manager",))
_S3_DRIVER = Role("an S3 driver", ("DaemonSet",), ("aws-s3-csi-driver", "mountpoint-s3-csi-driver"), ("s3-csi-node",))


# How it is


@dataclass(frozen=True)
class Facts:
    """What was read. ``unread`` is why Kubernetes could not be asked, or None; what is in it is then empty."""

    account: str
    region: str
    principal: str
    eks: dict[str, Any]
    versions: tuple[str, ...]
    hyperpod: dict[str, Any] | None
    #: the access policies of our entry; None: there is no entry; "unknown": it cannot be read
    entry: tuple[str, ...] | str | None
    has_provider: bool | None
    addons: dict[str, dict[str, Any]]
    unread: problems.Problem | None = None
    plugin: network_plugin.Plugin | None = None
    #: component -> (is it there, by whom)
    components: dict[str, tuple[bool, str]] = field(default_factory=dict)
    s3_driver: str | None = None
    karpenter: tuple[str, ...] = ()
    cert_manager: tuple[str, ...] = ()


def observe(room: Room, where: Site) -> Facts:
    """Read everything the checks need. What may not be read is unknown; what cannot be reached is said."""
    cluster = eks.get_cluster(where.aws, where.eks_cluster)
    aws, issuer = where.aws, cluster.get("identity", {}).get("oidc", {}).get("issuer")
    facts: dict[str, Any] = {
        "account": where.names.account,
        "region": aws.region,
        "principal": aws.identity().principal_arn,
        "eks": cluster,
        "versions": tuple(_maybe(lambda: offers.list_kubernetes_versions(aws), ())),
        "hyperpod": census.find_hyperpod(aws, cluster["arn"]),
        "entry": identity.access_policies(aws, cluster["name"], aws.identity().principal_arn),
        "has_provider": _maybe(lambda: identity.has_oidc_provider(aws, issuer), None) if issuer else False,
        "addons": {name: addons.observe(aws, cluster["name"], name) for name in _ADDONS},
    }
    try:
        return Facts(**facts, **_inside(room, where))
    except (problems.Denied, problems.Unreachable, problems.Busy) as problem:
        return Facts(**facts, unread=problem)


def _inside(room: Room, where: Site) -> dict[str, Any]:
    kube = where.kube(room)
    components = {}
    for release in where.dependencies(room):
        last = next(r for r in reversed(release.resources) if r["kind"] != "Namespace")
        live = [*strangers.standing(kube, release), *([own] if (own := _live(kube, last)) else [])]
        components[release.name] = (bool(live), _by(live[0]) if live else "")
    driver = next(strangers.players(kube, _S3_DRIVER), None)
    return {
        "plugin": network_plugin.read(kube),
        "components": components,
        "s3_driver": _by(driver) if driver else None,
        "karpenter": tuple(f"{named(p)} ({_by(p)})" for p in strangers.players(kube, _KARPENTER)),
        "cert_manager": tuple(f"{named(p)} ({_by(p)})" for p in strangers.players(kube, _CERT_MANAGER)),
    }


def _live(kube: KubeCluster, resource: dict[str, Any]) -> dict[str, Any] | None:
    metadata = resource["metadata"]
    return kube.find(f"{resource['apiVersion']}/{resource['kind']}", metadata["name"], metadata.get("namespace"))


def _by(resource: dict[str, Any]) -> str:
    """Who installed an object: us, an EKS add-on, a Helm release, or whoever the object names."""
    if is_ours(resource):
        return "InstantStart"
    manager = manager_of(resource)
    return "an EKS add-on" if manager == "eks" else f"by {manager}" if manager != "unknown" else "by nobody it names"


def _maybe(read: Callable[[], Any], otherwise: Any) -> Any:
    try:
        return read()
    except (problems.Denied, problems.NotFound, problems.Invalid):
        return otherwise


Check = Callable[[Facts], Finding | None]


def check_identity(facts: Facts) -> Finding:
    """Which account, region and identity are meant."""
    return Finding("identity", "ok", f"Account {facts.account}, region {facts.region}, as {facts.principal}.")


def check_authentication_mode(facts: Facts) -> Finding:
    """HyperPod makes access entries, which the mode CONFIG_MAP does not know (HyperPod EKS prerequisites)."""
    mode = facts.eks.get("accessConfig", {}).get("authenticationMode", "CONFIG_MAP")
    if mode != "CONFIG_MAP":
        return Finding("authentication_mode", "ok", f"The authentication mode is {mode}.")
    name = facts.eks["name"]
    mend = f"aws eks update-cluster-config --name {name} --access-config authenticationMode=API_AND_CONFIG_MAP"
    told = "The authentication mode is CONFIG_MAP; HyperPod takes API or API_AND_CONFIG_MAP."
    return Finding("authentication_mode", "fail", told, f"Ask for set_authentication_mode (it cannot be changed back), or run: {mend}")


def check_version(facts: Facts) -> Finding:
    """Whether HyperPod orchestrates this Kubernetes version: the list is EKS's own answer."""
    version = facts.eks["version"]
    if not facts.versions:
        return Finding("kubernetes_version", "unknown", f"Kubernetes {version}; the versions that EKS offers cannot be read.")
    if version in facts.versions:
        return Finding("kubernetes_version", "ok", f"Kubernetes {version}.")
    told = f"Kubernetes {version}; HyperPod takes {', '.join(facts.versions)}."
    mend = f"aws eks update-cluster-version --name {facts.eks['name']}"
    return Finding("kubernetes_version", "fail", told, f"Upgrade it one minor version at a time: {mend}")


def check_access(facts: Facts) -> Finding:
    """Whether our own principal is let in (case 10): the API server's answer counts, whichever way it was given."""
    if facts.unread is None:
        return Finding("access_entry", "ok", f"The cluster admits {facts.principal}.")
    if isinstance(facts.unread, problems.Denied):
        lacks = "has an access entry that does not reach" if isinstance(facts.entry, tuple) else "has no access entry in"
        told = f"{facts.principal} {lacks} {facts.eks['name']}."
        return Finding("access_entry", "fail", told, f"Ask for make_access_entry. Or: {facts.unread.hint}")
    return Finding("access_entry", "unknown", f"The API server could not be asked: {facts.unread.detail}", facts.unread.hint)


def check_network_plugin(facts: Facts) -> Finding:
    """The VPC network plugin: there, of a version that HyperPod takes, and by whom (case 12)."""
    if facts.unread is not None:
        return _unread("network_plugin", "The network plugin", facts)
    if facts.plugin is None:
        told = "There is no aws-node DaemonSet; the VPC network plugin is the only one that HyperPod supports."
        return Finding("network_plugin", "fail", told, "Install the add-on vpc-cni: ask for update_network_plugin.")
    addon = facts.addons[network_plugin.ADDON]["status"] != "ABSENT"  # EKS writes a self-managed one under its own name too
    by = "an EKS add-on" if addon else f"self-managed (written by {facts.plugin.manager})"
    held = f"The VPC network plugin is {facts.plugin.version or 'of an unknown version'}, {by}."
    if facts.plugin.is_too_old:
        told = f"{held} HyperPod needs {network_plugin.OLDEST} or newer."
        return Finding("network_plugin", "fail", told, "Ask for update_network_plugin, or update the add-on vpc-cni yourself.")
    return Finding("network_plugin", "ok" if facts.plugin.version else "unknown", held)


def check_prefix_delegation(facts: Facts) -> Finding | None:
    """ENABLE_PREFIX_DELEGATION: without it a node holds few pods; with it older load balancer controllers reach none (aws-facts C38)."""
    if facts.unread is not None or facts.plugin is None:
        return None
    if facts.plugin.prefix_delegation:
        return Finding("prefix_delegation", "ok", "ENABLE_PREFIX_DELEGATION is true.")
    told = "ENABLE_PREFIX_DELEGATION is not true: each pod takes an address of its own, and a node holds fewer pods."
    hint = "Ask for enable_prefix_delegation. It needs free /28 blocks in the subnets, and a load balancer controller of 3.2.2 or newer."
    return Finding("prefix_delegation", "warn", told, hint)


def check_provider(facts: Facts) -> Finding:
    """The issuer must be known to IAM before a service account can take a role."""
    if facts.has_provider is None:
        return Finding("oidc_provider", "unknown", "The OIDC providers of IAM cannot be read.")
    if facts.has_provider:
        return Finding("oidc_provider", "ok", "IAM trusts the cluster's service accounts.")
    return Finding("oidc_provider", "warn", "IAM has no OIDC provider of this cluster's issuer.", "Ask for install_dependencies.")


def check_pod_identity(facts: Facts) -> Finding:
    """Without the agent no pod of an operator gets credentials."""
    status = facts.addons[stages.POD_IDENTITY]["status"]
    if status in ("ACTIVE", "UPDATING"):
        return Finding("pod_identity_agent", "ok", f"The pod identity agent is {status}.")
    hint = "Ask for install_dependencies." if status == "ABSENT" else "Look at the add-on's health."
    return Finding("pod_identity_agent", "warn", f"The pod identity agent is {status.lower()}.", hint)


def check_dependencies(facts: Facts) -> Finding:
    """What of the HyperPod dependency chart is there, each with whoever installed it."""
    if facts.unread is not None:
        return _unread("hyperpod_dependencies", "What is installed", facts)
    missing = sorted(name for name, (there, _) in facts.components.items() if not there)
    makers = sorted({by for there, by in facts.components.values() if there})
    have = f"{len(facts.components) - len(missing)} of {len(facts.components)} are there{f' ({chr(44).join(makers)})' if makers else ''}"
    if not missing:
        return Finding("hyperpod_dependencies", "ok", f"HyperPod dependencies: {have}.")
    level: Level = "warn" if facts.hyperpod else "fail"  # SageMaker took what is there once
    told = f"HyperPod dependencies: {have}; missing: {', '.join(missing)}."
    return Finding("hyperpod_dependencies", level, told, "Ask for install_dependencies: copies of others are used as they are.")


def check_s3_driver(facts: Facts) -> Finding:
    """The S3 driver, as an add-on or otherwise: storage needs it."""
    told = facts.addons[stages.S3_CSI]
    if told["status"] != "ABSENT":
        level: Level = "ok" if told["status"] == "ACTIVE" or told["waiting_for_nodes"] else "warn"
        why = f": {'; '.join(told['issues']).rstrip('.')}" if told["issues"] else ""
        return Finding("s3_driver", level, f"The S3 driver is an add-on, {told['status']}{why}.")
    if facts.s3_driver:
        told_by = f"The S3 driver is there, installed {facts.s3_driver}; its own role decides which buckets it reaches."
        return Finding("s3_driver", "warn", told_by, "An add-on cannot be made beside it; overwrite_conflicts would take it over.")
    return Finding("s3_driver", "warn", "There is no S3 driver: storage needs it.", "Ask for install_dependencies.")


def check_karpenter(facts: Facts) -> Finding | None:
    """A Karpenter of their own and HyperPod's managed one would both claim NodePools."""
    if not facts.karpenter:
        return None
    told = f"The cluster has a Karpenter of its own: {', '.join(facts.karpenter)}."
    return Finding(
        "karpenter", "warn", told, "HyperPod's managed Karpenter cannot run beside it: remove one before the other is switched on."
    )


def check_cert_manager(facts: Facts) -> Finding | None:
    """A cert-manager of their own: the add-on must not be made beside it (case 25)."""
    if not facts.cert_manager or facts.addons[stages.CERT_MANAGER]["status"] != "ABSENT":
        return None
    told = f"cert-manager is there, not as an add-on: {', '.join(facts.cert_manager)}."
    return Finding("cert_manager", "warn", told, "Leave cert_manager off: what is there is used.")


def check_hyperpod(facts: Facts) -> Finding:
    """The HyperPod cluster on it, and the settings that decide what can be done with it."""
    if facts.hyperpod is None:
        return Finding("hyperpod", "ok", "No HyperPod cluster is on it; one can be created after the import.")
    name, status = facts.hyperpod["ClusterName"], facts.hyperpod["ClusterStatus"]
    if status != "InService":
        told = f"The HyperPod cluster {name} is {status}: {facts.hyperpod.get('FailureMessage') or 'no reason told'}."
        return Finding("hyperpod", "warn", told, "It is shown as it is; work on it waits until it is InService.")
    mode = facts.hyperpod.get("NodeProvisioningMode") or "not Continuous"
    told = f"The HyperPod cluster {name} is InService, provisioning {mode}, node recovery {facts.hyperpod.get('NodeRecovery') or 'None'}."
    if mode != "Continuous":
        hint = "The mode is fixed for the life of a cluster: Spot, partial arrival and managed Karpenter need Continuous."
        return Finding("hyperpod", "warn", told, hint)
    return Finding("hyperpod", "ok", told)


def _unread(check: str, what: str, facts: Facts) -> Finding:
    why = facts.unread.detail if facts.unread else ""
    return Finding(check, "unknown", f"{what} cannot be read: {why}", "Let InstantStart into the cluster first (access_entry).")


RULES: tuple[Check, ...] = (
    check_identity,
    check_authentication_mode,
    check_version,
    check_access,
    check_network_plugin,
    check_prefix_delegation,
    check_provider,
    check_pod_identity,
    check_dependencies,
    check_s3_driver,
    check_karpenter,
    check_cert_manager,
    check_hyperpod,
)


def findings(facts: Facts) -> tuple[Finding, ...]:
    """Every finding, in the order of the rules."""
    return tuple(found for rule in RULES if (found := rule(facts)) is not None)
