"""Cut the OpenAPI definitions that the sandbox's API server serves out of PyPI ``kubernetes-validate`` (development only).

    python tools/cut_kubernetes_schemas.py 1.34

Writes ``src/instantstart_sandbox/kubernetes/data/definitions.json.gz``: the closure of the kinds below, with descriptions (``kubectl
explain`` shows them). The definitions are those of Kubernetes, Apache-2.0; see ``data/NOTICE`` beside the file.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

TARGET = Path(__file__).resolve().parent.parent / "src/instantstart_sandbox/kubernetes/data/definitions.json.gz"

KINDS: dict[str, str] = {
    "io.k8s.api.core.v1": "Namespace Node Pod Service Endpoints ConfigMap Secret ServiceAccount PersistentVolume PersistentVolumeClaim "
    "Event ResourceQuota LimitRange PodTemplate Binding",
    "io.k8s.api.discovery.v1": "EndpointSlice",
    "io.k8s.api.apps.v1": "Deployment ReplicaSet DaemonSet StatefulSet ControllerRevision",
    "io.k8s.api.batch.v1": "Job CronJob",
    "io.k8s.api.policy.v1": "PodDisruptionBudget Eviction",
    "io.k8s.api.autoscaling.v2": "HorizontalPodAutoscaler",
    "io.k8s.api.autoscaling.v1": "Scale",
    "io.k8s.api.rbac.v1": "Role ClusterRole RoleBinding ClusterRoleBinding",
    "io.k8s.api.storage.v1": "StorageClass CSIDriver CSINode VolumeAttachment",
    "io.k8s.api.coordination.v1": "Lease",
    "io.k8s.api.scheduling.v1": "PriorityClass",
    "io.k8s.api.node.v1": "RuntimeClass",
    "io.k8s.api.networking.v1": "Ingress IngressClass NetworkPolicy",
    "io.k8s.api.admissionregistration.v1": "ValidatingWebhookConfiguration MutatingWebhookConfiguration "
    "ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding",
    "io.k8s.api.authentication.v1": "TokenRequest TokenReview SelfSubjectReview",
    "io.k8s.api.authorization.v1": "SubjectAccessReview SelfSubjectAccessReview LocalSubjectAccessReview SelfSubjectRulesReview",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1": "CustomResourceDefinition",
    "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1": "APIService",
    "io.k8s.apimachinery.pkg.apis.meta.v1": "Status DeleteOptions ObjectMeta ListMeta",
}


def _references(node: Any) -> set[str]:
    if isinstance(node, dict):
        own = {node["$ref"].rsplit("/", 1)[1]} if isinstance(node.get("$ref"), str) else set()
        return own.union(*(_references(v) for v in node.values()))
    if isinstance(node, list):
        return set().union(*(_references(v) for v in node))
    return set()


def _plain(node: Any) -> Any:
    """The OpenAPI form: one type instead of a type or null, references into components."""
    if isinstance(node, list):
        return [_plain(v) for v in node]
    if not isinstance(node, dict):
        return node
    out = {k: _plain(v) for k, v in node.items()}
    if isinstance(out.get("type"), list):
        out["type"] = next(t for t in out["type"] if t != "null")
    if isinstance(out.get("$ref"), str):
        out["$ref"] = "#/components/schemas/" + out["$ref"].rsplit("/", 1)[1]
    return out


def cut(version: str) -> dict[str, Any]:
    """The closure of KINDS in one Kubernetes version."""
    spec = importlib.util.find_spec("kubernetes_validate")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("install kubernetes-validate first (pip install '.[test]')")
    folder = Path(spec.submodule_search_locations[0]) / "kubernetes-json-schema" / f"v{version}.0-local"
    source = json.loads((folder / "_definitions.json").read_text())["$defs"]
    todo = [f"{package}.{kind}" for package, kinds in KINDS.items() for kind in kinds.split()]
    kept: dict[str, Any] = {}
    while todo:
        name = todo.pop()
        if name not in kept:
            kept[name] = _plain(source[name])
            todo.extend(_references(source[name]))
    return {"kubernetes": version, "definitions": dict(sorted(kept.items()))}


def main() -> None:
    """Write the file."""
    version = sys.argv[1] if len(sys.argv) > 1 else "1.34"
    result = cut(version)
    TARGET.parent.mkdir(exist_ok=True)
    body = json.dumps(result, separators=(",", ":")).encode()
    TARGET.write_bytes(gzip.compress(body, 9, mtime=0))
    sys.stdout.write(f"{TARGET}: {len(result['definitions'])} definitions, {len(body)} bytes, {TARGET.stat().st_size} compressed\n")


if __name__ == "__main__":
    main()
