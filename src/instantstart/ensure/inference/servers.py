"""A model server as Kubernetes objects: its Deployment, its Services, its budget. Pure: the same ask and sizes give the same objects.

What the defaults are for: requests lose nothing while pods are changed (surge before stop, a pause before SIGTERM until balancers have
forgotten the pod, time to finish); a loading server is not killed by a probe (case 62); nothing is open to the world unless it is asked
for twice (case 63); a Service called ``vllm`` does not break vLLM (case 58).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from instantstart.base import quantities
from instantstart.ensure.capacity import nodes
from instantstart.ensure.inference import serving
from instantstart.ensure.inference.serving import CONTAINER, PORT_NAME, Engine, EngineName, Marks
from instantstart.ensure.running import pod_shapes
from instantstart.ensure.running.pod_shapes import Mount, Placement

Resource = dict[str, Any]
_CACHE = "/var/cache/instantstart"
#: seconds for endpoints and load balancers to forget a pod before it hears SIGTERM; aws-load-balancer-controller deregisters slower
_FORGET_SECONDS, _FORGET_SECONDS_BALANCED = 15, 60
_PROBE_SECONDS = 10
_BALANCER = "service.beta.kubernetes.io/aws-load-balancer-"
BALANCER_CLASS = "service.k8s.aws/nlb"
EXTERNAL = "-external"


@dataclass(frozen=True)
class Server:
    """One server of a model, as asked. ``argv`` empty: the image's own command; flags alone go to its entry point."""

    name: str
    namespace: str
    engine: EngineName
    model: str | None
    argv: tuple[str, ...]
    image: str
    port: int
    health: str | None = None
    metrics: str | None = None
    #: run by /bin/sh, because a person asked for a shell
    shell: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    #: Secrets whose key ``token`` is the hub's token, and the key that requests must bear (vLLM)
    token_secret: str | None = None
    key_secret: str | None = None
    mounts: tuple[Mount, ...] = ()
    instance_types: tuple[str, ...] = ()
    group: str | None = None
    shared_memory_bytes: int = 0
    drain_seconds: int = 120
    balanced: bool = False

    @property
    def of(self) -> Engine:
        """Its engine."""
        return serving.ENGINES[self.engine]

    @property
    def marks(self) -> Marks:
        """The marks of a deployment; a pool says otherwise."""
        return Marks(self.name, "model-server", self.engine, self.model)


@dataclass(frozen=True)
class Settled:
    """What was decided once and is kept: resources of a pod, seconds until its first health at most."""

    resources: Mapping[str, str]
    startup_seconds: int

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {"resources": dict(self.resources), "startup_seconds": self.startup_seconds}

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Settled:
        """The inverse of ``document``."""
        return cls(told["resources"], int(told["startup_seconds"]))


def added(engine: EngineName, argv: Sequence[str], port: int, metrics: bool = True) -> tuple[str, ...]:
    """Flags that the container needs and the command does not say: the port that was asked for; and SGLang listens on loopback, and
    shows no metrics, by itself.
    """
    if engine == "custom" or not argv:
        return ()
    if engine == "vllm":
        return () if port == serving.ENGINES[engine].port or serving.flag(argv, ("--port",)) else ("--port", str(port))
    found: tuple[str, ...] = () if serving.flag(argv, ("--host",)) else ("--host", "0.0.0.0")
    found += () if "--enable-metrics" in argv or not metrics else ("--enable-metrics",)
    return found if serving.port_of(engine, argv) == port or port == serving.ENGINES[engine].port else (*found, "--port", str(port))


def command(server: Server) -> Resource:
    """``command`` and ``args`` of the container: a shell only where one was asked for."""
    if server.shell is not None:
        return {"command": ["/bin/sh", "-c", server.shell]}
    if not server.argv:
        return {}
    whole = [*server.argv, *added(server.engine, server.argv, server.port, server.metrics is not None)]
    return {"args": whole} if whole[0].startswith("-") else {"command": whole}


