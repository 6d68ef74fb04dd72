"""The add-ons this EKS offers: versions, namespaces, identities, configuration schemas.

Names, namespaces, minimum versions and refusals come from the fact sheet (A9, A13). The version lists are the
sandbox's own: old enough to hold every documented minimum, with a newest one that is the default.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from instantstart_sandbox.services.eks.versions import VERSIONS, minor

Schema = dict[str, Any]
_STRING: Schema = {"type": "string"}
_OBJECT: Schema = {"type": "object"}
_LIST: Schema = {"type": "array"}
_BOOLEAN: Schema = {"type": "boolean"}
_INTEGER: Schema = {"type": "integer"}
_SCHEDULING: dict[str, Schema] = {"tolerations": _LIST, "nodeSelector": _OBJECT, "affinity": _OBJECT, "resources": _OBJECT}


def closed(**properties: Schema) -> Schema:
    """An object that takes these properties and no other."""
    return {"type": "object", "additionalProperties": False, "properties": properties}


@dataclass(frozen=True)
class AddonKind:
    """One add-on. ``versions`` is newest first; each is ``(version, lowest, highest Kubernetes minor)``."""

    name: str
    namespace: str
    versions: tuple[tuple[str, int, int], ...]
    schema: Schema
    #: service account -> recommended managed policies
    identities: dict[str, tuple[str, ...]] = field(default_factory=dict)
    requires_iam: bool = False
    requires_configuration: bool = False
    owner: str = "aws"
    publisher: str = "eks"
    category: str = "networking"
    #: versions that refuse podIdentityAssociations inside CreateAddon
    no_inline_identity: frozenset[str] = frozenset()
    #: the namespace may be chosen at creation
    movable: bool = False

    def compatible(self, version: str, kubernetes: str) -> bool:
        """Whether a version runs on this Kubernetes minor version."""
        return any(v == version and low <= minor(kubernetes) <= high for v, low, high in self.versions)

    def default(self, kubernetes: str) -> str | None:
        """The version that CreateAddon takes when none is named."""
        return next((v for v, low, high in self.versions if low <= minor(kubernetes) <= high), None)


def _per_minor(patches: dict[int, str]) -> tuple[tuple[str, int, int], ...]:
    """kube-proxy has one version for each Kubernetes version, usable on that one and up to three above."""
    return tuple((f"v1.{m}.{patch}", m, m + 3) for m, patch in sorted(patches.items(), reverse=True))


_LOWEST, _HIGHEST = min(minor(v.name) for v in VERSIONS), max(minor(v.name) for v in VERSIONS)


def _all(*versions: str) -> tuple[tuple[str, int, int], ...]:
    return tuple((v, _LOWEST, _HIGHEST) for v in versions)


_LEARNING = "machine-learning"
_TRAINING_RESOURCES = closed(manager=closed(resources=_OBJECT), nodeSelector=_OBJECT, tolerations=_LIST, affinity=_OBJECT)
_WORKSPACE = closed(prometheusEndpoint=_STRING, arn=_STRING)
_LEVEL: Schema = closed(level={"type": "string", "enum": ["BASIC", "ADVANCED", "DISABLED"]}, scrapeInterval=_INTEGER)
_METRICS = (
    "trainingMetrics",
    "inferenceMetrics",
    "taskGovernanceMetrics",
    "scalingMetrics",
    "customMetrics",
    "nodeMetrics",
    "acceleratedComputeMetrics",
    "networkMetrics",
)

KINDS = (
    AddonKind(
        "vpc-cni",
        "kube-system",
        _all("v1.21.1-eksbuild.7", "v1.20.4-eksbuild.2", "v1.19.6-eksbuild.7", "v1.18.3-eksbuild.3", "v1.16.4-eksbuild.2"),
        closed(env=_OBJECT, init=_OBJECT, enableNetworkPolicy=_STRING, nodeAgent=_OBJECT, eniConfig=_OBJECT, **_SCHEDULING),
        {"aws-node": ("AmazonEKS_CNI_Policy",)},
        requires_iam=True,
    ),
    AddonKind(
        "kube-proxy",
        "kube-system",
        _per_minor(
            {
                35: "4-eksbuild.2",
                34: "7-eksbuild.3",
                33: "11-eksbuild.2",
                32: "13-eksbuild.5",
                31: "14-eksbuild.9",
                30: "14-eksbuild.28",
            }
        ),
        closed(mode={"type": "string", "enum": ["iptables", "ipvs"]}, ipvs=_OBJECT, **_SCHEDULING),
    ),
    AddonKind(
        "coredns",
        "kube-system",
        _all("v1.12.4-eksbuild.10", "v1.11.4-eksbuild.28", "v1.11.3-eksbuild.1"),
        closed(replicaCount=_INTEGER, corefile=_STRING, autoScaling=_OBJECT, podDisruptionBudget=_OBJECT, podLabels=_OBJECT, **_SCHEDULING),
    ),
    AddonKind(
        "eks-pod-identity-agent",
        "kube-system",
        _all("v1.3.10-eksbuild.2", "v1.3.8-eksbuild.2", "v1.3.4-eksbuild.1"),
        closed(agent=_OBJECT, init=_OBJECT, **_SCHEDULING),
        category="security",
    ),
    AddonKind(
        "cert-manager",
        "cert-manager",
        _all("v1.19.2-eksbuild.1", "v1.18.2-eksbuild.2", "v1.17.2-eksbuild.1"),
        closed(webhook=_OBJECT, cainjector=_OBJECT, replicaCount=_INTEGER, crds=_OBJECT, **_SCHEDULING),
        publisher="cert-manager",
        owner="community",
        category="security",
        movable=True,
    ),
    AddonKind(
        "metrics-server",
        "kube-system",
        _all("v0.8.1-eksbuild.2", "v0.7.2-eksbuild.4", "v0.7.2-eksbuild.1"),
        closed(replicas=_INTEGER, args=_LIST, podLabels=_OBJECT, **_SCHEDULING),
        publisher="kubernetes-sigs",
        owner="community",
        category="observability",
        movable=True,
    ),
    AddonKind(
        "aws-mountpoint-s3-csi-driver",
        "kube-system",
        _all("v2.3.0-eksbuild.1", "v1.15.0-eksbuild.1", "v1.14.1-eksbuild.1"),
        closed(node=closed(tolerateAllTaints=_BOOLEAN, defaultTolerations=_BOOLEAN, **_SCHEDULING), controller=_OBJECT, image=_OBJECT),
        {"s3-csi-driver-sa": ("AmazonS3FullAccess",)},
        requires_iam=True,
        publisher="s3",
        category="storage",
    ),
    AddonKind(
        "aws-fsx-csi-driver",
        "kube-system",
        _all("v1.8.0-eksbuild.1", "v1.6.0-eksbuild.1"),
        closed(controller=_OBJECT, node=_OBJECT, image=_OBJECT),
        {"fsx-csi-controller-sa": ("AmazonFSxFullAccess",)},
        requires_iam=True,
        category="storage",
    ),
    AddonKind(
        "aws-ebs-csi-driver",
        "kube-system",
        _all("v1.56.0-eksbuild.1", "v1.48.0-eksbuild.2", "v1.47.0-eksbuild.1", "v1.44.0-eksbuild.1"),
        closed(controller=_OBJECT, node=_OBJECT, sidecars=_OBJECT, defaultStorageClass=_OBJECT),
        {"ebs-csi-controller-sa": ("service-role/AmazonEBSCSIDriverPolicy",)},
        requires_iam=True,
        category="storage",
    ),
    AddonKind(
        "amazon-sagemaker-hyperpod-training-operator",
        "aws-hyperpod",
        _all("v1.3.0-eksbuild.1", "v1.2.1-eksbuild.1", "v1.2.0-eksbuild.1", "v1.0.1-eksbuild.1"),
        closed(hpTrainingControllerManager=_TRAINING_RESOURCES),
        {"hp-training-operator-controller-manager": ("AmazonSageMakerHyperPodTrainingOperatorAccess",)},
        requires_iam=True,
        no_inline_identity=frozenset({"v1.3.0-eksbuild.1", "v1.2.1-eksbuild.1"}),
        category=_LEARNING,
    ),
    AddonKind(
        "amazon-sagemaker-hyperpod-inference",
        "hyperpod-inference-system",
        _all("v1.2.0-eksbuild.1", "v1.1.0-eksbuild.1", "v1.0.0-eksbuild.1"),
        closed(
            executionRoleArn=_STRING,
            tlsCertificateS3Bucket=_STRING,
            hyperpodClusterArn=_STRING,
            jumpstartGatedModelDownloadRoleArn=_STRING,
            region=_STRING,
            alb=_OBJECT,
            keda=_OBJECT,
            tolerations=_LIST,
            nodeSelector=_OBJECT,
            **{"cert-manager": _OBJECT, "metrics-server": _OBJECT, "s3-csi": _OBJECT, "fsx": _OBJECT},
        ),
        requires_iam=True,
        requires_configuration=True,
        category=_LEARNING,
    ),
    AddonKind(
        "amazon-sagemaker-hyperpod-observability",
        "hyperpod-observability",
        _all("v1.2.0-eksbuild.1", "v1.1.0-eksbuild.1", "v1.0.4-eksbuild.1"),
        closed(
            ampWorkspace=_WORKSPACE,
            amgWorkspace=closed(workspaceName=_STRING, arn=_STRING),
            metricsProvider=closed(**dict.fromkeys(_METRICS, _LEVEL)),
            logging=closed(enabled=_BOOLEAN),
            tolerations=_LIST,
            nodeSelector=_OBJECT,
        ),
        {"hyperpod-observability-operator-otel-collector": ()},
        requires_iam=True,
        requires_configuration=True,
        category=_LEARNING,
    ),
    AddonKind(
        "amazon-sagemaker-hyperpod-taskgovernance",
        "kueue-system",
        _all("v1.6.0-eksbuild.1", "v1.5.0-eksbuild.1", "v1.4.0-eksbuild.1", "v1.3.2-eksbuild.1"),
        closed(kueue=_OBJECT, nodeSelector=_OBJECT, tolerations=_LIST),
        category=_LEARNING,
    ),
)
BY_NAME = {kind.name: kind for kind in KINDS}
