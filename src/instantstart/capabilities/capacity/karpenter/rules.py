"""What must hold before Karpenter is switched on, and before it may scale a group. ``observe`` reads; everything else is pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from instantstart.aws.session import Aws
from instantstart.base import problems
from instantstart.ensure.capacity import karpenter, scaling
from instantstart.ensure.capacity.karpenter import autoscaling_status
from instantstart.ensure.findings import Finding
from instantstart.ensure.iam import identity, principals
from instantstart.ensure.sites import Site
from instantstart.kube.client import KubeCluster

#: the oldest health-monitoring agent that knows Karpenter's nodes (aws-facts A12)
_OLDEST_AGENT = ((1, 0, 742, 0), (1, 0, 241, 0))
_AGENT_NAMESPACE, _AGENT = "aws-hyperpod", "health-monitoring-agent"
_AGENT_TAG = re.compile(r":(\d+(?:\.\d+)+)_(\d+(?:\.\d+)+)$")
_OWN_CONTROLLER = "karpenter/controller"


@dataclass(frozen=True)
class RoleChoice:
    """By which role HyperPod would scale; ``arn`` None: ours.

    ``fault``: what is wrong with the role that was named. ``passed_over``: why the cluster's present role is not taken.
    """

    arn: str | None = None
    fault: str | None = None
    cure: str | None = None
    passed_over: str | None = None


@dataclass(frozen=True)
class Prerequisites:
    """What decides whether Karpenter can be switched on."""

    cluster: Mapping[str, Any]
    role: RoleChoice
    agents: tuple[str, ...]
    old_pools: tuple[str, ...]
    controllers: tuple[str, ...]
    unread: str | None = None


def observe(room: Any, where: Site, role_arn: str | None) -> Prerequisites:
    """Read what the prerequisites need. Raises NotFound without a HyperPod cluster."""
    cluster = scaling.get_cluster(where)
    role = choose_role(where, cluster, role_arn)
    try:
        return Prerequisites(cluster, role, *_in_kubernetes(where.kube(room)))
    except problems.Problem as problem:
        return Prerequisites(cluster, role, (), (), (), f"Kubernetes could not be asked: {problem.detail}")


def choose_role(where: Site, cluster: Mapping[str, Any], named: str | None) -> RoleChoice:
    """The role that was named; else the one the cluster has, when it is fit; else ours. A role of others is only looked at."""
    ours = where.aws.arn("iam", f"role/{where.names.karpenter_role}", regional=False)
    wanted = named or cluster.get("ClusterRole")
    if wanted in (None, ours):
        return RoleChoice()
    fault, cure = _role_fault(where.aws, str(wanted), cluster["ClusterArn"])
    if fault and named is None:
        return RoleChoice(passed_over=fault)
    return RoleChoice(wanted, fault, cure)


def _role_fault(aws: Aws, role_arn: str, cluster_arn: str) -> tuple[str | None, str | None]:
    """What is wrong with a role, and the cure."""
    role = identity.find_role(aws, role_arn.rpartition("/")[2])
    if role is None:
        return f"The role {role_arn} does not exist.", "Name a role that exists, or none."
    if principals.service(karpenter.ROLE_SERVICE) not in str(role["AssumeRolePolicyDocument"]):
        cure = f"Let {principals.service(karpenter.ROLE_SERVICE)} do sts:AssumeRole in its trust policy."
        return f"HyperPod may not assume the role {role_arn}.", cure
    lacking = _lacking(aws, role_arn, cluster_arn)
    if lacking:
        return f"The role {role_arn} does not allow {', '.join(lacking)}.", "Allow that on the cluster's ARN."
    return None, None


def _lacking(aws: Aws, role_arn: str, cluster_arn: str) -> tuple[str, ...]:
    """The actions that a role of others does not allow; none when the simulation itself is not allowed."""
    try:
        asked = aws.pages(
            "iam", "simulate_principal_policy", "EvaluationResults",
            PolicySourceArn=role_arn, ActionNames=list(karpenter.ROLE_ACTIONS), ResourceArns=[cluster_arn],
        )  # fmt: skip
    except problems.Denied:
        return ()
    return tuple(r["EvalActionName"] for r in asked if r["EvalDecision"] != "allowed")


def _in_kubernetes(kube: KubeCluster) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Images of the health agent, served versions of an older NodePool, controllers of a Karpenter that others installed."""
    agents = [d for d in kube.list("DaemonSet", _AGENT_NAMESPACE) if d["metadata"]["name"].startswith(_AGENT)]
    found = kube.find("CustomResourceDefinition", "nodepools.karpenter.sh")
    versions = tuple(v["name"] for v in found["spec"]["versions"] if v.get("served")) if found else ()
    controllers = [d for d in kube.list("Deployment") if any(_OWN_CONTROLLER in image for image in _images(d))]
    named = tuple(f"{d['metadata']['namespace']}/{d['metadata']['name']}" for d in controllers)
    return tuple(i for d in agents for i in _images(d)), versions if "v1" not in versions else (), named


