"""The two seams of the sandbox: what Kubernetes asks of AWS, and what AWS tells Kubernetes.

The AWS side runs in WSGI threads under one lock; the Kubernetes side runs in one asyncio loop in its own thread.
Every method here may be called from any thread and must not block for long.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True)
class Endpoint:
    """Where a cluster's API server listens: ``url`` is ``https://127.0.0.1:<port>``, ``ca_pem`` its CA (PEM text)."""

    url: str
    ca_pem: str


@dataclass(frozen=True)
class Identity:
    """A verified caller of an EKS cluster, as the EKS authenticator maps it from STS and the access entries."""

    arn: str
    username: str
    groups: tuple[str, ...]
    #: (access policy name without the arn prefix, namespaces; empty = cluster scope)
    policies: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True)
class Instance:
    """One HyperPod instance that has joined, or is to leave, a Kubernetes cluster."""

    instance_id: str
    cluster_name: str
    group: str
    instance_type: str
    status: str
    zone: str
    zone_id: str
    private_ip: str
    capacity_type: str
    joined: bool
    health: str = "Schedulable"
    deep_health: str | None = None
    labels: dict[str, str] = field(default_factory=dict)
    taints: tuple[tuple[str, str, str], ...] = ()
    #: how often it has been booted again
    boots: int = 0


@dataclass(frozen=True)
class Addon:
    """An EKS add-on as Kubernetes sees it: ``status`` as in DescribeAddon, ``configuration`` parsed.

    ``role_arn`` is for its service account; ``overwrites``: objects of somebody else are taken over.
    """

    name: str
    version: str
    status: str
    configuration: dict[str, Any] = field(default_factory=dict)
    role_arn: str = ""
    overwrites: bool = True


class KubernetesWorld(Protocol):
    """What the AWS side calls. ``cluster`` is always the EKS cluster's ARN."""

    def create_cluster(self, cluster: str, name: str, region: str, version: str) -> Endpoint:
        """Start an API server; idempotent by ARN (a restart gives the same port and CA)."""

    def delete_cluster(self, cluster: str) -> None:
        """Stop the API server and forget its objects; pods' processes are killed."""

    def workload_ready(self, cluster: str, namespace: str, kind: str, name: str) -> bool:
        """Whether a Deployment or DaemonSet has all its wanted replicas ready (a DaemonSet with no node counts as ready)."""

    def foreign_objects(self, cluster: str, addon: str, configuration: dict[str, Any]) -> list[str]:
        """The objects of an add-on that are there and were not made by it: what ConfigurationConflict names."""

    def schedulable_nodes(self, cluster: str) -> int:
        """How many nodes are Ready and schedulable (add-ons that need a node are DEGRADED while this is 0)."""

    def nudge(self, cluster: str) -> None:
        """Say that instances, add-ons or access entries changed; Kubernetes reads them anew through AwsWorld."""


class AwsWorld(Protocol):
    """What the Kubernetes side calls. ``cluster`` is always the EKS cluster's ARN."""

    def authenticate(self, cluster: str, token: str) -> Identity | None:
        """Verify a ``k8s-aws-v1.`` token: signature, cluster header, 15 minutes, access entry. None: 401."""

    def instances(self, cluster: str) -> list[Instance]:
        """The instances of every HyperPod cluster that this EKS cluster orchestrates."""

    def addons(self, cluster: str) -> list[Addon]:
        """The add-ons of the cluster, with their status."""

    def request_node_action(self, cluster: str, instance_id: str, action: str) -> None:
        """``reboot`` or ``replace``, asked by the label node-health-status=UnschedulablePending..."""

    def create_load_balancer(self, cluster: str, service: str, scheme: str) -> str:
        """Make an NLB with its ENIs and security group in the cluster's VPC for a Service; answers its DNS name."""

    def delete_load_balancer(self, cluster: str, service: str) -> None:
        """Remove what create_load_balancer made for ``namespace/name``."""

    def bucket_exists(self, bucket: str) -> bool:
        """Whether the emulated S3 has the bucket (the S3 CSI driver mounts only what exists)."""

    def file_system_ready(self, dns_name: str) -> bool:
        """Whether a file system of FSx for Lustre answers under that name (the FSx CSI driver mounts only what does)."""


