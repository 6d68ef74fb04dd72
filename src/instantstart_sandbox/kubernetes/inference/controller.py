"""The life of an endpoint: pending, in progress, complete or failed; an update that fails goes back to what ran before, quietly.

Phases are told by what exists, so a sandbox that starts again goes on where it was. The last specification that was complete is kept in
an annotation of the Deployment.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from ..aws_view import AwsView
from ..errors import ApiError
from ..loops.engine import Engine
from ..loops.objects import (
    Object,
    annotations_of,
    controller_of,
    deleting,
    key_of,
    labels_of,
    meta,
    name_of,
    namespace_of,
    seconds_of,
    spec_of,
    stamp,
    status_of,
    with_condition,
)
from ..operating import OperatorLoop
from . import objects, rules
from .aws import Aws
from .definitions import CONFIGS, JUMPSTART, REGISTRATIONS

FINALIZER = "inference.sagemaker.aws.amazon.com/finalizer"
ADDON = "amazon-sagemaker-hyperpod-inference"
#: on an endpoint: its next update is rolled back. ``quiet``: the status says complete of the new generation; else of the old one again
ROLLBACK = "sandbox.instantstart.dev/rollback"
_GOOD, _BEGUN = "sandbox.instantstart.dev/last-complete", "sandbox.instantstart.dev/deploying-since"
_FIRST_LOOK_SECONDS, _BALANCER_SECONDS, _CERTIFICATE_SECONDS = 3.0, 20.0, 90 * 86400.0
#: an image that cannot be pulled for so long ends the deployment
_PULL_LIMIT_SECONDS = 180.0
_ROLLBACK_AFTER_SECONDS = 30.0
_LOOK_SECONDS = 10.0
_SCALED = "scaledobjects.keda.sh"
_INGRESS = "ingresses.networking.k8s.io"


class EndpointLoop(OperatorLoop):
    """Endpoints of one of the two kinds."""

    manager = ("hyperpod-inference-system", {"app.kubernetes.io/name": "hyperpod-inference-controller-manager"})
    watched = (*OperatorLoop.watched, "deployments.apps", _INGRESS)

    def __init__(self, engine: Engine, view: AwsView) -> None:
        super().__init__(engine)
        self._view, self._aws = view, Aws(engine.cluster, view)

    def concerned(self, resource: str, obj: Object) -> Iterable[str]:
        """The endpoint that a Deployment, Ingress or pod is for."""
        if resource in ("deployments.apps", _INGRESS):
            owner = controller_of(obj)
            return [f"{namespace_of(obj)}/{owner['name']}"] if owner else []
        app = labels_of(obj).get("app") if resource == "pods" else None
        return [f"{namespace_of(obj)}/{app}"] if app else []

    def serving(self) -> bool:
        """While the add-on is active and its own pod runs."""
        addon = (self._view.addons or {}).get(ADDON)
        return addon is not None and addon.status in ("ACTIVE", "UPDATING", "DEGRADED") and super().serving()

    async def look(self, key: str) -> None:
        """One endpoint."""
        endpoint = self.cache.get(self.kinds[0], key)
        if endpoint is None:
            return
        if deleting(endpoint):
            await self._remove(endpoint)
            return
        if FINALIZER not in (meta(endpoint).get("finalizers") or []):
            await self._patch(endpoint, {"metadata": {"finalizers": [*(meta(endpoint).get("finalizers") or []), FINALIZER]}})
            return
        status = status_of(endpoint)
        if not status.get("state"):
            await self._state(endpoint, "DeploymentPending", "Pending", "the endpoint waits to be deployed")
            self.later(_FIRST_LOOK_SECONDS, key)
        elif self._asked_anew(endpoint):
            await self._begin(endpoint)
        elif status["state"] in ("DeploymentInProgress", "DeploymentPending"):
            await self._progress(endpoint)
        elif status["state"] == "DeploymentComplete":
            await self._keep(endpoint)

    def _asked_anew(self, endpoint: Object) -> bool:
        """Whether there is a generation that was neither deployed nor given up."""
        seen = int(annotations_of(endpoint).get("sandbox.instantstart.dev/seen-generation", "0"))
        return int(meta(endpoint).get("generation", 1)) > seen

    # ------------------------------------------------------------------ beginning

    async def _begin(self, endpoint: Object) -> None:
        """Take up a generation: refuse it, or make what it asks."""
        seconds = seconds_of(meta(endpoint).get("creationTimestamp")) + _FIRST_LOOK_SECONDS - self.now()
        if status_of(endpoint)["state"] == "DeploymentPending" and seconds > 0:
            self.later(seconds, key_of(endpoint))
            return
        generation = str(meta(endpoint).get("generation", 1))
        notes = {"sandbox.instantstart.dev/seen-generation": generation, _BEGUN: stamp(self.now())}
        endpoint = await self._patch(endpoint, {"metadata": {"annotations": notes}})
        faults = self._faults(endpoint, await self._aws.tiered_storage())
        if faults:
            await self._state(endpoint, "DeploymentFailed", "ValidationFailed", "; ".join(faults))
            await self.event(endpoint, "ValidationFailed", "; ".join(faults), warning=True)
            return
        try:
            await self._make(endpoint)
        except ApiError as error:
            await self._state(endpoint, "DeploymentFailed", "CreateFailed", error.message)
            return
        await self._state(endpoint, "DeploymentInProgress", "Deploying", "the deployment has begun")
        await self.event(endpoint, "DeploymentStarted", f"Deploying generation {generation}")
        self.later(_LOOK_SECONDS, key_of(endpoint))

    def _faults(self, endpoint: Object, tiered: bool) -> list[str]:
        check = rules.config_faults if self.kinds[0] == CONFIGS else rules.jumpstart_faults
        return check(spec_of(endpoint), tiered)

    async def _make(self, endpoint: Object) -> None:
        for made in objects.storage(endpoint):
            resource = "persistentvolumes" if made["kind"] == "PersistentVolume" else "persistentvolumeclaims"
            if self.cluster.read(resource, name_of(made), namespace_of(made) or None) is None:
                await self.client.create(resource, made)
        await self._apply(objects.deployment(endpoint))
        for made in [*objects.services(endpoint), objects.ingress(endpoint)]:
            await self._apply(made)
        scaled = objects.scaled_object(endpoint, self.cluster.region)
        name = f"{name_of(endpoint)}-scaledobject"
        if scaled is not None and _SCALED in self.cluster.catalog:
            await self._apply(scaled)
        elif scaled is None and _SCALED in self.cluster.catalog:
            await self.client.delete(_SCALED, name, namespace_of(endpoint))

    async def _apply(self, made: Object) -> None:
        found = self.cluster.catalog.of_kind(made["apiVersion"], made["kind"])
        assert found is not None, made["kind"]
        await self.client.apply(found.qualified, made)

    # ------------------------------------------------------------------ on the way

    def _deployed(self, endpoint: Object) -> Object | None:
        return self.cluster.read("deployments.apps", name_of(endpoint), namespace_of(endpoint))

    async def _progress(self, endpoint: Object) -> None:
        deployed, key = self._deployed(endpoint), key_of(endpoint)
        if deployed is None:
            await self._make(endpoint)
            return
        since = self.now() - seconds_of(annotations_of(endpoint).get(_BEGUN))
        before = annotations_of(deployed).get(_GOOD)
        doomed = bool(before and annotations_of(endpoint).get(ROLLBACK))
        if doomed and since >= _ROLLBACK_AFTER_SECONDS:
            await self._roll_back(endpoint, json.loads(before or ""), annotations_of(endpoint)[ROLLBACK])
            return
        why = self._hopeless(endpoint, since)
        if why:
            if before:
                await self._roll_back(endpoint, json.loads(before), why)
            else:
                await self._state(endpoint, "DeploymentFailed", "DeploymentFailed", why)
                await self.event(endpoint, "DeploymentFailed", why, warning=True)
            return
        await self._describe(endpoint, deployed)
        if not doomed and _rolled_out(deployed) and await self._reached(endpoint):
            await self._complete(endpoint, deployed)
        self.later(_LOOK_SECONDS, key)

    def _hopeless(self, endpoint: Object, since: float) -> str:
        """Why the deployment is given up: too long, or an image that is not there."""
        limit = float(spec_of(endpoint).get("maxDeployTimeInSeconds", 3600))
        if since > limit:
            return f"the deployment did not become ready within maxDeployTimeInSeconds ({limit:g}s)"
        if since < _PULL_LIMIT_SECONDS:
            return ""
        for pod in self.cache.all("pods", namespace_of(endpoint)):
            if labels_of(pod).get("app") != name_of(endpoint) or deleting(pod):
                continue
            for container in status_of(pod).get("containerStatuses") or []:
                waiting = container["state"].get("waiting") or {}
                if waiting.get("reason") in ("ImagePullBackOff", "InvalidImageName"):
                    return f"container {container['name']} cannot start: {waiting.get('message', waiting['reason'])}"
        return ""

    async def _roll_back(self, endpoint: Object, good: Object, why: str) -> None:
        """Put back the specification that was complete before. What the object asks is left as it is."""
        generation = meta(endpoint).get("generation", 1)
        await self._apply(objects.deployment({**endpoint, "spec": good["spec"]}))
        quiet = why.strip() == "quiet"
        told = generation if quiet else good["generation"]
        words = "the deployment is complete" if quiet else f"generation {generation} was rolled back: {why}"
        await self._state(endpoint, "DeploymentComplete", "RolledBack" if not quiet else "Complete", words, told)
        if not quiet:
            await self.event(endpoint, "RolledBack", words, warning=True)

    async def _reached(self, endpoint: Object) -> bool:
        """Whether the load balancer has its name and the SageMaker endpoint is in service; what is missing is begun."""
        host = await self._balancer(endpoint)
        if host is None:
            return False
        name = self._endpoint_name(endpoint)
        if not name:
            return True
        return await self._register(endpoint, name, host)

    async def _balancer(self, endpoint: Object) -> str | None:
        space, name = namespace_of(endpoint), f"alb-{name_of(endpoint)}"
        found = self.cluster.read(_INGRESS, name, space)
        if found is None:
            return None
        told = (status_of(found).get("loadBalancer") or {}).get("ingress") or []
        if told:
            return str(told[0]["hostname"])
        if self.now() - seconds_of(meta(found).get("creationTimestamp")) < _BALANCER_SECONDS:
            return None
        host, why = await self._aws.balancer(f"{space}/{name}", "internal")
        if why:
            await self.event(found, "FailedDeployModel", f"Failed deploy model due to {why}", warning=True)
            await self.event(endpoint, "LoadBalancerFailed", why, warning=True)
            return None
        await self.client.status(_INGRESS, name, {"loadBalancer": {"ingress": [{"hostname": host}]}}, space)
        await self.event(found, "SuccessfullyReconciled", "Successfully reconciled")
        return host

    def _endpoint_name(self, endpoint: Object) -> str:
        spec = spec_of(endpoint)
        return str(spec.get("endpointName") or (spec.get("sageMakerEndpoint") or {}).get("name") or "")

    async def _register(self, endpoint: Object, name: str, host: str) -> bool:
        resource, space = REGISTRATIONS, namespace_of(endpoint)
        found = self.cluster.read(resource, name.lower(), space)
        if found is None:
            await self._apply(self._aws.registration(endpoint, name, host))
            return False
        state = await self._aws.register(endpoint, name)
        told = {"sagemaker": state}
        if (status_of(endpoint).get("endpoints") or {}) != told:
            await self.client.status(self.kinds[0], name_of(endpoint), {"endpoints": told}, space)
            await self.client.status(resource, name.lower(), {"state": state["state"]}, space)
        return bool(state["state"] == "CreationCompleted")

    # ------------------------------------------------------------------ standing

    async def _complete(self, endpoint: Object, deployed: Object) -> None:
        generation = meta(endpoint).get("generation", 1)
        good = json.dumps({"generation": generation, "spec": spec_of(endpoint)}, sort_keys=True)
        note = {"metadata": {"annotations": {_GOOD: good}}}
        await self.client.patch("deployments.apps", name_of(deployed), note, namespace_of(deployed))
        certificate = self._aws.certificate(endpoint, self.now(), _CERTIFICATE_SECONDS)
        await self._state(endpoint, "DeploymentComplete", "Complete", "the deployment is complete", tlsCertificate=certificate)
        await self.event(endpoint, "DeploymentComplete", f"Generation {generation} is deployed")

    async def _keep(self, endpoint: Object) -> None:
        deployed = self._deployed(endpoint)
        if deployed is None:
            await self._make(endpoint)
        else:
            await self._describe(endpoint, deployed)

    async def _describe(self, endpoint: Object, deployed: Object) -> None:
        """What the Deployment says, in the endpoint's status."""
        found, metrics = status_of(deployed), spec_of(endpoint).get("metrics") or {}
        state = "Available" if _rolled_out(deployed) else "Progressing"
        about = {"name": name_of(deployed), "deploymentObjectOverallState": state, "status": found}
        before = status_of(endpoint).get("deploymentStatus") or {}
        fields: Object = {"replicas": found.get("replicas", 0), "selector": f"app={name_of(endpoint)}"}
        enabled = metrics.get("enabled", True)
        told = {"enabled": enabled, "state": "Enabled" if enabled else "Disabled"}
        if metrics.get("modelMetrics"):
            told["modelMetrics"] = metrics["modelMetrics"]
        fields["metricsStatus"] = told
        if {k: before.get(k) for k in about} != about:
            fields["deploymentStatus"] = {**about, "lastUpdated": stamp(self.now())}
        await self.engine.write_status(self.kinds[0], endpoint, fields, self.client)

    async def _state(self, endpoint: Object, state: str, reason: str, message: str, generation: int | None = None, **more: Any) -> None:
        seen = meta(endpoint).get("generation", 1) if generation is None else generation
        verdict = {"DeploymentComplete": "True", "DeploymentFailed": "False"}.get(state, "Unknown")
        if reason == "RolledBack":
            verdict = "False"
        condition = {"type": "DeploymentComplete", "status": verdict, "reason": reason, "message": message, "observedGeneration": seen}
        conditions = with_condition(status_of(endpoint).get("conditions"), condition, self.now())
        fields = {"state": state, "conditions": conditions, "observedGeneration": seen, **more}
        if state == "DeploymentPending":
            del fields["observedGeneration"]
        await self.client.status(self.kinds[0], name_of(endpoint), fields, namespace_of(endpoint))

    async def _patch(self, endpoint: Object, change: Object) -> Object:
        return await self.client.patch(self.kinds[0], name_of(endpoint), change, namespace_of(endpoint))

    # ------------------------------------------------------------------ the end

    async def _remove(self, endpoint: Object) -> None:
        """SageMaker endpoint, load balancer, then the rest; the finalizer goes last."""
        left = [f for f in meta(endpoint).get("finalizers") or [] if f != FINALIZER]
        if len(left) == len(meta(endpoint).get("finalizers") or []):
            return
        if status_of(endpoint).get("state") != "DeletionInProgress":
            await self.client.status(self.kinds[0], name_of(endpoint), {"state": "DeletionInProgress"}, namespace_of(endpoint))
            self.later(_FIRST_LOOK_SECONDS, key_of(endpoint))
            return
        space, name = namespace_of(endpoint), name_of(endpoint)
        if registered := self._endpoint_name(endpoint):
            await self._aws.deregister(registered)
            await self.client.delete(REGISTRATIONS, registered.lower(), space)
        await self._aws.remove_balancer(f"{space}/alb-{name}")
        await self.client.delete(_INGRESS, f"alb-{name}", space)
        if _SCALED in self.cluster.catalog:
            await self.client.delete(_SCALED, f"{name}-scaledobject", space)
        for resource in ("deployments.apps", "services"):
            for made in self.cluster.read_all(resource, space):
                if (controller_of(made) or {}).get("uid") == meta(endpoint)["uid"]:
                    await self.client.delete(resource, name_of(made), space)
        for made in objects.storage(endpoint):
            resource = "persistentvolumes" if made["kind"] == "PersistentVolume" else "persistentvolumeclaims"
            await self.client.delete(resource, name_of(made), namespace_of(made) or None)
        await self._patch(endpoint, {"metadata": {"finalizers": left}})


def _rolled_out(deployed: Object) -> bool:
    """Whether all wanted replicas are of the newest kind and available."""
    status, wanted = status_of(deployed), int(spec_of(deployed).get("replicas", 1))
    if int(status.get("observedGeneration") or 0) < int(meta(deployed).get("generation", 1)):
        return False
    counts = [int(status.get(n) or 0) for n in ("updatedReplicas", "availableReplicas", "replicas")]
    return counts[0] >= wanted and counts[1] >= wanted and counts[2] <= wanted


class ConfigLoop(EndpointLoop):
    """InferenceEndpointConfigs."""

    name = "hyperpod-inference"
    kinds = (CONFIGS, REGISTRATIONS)


class JumpStartLoop(EndpointLoop):
    """JumpStartModels."""

    name = "hyperpod-inference-jumpstart"
    kinds = (JUMPSTART, REGISTRATIONS)
