"""The built-in resources, as ``kubectl api-resources`` of an EKS cluster lists them (those that the sandbox serves)."""

from __future__ import annotations

from typing import Final

from instantstart_sandbox.kubernetes.resources import Catalog, Resource, Scale
from instantstart_sandbox.kubernetes.schema import definition_name, definitions

_CLUSTER: Final = False
_NAMESPACED: Final = True
_Row = tuple[str, str, bool, str, str, str]

#: group/version -> rows of (plural, kind, namespaced, short names, subresources, categories)
_TABLE: Final[dict[str, tuple[_Row, ...]]] = {
    "v1": (
        ("namespaces", "Namespace", _CLUSTER, "ns", "status finalize", ""),
        ("nodes", "Node", _CLUSTER, "no", "status proxy", ""),
        ("pods", "Pod", _NAMESPACED, "po", "status log binding eviction ephemeralcontainers exec attach portforward proxy", "all"),
        ("services", "Service", _NAMESPACED, "svc", "status proxy", "all"),
        ("endpoints", "Endpoints", _NAMESPACED, "ep", "", ""),
        ("configmaps", "ConfigMap", _NAMESPACED, "cm", "", ""),
        ("secrets", "Secret", _NAMESPACED, "", "", ""),
        ("serviceaccounts", "ServiceAccount", _NAMESPACED, "sa", "token", ""),
        ("persistentvolumes", "PersistentVolume", _CLUSTER, "pv", "status", ""),
        ("persistentvolumeclaims", "PersistentVolumeClaim", _NAMESPACED, "pvc", "status", ""),
        ("events", "Event", _NAMESPACED, "ev", "", ""),
        ("resourcequotas", "ResourceQuota", _NAMESPACED, "quota", "status", ""),
        ("limitranges", "LimitRange", _NAMESPACED, "limits", "", ""),
        ("podtemplates", "PodTemplate", _NAMESPACED, "", "", ""),
    ),
    "discovery.k8s.io/v1": (("endpointslices", "EndpointSlice", _NAMESPACED, "", "", ""),),
    "apps/v1": (
        ("deployments", "Deployment", _NAMESPACED, "deploy", "status scale", "all"),
        ("replicasets", "ReplicaSet", _NAMESPACED, "rs", "status scale", "all"),
        ("statefulsets", "StatefulSet", _NAMESPACED, "sts", "status scale", "all"),
        ("daemonsets", "DaemonSet", _NAMESPACED, "ds", "status", "all"),
        ("controllerrevisions", "ControllerRevision", _NAMESPACED, "", "", ""),
    ),
    "batch/v1": (
        ("jobs", "Job", _NAMESPACED, "", "status", "all"),
        ("cronjobs", "CronJob", _NAMESPACED, "cj", "status", "all"),
    ),
    "policy/v1": (("poddisruptionbudgets", "PodDisruptionBudget", _NAMESPACED, "pdb", "status", ""),),
    "autoscaling/v2": (("horizontalpodautoscalers", "HorizontalPodAutoscaler", _NAMESPACED, "hpa", "status", "all"),),
    "rbac.authorization.k8s.io/v1": (
        ("roles", "Role", _NAMESPACED, "", "", ""),
        ("rolebindings", "RoleBinding", _NAMESPACED, "", "", ""),
        ("clusterroles", "ClusterRole", _CLUSTER, "", "", ""),
        ("clusterrolebindings", "ClusterRoleBinding", _CLUSTER, "", "", ""),
    ),
    "storage.k8s.io/v1": (
        ("storageclasses", "StorageClass", _CLUSTER, "sc", "", ""),
        ("csidrivers", "CSIDriver", _CLUSTER, "", "", ""),
        ("csinodes", "CSINode", _CLUSTER, "", "", ""),
        ("volumeattachments", "VolumeAttachment", _CLUSTER, "", "status", ""),
    ),
    "coordination.k8s.io/v1": (("leases", "Lease", _NAMESPACED, "", "", ""),),
    "scheduling.k8s.io/v1": (("priorityclasses", "PriorityClass", _CLUSTER, "pc", "", ""),),
    "node.k8s.io/v1": (("runtimeclasses", "RuntimeClass", _CLUSTER, "", "", ""),),
    "networking.k8s.io/v1": (
        ("ingresses", "Ingress", _NAMESPACED, "ing", "status", ""),
        ("ingressclasses", "IngressClass", _CLUSTER, "", "", ""),
        ("networkpolicies", "NetworkPolicy", _NAMESPACED, "netpol", "", ""),
    ),
    "admissionregistration.k8s.io/v1": (
        ("validatingwebhookconfigurations", "ValidatingWebhookConfiguration", _CLUSTER, "", "", "api-extensions"),
        ("mutatingwebhookconfigurations", "MutatingWebhookConfiguration", _CLUSTER, "", "", "api-extensions"),
        ("validatingadmissionpolicies", "ValidatingAdmissionPolicy", _CLUSTER, "", "status", "api-extensions"),
        ("validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", _CLUSTER, "", "", "api-extensions"),
    ),
    "apiextensions.k8s.io/v1": (
        ("customresourcedefinitions", "CustomResourceDefinition", _CLUSTER, "crd crds", "status", "api-extensions"),
    ),
    "apiregistration.k8s.io/v1": (("apiservices", "APIService", _CLUSTER, "", "status", "api-extensions"),),
}

#: What can only be posted: group/version -> (plural, kind, namespaced)
_VIRTUAL: Final[dict[str, tuple[tuple[str, str, bool], ...]]] = {
    "authentication.k8s.io/v1": (("tokenreviews", "TokenReview", _CLUSTER), ("selfsubjectreviews", "SelfSubjectReview", _CLUSTER)),
    "authorization.k8s.io/v1": (
        ("selfsubjectaccessreviews", "SelfSubjectAccessReview", _CLUSTER),
        ("selfsubjectrulesreviews", "SelfSubjectRulesReview", _CLUSTER),
        ("subjectaccessreviews", "SubjectAccessReview", _CLUSTER),
        ("localsubjectaccessreviews", "LocalSubjectAccessReview", _NAMESPACED),
    ),
}


def _split(api_version: str) -> tuple[str, str]:
    group, _, version = api_version.rpartition("/")
    return group, version


def _resource(api_version: str, row: _Row) -> Resource:
    plural, kind, namespaced, short, subresources, categories = row
    group, version = _split(api_version)
    subs = frozenset(subresources.split())
    return Resource(
        group, version, plural, kind, namespaced, subs, tuple(short.split()), tuple(categories.split()),
        singular=kind.lower(), schema=definitions()[definition_name(group, version, kind)], stored_version=version,
        scale=Scale() if "scale" in subs else None, list_kind=f"{kind}List",
    )  # fmt: skip


def built_in() -> Catalog:
    """A catalogue with every built-in resource."""
    catalog = Catalog()
    for api_version, rows in _TABLE.items():
        for row in rows:
            catalog.add(_resource(api_version, row))
    for api_version, actions in _VIRTUAL.items():
        group, version = _split(api_version)
        for plural, kind, namespaced in actions:
            schema = definitions()[definition_name(group, version, kind)]
            catalog.add(Resource(group, version, plural, kind, namespaced, singular=kind.lower(), schema=schema, virtual=True))
    return catalog
