"""The in-process client that controllers use: the same pipeline as a request over HTTPS, without the socket."""

from __future__ import annotations

import hashlib
from typing import Any

import orjson

from instantstart_sandbox.kubernetes import scaling
from instantstart_sandbox.kubernetes.decoding import Options
from instantstart_sandbox.kubernetes.deletion import DeleteOptions, Deletion
from instantstart_sandbox.kubernetes.errors import ApiError
from instantstart_sandbox.kubernetes.pipeline import PATCHES, Pipeline
from instantstart_sandbox.kubernetes.resources import Resource
from instantstart_sandbox.kubernetes.selectors import matcher

Object = dict[str, Any]


def _copy(obj: Object) -> Object:
    return orjson.loads(orjson.dumps(obj))  # type: ignore[no-any-return]


def _program(component: str) -> str:
    """Field managers are named by the program's user agent, and all of Kubernetes' own controllers are one program."""
    if component.endswith(("-controller", "-garbage-collector")):
        return "kube-controller-manager"
    return {"default-scheduler": "kube-scheduler", "kubelet-node": "kubelet"}.get(component, component)


class Client:
    """Reads and writes as one system user. See the head of ``cluster.py`` for what each method promises."""

    def __init__(self, pipeline: Pipeline, deletion: Deletion, user: str) -> None:
        self._pipeline, self._deletion, self.user = pipeline, deletion, user

    def named(self, component: str) -> Client:
        """The same client as ``system:<component>``; its field manager is the program that the component is part of."""
        return Client(self._pipeline, self._deletion, f"system:{component}")

    def _resource(self, qualified: str) -> Resource:
        try:
            return self._pipeline.catalog.find(qualified)
        except KeyError:
            raise ApiError(404, "NotFound", f"the server doesn't have a resource type {qualified}", {}) from None

    def _options(self, subresource: str = "", *, force: bool = False) -> Options:
        component = self.user.removeprefix("system:")
        return Options(manager=_program(component), user=self.user, subresource=subresource, force=force)

    # ------------------------------------------------------------------ reading

    async def get(self, resource: str, name: str, namespace: str | None = None) -> Object:
        """The object; ApiError 404."""
        return self._pipeline.entry(self._resource(resource), namespace, name).object()

    async def find(self, resource: str, name: str, namespace: str | None = None) -> Object | None:
        """The object or None."""
        return self._pipeline.read(resource, name, namespace)

    async def list(self, resource: str, namespace: str | None = None, labels: str = "", fields: str = "") -> list[Object]:
        """The objects that match."""
        found = self._resource(resource)
        match = matcher(found, labels, fields)
        prefix = f"{namespace}/" if namespace else ""
        return [e.object() for _, e in self._pipeline.collection(found).scan(prefix) if match is None or match(e)]

    # ------------------------------------------------------------------ writing

    async def create(self, resource: str, obj: Object) -> Object:
        """Create; answers what was stored."""
        return self._pipeline.create(
            self._resource(resource), obj["metadata"].get("namespace"), self._complete(resource, obj), self._options()
        )

    async def update(self, resource: str, obj: Object) -> Object:
        """Replace; 409 when the resourceVersion is stale."""
        metadata = obj["metadata"]
        found = self._resource(resource)
        return self._pipeline.update(found, metadata.get("namespace"), metadata["name"], self._complete(resource, obj), self._options())

    async def apply(self, resource: str, obj: Object, force: bool = True) -> Object:
        """Server-side apply."""
        metadata = obj["metadata"]
        body = self._complete(resource, obj)
        body["metadata"].pop("managedFields", None)
        found = self._resource(resource)
        return self._pipeline.apply(found, metadata.get("namespace"), metadata["name"], body, self._options(force=force))[0]

    async def patch(
        self, resource: str, name: str, patch: Any, namespace: str | None = None, *, kind: str = "merge", subresource: str = ""
    ) -> Object:
        """Patch; ``kind`` merge, json or strategic."""
        return self._pipeline.patch(self._resource(resource), namespace, name, (PATCHES[kind], patch), self._options(subresource))

    async def status(self, resource: str, name: str, status: Object, namespace: str | None = None) -> Object:
        """Merge ``status`` into the object's status."""
        request = (PATCHES["merge"], {"status": status})
        return self._pipeline.patch(self._resource(resource), namespace, name, request, self._options("status"))

    async def replace_status(self, resource: str, obj: Object) -> Object:
        """Write ``obj.status`` whole; 409 when the resourceVersion is stale."""
        metadata = obj["metadata"]
        body = self._complete(resource, obj)
        return self._pipeline.update(self._resource(resource), metadata.get("namespace"), metadata["name"], body, self._options("status"))

    async def scale(self, resource: str, name: str, replicas: int, namespace: str | None = None) -> Object:
        """Set the wanted replicas; answers the Scale."""
        found = self._resource(resource)
        return scaling.change(self._pipeline, found, (namespace, name), lambda _: {"spec": {"replicas": replicas}}, self._options("scale"))

    async def bind(self, pod: str, namespace: str, node: str) -> None:
        """Give a Pod to a node, as the scheduler does."""
        scaling.bind(self._pipeline, namespace, pod, node, self._options("binding"))

    async def finalize(self, namespace: str) -> None:
        """Let a Terminating namespace that is empty go."""
        found = self._resource("namespaces")
        obj = self._pipeline.entry(found, None, namespace).object()
        obj["spec"] = {}
        self._pipeline.update(found, None, namespace, obj, self._options("finalize"))

    async def delete(
        self, resource: str, name: str, namespace: str | None = None, propagation: str = "Background", grace: int | None = None
    ) -> None:
        """Delete; a missing object is not an error."""
        try:
            options = DeleteOptions(grace=grace, policy=propagation, user=self.user)
            self._deletion.delete(self._resource(resource), namespace, name, options)
        except ApiError as error:
            if error.code != 404:
                raise

    async def event(self, obj: Object, reason: str, message: str, type: str = "Normal", component: str = "") -> None:  # noqa: A002
        """Say something about an object; the same words again are counted."""
        metadata, now = obj["metadata"], self._pipeline.timestamp()
        component = component or self.user.removeprefix("system:")
        about = {"kind": obj["kind"], "apiVersion": obj["apiVersion"], "name": metadata["name"], "uid": metadata.get("uid", "")}
        about |= {"resourceVersion": metadata.get("resourceVersion", "")}
        if metadata.get("namespace"):
            about["namespace"] = metadata["namespace"]
        namespace = metadata.get("namespace", "default")
        words = f"{about['uid']} {reason} {message} {type} {component}"
        name = f"{metadata['name']}.{hashlib.sha256(words.encode()).hexdigest()[:16]}"
        before = self._pipeline.read("events", name, namespace)
        if before is not None:
            counted = {"count": before.get("count", 1) + 1, "lastTimestamp": now}
            await self.patch("events", name, counted, namespace)
            return
        source = {"component": component}
        body = {
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": about,
            "reason": reason,
            "message": message,
            "type": type,
            "source": source,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
            "reportingComponent": component,
            "reportingInstance": "",
        }
        try:
            await self.create("events", body)
        except ApiError as error:
            if error.code not in (403, 404):
                raise

    def _complete(self, resource: str, obj: Object) -> Object:
        found = self._resource(resource)
        return {**_copy(obj), "apiVersion": found.api_version, "kind": found.kind}
