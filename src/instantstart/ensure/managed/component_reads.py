"""One look at everything that the managed components show: AWS and Kubernetes side by side, within twelve AWS calls.

What cannot be read is a Problem in its place: the rest is still told (a list that one bad element cannot break).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from instantstart.aws.session import Aws
from instantstart.base import problems
from instantstart.ensure import eks
from instantstart.ensure.capacity import hyperpod
from instantstart.ensure.iam import identity, principals
from instantstart.ensure.iam import roles as iam_roles
from instantstart.ensure.identity_chains import chain_links, chain_steps, chains
from instantstart.ensure.identity_chains.chain_links import Association, Seen
from instantstart.ensure.identity_chains.chains import Account, Chain, Ground, Via
from instantstart.ensure.installs import addon_offers, addons, configurations
from instantstart.ensure.installs.addon_offers import Offer
from instantstart.ensure.installs.releases import is_ours
from instantstart.ensure.managed.components import COMPONENTS, FEATURES, Component
from instantstart.ensure.sites import Site
from instantstart.kube.client import KubeCluster

T = TypeVar("T")
Resource = dict[str, Any]
_READERS = 16
#: who an association hands over, and the EKS cluster itself (issuer, endpoint, version), change seldom and cost a call each
_KEPT_SECONDS, _CLUSTER_SECONDS = 10.0, 60.0


@dataclass(frozen=True)
class World:
    """What was read. ``addons`` has every add-on that is there: described where the panel shows it, else empty."""

    where: Site
    eks: Mapping[str, Any]
    hyperpod: Mapping[str, Any] | problems.Problem | None
    addons: Mapping[str, Mapping[str, Any]] | problems.Problem
    offers: Mapping[str, Offer] | problems.Problem
    workloads: tuple[Resource, ...] | problems.Problem
    chains: Mapping[str, Chain]
    seen: Seen

    @property
    def present(self) -> frozenset[str]:
        """Names of the add-ons that are there; none when they cannot be read."""
        return frozenset(self.addons) if isinstance(self.addons, Mapping) else frozenset()

    @property
    def has_nodes(self) -> bool:
        """Whether anything runs in the cluster: then there are nodes."""
        if isinstance(self.workloads, problems.Problem):
            return True
        return any((w.get("status") or {}).get("readyReplicas") or (w.get("status") or {}).get("numberReady") for w in self.workloads)

    def addon(self, component: Component) -> Mapping[str, Any] | None:
        """A component's add-on as told, or None."""
        return self.addons.get(component.source) if isinstance(self.addons, Mapping) else None

    def begun(self, component: Component) -> list[Chain]:
        """The chains of a component that are declared for this world."""
        return [self.chains[name] for name in component.chains if name in self.chains]

    def configuration(self, component: Component) -> dict[str, Any]:
        """The configuration values of a component's add-on."""
        return configurations.parse((self.addon(component) or {}).get("configurationValues"))


