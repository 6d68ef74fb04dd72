"""Services: Endpoints and EndpointSlices of ready pods; load balancers made through the AWS side."""

from __future__ import annotations

import ipaddress
from collections.abc import Coroutine, Iterable
from typing import Any

from ...world.seams import BalancerWorld
from .engine import Controller, Engine
from .objects import (
    Object,
    deleting,
    key_of,
    labels_of,
    meta,
    name_of,
    namespace_of,
    owner_reference,
    pod_finished,
    pod_ready,
    reference,
    selects,
    short_hash,
    spec_of,
    split,
    status_of,
)

CLEANUP = "service.kubernetes.io/load-balancer-cleanup"
SCHEME = "service.beta.kubernetes.io/aws-load-balancer-scheme"
_SLICES = "endpointslices.discovery.k8s.io"
_RETRY_SECONDS = 10.0
_KIND = "service.beta.kubernetes.io/aws-load-balancer-type"
_RANGES = "service.beta.kubernetes.io/load-balancer-source-ranges"
_CONTROLLERS = {"aws-load-balancer-controller", "hyperpod-inference-alb"}


def container_port(pod: Object, target: Any) -> int | None:
    """A port by number or by the name that a container of the pod gives it."""
    if str(target).isdigit():
        return int(target)
    for container in spec_of(pod).get("containers") or []:
        for offered in container.get("ports") or []:
            if offered.get("name") == target:
                return int(offered["containerPort"])
    return None


def _port_number(port: Object, pod: Object) -> int | None:
    return container_port(pod, port.get("targetPort", port.get("port")))


def service_port(service: Object, pod: Object, port: str) -> int | None:
    """The pod's port behind a Service's port, given by name or number; an empty one means the only port."""
    for offered in spec_of(service).get("ports") or []:
        if port in ("", offered.get("name"), str(offered.get("port"))):
            return _port_number(offered, pod)
    return None


def _ports(service: Object, pod: Object | None) -> list[Object]:
    found = []
    for port in spec_of(service).get("ports") or []:
        number = _port_number(port, pod or {})
        if number is not None:
            found.append({"name": port.get("name", ""), "port": number, "protocol": port.get("protocol", "TCP")})
    return found


def backends(service: Object, pods: list[Object]) -> list[Object]:
    """The pods a Service points at: selected, on a node, with an address, not over."""
    selector = spec_of(service).get("selector")
    if not selector or spec_of(service).get("type") == "ExternalName":
        return []
    wanted = {"matchLabels": selector}
    chosen = [p for p in pods if selects(wanted, labels_of(p)) and status_of(p).get("podIP") and not pod_finished(p)]
    return [p for p in chosen if spec_of(p).get("nodeName")]


def _address(pod: Object) -> Object:
    found = {"ip": status_of(pod)["podIP"], "nodeName": spec_of(pod).get("nodeName"), "targetRef": reference(pod)}
    found["targetRef"].pop("resourceVersion", None)
    found["targetRef"].pop("apiVersion", None)
    if spec_of(pod).get("hostname") and spec_of(pod).get("subdomain"):
        found["hostname"] = spec_of(pod)["hostname"]
    return {k: v for k, v in found.items() if v}


def endpoints_of(service: Object, pods: list[Object]) -> Object:
    """The Endpoints object."""
    chosen = backends(service, pods)
    everybody = bool(spec_of(service).get("publishNotReadyAddresses"))
    ready = [_address(p) for p in chosen if everybody or pod_ready(p)]
    waiting = [_address(p) for p in chosen if not everybody and not pod_ready(p)]
    ports = [{k: v for k, v in p.items() if v != ""} for p in _ports(service, chosen[0] if chosen else None)]
    subset = {"addresses": ready, "notReadyAddresses": waiting, "ports": ports}
    subset = {k: v for k, v in subset.items() if v}
    return {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": name_of(service), "namespace": namespace_of(service), "labels": dict(labels_of(service))},
        "subsets": [subset] if ready or waiting else [],
    }


