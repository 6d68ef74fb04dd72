"""Everything in a cluster that serves a model, on whichever path, and the doors through which it is asked.

Three kinds: what the inference operator makes of an endpoint; what we made ourselves (by our marks); and what others run that looks like
vLLM or SGLang. A thing is named by its namespace and name, and only what is found here is ever asked: no address comes from a caller.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from instantstart.base import problems, trees
from instantstart.ensure.inference import endpoints, serving
from instantstart.ensure.inference.serving import EngineName
from instantstart.ensure.managed.components import INFERENCE_NAMESPACE
from instantstart.kube import shapes
from instantstart.kube.client import Door, KubeCluster, Resource, Resources

Path = Literal["managed", "self_managed", "foreign"]
#: these namespaces hold the cluster's own work
_SYSTEM = frozenset({"kube-system", INFERENCE_NAMESPACE})


@dataclass(frozen=True)
class Served:
    """One thing that serves. ``owner``: the endpoint, Deployment or binding Service it is named by; ``workload``: its Deployment."""

    namespace: str
    name: str
    kind: str
    path: Path
    part: str
    engine: EngineName
    model: str | None
    port: int | None
    metrics_path: str | None
    metrics_port: int | None
    selector: Mapping[str, str]
    owner: Resource
    workload: Resource | None

    @property
    def reference(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def wanted(self) -> int:
        """Replicas that are asked for."""
        told = trees.get(self.workload or {}, "spec.replicas")
        return 1 if told is None and self.workload else int(told or 0)

    @property
    def ready(self) -> int:
        """Replicas that are ready."""
        return int(trees.get(self.workload or {}, "status.readyReplicas") or 0)


def list_all(kube: KubeCluster, namespace: str | None = None) -> list[Served]:
    """Everything that serves, by namespace and name."""
    deployments = kube.list("Deployment", namespace)
    found = [_managed(e, deployments) for e in endpoints.list_all(kube, namespace)]
    owners = {s.owner["metadata"]["uid"] for s in found}
    for each in deployments:
        if not owners & {o.get("uid") for o in each["metadata"].get("ownerReferences") or ()}:
            made = _ours(each) or _foreign(each)
            found += [made] if made else []
    bindings = kube.list("Service", namespace, labels=serving.selector("model-binding"))
    found += [made for each in bindings if (made := _binding(each, deployments)) is not None]
    return sorted(found, key=lambda s: (s.namespace, s.name, s.kind))


def find(kube: KubeCluster, namespace: str, name: str) -> Served:
    """The one of that name. Raises NotFound naming what is served there."""
    every = list_all(kube, namespace)
    named = [s for s in every if s.name == name]
    if not named:
        have = ", ".join(dict.fromkeys(s.name for s in every)) or "nothing"
        raise problems.NotFound(
            "served_model.unknown", f"Nothing that serves a model is called {name} in the namespace {namespace}.", hint=f"There: {have}."
        )
    return next((s for s in named if s.kind in endpoints.KINDS), named[0])


def pods(kube: KubeCluster, served: Served) -> Resources:
    """Its pods."""
    labels = ",".join(f"{key}={value}" for key, value in sorted(served.selector.items()))
    return kube.list("Pod", served.namespace, labels=labels) if labels else []


def doors(kube: KubeCluster, served: Served, port: int | None = None) -> list[Door]:
    """The ready pods as doors, in an order of chance, so that calls spread. Empty when none is ready."""
    number = port or served.port
    found = [shapes.pod(p) for p in pods(kube, served)]
    ready = [p for p in found if is_ready(p) and p.metadata.deletion_timestamp is None]
    chosen = [Door(served.namespace, p.metadata.name, number, kind="Pod") for p in ready] if number else []
    random.shuffle(chosen)
    return chosen


def is_ready(pod: shapes.Pod) -> bool:
    """Whether the kubelet says so."""
    return any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions)


def _managed(endpoint: Resource, deployments: Sequence[Resource]) -> Served:
    space, name = endpoint["metadata"]["namespace"], endpoint["metadata"]["name"]
    same = [d for d in deployments if d["metadata"]["namespace"] == space]
    deployed = next((d for d in same if d["metadata"]["name"] == endpoints.deployment_name(endpoint)), None)
    deployed = deployed if deployed is not None and endpoints.belongs(deployed, endpoint) else None
    container = (endpoints.server(deployed, name) if deployed else None) or trees.get(endpoint, "spec.worker") or {}
    argv, image = _argv(container), container.get("image")
    engine = serving.engine_of(argv, image)
    port = endpoints.port(endpoint, deployed)
    told = trees.get(endpoint, "spec.metrics.modelMetrics") or {}
    return Served(
        namespace=space,
        name=name,
        kind=endpoint["kind"],
        path="managed",
        part="model-server",
        engine=engine,
        model=_model_of_endpoint(endpoint) or serving.model_of(engine, argv),
        port=port,
        metrics_path=str(told.get("path") or serving.ENGINES[engine].metrics or "/metrics"),
        metrics_port=int(told.get("port") or port or 0) or None,
        selector=trees.get(deployed or {}, "spec.selector.matchLabels") or {},
        owner=endpoint,
        workload=deployed,
    )


def _model_of_endpoint(endpoint: Resource) -> str | None:
    told = (
        trees.get(endpoint, "spec.modelSourceConfig.huggingFaceModel.modelId")
        or trees.get(endpoint, "spec.model.modelId")
        or trees.get(endpoint, "spec.modelSourceConfig.modelLocation")
        or trees.get(endpoint, "spec.modelName")
    )
    return str(told) if told else None


def _ours(deployment: Resource) -> Served | None:
    marks = serving.marks(deployment)
    return _of_deployment(deployment, "self_managed", marks.part, marks.engine, marks.model) if marks else None


def _foreign(deployment: Resource) -> Served | None:
    """What others run and looks like a server of models."""
    if deployment["metadata"]["namespace"] in _SYSTEM:
        return None
    for container in trees.get(deployment, "spec.template.spec.containers") or ():
        engine = serving.engine_of(_argv(container), container.get("image"))
        if engine != "custom":
            return _of_deployment(deployment, "foreign", "model-server", engine, None)
    return None


def _of_deployment(deployment: Resource, path: Path, part: str, engine: EngineName, model: str | None) -> Served:
    container = _serving_container(deployment)
    argv, of = _argv(container), serving.ENGINES[engine]
    port = serving.container_port(deployment) or _first_port(container) or serving.port_of(engine, argv) or of.port
    metrics_port = serving.container_port(deployment, serving.METRICS_PORT_NAME) or port
    return Served(
        namespace=deployment["metadata"]["namespace"],
        name=deployment["metadata"]["name"],
        kind="Deployment",
        path=path,
        part=part,
        engine=engine,
        model=model or serving.model_of(engine, argv),
        port=port,
        metrics_path="/metrics" if part == "sglang-router" else of.metrics,
        metrics_port=metrics_port,
        selector=trees.get(deployment, "spec.selector.matchLabels") or {},
        owner=deployment,
        workload=deployment,
    )


def _binding(service: Resource, deployments: Sequence[Resource]) -> Served | None:
    """A business bound to workers of a pool: its Service's selector says which."""
    marks, selector = serving.marks(service), trees.get(service, "spec.selector") or {}
    space = service["metadata"]["namespace"]
    pool = next((d for d in deployments if d["metadata"]["namespace"] == space and d["metadata"]["name"] == _pool(service)), None)
    if marks is None or not selector or pool is None:
        return None
    of = _ours(pool)
    if of is None:
        return None
    port, model = of.port, marks.model or of.model
    return Served(
        space, service["metadata"]["name"], "Service", "self_managed", marks.part, of.engine, model, port, of.metrics_path,
        of.metrics_port, selector, service, None,
    )  # fmt: skip


def _pool(service: Resource) -> str:
    labels = service["metadata"].get("labels") or {}
    return str(labels.get(serving.POOL) or (trees.get(service, "spec.selector") or {}).get(serving.SERVED) or "")


def _serving_container(deployment: Resource) -> Mapping[str, Any]:
    containers = trees.get(deployment, "spec.template.spec.containers") or [{}]
    named = next((c for c in containers if c.get("name") == serving.CONTAINER), None)
    like = next((c for c in containers if serving.engine_of(_argv(c), c.get("image")) != "custom"), containers[0])
    found: Mapping[str, Any] = named or like
    return found


def _argv(container: Mapping[str, Any]) -> list[str]:
    return [str(word) for word in (*(container.get("command") or ()), *(container.get("args") or ()))]


def _first_port(container: Mapping[str, Any]) -> int | None:
    ports = container.get("ports") or ()
    return int(ports[0]["containerPort"]) if ports else None
