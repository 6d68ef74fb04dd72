"""Where a cluster may stand: its EKS cluster, subnets, security groups and training plans (facts A1.3, A2, A5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from instantstart_sandbox.services import lookups
from instantstart_sandbox.services.eks.state import clusters as eks_clusters
from instantstart_sandbox.services.eks.versions import BY_NAME
from instantstart_sandbox.services.hyperpod import plan_state
from instantstart_sandbox.services.hyperpod.state import invalid

if TYPE_CHECKING:
    from instantstart_sandbox.gateway.registry import Context

#: the DaemonSet by which the dependency chart shows, and where it may be (facts A11)
_AGENT, _AGENT_NAMESPACES = "health-monitoring-agent", ("aws-hyperpod", "kube-system")


def check_eks(ctx: Context, arn: str) -> dict[str, Any]:
    """The EKS cluster must be ACTIVE, know access entries, have a supported version and the dependency chart.

    Answers its DescribeCluster view.
    """
    record = eks_clusters(ctx.world).get(arn)
    if record is None or f":{ctx.region}:" not in arn:
        raise invalid(f"The EKS cluster {arn} does not exist in this account and region.")
    view: dict[str, Any] = record["view"]
    if view["status"] != "ACTIVE":
        raise invalid(f"The EKS cluster {arn} is in status {view['status']}; it must be ACTIVE.")
    mode = view["accessConfig"]["authenticationMode"]
    if mode not in ("API", "API_AND_CONFIG_MAP"):
        raise invalid(f"The authentication mode of the EKS cluster {arn} is {mode}; it must be API or API_AND_CONFIG_MAP.")
    if view["version"] not in BY_NAME:
        raise invalid(f"Kubernetes version {view['version']} is not supported by SageMaker HyperPod.")
    kubernetes = ctx.world.kubernetes
    if not any(kubernetes.workload_ready(arn, namespace, "DaemonSet", _AGENT) for namespace in _AGENT_NAMESPACES):
        raise invalid(
            f"The HyperPod dependencies are not installed on the EKS cluster {arn}: {_AGENT} was not found. "
            "Install the HyperPod Helm chart before you create the cluster."
        )
    return view


def check_network(ctx: Context, network: dict[str, Any], vpc: str | None) -> dict[str, dict[str, Any]]:
    """Subnets exist, are private and in the EKS cluster's VPC; security groups exist there. Answers the subnets by id."""
    found = lookups.subnets(ctx.world, ctx.region, network["Subnets"])
    for subnet_id in network["Subnets"]:
        subnet = found.get(subnet_id)
        if subnet is None:
            raise invalid(f"The subnet ID '{subnet_id}' does not exist.")
        if vpc is not None and subnet["VpcId"] != vpc:
            raise invalid(f"The subnet {subnet_id} is not in the VPC {vpc} of the EKS cluster.")
        if lookups.is_public(ctx.world, ctx.region, subnet):
            raise invalid(f"The subnet {subnet_id} is public: its route table leads to an internet gateway. Use private subnets.")
    home = next(iter(found.values()))["VpcId"]
    groups = lookups.security_groups(ctx.world, ctx.region, network["SecurityGroupIds"])
    for group in network["SecurityGroupIds"]:
        if groups.get(group, {}).get("VpcId") != home:
            raise invalid(f"The security group '{group}' does not exist in VPC {home}.")
    return found


def check_plan(ctx: Context, spec: dict[str, Any], network: dict[str, Any], group: tuple[str, str]) -> None:
    """A group on a training plan: the plan serves HyperPod, is alive, has the type, the room, and the group's zone.

    ``group`` is (cluster ARN, group name): what that group has of the plan already counts as free.
    """
    arn, name = spec.get("TrainingPlanArn"), spec["InstanceGroupName"]
    if not arn:
        return
    plan = plan_state.plans(ctx.world).get(arn)
    if plan is None:
        raise invalid(f"Instance group {name}: the training plan {arn} does not exist.")
    view = plan["view"]
    if view["Status"] not in ("Scheduled", "Active"):
        raise invalid(f"Instance group {name}: the training plan {arn} is {view['Status']}; it must be Scheduled or Active.")
    if "hyperpod-cluster" not in view["TargetResources"]:
        raise invalid(f"Instance group {name}: the training plan {arn} is not for hyperpod-cluster.")
    if spec.get("InstanceType") not in {c["InstanceType"] for c in view["ReservedCapacitySummaries"]}:
        raise invalid(f"Instance group {name}: the training plan {arn} does not have instance type {spec.get('InstanceType')}.")
    left = view["TotalInstanceCount"] - plan_state.in_use(ctx.world, arn, group)
    if spec["InstanceCount"] > left:
        raise invalid(f"Instance group {name}: the training plan {arn} has {left} available instances, not {spec['InstanceCount']}.")
    zones = {s["AvailabilityZone"] for s in lookups.subnets(ctx.world, ctx.region, network["Subnets"]).values()}
    planned = set(plan_state.zones_of(ctx.world, arn))
    if not zones & planned:
        where = ", ".join(sorted(planned))
        raise invalid(f"Instance group {name}: none of its subnets is in the Availability Zone of the training plan ({where}).")