class _Reads:
    """Reads that run side by side; an answer is the value, or the Problem that stood in the way."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool

    def begin(self, read: Callable[..., T], *given: Any) -> Future[T | problems.Problem]:
        """Start one."""

        def attempt() -> T | problems.Problem:
            try:
                return read(*given)
            except problems.Problem as problem:
                return problem

        return self._pool.submit(attempt)


def read(where: Site, room: Any) -> World:
    """Look at everything. Raises NotFound, Unreachable or Denied only when the EKS cluster itself cannot be described."""
    aws, name = where.aws, where.eks_cluster
    cluster = aws.cached(f"eks {name}", _CLUSTER_SECONDS, lambda: eks.get_cluster(aws, name))
    eks.ref(dict(cluster), aws.region)  # says it when there is no API server yet
    wanted = set(chains.role_names(where))
    with ThreadPoolExecutor(_READERS) as pool:
        reads = _Reads(pool)
        kube = reads.begin(lambda: _kube(room, cluster, aws)).result()
        listed = reads.begin(lambda: aws.pages("eks", "list_addons", "addons", clusterName=name))
        nodes = reads.begin(lambda: hyperpod.find_cluster(aws, where.hyperpod_cluster))
        roles = reads.begin(lambda: iam_roles.read(aws, wanted))
        offers = reads.begin(lambda: addon_offers.read(aws, str(cluster["version"])))
        work = [reads.begin(_list, kube, kind) for kind in ("Deployment", "DaemonSet")]
        accounts = reads.begin(lambda: _by_name(_list(kube, "ServiceAccount")))
        described = _describe(reads, aws, name, listed.result())
        workloads = _joined([w.result() for w in work])
        told = _settled(described)
        seen = Seen(roles=roles.result(), accounts=accounts.result(), tag=where.tag)
        first = World(where, cluster, nodes.result(), told, offers.result(), workloads, {}, seen)
        declared = _declared(first)
        return replace(first, chains=declared, seen=_rest(reads, first, declared, kube))


def _kube(room: Any, cluster: Mapping[str, Any], aws: Aws) -> KubeCluster:
    found: KubeCluster = room.kube.cluster(eks.ref(dict(cluster), aws.region))
    return found


def _list(kube: KubeCluster | problems.Problem, kind: str) -> list[Resource]:
    if isinstance(kube, problems.Problem):
        raise kube
    return kube.list(kind)


def _pods(kube: KubeCluster | problems.Problem, account: Account) -> list[Resource]:
    if isinstance(kube, problems.Problem):
        raise kube
    return chain_steps.pods_of(kube, account)


def _by_name(items: list[Resource]) -> dict[tuple[str, str], Resource]:
    return {(i["metadata"]["namespace"], i["metadata"]["name"]): i for i in items}


def _joined(parts: list[list[Resource] | problems.Problem]) -> tuple[Resource, ...] | problems.Problem:
    wrong = next((p for p in parts if isinstance(p, problems.Problem)), None)
    return wrong if wrong is not None else tuple(item for part in parts if not isinstance(part, problems.Problem) for item in part)


Described = dict[str, "Future[Mapping[str, Any] | problems.Problem | None]"]


def _describe(reads: _Reads, aws: Aws, cluster: str, listed: list[str] | problems.Problem) -> Described | problems.Problem:
    """DescribeAddon of those that the panel shows; that the others are there is enough."""
    if isinstance(listed, problems.Problem):
        return listed
    shown = {COMPONENTS[name].source for name in FEATURES}
    return {name: reads.begin(_described, aws, cluster, name, name in shown) for name in listed}


def _described(aws: Aws, cluster: str, name: str, shown: bool) -> Mapping[str, Any] | None:
    return addons.find(aws, cluster, name) if shown else {}


def _settled(described: Described | problems.Problem) -> Mapping[str, Mapping[str, Any]] | problems.Problem:
    if isinstance(described, problems.Problem):
        return described
    answers = {name: future.result() for name, future in described.items()}
    wrong = next((a for a in answers.values() if isinstance(a, problems.Problem)), None)
    if wrong is not None:
        return wrong
    return {name: answer for name, answer in answers.items() if answer is not None and not isinstance(answer, problems.Problem)}


def _declared(world: World) -> dict[str, Chain]:
    """The chains that something of is there for: the component, or the role."""
    roles = world.seen.roles if isinstance(world.seen.roles, Mapping) else {}
    found = {}
    for name in chains.DECLARED:
        usual = chains.declare(name, Ground(world.where, world.eks))
        role = roles.get(usual.role)
        ours = role if role is not None and role.is_of(world.where.tag) else None
        if is_wanted(world, name) or (ours is not None and name not in _TWINS):
            found[name] = chains.declare(name, Ground(world.where, world.eks, chain_steps.choices(ours)))
    return found


#: two chains with one role: which of them is meant is told by the component alone
_TWINS = frozenset({"keda", "inference_keda"})


def is_wanted(world: World, chain: str) -> bool:
    """Whether the component of a chain is there in the way that needs the chain."""
    component = next((c for c in COMPONENTS.values() if chain in c.chains), None)
    if component is None:
        return False
    if component.name == "s3_csi":
        return component.source in world.present and _ours(world, chain)
    if component.name == "keda":
        return isinstance(world.workloads, tuple) and any(
            is_ours(w) and w["metadata"]["namespace"] == component.namespace for w in world.workloads
        )
    if component.name == "karpenter":
        return isinstance(world.hyperpod, Mapping) and str(world.hyperpod.get("ClusterRole")).endswith(
            f"/{world.where.names.karpenter_role}"
        )
    if component.name == "tiered_checkpointing":
        return isinstance(world.hyperpod, Mapping) and (world.hyperpod.get("TieredStorageConfig") or {}).get("Mode") == "Enable"
    told = world.addon(component)
    if told is None or told.get("tags", {}).get("instantstart.dev/cluster") != world.where.tag:
        return False
    part = {"load_balancer": "alb", "inference_keda": "keda"}.get(chain)
    return part is None or (world.configuration(component).get(part) or {}).get("enabled") is not False


def _ours(world: World, chain: str) -> bool:
    role = chains.declare(chain, Ground(world.where, world.eks)).role
    return isinstance(world.seen.roles, Mapping) and role in world.seen.roles


def _rest(reads: _Reads, world: World, declared: Mapping[str, Chain], kube: KubeCluster | problems.Problem) -> Seen:
    """What only chains that are there ask for: the OIDC provider, associations, pods."""
    accounts = [a for chain in declared.values() for a in chain.accounts]
    where = world.where
    provider = reads.begin(lambda: _audiences(world)) if any(c.issuer for c in declared.values()) else None
    by_agent = [(a.namespace, a.name) for a in accounts if a.via is Via.association]
    held = reads.begin(lambda: _associations(where, by_agent)) if by_agent else None
    pods = {(a.namespace, a.name): reads.begin(_pods, kube, a) for a in accounts}
    found = {key: future.result() for key, future in pods.items()}
    wrong = next((p for p in found.values() if isinstance(p, problems.Problem)), None)
    return replace(
        world.seen,
        audiences=provider.result() if provider else None,
        audience=principals.service("sts"),
        associations=held.result() if held else {},
        pods=wrong if wrong is not None else {key: p for key, p in found.items() if not isinstance(p, problems.Problem)},
    )


def _audiences(world: World) -> frozenset[str] | None:
    arn = identity.provider_arn(world.where.aws, str(world.eks["identity"]["oidc"]["issuer"]))
    try:
        told = world.where.aws.read("iam", "get_open_id_connect_provider", OpenIDConnectProviderArn=arn)
    except problems.NotFound:
        return None
    return frozenset(told.get("ClientIDList", ()))


def _associations(where: Site, wanted: list[tuple[str, str]]) -> dict[tuple[str, str], Association]:
    """Those of the wanted accounts: one list, and each one's role once in a while (the list does not tell it)."""
    found = {}
    for summary in where.aws.pages("eks", "list_pod_identity_associations", "associations", clusterName=where.eks_cluster):
        key = (summary["namespace"], summary["serviceAccount"])
        if key in wanted:
            read = functools.partial(chain_steps.get_association, where, summary)
            told = where.aws.cached(f"association {summary['associationArn']}", _KEPT_SECONDS, read)
            if told is not None:
                found[key] = told
    return found


def links_of(world: World, component: Component) -> tuple[chain_links.Link, ...]:
    """Every link of every chain of a component that is there."""
    return tuple(link for chain in world.begun(component) for link in chain_links.links(chain, world.seen))
