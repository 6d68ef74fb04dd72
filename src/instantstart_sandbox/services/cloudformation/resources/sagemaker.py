"""AWS::SageMaker::Cluster: the HyperPod cluster, looked at through SageMaker itself."""

from __future__ import annotations

from typing import Any

from instantstart_sandbox.services.cloudformation.resources.handler import Failure, Handler, Request
from instantstart_sandbox.services.cloudformation.resources.shapes import Shape, shape

_ROLLING = shape(
    "AutoRollbackConfiguration[] RollingUpdatePolicy WaitIntervalInSeconds",
    AutoRollbackConfiguration="AlarmName*",
    RollingUpdatePolicy=shape(
        "MaximumBatchSize* RollbackMaximumBatchSize", MaximumBatchSize="Type* Value*", RollbackMaximumBatchSize="Type* Value*"
    ),
)
_NETWORK = "SecurityGroupIds*[] Subnets*[]"


def _group() -> Shape:
    return shape(
        "CapacityRequirements ExecutionRole* ImageId InstanceCount* InstanceGroupName* InstanceRequirements InstanceStorageConfigs[] "
        "InstanceType KubernetesConfig LifeCycleConfig MinInstanceCount NetworkInterface OnStartDeepHealthChecks[] OverrideVpcConfig "
        "ScheduledUpdateConfig ThreadsPerCore TrainingPlanArn",
        unsupported="AutoPatchConfig ImageReleaseVersion SlurmConfig",
        CapacityRequirements="OnDemand Spot",
        InstanceRequirements="InstanceTypes*[]",
        KubernetesConfig=shape("Labels Taints[]", Taints="Effect* Key* Value"),
        LifeCycleConfig="OnCreate OnInitComplete SourceS3Uri",
        NetworkInterface="InterfaceType*",
        OverrideVpcConfig=_NETWORK,
        ScheduledUpdateConfig=shape("DeploymentConfig ScheduleExpression*", DeploymentConfig=_ROLLING),
    )


class Cluster(Handler):
    """AWS::SageMaker::Cluster. Ref is the ARN."""

    type = "AWS::SageMaker::Cluster"
    name_property = "ClusterName"
    shape = shape(
        "AutoScaling ClusterName! ClusterRole InstanceGroups[] NodeProvisioningMode NodeRecovery Orchestrator RestrictedInstanceGroups[] "
        "Tags[] TieredStorageConfig VpcConfig!",
        unsupported="RestrictedInstanceGroupsConfig",
        AutoScaling="AutoScalerType Mode*",
        InstanceGroups=_group(),
        Orchestrator=shape("Eks!", unsupported="Slurm", Eks="ClusterArn*"),
        TieredStorageConfig="InstanceMemoryAllocationPercentage Mode*",
        VpcConfig=_NETWORK,
    )
    seconds = 10.0
    delete_seconds = 10.0
    poll_seconds = 30.0
    #: the type's handler time-out is 720 minutes
    stabilize_seconds = 43_200.0
    busy_seconds = 43_200.0

    def create(self, request: Request) -> None:
        """CreateCluster."""
        asked = {key: value for key, value in request.properties.items() if key not in ("Tags", "ClusterName")}
        name = request.get("ClusterName") or request.name(63)
        made = request.call("sagemaker", "CreateCluster", ClusterName=name, Tags=request.tag_list(), **asked)
        request.work["cluster"] = name
        request.physical = made["ClusterArn"]

    def _describe(self, request: Request) -> dict[str, Any]:
        return request.call("sagemaker", "DescribeCluster", ClusterName=request.work["cluster"])

    def ready(self, request: Request) -> bool:
        """Whether it is InService; Failed and a rolled-back update end it with SageMaker's message."""
        cluster = self._describe(request)
        if cluster["ClusterStatus"] in ("Failed", "RollingBack"):
            raise Failure(
                f"Cluster {request.work['cluster']} is in status {cluster['ClusterStatus']}: {cluster.get('FailureMessage', '')}",
                "NotStabilized",
            )
        return bool(cluster["ClusterStatus"] == "InService")

    def update(self, request: Request, old: dict[str, Any]) -> None:
        """UpdateCluster with every group as the template has it, and the groups that went; then the tags."""
        plain = ("AutoScaling", "ClusterRole", "InstanceGroups", "NodeProvisioningMode", "NodeRecovery", "RestrictedInstanceGroups",
                 "TieredStorageConfig", "Orchestrator")  # fmt: skip
        changed = [key for key in plain if request.get(key) != old.get(key)]
        if changed:
            asked = request.only("InstanceGroups", "RestrictedInstanceGroups", *changed)
            gone = _group_names(old) - _group_names(request.properties)
            if gone:
                asked["InstanceGroupsToDelete"] = sorted(gone)
            request.call("sagemaker", "UpdateCluster", ClusterName=request.work["cluster"], **asked)
        removed = {t["Key"] for t in old.get("Tags") or []} - set(request.tags())
        if removed:
            request.call("sagemaker", "DeleteTags", ResourceArn=request.physical, TagKeys=sorted(removed))
        request.call("sagemaker", "AddTags", ResourceArn=request.physical, Tags=request.tag_list())

    def delete(self, request: Request) -> None:
        """DeleteCluster; a cluster that is still being made or changed is waited for first."""
        if self._describe(request)["ClusterStatus"] in ("Creating", "Updating", "SystemUpdating", "RollingBack"):
            raise Failure(f"The cluster {request.work['cluster']} is still being changed", "ResourceConflict", busy=True)
        request.call("sagemaker", "DeleteCluster", ClusterName=request.work["cluster"])

    def gone(self, request: Request) -> bool:
        """Not there any more (DescribeCluster then fails with NotFound)."""
        if self._describe(request)["ClusterStatus"] == "Failed":
            raise Failure(f"Cluster {request.work['cluster']} could not be deleted", "NotStabilized")
        return False

    def attributes(self, request: Request) -> dict[str, Any]:
        """As DescribeCluster says."""
        cluster = self._describe(request)
        return {
            "ClusterArn": request.physical,
            "ClusterStatus": cluster["ClusterStatus"],
            "CreationTime": str(cluster["CreationTime"]),
            "FailureMessage": cluster.get("FailureMessage", ""),
        }


def _group_names(properties: dict[str, Any]) -> set[str]:
    return {g["InstanceGroupName"] for key in ("InstanceGroups", "RestrictedInstanceGroups") for g in properties.get(key) or []}


HANDLERS: tuple[type[Handler], ...] = (Cluster,)
