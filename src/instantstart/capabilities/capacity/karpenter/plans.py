"""What a request would do: each checked whole, filled in, and told before anything changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from instantstart.base import problems
from instantstart.capabilities.capacity.karpenter import pool_rules, rules, specs
from instantstart.capabilities.planning import Plan
from instantstart.capabilities.room import Room
from instantstart.capabilities.vocabulary import Target
from instantstart.ensure.capacity import drains, karpenter, node_pools, nodes, scaling
from instantstart.ensure.capacity.karpenter import NODE_CLAIM, NODE_CLASS, NODE_POOL
from instantstart.ensure.findings import refusal
from instantstart.ensure.sites import Site
from instantstart.kube.client import KubeCluster, Resource

_TAKEN = (
    "{group} has {nodes}, which Karpenter did not ask for: they are removed and the group starts from 0. "
    "The count is noted and put back when Karpenter is switched off."
)


@dataclass(frozen=True)
class Prepared:
    """A request that may be begun. ``exact``: it destroys something, and needs the approval of its plan. ``equal``: it is so already."""

    target: Target
    plan: Plan
    exact: str | None = None
    equal: bool = False


def prepare_enable(room: Room, where: Site, ask: specs.EnableKarpenter) -> Prepared:
    """karpenter.enable, with every prerequisite told."""
    facts = rules.observe(room, where, ask.cluster_role_arn)
    target = specs.EnableTarget(tag=where.tag, region=where.aws.region, cluster_role_arn=ask.cluster_role_arn)
    status = karpenter.autoscaling_status(dict(facts.cluster))
    role = facts.cluster.get("ClusterRole")
    if status in ("InService", "Creating") and ask.cluster_role_arn not in (None, role):
        raise problems.Conflict(
            "karpenter.role_in_use",
            f"Karpenter is {status} with the role {role}; SageMaker does not change it meanwhile.",
            hint="Disable Karpenter first, then enable it with the other role.",
        )
    make = () if facts.role.arn else (f"role {where.names.karpenter_role}",)
    change = (f"HyperPod cluster {where.hyperpod_cluster}: AutoScaling Enable (Karpenter); no instance group is touched",)
    plan = Plan(make=make, change=change, findings=tuple(rules.findings(facts)))
    return Prepared(target, plan, equal=status == "InService")


def check_prerequisites(prepared: Prepared) -> specs.EnableTarget:
    """The target of an enabling that nothing stands in the way of. Raises the refusal of its findings."""
    refused = refusal(prepared.plan.findings)
    if refused:
        raise refused
    return specs.EnableTarget.model_validate(prepared.target)


def prepare_add(room: Room, where: Site, ask: specs.AddNodePool) -> Prepared:
    """node_pool.add with its defaults filled in. Raises Invalid with every violation, Conflict when there is another of that name."""
    kube = where.kube(room)
    facts = pool_rules.observe_pool(where, kube, ask.instance_groups)
    rules.check_enabled(facts.cluster)
    wanted = ask.model_dump()
    pool_rules.check_violations(pool_rules.pool_violations(ask.name, wanted, facts))
    wanted |= _filled(wanted, facts)
    equal = _is_equal(kube, ask.name, wanted, facts)
    taken = {} if equal else pool_rules.taken_over(ask.instance_groups, facts)
    target = specs.AddPoolTarget.model_validate({**wanted, "tag": where.tag, "region": where.aws.region, "taken": taken})
    make = (f"HyperpodNodeClass {ask.name} over {', '.join(ask.instance_groups)}", f"NodePool {ask.name}: {_told(wanted)}")
    plan = Plan(make=() if equal else make, warnings=(*pool_rules.warnings(wanted, facts), *_loss(kube, taken)), remove=_gone(taken))
    exact = f"node_pool.add {where.aws.region} {where.tag} {ask.name} taking {taken}" if taken else None
    return Prepared(target, plan, exact, equal)


def _filled(wanted: Mapping[str, Any], facts: pool_rules.PoolFacts) -> dict[str, Any]:
    """The types and limits that were left to us."""
    have = [
        t for g in facts.cluster["InstanceGroups"] if g["InstanceGroupName"] in wanted["instance_groups"] for t in pool_rules.types_of(g)
    ]
    types = wanted["instance_types"] or sorted(set(have))
    limits = pool_rules.default_limits(types, facts) if wanted["limits"] is None else wanted["limits"]
    return {"instance_types": types, "limits": limits}


def _is_equal(kube: KubeCluster, name: str, wanted: Mapping[str, Any], facts: pool_rules.PoolFacts) -> bool:
    """Whether the pool is there just so. Raises Conflict when another of that name is."""
    if name not in facts.pools and name not in facts.classes:
        return False
    present = facts.pools.get(name)
    if present is not None and name in facts.classes:
        groups = karpenter.groups_of(kube.get(NODE_CLASS, name))
        same = _plain(node_pools.read(present)) == _plain({k: wanted[k] for k in node_pools.read(present)})
        if node_pools.is_ours(present) and same and list(groups) == list(wanted["instance_groups"]):
            return True
    if present is None and node_pools.is_ours(kube.get(NODE_CLASS, name)):
        return False  # an adding that was broken off: it goes on
    raise problems.Conflict(
        "node_pool.exists",
        f"There is a node pool or node class {name} already, and it is not as asked.",
        hint="Change that node pool, or take another name.",
    )


def _plain(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields with what means the same written the same: requirements without empty values, budgets without what is not set."""
    budgets = [{k: v for k, v in dict(b).items() if v not in (None, [])} for b in fields["budgets"] or []]
    return {**fields, "budgets": budgets, "limits": {k: str(v) for k, v in (fields["limits"] or {}).items()}}


