"""How each link between an endpoint and its callers stands, one after another: the first that does not hold is the one to mend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from instantstart.base import trees
from instantstart.capabilities.room import Room
from instantstart.ensure.inference import endpoint_judging as judging
from instantstart.ensure.inference import endpoints, serving_trouble
from instantstart.ensure.running import events
from instantstart.ensure.running.pending_words import Why
from instantstart.ensure.sites import Site
from instantstart.kube.client import KubeCluster, Resource, Resources

Standing = Literal["ok", "waiting", "failed", "absent", "unknown"]
_HEALTH: Mapping[str, Standing] = {"Valid": "ok", "Expiring": "waiting", "Expired": "failed"}
_DNS: Mapping[str, Standing] = {"Active": "ok", "Pending": "waiting", "Error": "failed"}


@dataclass(frozen=True)
class EndpointLink:
    """One link. ``absent``: it is not asked for, or is not made here."""

    name: str
    status: Standing
    detail: str


@dataclass(frozen=True)
class Look:
    """One endpoint with what was made of it; ``why``: why its replicas are not ready."""

    endpoint: Resource
    deployment: Resource | None
    ingress: Resource | None
    registration: Resource | None
    pods: Resources
    why: Why | None


def look(room: Room, where: Site, endpoint: Resource, *, whole: bool = True) -> Look:
    """Read what belongs to an endpoint; for a list only what a list shows, and pods only where one is missing."""
    kube = where.kube(room)
    deployed = endpoints.deployment(kube, endpoint)
    found = pods_of(kube, deployed) if deployed and (whole or not _all_ready(deployed)) else []
    why = serving_trouble.explain(room, where, deployed, found) if deployed and (whole or not _all_ready(deployed)) else None
    if not whole:
        return Look(endpoint, deployed, None, None, found, why)
    return Look(endpoint, deployed, endpoints.balancer(kube, endpoint), endpoints.registration(kube, endpoint), found, why)


def _all_ready(deployed: Mapping[str, Any]) -> bool:
    wanted = trees.get(deployed, "spec.replicas")
    return int(trees.get(deployed, "status.readyReplicas") or 0) >= (1 if wanted is None else int(wanted))


def pods_of(kube: KubeCluster, deployed: Mapping[str, Any]) -> Resources:
    """The pods of a Deployment."""
    selector = trees.get(deployed, "spec.selector.matchLabels") or {}
    labels = ",".join(f"{key}={value}" for key, value in sorted(selector.items()))
    return kube.list("Pod", deployed["metadata"]["namespace"], labels=labels) if selector else []


def links(kube: KubeCluster, seen: Look) -> tuple[EndpointLink, ...]:
    """The chain, in the order in which it is made."""
    return (_operator(seen), _replicas(seen), _balancer(kube, seen), _certificate(seen), _dns(seen), _registration(seen), _metrics(seen))


def _operator(seen: Look) -> EndpointLink:
    state = str(trees.get(seen.endpoint, "status.state") or "")
    said = endpoints.trouble(seen.endpoint)
    other = taken_back(seen)
    if other:
        return EndpointLink("operator", "failed", other)
    if not endpoints.observed(seen.endpoint):
        return EndpointLink("operator", "waiting", "The inference operator has not looked at the newest settings yet.")
    if state == endpoints.COMPLETE:
        return EndpointLink("operator", "ok", "The operator says that the deployment is complete.")
    status: Standing = "failed" if "Failed" in state else "waiting"
    return EndpointLink("operator", status, f"The operator says {state or 'nothing yet'}." + (f" {said}" if said else ""))


def taken_back(seen: Look) -> str | None:
    """The sentence about a roll-back that stands; None while it runs what it asks for, or is on its way there."""
    return judging.other_than_asked(judging.Seen(seen.endpoint, seen.deployment))


def _replicas(seen: Look) -> EndpointLink:
    if seen.deployment is None:
        return EndpointLink("replicas", "waiting", "The operator has made no Deployment yet.")
    status, wanted = seen.deployment.get("status") or {}, trees.get(seen.deployment, "spec.replicas")
    wanted = 1 if wanted is None else int(wanted)
    ready = int(status.get("readyReplicas") or 0)
    if ready >= wanted:
        return EndpointLink("replicas", "ok", f"{ready} of {wanted} replicas are ready.")
    why = seen.why.text if seen.why else ""
    failing = seen.why is not None and seen.why.kind in ("failing", "blocked")
    return EndpointLink("replicas", "failed" if failing else "waiting", f"{ready} of {wanted} replicas are ready. {why}".rstrip())


def _balancer(kube: KubeCluster, seen: Look) -> EndpointLink:
    if seen.ingress is None:
        return EndpointLink("load_balancer", "absent", "The operator has made no load balancer.")
    address = endpoints.hostname(seen.ingress)
    if address:
        return EndpointLink("load_balancer", "ok", f"It answers at {address}.")
    told = events.last_warning(kube, seen.ingress)
    return EndpointLink("load_balancer", "waiting", f"It has no address yet: {told or 'its controller says nothing.'}")


def _certificate(seen: Look) -> EndpointLink:
    told = trees.get(seen.endpoint, "status.tlsCertificate") or {}
    if not told:
        return EndpointLink("certificate", "absent", "The operator tells of no TLS certificate.")
    health, until = str(told.get("certificateHealth") or ""), told.get("lastCertExpiryTime")
    names = ", ".join(told.get("certificateDomainNames") or ()) or told.get("certificateName") or "the certificate"
    ends = f", until {until}" if until else ""
    return EndpointLink("certificate", _HEALTH.get(health, "unknown"), f"{names}: {health or 'not said to be valid'}{ends}.")


def _dns(seen: Look) -> EndpointLink:
    told = trees.get(seen.endpoint, "status.dnsStatus") or {}
    if not told and not trees.get(seen.endpoint, "spec.dnsConfig"):
        return EndpointLink("dns", "absent", "No name of a zone of yours is asked for.")
    health = str(told.get("dnsHealth") or "Pending")
    message = f" {told['message']}" if told.get("message") else ""
    return EndpointLink("dns", _DNS.get(health, "unknown"), f"{told.get('recordName') or 'The name'} is {health}.{message}")


def _registration(seen: Look) -> EndpointLink:
    wanted = endpoints.endpoint_name(seen.endpoint)
    if wanted is None:
        return EndpointLink("sagemaker_endpoint", "absent", "No SageMaker endpoint is asked for.")
    made = seen.registration or {}
    state = str(trees.get(seen.endpoint, "status.endpoints.sagemaker.state") or trees.get(made, "status.state") or "not begun")
    said = endpoints.trouble(made) if made else None
    status: Standing = "failed" if "Fail" in state else "ok" if state in endpoints.IN_SERVICE else "waiting"
    return EndpointLink("sagemaker_endpoint", status, f"{wanted} is {state}." + (f" {said}" if said and status == "failed" else ""))


def _metrics(seen: Look) -> EndpointLink:
    told = trees.get(seen.endpoint, "status.metricsStatus") or {}
    if not told:
        return EndpointLink("metrics", "unknown", "The operator tells nothing of metrics.")
    if not told.get("enabled"):
        return EndpointLink("metrics", "absent", "Metrics are switched off.")
    if told.get("errorMessage"):
        return EndpointLink("metrics", "failed", str(told["errorMessage"]))
    port = trees.get(told, "modelMetrics.port")
    return EndpointLink("metrics", "ok", f"They are collected{f' from port {port}' if port else ''}.")
