"""What the managed components of a HyperPod cluster are: how each comes, what it rests on, what it must not be removed under.

Pure data. Facts: aws-facts A9 (add-ons, namespaces, minima), A13 (inference operator), A16-A18, C31-C33 (tolerations).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from instantstart.ensure.installs.releases import Check, Role

_EVERYWHERE = {"tolerations": [{"operator": "Exists"}]}
INFERENCE_NAMESPACE = "hyperpod-inference-system"


class Way(StrEnum):
    """How a component comes: an EKS add-on, a pinned bundle of manifests, or a setting of the HyperPod cluster."""

    addon = "addon"
    bundle = "bundle"
    setting = "setting"


@dataclass(frozen=True)
class Component:
    """One component. ``needs`` come first; ``kinds`` are the custom resources under which it is not taken away."""

    name: str
    title: str
    says: str
    way: Way
    #: the add-on's or the bundle's name
    source: str = ""
    namespace: str = ""
    needs: tuple[str, ...] = ()
    chains: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    #: CSI driver whose volumes hold it
    driver: str | None = None
    #: how a copy of somebody else is recognised
    role: Role | None = None
    #: what its pods are seen by, where the names are documented
    checks: tuple[Check, ...] = ()
    #: what it is configured with unless the person says otherwise
    configuration: Mapping[str, Any] = field(default_factory=dict)
    #: the oldest versions of what it needs, by component
    minima: Mapping[str, str] = field(default_factory=dict)
    #: it is part of the panel, and not only something that others need
    switchable: bool = True
    #: it works on the HyperPod cluster, which must be there
    on_hyperpod: bool = False


KEDA_ROLE = Role("KEDA", ("Deployment",), ("keda/keda", "kedacore/keda"), ("keda-operator",))
_BALANCER = "aws-load-balancer-controller"
BALANCER_ROLE = Role("a load balancer controller", ("Deployment",), (_BALANCER,), (_BALANCER, "hyperpod-inference-alb"))
_KEDA_KINDS = ("keda.sh/v1alpha1/ScaledObject", "keda.sh/v1alpha1/ScaledJob", "keda.sh/v1alpha1/TriggerAuthentication")
_TRAINING, _INFERENCE = "sagemaker.amazonaws.com/v1", "inference.sagemaker.aws.amazon.com/v1"
_CERTIFICATES, _RAY, _QUEUES = "cert-manager.io/v1", "ray.io/v1", "kueue.x-k8s.io/v1beta1"

_ALL = (
    Component(
        "pod_identity", "Pod identity agent", "Hands roles to pods.", Way.addon, "eks-pod-identity-agent", "kube-system", switchable=False
    ),
    Component(
        "s3_csi", "Mountpoint for S3", "Mounts S3 buckets in pods.", Way.addon, "aws-mountpoint-s3-csi-driver", "kube-system",
        chains=("s3_csi",), configuration={"node": {"tolerateAllTaints": True}}, switchable=False, driver="s3.csi.aws.com",
    ),
    Component(
        "cert_manager", "cert-manager", "Makes and renews the certificates of the operators' webhooks.", Way.addon, "cert-manager",
        "cert-manager", kinds=tuple(f"{_CERTIFICATES}/{kind}" for kind in ("Certificate", "Issuer", "ClusterIssuer")),
        role=Role("cert-manager", ("Deployment",), ("cert-manager-controller",), ("cert-manager",)),
        checks=tuple(Check("Deployment", "cert-manager", f"cert-manager{part}") for part in ("", "-cainjector", "-webhook")),
        configuration={**_EVERYWHERE, "webhook": _EVERYWHERE, "cainjector": _EVERYWHERE},
    ),
    Component(
        "metrics_server", "Metrics server", "Feeds kubectl top and horizontal autoscaling.", Way.addon, "metrics-server", "kube-system",
        role=Role("a metrics server", ("Deployment",), ("metrics-server",), ("metrics-server",)),
        checks=(Check("Deployment", "kube-system", "metrics-server"),), configuration=_EVERYWHERE,
    ),
    Component(
        "fsx_csi", "FSx for Lustre driver", "Mounts and makes FSx for Lustre file systems.", Way.addon, "aws-fsx-csi-driver", "kube-system",
        needs=("pod_identity",), chains=("fsx_csi",), driver="fsx.csi.aws.com",
        role=Role("an FSx driver", ("Deployment",), ("aws-fsx-csi-driver",), ("fsx-csi-controller",)),
    ),
    Component(
        "training_operator", "HyperPod training operator", "Runs HyperPodPyTorchJobs and repairs them.", Way.addon,
        "amazon-sagemaker-hyperpod-training-operator", "aws-hyperpod", needs=("pod_identity", "cert_manager"),
        chains=("training_operator",), kinds=(f"{_TRAINING}/HyperPodPyTorchJob",),
    ),
    Component(
        "task_governance", "Task governance", "Queues and quotas of teams (Kueue).", Way.addon,
        "amazon-sagemaker-hyperpod-taskgovernance", "kueue-system",
        kinds=tuple(f"{_QUEUES}/{kind}" for kind in ("ClusterQueue", "LocalQueue", "Workload")),
        role=Role("Kueue", ("Deployment",), ("kueue/kueue",), ("kueue-controller-manager",)),
        checks=(Check("Deployment", "kueue-system", "kueue-controller-manager"),),
    ),
    Component(
        "kuberay", "KubeRay operator", "Runs Ray clusters and jobs.", Way.bundle, "kuberay-operator", "kuberay-operator",
        kinds=tuple(f"{_RAY}/{kind}" for kind in ("RayCluster", "RayJob", "RayService")),
        role=Role("a KubeRay operator", ("Deployment",), ("kuberay/operator",), ("kuberay-operator",)),
        checks=(Check("Deployment", "kuberay-operator", "kuberay-operator"),),
    ),
    Component(
        "keda", "KEDA", "Scales workloads by metrics of queues, Prometheus and CloudWatch.", Way.bundle, "keda", "keda",
        chains=("keda",), kinds=_KEDA_KINDS, role=KEDA_ROLE, checks=(Check("Deployment", "keda", "keda-operator"),),
    ),
    Component(
        "inference_operator", "HyperPod inference operator", "Deploys models as managed endpoints.", Way.addon,
        "amazon-sagemaker-hyperpod-inference", INFERENCE_NAMESPACE,
        needs=("pod_identity", "s3_csi", "fsx_csi", "metrics_server", "cert_manager"),
        chains=("inference_operator", "gated_models", "load_balancer", "inference_keda"),
        kinds=tuple(f"{_INFERENCE}/{kind}" for kind in ("InferenceEndpointConfig", "JumpStartModel", "SageMakerEndpointRegistration")),
        checks=(Check("Deployment", INFERENCE_NAMESPACE, "hyperpod-inference-controller-manager"),),
        minima={
            "s3_csi": "v1.14.1-eksbuild.1", "fsx_csi": "v1.6.0-eksbuild.1", "metrics_server": "v0.7.2-eksbuild.4",
            "cert_manager": "v1.18.2-eksbuild.2",
        },
        on_hyperpod=True,
    ),
    Component(
        "observability", "HyperPod observability", "Collects metrics in Amazon Managed Prometheus, for dashboards in Grafana.", Way.addon,
        "amazon-sagemaker-hyperpod-observability", "hyperpod-observability", needs=("pod_identity",), chains=("observability",),
    ),
    Component(
        "tiered_checkpointing", "Managed tiered checkpointing", "Keeps checkpoints in the nodes' memory, and in S3 now and then.",
        Way.setting, chains=("tiered_checkpointing",), on_hyperpod=True,
    ),
    Component(
        "karpenter", "Managed Karpenter", "Adds and removes nodes of instance groups as pods need them.", Way.setting,
        on_hyperpod=True, chains=("karpenter",),
        kinds=("karpenter.sh/v1/NodePool", "karpenter.sagemaker.amazonaws.com/v1/HyperpodNodeClass"),
    ),
)  # fmt: skip

COMPONENTS: Mapping[str, Component] = {component.name: component for component in _ALL}
#: what the panel shows, what others need first
FEATURES: tuple[str, ...] = tuple(c.name for c in _ALL if c.switchable)


def get(name: str) -> Component:
    """The component of that name."""
    return COMPONENTS[name]


def in_order(names: set[str]) -> list[str]:
    """Names with what they need before them."""
    return [name for name in COMPONENTS if name in names]


def with_needs(name: str) -> list[str]:
    """What a component needs, in order, itself last."""
    wanted, left = {name}, [name]
    while left:
        more = [n for n in COMPONENTS[left.pop()].needs if n not in wanted]
        wanted.update(more)
        left.extend(more)
    return in_order(wanted)