def prepare_update(room: Room, where: Site, pool: str, ask: specs.UpdateNodePool) -> Prepared:
    """node_pool.update, cut down to what differs. Raises NotFound, or Invalid with every violation."""
    kube = where.kube(room)
    present = find_pool(kube, pool)
    owner = _class(kube, present)
    now = {**node_pools.read(present), "instance_groups": list(karpenter.groups_of(owner))}
    given = {k: v for k, v in ask.model_dump().items() if v is not None}
    wanted = {**now, **given}
    facts = pool_rules.observe_pool(where, kube, wanted["instance_groups"])
    rules.check_enabled(facts.cluster)
    if given.get("instance_types") == []:
        given["instance_types"] = wanted["instance_types"] = _filled({**wanted, "instance_types": []}, facts)["instance_types"]
    shown = set(given) | ({"instance_types", "zones"} if "instance_groups" in given else set())
    found = pool_rules.pool_violations(owner["metadata"]["name"], wanted, facts)
    pool_rules.check_violations([v for v in found if v.pointer.split("/")[1] in shown])
    before, after = _plain(now), _plain(wanted)
    differing = {k: wanted[k] for k in given if before[k] != after[k]}
    taken = pool_rules.taken_over(differing.get("instance_groups", []), facts)
    target = specs.UpdatePoolTarget.model_validate(
        {**differing, "tag": where.tag, "region": where.aws.region, "pool": pool, "taken": taken}
    )
    change = tuple(f"{field}: {before[field]} -> {after[field]}" for field in differing)
    plan = Plan(change=change, warnings=(*_update_warnings(wanted, facts), *_loss(kube, taken)), remove=_gone(taken))
    exact = f"node_pool.update {where.aws.region} {where.tag} {pool} taking {taken}" if taken else None
    return Prepared(target, plan, exact, not differing)


def _update_warnings(wanted: Mapping[str, Any], facts: pool_rules.PoolFacts) -> list[str]:
    unused = [
        g["InstanceGroupName"]
        for g in facts.cluster["InstanceGroups"]
        if g["InstanceGroupName"] in wanted["instance_groups"] and not set(pool_rules.types_of(g)) & set(wanted["instance_types"])
    ]
    told = [f"{', '.join(unused)} will not be used: its type is not among the pool's instance_types."] if unused else []
    return [*told, *pool_rules.warnings(wanted, facts)]


def _told(wanted: Mapping[str, Any]) -> str:
    limits = ", ".join(f"{k} {v}" for k, v in wanted["limits"].items()) or "no limits"
    budgets = ", ".join(b["nodes"] for b in wanted["budgets"])
    wait = f"{wanted['consolidation_policy']} after {wanted['consolidate_after']}, {budgets} at once"
    return f"{', '.join(wanted['instance_types'])}; at most {limits}; nodes go {wait}; expire after {wanted['expire_after']}"


def _gone(taken: Mapping[str, int]) -> tuple[str, ...]:
    return tuple(f"{_nodes(count)} of {group}" for group, count in taken.items())


def _nodes(count: int) -> str:
    return f"{count} node" if count == 1 else f"{count} nodes"


def _shown(found: Resource) -> str:
    """``NodePool gpu``; what others made is marked, since it goes too."""
    foreign = "" if node_pools.is_ours(found) else " (not made by InstantStart)"
    return f"{found['kind']} {found['metadata']['name']}{foreign}"


