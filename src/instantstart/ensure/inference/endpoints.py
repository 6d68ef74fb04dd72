"""The objects of HyperPod's inference operator: their kinds, the words of their status, and what the operator makes for each of them.

Facts: aws-facts A13, the operator's definitions, AWS's documentation of model deployment: the Deployment bears the endpoint's name, its
pods the label ``app``; a reverse proxy and a collector run beside the server; the load balancer is an Ingress in the namespace or in the
operator's own; a SageMaker endpoint is a SageMakerEndpointRegistration.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from instantstart.base import trees
from instantstart.ensure.managed.components import INFERENCE_NAMESPACE
from instantstart.kube.client import KubeCluster, Resource, Resources

GROUP = "inference.sagemaker.aws.amazon.com"
VERSION = f"{GROUP}/v1"
CONFIG, JUMPSTART, REGISTRATION = "InferenceEndpointConfig", "JumpStartModel", "SageMakerEndpointRegistration"
KINDS = (CONFIG, JUMPSTART)
COMPLETE, FAILED = "DeploymentComplete", "DeploymentFailed"
DELETION_FAILED = "DeletionFailed"
#: what the operator, and SageMaker, call an endpoint that answers
IN_SERVICE = frozenset({"InService", "CreationCompleted", "UpdateCompleted"})
#: containers that the operator puts beside the server
SIDECARS = frozenset({"sidecar-reverse-proxy", "otel-collector"})
#: what the operator's proxy listens on, in front of the server
PROXY_PORT = 8081


def api(kind: str) -> str:
    """The kind as ``kube`` takes it."""
    return f"{VERSION}/{kind}"


def list_all(kube: KubeCluster, namespace: str | None = None) -> Resources:
    """Every endpoint of both kinds; none where the operator never was."""
    return [each for kind in KINDS if kube.serves(api(kind)) for each in kube.list(api(kind), namespace)]


def find(kube: KubeCluster, namespace: str, name: str) -> Resource | None:
    """The endpoint of that name, of whichever kind."""
    found = (kube.find(api(kind), name, namespace) for kind in KINDS)
    return next((each | {"apiVersion": VERSION} for each in found if each is not None), None)


def deployment(kube: KubeCluster, endpoint: Mapping[str, Any]) -> Resource | None:
    """The Deployment that the operator made, or None when there is none (yet)."""
    found = kube.find("Deployment", deployment_name(endpoint), endpoint["metadata"]["namespace"])
    return found if found is not None and belongs(found, endpoint) else None


def deployment_name(endpoint: Mapping[str, Any]) -> str:
    """What the operator calls the Deployment of the server (a router has one of its own)."""
    return str(trees.get(endpoint, "status.deploymentStatus.name") or endpoint["metadata"]["name"])


def belongs(resource: Mapping[str, Any], endpoint: Mapping[str, Any]) -> bool:
    """Whether an object was made for an endpoint: its owner, or said to be by the endpoint's own status."""
    owners = resource["metadata"].get("ownerReferences") or ()
    if any(owner.get("uid") == endpoint["metadata"].get("uid") for owner in owners):
        return True
    return bool(trees.get(endpoint, "status.deploymentStatus.name") == resource["metadata"]["name"])


def server(deployed: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """The container that serves, among those of a Deployment."""
    containers = trees.get(deployed, "spec.template.spec.containers") or []
    own = [c for c in containers if c.get("name") not in SIDECARS]
    return next((c for c in own if c.get("name") == name), own[0] if own else None)


def port(endpoint: Mapping[str, Any], deployed: Mapping[str, Any] | None) -> int | None:
    """Where the server listens: as asked, else as its container says (JumpStart)."""
    asked = trees.get(endpoint, "spec.worker.modelInvocationPort.containerPort")
    if asked:
        return int(asked)
    container = server(deployed, endpoint["metadata"]["name"]) if deployed else None
    ports = (container or {}).get("ports") or []
    return int(ports[0]["containerPort"]) if ports else None


def balancer(kube: KubeCluster, endpoint: Mapping[str, Any]) -> Resource | None:
    """The Ingress that the operator made for an endpoint, or None."""
    name, namespace = endpoint["metadata"]["name"], endpoint["metadata"]["namespace"]
    usual = {f"alb-{name}", f"alb-{name}-{namespace}", f"{name}-alb"}
    for place in dict.fromkeys((namespace, INFERENCE_NAMESPACE)):
        for each in kube.list("Ingress", place):
            if belongs(each, endpoint) or each["metadata"]["name"] in usual:
                return each
    return None


def hostname(ingress: Mapping[str, Any] | None) -> str | None:
    """The load balancer's name, once it has one."""
    told = trees.get(ingress or {}, "status.loadBalancer.ingress") or []
    return str(told[0]["hostname"]) if told and told[0].get("hostname") else None


def endpoint_name(endpoint: Mapping[str, Any]) -> str | None:
    """The SageMaker endpoint that is asked for, or None."""
    told = trees.get(endpoint, "spec.endpointName") or trees.get(endpoint, "spec.sageMakerEndpoint.name")
    return str(told) if told else None


def registration(kube: KubeCluster, endpoint: Mapping[str, Any]) -> Resource | None:
    """The SageMakerEndpointRegistration that the operator made for an endpoint, or None."""
    wanted = endpoint_name(endpoint)
    if wanted is None or not kube.serves(api(REGISTRATION)):
        return None
    for each in kube.list(api(REGISTRATION)):
        if belongs(each, endpoint) or (each.get("spec") or {}).get("name") == wanted:
            return each
    return None


def conditions(resource: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The conditions of an object's status."""
    return list(trees.get(resource, "status.conditions") or ())


def trouble(endpoint: Mapping[str, Any]) -> str | None:
    """What the operator itself says is wrong, in its own words; None when it says nothing."""
    deployed = trees.get(endpoint, "status.deploymentStatus") or {}
    bad = [c for c in conditions(endpoint) if _is_bad(c)]
    told = [str(c.get("message") or c.get("reason") or "") for c in sorted(bad, key=lambda c: str(c.get("lastTransitionTime", "")))]
    said = str(deployed.get("message") or deployed.get("reason") or "")
    words = [text for text in (*reversed(told), said) if text]
    return words[0] if words else None


def rolled_back(endpoint: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The condition by which the operator itself says that it went back to what ran before; None when none says so."""
    said = (c for c in conditions(endpoint) if "RolledBack" in f"{c.get('type')} {c.get('reason')}" and _is_bad(c))
    return next(said, None)


def _is_bad(condition: Mapping[str, Any]) -> bool:
    """A condition that says something is wrong: a failure that is true, or a good thing that is not."""
    negative = any(word in str(condition.get("type")) for word in ("Fail", "Error", "Degraded", "RolledBack"))
    return bool(condition.get("status") == ("True" if negative else "False"))


def observed(endpoint: Mapping[str, Any]) -> bool:
    """Whether the operator has looked at the newest generation."""
    return int(trees.get(endpoint, "status.observedGeneration") or 0) >= int(endpoint["metadata"].get("generation", 1))


def operator_away(kube: KubeCluster) -> str | None:
    """Why nobody looks at the endpoints: the operator is not installed, or none of its pods is ready. None while one is."""
    found = kube.list("Deployment", INFERENCE_NAMESPACE)
    manager = next((d for d in found if "controller-manager" in d["metadata"]["name"]), None)
    if manager is None:
        return "The inference operator is not installed: switch the feature inference_operator on."
    return None if trees.get(manager, "status.readyReplicas") else "No pod of the inference operator is ready."