def slice_of(service: Object, pods: list[Object], zones: dict[str, str]) -> Object:
    """The EndpointSlice; ``zones`` by node name."""
    chosen = backends(service, pods)
    listed = []
    for pod in chosen:
        ready, node = pod_ready(pod), spec_of(pod).get("nodeName")
        each: Object = {
            "addresses": [status_of(pod)["podIP"]],
            "conditions": {"ready": ready, "serving": ready or deleting(pod), "terminating": deleting(pod)},
            "nodeName": node,
            "targetRef": {k: v for k, v in reference(pod).items() if k in ("kind", "name", "namespace", "uid")},
        }
        if node in zones:
            each["zone"] = zones[node]
        listed.append(each)
    marks = {"kubernetes.io/service-name": name_of(service), "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}
    metadata = {
        "name": f"{name_of(service)}-{short_hash(meta(service).get('uid', ''), 5)}",
        "namespace": namespace_of(service),
        "labels": {**labels_of(service), **marks},
        "ownerReferences": [owner_reference(service)],
    }
    ports = _ports(service, chosen[0] if chosen else None)
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": metadata,
        "addressType": "IPv4",
        "endpoints": listed,
        "ports": ports,
    }


class EndpointsController(Controller):
    """Keeps Endpoints and EndpointSlices of every Service with a selector."""

    name = "endpoint-controller"
    watched = ("services", "pods")

    def keys(self, resource: str, obj: Object) -> Iterable[str]:
        """The Service, or those that select a pod."""
        if resource == "services":
            return [key_of(obj)]
        labels = labels_of(obj)
        near = self.cache.all("services", namespace_of(obj)) if labels else []
        return [key_of(s) for s in near if (sel := spec_of(s).get("selector")) and sel.items() <= labels.items()]

    async def reconcile(self, key: str) -> None:
        """Write what differs."""
        service, (space, name) = self.cache.get("services", key), split(key)
        if service is None:
            if self.cluster.read("endpoints", name, space) is not None:
                await self.client.delete("endpoints", name, space)
            return
        if not spec_of(service).get("selector") or deleting(service):
            return
        pods = self.cache.all("pods", space)
        zones = {name_of(n): labels_of(n).get("topology.kubernetes.io/zone", "") for n in self.cluster.read_all("nodes")}
        await self._write("endpoints", endpoints_of(service, pods), ("subsets",))
        await self._write(_SLICES, slice_of(service, pods, zones), ("endpoints", "ports"))

    async def _write(self, resource: str, wanted: Object, compared: tuple[str, ...]) -> None:
        have = self.cluster.read(resource, name_of(wanted), namespace_of(wanted))
        if have is None:
            await self.client.create(resource, wanted)
        elif any((have.get(f) or []) != wanted[f] for f in compared):
            await self.client.patch(resource, name_of(wanted), {f: wanted[f] for f in compared}, namespace_of(wanted))


def wants_balancer(service: Object) -> bool:
    """Whether a load balancer is asked for."""
    return spec_of(service).get("type") == "LoadBalancer" and not deleting(service)


def by_controller(service: Object) -> bool:
    """Whether the AWS load balancer controller is asked, and not the one that is part of Kubernetes."""
    kind = (meta(service).get("annotations") or {}).get(_KIND, "")
    return kind in ("external", "nlb-ip") or spec_of(service).get("loadBalancerClass") == "service.k8s.aws/nlb"


def source_ranges(service: Object) -> list[str]:
    """Who may reach it; everybody when nothing is said. ValueError for a range that is none."""
    noted = (meta(service).get("annotations") or {}).get(_RANGES, "")
    found = spec_of(service).get("loadBalancerSourceRanges") or [r.strip() for r in noted.split(",") if r.strip()]
    for each in found:
        try:
            ipaddress.ip_network(each, strict=False)
        except ValueError as error:
            raise ValueError(f"invalid source range {each!r}: {error}") from error
    return [str(r) for r in found] or ["0.0.0.0/0"]