def _loss(kube: KubeCluster, taken: Mapping[str, int]) -> list[str]:
    """What goes with the nodes that are taken over: the nodes and the work on them (case 35)."""
    if not taken:
        return []
    names = [n.name for n in nodes.read(kube) if n.group in taken]
    return [*(_TAKEN.format(group=g, nodes=_nodes(n)) for g, n in taken.items()), *_work(kube, names)]


def _work(kube: KubeCluster, names: list[str]) -> list[str]:
    pods = len([p for p in drains.pods_on(kube, names) if drains.moves(p)]) if names else 0
    found = drains.busy(kube, names) if names else ()
    return [f"{pods} pod{'s' * (pods != 1)} on these nodes end.", *(f"{work} is ended." for work in found)] if pods else []


def find_pool(kube: KubeCluster, name: str) -> Resource:
    """The NodePool. Raises NotFound naming those there are."""
    found = next((p for p in karpenter.list_served(kube, NODE_POOL) if p["metadata"]["name"] == name), None)
    if found is None:
        have = ", ".join(p["metadata"]["name"] for p in karpenter.list_served(kube, NODE_POOL)) or "none"
        raise problems.NotFound("node_pool.unknown", f"There is no node pool {name}; there are: {have}.", hint="List the node pools.")
    return found


def _class(kube: KubeCluster, pool: Resource) -> Resource:
    name = node_pools.class_of(pool)
    found = kube.find(NODE_CLASS, name) if name else None
    if found is None:
        raise problems.Conflict(
            "node_pool.class_missing",
            f"The node pool {pool['metadata']['name']} names the node class {name or '(of another provider)'}, which is not there.",
            hint="Delete the pool and add it anew.",
        )
    return found


def plan_delete(room: Room, where: Site, pool: str) -> Prepared:
    """What node_pool.delete would end."""
    kube = where.kube(room)
    present = find_pool(kube, pool)
    owner = node_pools.class_of(present)
    sharing = [p["metadata"]["name"] for p in kube.list(NODE_POOL) if node_pools.class_of(p) == owner]
    claims = [c for c in kube.list(NODE_CLAIM) if (c["metadata"].get("labels") or {}).get(karpenter.POOL_LABEL) == pool]
    names = [str(c["status"]["nodeName"]) for c in claims if (c.get("status") or {}).get("nodeName")]
    remove = [_shown(present), *(_nodes(len(claims)) for _ in claims[:1])]
    keep: list[str] = []
    if owner and sharing == [pool]:
        remove.append(f"HyperpodNodeClass {owner}")
        keep.append("its instance groups, at 0 nodes")
    target = specs.PoolTarget(tag=where.tag, region=where.aws.region, pool=pool)
    plan = Plan(remove=tuple(remove), keep=tuple(keep), warnings=tuple(_work(kube, names)))
    return Prepared(target, plan, f"node_pool.delete {where.aws.region} {where.tag} {pool}")


def plan_disable(room: Room, where: Site) -> Prepared:
    """What karpenter.disable would end, and what it puts back."""
    cluster, kube = scaling.get_cluster(where), where.kube(room)
    pools = [p for p in karpenter.list_served(kube, NODE_POOL) if node_pools.class_of(p)]
    classes = karpenter.list_served(kube, NODE_CLASS)
    claims = karpenter.list_served(kube, NODE_CLAIM)
    names = [str(c["status"]["nodeName"]) for c in claims if (c.get("status") or {}).get("nodeName")]
    counts = {g: n for c in classes for g, n in node_pools.counts_before(c).items()}
    remove = (
        *(_shown(each) for each in (*pools, *classes)),
        *(_nodes(len(claims)) for _ in claims[:1]),
        *(f"role {where.names.karpenter_role}" for _ in (1,) if str(cluster.get("ClusterRole", "")).endswith(where.names.karpenter_role)),
    )
    change = (f"HyperPod cluster {where.hyperpod_cluster}: AutoScaling Disable", *(f"{g}: back to {_nodes(n)}" for g, n in counts.items()))
    status = karpenter.autoscaling_status(cluster)
    target = specs.DisableTarget(tag=where.tag, region=where.aws.region)
    plan = Plan(change=change, remove=remove, warnings=tuple(_work(kube, names)))
    equal = status == "Disabled" and not pools and not classes
    return Prepared(target, plan, f"karpenter.disable {where.aws.region} {where.tag}", equal)
