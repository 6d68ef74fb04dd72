"""What each EKS add-on puts into the cluster: small stand-ins of our own with the real names (reference/aws-facts.md A9, A13).

The pods of these workloads do nothing; their being scheduled, pulled, Ready or Pending is what matters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .autoscaling.definitions import definitions as keda_definitions
from .inference.definitions import definitions as inference_definitions
from .loops.objects import Object
from .training.definition import definition as training_job
from .workloads import EVERYWHERE, Workload, account, budget, cluster_role, csi_driver, definition, namespace, service

Configuration = dict[str, Any]
_CRITICAL = [{"key": "CriticalAddonsOnly", "operator": "Exists"}]
_CONTROL_PLANE = [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]
SYSTEM = "kube-system"


def _at(configuration: Configuration, *path: str) -> Any:
    found: Any = configuration
    for part in path:
        found = found.get(part) if isinstance(found, dict) else None
    return found


def vpc_cni(configuration: Configuration) -> list[Object]:
    """The CNI: without its pod a node stays NotReady."""
    work = Workload(SYSTEM, "aws-node", "eks/amazon-k8s-cni:v1", account="aws-node", cpu="50m", host_network=True)
    work.labels, work.tolerations = {"k8s-app": "aws-node"}, EVERYWHERE
    built = work.build()
    env = {"ENABLE_PREFIX_DELEGATION": "true", **(_at(configuration, "env") or {})}
    built["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": k, "value": str(v)} for k, v in sorted(env.items())]
    rights = cluster_role("aws-node", ["", "networking.k8s.aws", "events.k8s.io"], (SYSTEM, "aws-node"))
    return [account(SYSTEM, "aws-node"), *rights, built]


def kube_proxy(configuration: Configuration) -> list[Object]:
    """kube-proxy: without its pod a node stays NotReady."""
    work = Workload(SYSTEM, "kube-proxy", "eks/kube-proxy:v1", account="kube-proxy", cpu="100m", host_network=True)
    work.labels, work.tolerations = {"k8s-app": "kube-proxy"}, EVERYWHERE
    return [account(SYSTEM, "kube-proxy"), work.build()]


def coredns(configuration: Configuration) -> list[Object]:
    """Cluster DNS: two replicas, so it cannot be ready before a node is."""
    replicas = int(_at(configuration, "replicaCount") or 2)
    work = Workload(SYSTEM, "coredns", "eks/coredns:v1", replicas, account="coredns", cpu="100m", memory="70Mi", port=53)
    work.labels = {"k8s-app": "kube-dns"}
    work.tolerations = _at(configuration, "tolerations") or [*_CRITICAL, *_CONTROL_PLANE]
    dns = service(SYSTEM, "kube-dns", {"k8s-app": "kube-dns"}, {"dns-tcp": 53, "metrics": 9153})
    dns["spec"]["clusterIP"] = "172.20.0.10"
    rights = cluster_role("system:coredns", [""], (SYSTEM, "coredns"))
    return [account(SYSTEM, "coredns"), *rights, budget(SYSTEM, "coredns", work.selector), work.build(), dns]


def pod_identity_agent(configuration: Configuration) -> list[Object]:
    """The agent that hands role credentials to pods."""
    work = Workload(SYSTEM, "eks-pod-identity-agent", "eks/eks-pod-identity-agent:v0", host_network=True, tolerations=EVERYWHERE)
    return [work.build()]


def cert_manager(configuration: Configuration) -> list[Object]:
    """cert-manager, its CA injector and webhook; no tolerations unless asked for."""
    space = "cert-manager"
    found: list[Object] = [namespace(space)]
    parts = {"cert-manager": configuration, "cert-manager-cainjector": _at(configuration, "cainjector")}
    parts["cert-manager-webhook"] = _at(configuration, "webhook")
    for name, part in parts.items():
        tolerations = _at(part or {}, "tolerations") or []
        found.append(account(space, name))
        found.append(Workload(space, name, f"eks/{name}:v1", 1, account=name, tolerations=tolerations).build())
    found.append(service(space, "cert-manager-webhook", {"app.kubernetes.io/name": "cert-manager-webhook"}, {"https": 443}))
    found.extend(cluster_role("cert-manager", ["cert-manager.io", "acme.cert-manager.io", ""], (space, "cert-manager")))
    group = "cert-manager.io"
    for kind, plural, scope in (
        ("Certificate", "certificates", "Namespaced"),
        ("CertificateRequest", "certificaterequests", "Namespaced"),
        ("Issuer", "issuers", "Namespaced"),
        ("ClusterIssuer", "clusterissuers", "Cluster"),
    ):
        found.append(definition(group, kind, plural, "v1", scope))
    return found


def metrics_server(configuration: Configuration) -> list[Object]:
    """metrics-server: two replicas."""
    tolerations = _at(configuration, "tolerations") or []
    work = Workload(SYSTEM, "metrics-server", "eks/metrics-server:v0", 2, account="metrics-server", cpu="100m", memory="200Mi")
    work.tolerations = tolerations
    rights = cluster_role("system:metrics-server", ["", "metrics.k8s.io"], (SYSTEM, "metrics-server"))
    held = budget(SYSTEM, "metrics-server", work.selector)
    return [
        account(SYSTEM, "metrics-server"),
        *rights,
        held,
        work.build(),
        service(SYSTEM, "metrics-server", work.selector, {"https": 443}),
    ]


def s3_csi(configuration: Configuration) -> list[Object]:
    """Mountpoint for S3: the node DaemonSet mounts, the CSIDriver announces."""
    node = Workload(SYSTEM, "s3-csi-node", "eks/aws-s3-csi-driver:v2", account="s3-csi-driver-sa", labels={"app": "s3-csi-node"})
    everywhere = _at(configuration, "node", "tolerateAllTaints")
    grace = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    node.tolerations = EVERYWHERE if everywhere else _at(configuration, "node", "tolerations") or [*_CRITICAL, grace]
    controller = Workload(SYSTEM, "s3-csi-controller", "eks/aws-s3-csi-driver:v2", 1, account="s3-csi-driver-controller-sa")
    rights = cluster_role("s3-csi-driver-cluster-role", [""], (SYSTEM, "s3-csi-driver-sa"))
    driver = csi_driver("s3.csi.aws.com", attach=False)
    accounts = [account(SYSTEM, "s3-csi-driver-sa"), account(SYSTEM, "s3-csi-driver-controller-sa")]
    return [namespace("mount-s3"), *accounts, *rights, driver, controller.build(), node.build()]


def _block_csi(short: str, driver: Object) -> list[Object]:
    image = f"eks/aws-{short}-csi-driver:v1"
    controller = Workload(SYSTEM, f"{short}-csi-controller", image, 2, account=f"{short}-csi-controller-sa")
    controller.tolerations = _CRITICAL
    node = Workload(SYSTEM, f"{short}-csi-node", image, account=f"{short}-csi-node-sa", tolerations=EVERYWHERE)
    accounts = [account(SYSTEM, f"{short}-csi-controller-sa"), account(SYSTEM, f"{short}-csi-node-sa")]
    rights = cluster_role(f"{short}-csi-external-provisioner-role", ["", "storage.k8s.io"], (SYSTEM, f"{short}-csi-controller-sa"))
    return [*accounts, *rights, driver, controller.build(), node.build()]


def fsx_csi(configuration: Configuration) -> list[Object]:
    """The FSx for Lustre driver."""
    return _block_csi("fsx", csi_driver("fsx.csi.aws.com", attach=False))


def ebs_csi(configuration: Configuration) -> list[Object]:
    """The EBS driver."""
    return _block_csi("ebs", csi_driver("ebs.csi.aws.com", attach=True, fs_group="File"))


def training_operator(configuration: Configuration) -> list[Object]:
    """The HyperPod training operator's manager and its job kind."""
    space, name = "aws-hyperpod", "hp-training-operator-controller-manager"
    manager = Workload(space, "hp-training-operator-hp-training-controller-manager", "hyperpod/training-operator:v1", 1, account=name)
    manager.labels = {"hp-training-control-plane": "hp-training-operator-controller"}
    manager.cpu, manager.memory = "500m", "512Mi"
    manager.node_selector = _at(configuration, "hpTrainingControllerManager", "nodeSelector") or {}
    built = manager.build()
    if resources := _at(configuration, "hpTrainingControllerManager", "manager", "resources"):
        built["spec"]["template"]["spec"]["containers"][0]["resources"] = resources
    rights = cluster_role("hp-training-operator-manager-role", ["", "sagemaker.amazonaws.com"], (space, name))
    return [namespace(space), account(space, name), *rights, training_job(), built]


