"""What may be asked of a cluster. Every description is read by a person in the console and by a model through MCP."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from instantstart.base import patterns
from instantstart.capabilities.vocabulary import (
    Ask,
    CapacityType,
    DeepHealthCheck,
    InstanceType,
    Region,
    SubnetId,
    Tag,
    Target,
    Within,
    Zone,
)  # fmt: skip

VpcId = Annotated[str, Field(pattern=patterns.VPC_ID, description="An existing VPC to build in; left out: a new one.")]
Bucket = Annotated[
    str,
    Field(
        pattern=patterns.BUCKET,
        description="An existing S3 bucket to mount; left out: a bucket is made.",
        examples=["my-datasets"],
    ),
]


class EksAsk(Ask):
    """The questions about the network and the EKS control plane."""

    kubernetes_version: Annotated[
        str | None,
        Field(
            pattern=patterns.KUBERNETES_VERSION,
            description="Kubernetes minor version; left out: the newest that HyperPod and EKS both take.",
        ),
    ] = None
    vpc_id: VpcId | None = None
    subnet_ids: Annotated[
        list[SubnetId] | None,
        Field(min_length=2, max_length=16, description="With vpc_id: private subnets in two zones for the EKS control plane."),
    ] = None
    vpc_cidr: Annotated[
        str | None, Field(pattern=patterns.CIDR, description="Range of the new VPC, /16 to /19; left out: a free one is chosen.")
    ] = None


class DependenciesAsk(Ask):
    """The questions about what is installed before nodes arrive."""

    cert_manager: Annotated[bool, Field(description="Install the cert-manager add-on too.")] = False
    overwrite_conflicts: Annotated[
        bool,
        Field(description="Take over objects that somebody else installed. Left false, such objects are named and nothing is touched."),
    ] = False


class HyperPodAsk(Ask):
    """The questions about the first instance group."""

    zone: Zone
    instance_type: InstanceType
    instance_count: Annotated[int, Field(ge=0, le=6758, description="Number of nodes in the first instance group.")] = 1
    capacity_type: Annotated[CapacityType, Field(description="How the nodes are paid for; fixed for the life of the group.")] = "on_demand"
    training_plan_arn: Annotated[
        str | None, Field(pattern=patterns.TRAINING_PLAN_ARN, description="With capacity_type training_plan: its ARN.")
    ] = None
    instance_group_name: Annotated[
        str, Field(max_length=63, pattern=patterns.INSTANCE_GROUP, description="Name of the first instance group.")
    ] = "workers"
    volume_gib: Annotated[int, Field(ge=1, le=16384, description="Size of each node's extra volume, in GiB.")] = 500
    deep_health_checks: Annotated[
        list[DeepHealthCheck], Field(max_length=2, description="Stress and connectivity checks before a node takes work; one to two hours.")
    ] = []
    subnet_id: Annotated[
        str | None, Field(pattern=patterns.SUBNET_ID, description="A compute subnet to use; left out: one shared subnet a zone.")
    ] = None


class StorageAsk(Ask):
    """The questions about the S3 volume."""

    bucket: Bucket | None = None
    prefix: Annotated[
        str, Field(max_length=512, pattern=patterns.FOLDER, description="Only this folder of the bucket; ends with a slash."), Within
    ] = ""
    namespace: Annotated[str, Field(max_length=63, pattern=patterns.KUBERNETES_NAME, description="Kubernetes namespace of the claim.")] = (
        "default"
    )
    claim_name: Annotated[str, Field(max_length=63, pattern=patterns.KUBERNETES_NAME, description="Name of the PersistentVolumeClaim.")] = (
        "s3-claim"
    )
    read_only: Annotated[bool, Field(description="Mount without the right to write, overwrite or delete.")] = False


class CreateEks(EksAsk):
    """Ask for the network and the EKS control plane: the first stage of a cluster."""

    tag: Tag | None = None
    region: Region | None = None


class CreateCluster(EksAsk, DependenciesAsk, HyperPodAsk, StorageAsk):
    """Ask for a whole verified cluster: EKS, dependencies, HyperPod, storage, verify."""

    tag: Tag | None = None
    region: Region | None = None


class ConfigureDependencies(DependenciesAsk):
    """Ask for what HyperPod needs inside EKS."""


class CreateHyperPod(HyperPodAsk):
    """Ask for the HyperPod cluster and its first instance group."""


class ConfigureStorage(StorageAsk):
    """Ask for an S3 bucket as a volume claim."""


class RunPreflight(HyperPodAsk, EksAsk):
    """Ask what would stand in the way of a cluster, before anything is made."""

    tag: Tag | None = None
    region: Region | None = None


class EksTarget(Target, EksAsk):
    """eks.create with its place."""


class ConnectTarget(Target):
    """cluster.connect with its place."""


class DependenciesTarget(Target, DependenciesAsk):
    """dependencies.configure with its place."""


class HyperPodTarget(Target, HyperPodAsk):
    """hyperpod.create with its place."""


class StorageTarget(Target, StorageAsk):
    """storage.configure with its place."""


class VerifyTarget(Target):
    """cluster.verify with its place."""


class ClusterTarget(Target, EksAsk, DependenciesAsk, HyperPodAsk, StorageAsk):
    """cluster.create with its place."""


class DeleteTarget(Target):
    """cluster.delete with its place."""

    delete_data: bool = False