def _images(workload: Mapping[str, Any]) -> list[str]:
    return [str(c.get("image", "")) for c in workload["spec"]["template"]["spec"]["containers"]]


# ---------------------------------------------------------------------- prerequisites


def check_cluster(facts: Prerequisites) -> Finding:
    """The cluster takes changes."""
    status = facts.cluster["ClusterStatus"]
    if status in ("Deleting", "Failed"):
        return Finding("cluster", "fail", f"The HyperPod cluster is {status}.", "Karpenter needs a cluster that is in service.")
    return Finding("cluster", "ok", f"The HyperPod cluster is {status}.")


def check_provisioning(facts: Prerequisites) -> Finding:
    """Continuous provisioning."""
    if scaling.is_continuous(facts.cluster):
        return Finding("provisioning_mode", "ok", "Nodes are provisioned continuously.")
    told = "The HyperPod cluster does not provision nodes continuously, and Karpenter scales node by node."
    return Finding("provisioning_mode", "fail", told, "Make a HyperPod cluster with NodeProvisioningMode Continuous; ours have it.")


def check_recovery(facts: Prerequisites) -> Finding:
    """Automatic node recovery."""
    if facts.cluster.get("NodeRecovery") == "Automatic":
        return Finding("node_recovery", "ok", "Node recovery is automatic.")
    told = "Automatic node recovery is off, and HyperPod's Karpenter needs it."
    return Finding("node_recovery", "fail", told, "Set NodeRecovery to Automatic (UpdateCluster with ClusterName and NodeRecovery only).")


def check_role(facts: Prerequisites) -> Finding:
    """The cluster role: ours is made right; another's must be right."""
    role = facts.role
    if role.fault:
        return Finding("cluster_role", "fail", role.fault, role.cure)
    if role.passed_over:
        return Finding("cluster_role", "warn", role.passed_over, "It is the cluster's role now; one of ours takes its place.")
    return Finding("cluster_role", "ok", f"HyperPod scales by the role {role.arn}." if role.arn else "The cluster role is made.")


def check_agent(facts: Prerequisites) -> Finding:
    """The health-monitoring agent is new enough."""
    if facts.unread:
        return Finding("health_agent", "unknown", facts.unread)
    versions = [match for image in facts.agents if (match := _AGENT_TAG.search(image))]
    if not versions:
        told = "The version of the health-monitoring agent could not be told."
        return Finding("health_agent", "warn", told, "It must be 1.0.742.0_1.0.241.0 or newer: configuring the dependencies installs one.")
    old = [m[0][1:] for m in versions if (_numbers(m[1]), _numbers(m[2])) < _OLDEST_AGENT]
    if old:
        told = f"The health-monitoring agent {old[0]} is too old for Karpenter's nodes."
        return Finding("health_agent", "fail", told, "Bring the HyperPod dependencies up to date: configure the dependencies.")
    return Finding("health_agent", "ok", f"The health-monitoring agent is {versions[0][0][1:]}.")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def check_other_karpenter(facts: Prerequisites) -> Finding:
    """A Karpenter that others installed must use v1."""
    if facts.unread:
        return Finding("other_karpenter", "unknown", facts.unread)
    if facts.old_pools:
        told = f"The cluster serves NodePools of {', '.join(facts.old_pools)} only: a Karpenter of before v1."
        return Finding("other_karpenter", "fail", told, "Bring that Karpenter to v1, or remove it with its definitions.")
    if facts.controllers:
        told = f"A Karpenter that others installed runs: {', '.join(facts.controllers)}."
        return Finding("other_karpenter", "warn", told, "See that no pool of one names node classes of the other.")
    return Finding("other_karpenter", "ok", "No other Karpenter runs.")


def check_state(facts: Prerequisites) -> Finding:
    """AutoScaling may be switched."""
    status = autoscaling_status(dict(facts.cluster))
    told = (facts.cluster.get("AutoScaling") or {}).get("FailureMessage")
    if status == "Deleting":
        return Finding("autoscaling", "warn", "AutoScaling is still being disabled.", "Switching it on waits for that.")
    return Finding("autoscaling", "ok", f"AutoScaling is {status}." + (f" It said: {told}" if told else ""))


PREREQUISITES: tuple[Callable[[Prerequisites], Finding], ...] = (
    check_cluster,
    check_provisioning,
    check_recovery,
    check_role,
    check_agent,
    check_other_karpenter,
    check_state,
)


def findings(facts: Prerequisites) -> list[Finding]:
    """Every prerequisite, looked at."""
    return [check(facts) for check in PREREQUISITES]


def check_enabled(cluster: Mapping[str, Any]) -> None:
    """Raise Conflict unless Karpenter is in service."""
    status = autoscaling_status(dict(cluster))
    if status != "InService":
        raise problems.Conflict(
            "karpenter.not_enabled",
            f"Managed Karpenter is {status} on the cluster {cluster['ClusterName']}.",
            hint="Switch managed Karpenter on first." if status in ("Disabled", "Failed") else "Wait until it is InService.",
        )