@runtime_checkable
class BucketWorld(Protocol):
    """What an ``AwsWorld`` may offer besides: without it, processes see an S3 volume as an empty folder of their own."""

    def bucket_client(self) -> Any:
        """An S3 client of the emulated account, for the S3 CSI driver's mounts."""


@runtime_checkable
class TrackingWorld(Protocol):
    """What an ``AwsWorld`` may offer besides: where MLflow's servers are, for the processes of pods."""

    def tracking_url(self, arn: str) -> str | None:
        """The address of the MLflow server or app of an ARN; None while it does not run."""


@dataclass(frozen=True)
class ScalableGroup:
    """An instance group as managed Karpenter sees it. ``subnets``: (id, zone, zone id); ``obstacle``: why it may not be used."""

    name: str
    instance_types: tuple[str, ...]
    subnets: tuple[tuple[str, str, str], ...]
    capacity_type: str
    labels: dict[str, str] = field(default_factory=dict)
    taints: tuple[tuple[str, str, str], ...] = ()
    obstacle: str = ""


@dataclass(frozen=True)
class AskedNode:
    """A node that HyperPod was asked for: from its logical id on, before it has an instance. ``message`` is its last problem."""

    logical_id: str
    group: str
    instance_id: str
    instance_type: str
    zone: str
    zone_id: str
    status: str
    message: str


@dataclass(frozen=True)
class Autoscaler:
    """Managed Karpenter of one HyperPod cluster, while it is in service."""

    cluster_name: str
    groups: tuple[ScalableGroup, ...]
    nodes: tuple[AskedNode, ...]


class ScalingRefusedError(Exception):
    """HyperPod, a quota or the cluster role's permissions refuse; ``code`` is AWS's."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@runtime_checkable
class ScalingWorld(Protocol):
    """What an ``AwsWorld`` may offer besides: managed Karpenter's view of HyperPod, and its two verbs."""

    def autoscaler(self, cluster: str) -> Autoscaler | None:
        """The autoscaler of the HyperPod cluster on this EKS cluster; None while it is not in service."""

    def add_node(self, cluster: str, wish: tuple[str, str, str], token: str) -> str:
        """Ask for one node of (group, instance type, zone); its logical id. The same token: the same node. Raises ScalingRefusedError."""

    def delete_node(self, cluster: str, logical_id: str) -> None:
        """Give a node up. Raises ScalingRefusedError."""


@runtime_checkable
class CrowdedWorld(Protocol):
    """What a ``KubernetesWorld`` may offer besides: crowds for measurements."""

    def populate(self, cluster: str, body: dict[str, Any]) -> dict[str, Any]:
        """Begin to fill a cluster, once; how far that is. ValueError for what cannot be done."""


@runtime_checkable
class IdentityWorld(Protocol):
    """What an ``AwsWorld`` may offer besides: pod identity associations."""

    def associations(self, cluster: str) -> dict[tuple[str, str], float]:
        """``(namespace, service account)`` of every association -> the virtual moment from which it is in force."""


@runtime_checkable
class InferenceWorld(Protocol):
    """What an ``AwsWorld`` may offer besides: what the inference operator does in SageMaker, with its execution role."""

    def tiered_storage(self, cluster: str) -> bool:
        """Whether the HyperPod cluster has tiered storage for key-value caches."""

    def register_endpoint(self, cluster: str, name: str, role_arn: str, about: dict[str, str]) -> dict[str, Any]:
        """Make the SageMaker endpoint of an endpoint (``about``: namespace, endpoint, path), or tell how far it is: state and ARNs."""

    def metric(self, cluster: str, asked: dict[str, str], since: float) -> float | None:
        """The value of a CloudWatch metric (``asked``: a KEDA trigger's metadata) since a virtual moment; None without data."""

    def deregister_endpoint(self, cluster: str, name: str) -> None:
        """Remove it with its configuration and model; one that is not there is fine."""


@runtime_checkable
class BalancerWorld(Protocol):
    """What an ``AwsWorld`` may offer besides: who may reach a load balancer."""

    def open_load_balancer(self, cluster: str, service: str, ranges: list[str], ports: list[int]) -> None:
        """Let CIDR ranges in at ports, and nobody else."""