def inference_operator(configuration: Configuration) -> list[Object]:
    """The HyperPod inference operator with the load-balancer controller and KEDA that it brings (unless disabled)."""
    space = "hyperpod-inference-system"
    names = {"hyperpod-inference-controller-manager": ("hyperpod-inference-controller-manager", _at(configuration, "executionRoleArn"))}
    if _at(configuration, "alb", "enabled") is not False:
        names["hyperpod-inference-alb"] = ("aws-load-balancer-controller", _at(configuration, "alb", "serviceAccount", "roleArn"))
    found: list[Object] = [namespace(space)]
    group = "inference.sagemaker.aws.amazon.com"
    found.extend(inference_definitions())
    if _at(configuration, "keda", "enabled") is not False:
        names["keda-operator"] = ("keda-operator", _at(configuration, "keda", "auth", "aws", "irsa", "roleArn"))
        names |= {name: (name, None) for name in ("keda-operator-metrics-apiserver", "keda-admission-webhooks")}
        found.extend(keda_definitions())
    for name, (held, role) in names.items():
        found.append(account(space, held, role))
        found.append(Workload(space, name, f"hyperpod/{name}:v3", 1, account=held, cpu="100m", memory="128Mi").build())
    subject = (space, "hyperpod-inference-controller-manager")
    return [*found, *cluster_role("hyperpod-inference-manager-role", ["", "apps", group], subject)]


