"""The way back: everything that bears the deployment's mark, its load balancer too. What rests on it is named first."""

from __future__ import annotations

from typing import Any

from instantstart.base import problems
from instantstart.base.outcome import Done, Outcome, Wait
from instantstart.capabilities.inference.deployments import specs
from instantstart.capabilities.room import Room
from instantstart.ensure.inference import autoscalers, servers, serving
from instantstart.ensure.installs.releases import identity
from instantstart.ensure.sites import site
from instantstart.kube.client import KubeCluster, Propagation
from instantstart.operations.declare import Run

_KINDS = ("Deployment", "Service", "PodDisruptionBudget")


def find(kube: KubeCluster, namespace: str, name: str) -> list[dict[str, Any]]:
    """What there is of a deployment of ours, in the order of removing."""
    names = {name, name + servers.EXTERNAL}
    found = [kube.list(kind, namespace, labels=serving.selector("model-server", name)) for kind in _KINDS]
    return [each for listed in found for each in listed if each["metadata"]["name"] in names]


def get(kube: KubeCluster, namespace: str, name: str) -> dict[str, Any]:
    """The live Deployment. Raises NotFound for one that is not there, or that others made."""
    live = kube.find("Deployment", name, namespace)
    marks = serving.marks(live) if live else None
    if live is None or marks is None or marks.part != "model-server":
        detail = f"There is no model deployment {namespace}/{name} of InstantStart."
        hint = "List the deployments." if live is None else "A Deployment of that name is there, and somebody else made it."
        raise problems.NotFound("model_deployment.unknown", detail, hint=hint)
    return live


def dependents(kube: KubeCluster, namespace: str, name: str) -> list[str]:
    """Routers and autoscalers that lead to it or scale it."""
    routers = kube.list("Deployment", namespace, labels=serving.selector("sglang-router"))
    found = [f"router {r['metadata']['name']}" for r in routers if r["metadata"].get("annotations", {}).get(serving.TARGET) == name]
    return found + autoscalers.owners(kube, namespace, "Deployment", name)


def check_free(kube: KubeCluster, target: specs.DeleteTarget) -> None:
    """Raise Conflict while something rests on it."""
    found = dependents(kube, target.namespace, target.name)
    if found:
        raise problems.Conflict(
            "model_deployment.in_use",
            f"{', '.join(found)} rest{'s' if len(found) == 1 else ''} on {target.name}.",
            hint="Delete these first.",
            evidence={"dependents": found},
        )


def remove(room: Room, run: Run) -> Outcome:
    """Take everything out and wait until it is gone: a load balancer outlives its Service's deletion by a while."""
    kube, spec = site(room, run.spec).kube(room), run.spec
    found = find(kube, spec.namespace, spec.name)
    if not found:
        return Done({"name": spec.name}, already=run.waited_seconds == 0)
    check_free(kube, spec)
    for each in found:
        if not each["metadata"].get("deletionTimestamp"):
            metadata = each["metadata"]
            kube.delete(each["kind"], metadata["name"], spec.namespace, propagation=Propagation.foreground, uid=metadata["uid"])
    return Wait(3, f"Going: {', '.join(identity(e) for e in found)}")