def template(server: Server, settled: Settled, marks: Marks, more_labels: Mapping[str, str] | None = None) -> Resource:
    """The pod template."""
    shm, shm_mount = pod_shapes.shared_memory(server.shared_memory_bytes)
    volumes, mounts = pod_shapes.claims(server.mounts)
    cache: Resource = {"name": "cache", "emptyDir": {}}
    forget = _FORGET_SECONDS_BALANCED if server.balanced else _FORGET_SECONDS
    spec: Resource = {
        **pod_shapes.pod_basics(),
        **_placed(server),
        "terminationGracePeriodSeconds": forget + server.drain_seconds,
        "topologySpreadConstraints": [_spread(key, marks) for key in (pod_shapes.HOSTNAME, nodes.ZONE)],
        "containers": [_container(server, settled, [shm_mount, {"name": "cache", "mountPath": _CACHE}, *mounts], forget)],
        "volumes": [shm, cache, *volumes],
    }
    labels = {**marks.labels(), **(more_labels or {})}
    return {
        "metadata": {"labels": labels, "annotations": {**marks.annotations(), **serving.scraped(server.port, server.metrics)}},
        "spec": spec,
    }


def _container(server: Server, settled: Settled, mounts: list[Resource], forget: int) -> Resource:
    ports = [{"name": PORT_NAME, "containerPort": server.port, "protocol": "TCP"}]
    return {
        "name": CONTAINER,
        "image": server.image,
        **command(server),
        "env": _environment(server),
        "ports": ports,
        "resources": pod_shapes.equal_resources(settled.resources),
        "securityContext": pod_shapes.container_security(),
        "lifecycle": {"preStop": {"sleep": {"seconds": forget}}},
        **_probes(server, settled.startup_seconds),
        "volumeMounts": mounts,
    }


def _environment(server: Server) -> list[Resource]:
    """The cache of downloads off the image's own layer; tokens by reference only."""
    plain = {"HF_HOME": f"{_CACHE}/huggingface", **server.environment}
    secrets: dict[str, tuple[str, str]] = {}
    if server.token_secret:
        secrets["HF_TOKEN"] = (server.token_secret, "token")
    if server.key_secret:
        secrets["VLLM_API_KEY"] = (server.key_secret, "token")
    return pod_shapes.environment(plain, secrets)


def _probes(server: Server, startup_seconds: int) -> Resource:
    """Startup as long as the model may need; then readiness quickly, and liveness only for a server that is stuck for minutes."""
    look: Resource = {"httpGet": {"path": server.health, "port": PORT_NAME}} if server.health else {"tcpSocket": {"port": PORT_NAME}}
    return {
        "startupProbe": {
            **look, "periodSeconds": _PROBE_SECONDS, "timeoutSeconds": 5, "failureThreshold": math.ceil(startup_seconds / _PROBE_SECONDS),
        },
        "readinessProbe": {**look, "periodSeconds": 5, "timeoutSeconds": 5, "failureThreshold": 3},
        "livenessProbe": {**look, "periodSeconds": 15, "timeoutSeconds": 10, "failureThreshold": 12},
    }  # fmt: skip