def observability(configuration: Configuration) -> list[Object]:
    """Collector, operator and exporters of the observability add-on."""
    space = "hyperpod-observability"
    collector = "hyperpod-observability-operator-otel-collector"
    manager = "hyperpod-observability-controller-manager"
    central = Workload(space, "hyperpod-observability-central-collector", "hyperpod/otel-collector:v1", 1, account=collector)
    central.cpu, central.memory = "2", "4Gi"
    operator = Workload(space, manager, "hyperpod/observability-operator:v1", 1, account=manager)
    exporter = Workload(space, "hyperpod-observability-node-exporter", "hyperpod/node-exporter:v1", tolerations=EVERYWHERE)
    accounts = [account(space, collector), account(space, manager)]
    rights = cluster_role("hyperpod-observability-manager-role", [""], (space, manager))
    crd = definition("observability.sagemaker.amazonaws.com", "HyperPodObservability", "hyperpodobservabilities", "v1")
    return [namespace(space), *accounts, *rights, crd, operator.build(), central.build(), exporter.build()]


#: Kueue's kinds: (kind, plural, scope).
_KUEUE = (
    ("ClusterQueue", "clusterqueues", "Cluster"),
    ("LocalQueue", "localqueues", "Namespaced"),
    ("ResourceFlavor", "resourceflavors", "Cluster"),
    ("Workload", "workloads", "Namespaced"),
    ("WorkloadPriorityClass", "workloadpriorityclasses", "Cluster"),
    ("AdmissionCheck", "admissionchecks", "Cluster"),
    ("Topology", "topologies", "Cluster"),
    ("Cohort", "cohorts", "Cluster"),
)


def task_governance(configuration: Configuration) -> list[Object]:
    """Kueue, as the task governance add-on installs it."""
    space, name = "kueue-system", "kueue-controller-manager"
    crds = [definition("kueue.x-k8s.io", kind, plural, "v1beta1", scope) for kind, plural, scope in _KUEUE]
    work = Workload(space, name, "hyperpod/kueue:v0", 1, account=name, cpu="500m", memory="512Mi")
    return [
        namespace(space),
        account(space, name),
        *cluster_role("kueue-manager-role", ["kueue.x-k8s.io", ""], (space, name)),
        *crds,
        work.build(),
    ]


#: Add-on name -> the service account that its serviceAccountRoleArn is for.
ROLE_ACCOUNTS = {
    "vpc-cni": "aws-node",
    "aws-mountpoint-s3-csi-driver": "s3-csi-driver-sa",
    "aws-fsx-csi-driver": "fsx-csi-controller-sa",
    "aws-ebs-csi-driver": "ebs-csi-controller-sa",
}
#: Add-on name -> its objects for a parsed configuration.
MANIFESTS: dict[str, Callable[[Configuration], list[Object]]] = {
    "vpc-cni": vpc_cni,
    "kube-proxy": kube_proxy,
    "coredns": coredns,
    "eks-pod-identity-agent": pod_identity_agent,
    "cert-manager": cert_manager,
    "metrics-server": metrics_server,
    "aws-mountpoint-s3-csi-driver": s3_csi,
    "aws-fsx-csi-driver": fsx_csi,
    "aws-ebs-csi-driver": ebs_csi,
    "amazon-sagemaker-hyperpod-training-operator": training_operator,
    "amazon-sagemaker-hyperpod-inference": inference_operator,
    "amazon-sagemaker-hyperpod-observability": observability,
    "amazon-sagemaker-hyperpod-taskgovernance": task_governance,
}