class LoadBalancerController(Controller):
    """Makes and removes the load balancer of a Service; the AWS side is asked outside of the worker, since it may wait for its lock."""

    name = "service-controller"
    watched = ("services",)

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._asking: set[str] = set()

    def keys(self, resource: str, obj: Object) -> Iterable[str]:
        """Services that want a load balancer or have one to clean up."""
        return [key_of(obj)] if wants_balancer(obj) or CLEANUP in (meta(obj).get("finalizers") or []) else []

    async def reconcile(self, key: str) -> None:
        """Start what is missing; nothing is asked twice at once."""
        service = self.cache.get("services", key)
        if service is None or key in self._asking:
            return
        finalizers = meta(service).get("finalizers") or []
        if wants_balancer(service):
            if CLEANUP not in finalizers:
                await self._finalizers(service, [*finalizers, CLEANUP])
            if by_controller(service) and not self._controller_runs():
                self.later(_RETRY_SECONDS, key)  # nobody looks at it: it stays pending, without a word
                return
            if not (status_of(service).get("loadBalancer") or {}).get("ingress"):
                await self.event(service, "EnsuringLoadBalancer", "Ensuring load balancer")
                self._ask(key, self._create(service))
        elif CLEANUP in finalizers:
            await self.event(service, "DeletingLoadBalancer", "Deleting load balancer")
            self._ask(key, self._remove(service))

    def _controller_runs(self) -> bool:
        """Whether a pod of the AWS load balancer controller is ready, whoever installed it."""
        pods = self.cache.all("pods")
        return any(pod_ready(p) and _CONTROLLERS & set(labels_of(p).values()) for p in pods)

    def _ask(self, key: str, work: Coroutine[Any, Any, None]) -> None:
        self._asking.add(key)
        self.cluster.start(self._asked(key, work), name=f"load-balancer {key}")

    async def _asked(self, key: str, work: Coroutine[Any, Any, None]) -> None:
        wait = 0.0
        try:
            await work
        except Exception as error:  # noqa: BLE001  whatever AWS refuses becomes the event a person reads, and is tried again
            wait = _RETRY_SECONDS
            if (service := self.cache.get("services", key)) is not None:
                await self.event(service, "SyncLoadBalancerFailed", f"Error syncing load balancer: {error}", warning=True)
        finally:
            self._asking.discard(key)
        self.later(wait, key)

    async def _create(self, service: Object) -> None:
        notes = meta(service).get("annotations") or {}
        scheme = notes.get(SCHEME, "internal" if by_controller(service) else "internet-facing")
        aws, ranges = self.cluster.aws, source_ranges(service)
        host = await self.cluster.ask_aws(aws.create_load_balancer, self.cluster.arn, key_of(service), scheme)
        if isinstance(aws, BalancerWorld):
            ports = [int(p["port"]) for p in spec_of(service).get("ports") or []]
            await self.cluster.ask_aws(aws.open_load_balancer, self.cluster.arn, key_of(service), ranges, ports)
        ingress = {"loadBalancer": {"ingress": [{"hostname": host}]}}
        await self.client.status("services", name_of(service), ingress, namespace_of(service))
        await self.event(service, "EnsuredLoadBalancer", "Ensured load balancer")

    async def _remove(self, service: Object) -> None:
        await self.cluster.ask_aws(self.cluster.aws.delete_load_balancer, self.cluster.arn, key_of(service))
        left = [f for f in meta(service).get("finalizers") or [] if f != CLEANUP]
        if not deleting(service):
            await self.client.status("services", name_of(service), {"loadBalancer": {"ingress": None}}, namespace_of(service))
        await self._finalizers(service, left)

    async def _finalizers(self, service: Object, wanted: list[str]) -> None:
        await self.client.patch("services", name_of(service), {"metadata": {"finalizers": wanted}}, namespace_of(service))