def _placed(server: Server) -> Resource:
    """Where it may run: of one type by selector, of several by affinity; never on a node that HyperPod is to repair."""
    only = server.instance_types[0] if len(server.instance_types) == 1 else None
    placed = pod_shapes.placed(Placement(instance_type=only, group=server.group))
    if len(server.instance_types) > 1:
        among = {"key": nodes.INSTANCE_TYPE, "operator": "In", "values": list(server.instance_types)}
        terms = placed["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        terms[0]["matchExpressions"].append(among)
    return placed


def _spread(key: str, marks: Marks) -> Resource:
    labels = {"matchLabels": marks.selector()}
    return {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": labels}


@dataclass(frozen=True)
class Rollout:
    """How pods are changed: ``surge`` before stopping, or one at a time where there is no room for one more."""

    surge: bool
    startup_seconds: int

    def document(self) -> Resource:
        """As a Deployment's strategy."""
        pace = {"maxSurge": 1, "maxUnavailable": 0} if self.surge else {"maxSurge": 0, "maxUnavailable": 1}
        return {
            "strategy": {"type": "RollingUpdate", "rollingUpdate": pace},
            "progressDeadlineSeconds": self.startup_seconds + 600,
            "revisionHistoryLimit": 3,
        }


def deployment(server: Server, marks: Marks, pod: Resource, replicas: int, rollout: Rollout, kept: Mapping[str, str]) -> Resource:
    """The Deployment. ``kept``: annotations that say what was asked."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": server.name,
            "namespace": server.namespace,
            "labels": marks.labels(),
            "annotations": {**marks.annotations(), **kept},
        },
        "spec": {"replicas": replicas, "selector": {"matchLabels": marks.selector()}, **rollout.document(), "template": pod},
    }


def service(server: Server, marks: Marks, name: str | None = None, more_selector: Mapping[str, str] | None = None) -> Resource:
    """The cluster-internal Service."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": name or server.name,
            "namespace": server.namespace,
            "labels": marks.labels(),
            "annotations": {**marks.annotations(), **serving.scraped(server.port, server.metrics)},
        },
        "spec": {
            "type": "ClusterIP",
            "selector": {**marks.selector(), **(more_selector or {})},
            "ports": [{"name": PORT_NAME, "port": server.port, "targetPort": PORT_NAME, "protocol": "TCP"}],
        },
    }


def balancer(inside: Resource, scheme: str, ranges: Sequence[str], health: str | None) -> Resource:
    """The same behind a network load balancer of the AWS load balancer controller, straight to the pods' addresses."""
    metadata = inside["metadata"]
    notes = {f"{_BALANCER}scheme": scheme, f"{_BALANCER}nlb-target-type": "ip", f"{_BALANCER}type": "external"}
    notes[f"{_BALANCER}target-group-attributes"] = "deregistration_delay.timeout_seconds=120"
    if health:
        notes |= {f"{_BALANCER}healthcheck-protocol": "http", f"{_BALANCER}healthcheck-path": health}
    spec: Resource = {
        "type": "LoadBalancer", "loadBalancerClass": BALANCER_CLASS, "selector": inside["spec"]["selector"],
        "ports": [{**port, "port": 80} for port in inside["spec"]["ports"]], "allocateLoadBalancerNodePorts": False,
    }  # fmt: skip
    if ranges:
        spec["loadBalancerSourceRanges"] = list(ranges)
    named = {**metadata, "name": metadata["name"] + EXTERNAL, "annotations": {**metadata["annotations"], **notes}}
    return {"apiVersion": "v1", "kind": "Service", "metadata": named, "spec": spec}


def budget(server: Server, marks: Marks) -> Resource:
    """At most one pod is taken away on purpose at a time. Only for more than one replica: else no node could ever be drained."""
    return budget_of(server.name, server.namespace, marks)


def budget_of(name: str, namespace: str, marks: Marks) -> Resource:
    """The same by name."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": namespace, "labels": marks.labels()},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": marks.selector()}},
    }


def address_of(service: Resource) -> str | None:
    """The address of a Service's load balancer, or None while it has none."""
    told = ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []
    return next((str(i.get("hostname") or i.get("ip")) for i in told if i.get("hostname") or i.get("ip")), None)


def inner_address(deployment: Resource) -> str | None:
    """Where the cluster's own pods ask a deployment: its Service's name and port."""
    metadata, port = deployment["metadata"], serving.container_port(deployment)
    return f"{metadata['name']}.{metadata['namespace']}:{port}" if port else None


def shared_memory_of(memory_bytes: int) -> int:
    """Half of the pod's memory, 32 GiB at most: what NCCL and the engines' processes share counts against the memory limit."""
    return min(memory_bytes // 2, 32 * quantities.GIB) // quantities.MIB * quantities.MIB
