"""Serving the subresources: status, scale, log, eviction, binding, token, finalize, proxy."""

from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from instantstart_sandbox.kubernetes import eviction, patch, proxy, scaling
from instantstart_sandbox.kubernetes.deletion import DeleteOptions
from instantstart_sandbox.kubernetes.errors import (
    ApiError,
    bad_request,
    bad_value,
    method_not_allowed,
    no_such_path,
    option_invalid,
    unsupported,
)
from instantstart_sandbox.kubernetes.http import Request
from instantstart_sandbox.kubernetes.logs import LogQuery
from instantstart_sandbox.kubernetes.pipeline import PATCHES

if TYPE_CHECKING:
    from instantstart_sandbox.kubernetes.api import Api, Target

Object = dict[str, Any]
Handler = Callable[["Api", Request, "Target"], Awaitable[None]]

_SHORTEST_TOKEN: Final = 600
_SUCCESS: Final = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


async def serve(api: Api, request: Request, target: Target) -> None:
    """Serve one request to a subresource; 404 when the resource has none of this name."""
    if target.subresource not in target.resource.subresources:
        raise no_such_path()
    if target.resource.namespaced and target.namespace is None:
        raise no_such_path()
    await _HANDLERS.get(target.subresource, _refuse)(api, request, target)


async def _refuse(_: Api, __: Request, target: Target) -> None:
    raise ApiError(501, "NotImplemented", f"the sandbox does not serve {target.resource.plural}/{target.subresource}", {})


async def _status(api: Api, request: Request, target: Target) -> None:
    where = (target.resource, target.namespace, target.name)
    if request.method in ("GET", "HEAD"):
        await api.show(request, target.resource, api.cluster.pipeline.entry(*where).raw)
    elif request.method == "PUT":
        obj = api.cluster.pipeline.update(*where, await request.read(), api.options(request, "status"))
        await request.answer(200, obj)
    elif request.method == "PATCH":
        await api.patch(request, target, "status")
    else:
        raise method_not_allowed()


async def _scale(api: Api, request: Request, target: Target) -> None:
    pipeline, resource = api.cluster.pipeline, target.resource
    if request.method in ("GET", "HEAD"):
        obj = pipeline.entry(resource, target.namespace, target.name).object()
        await request.answer(200, scaling.show(resource, obj))
        return
    body = await request.read()

    def edit(present: Object) -> Any:
        if request.method == "PUT":
            return body
        if request.media == PATCHES["json"]:
            return patch.json_patch(present, body)
        return patch.merge_patch(present, body)

    if request.method not in ("PUT", "PATCH"):
        raise method_not_allowed()
    place = (target.namespace, target.name)
    await request.answer(200, scaling.change(pipeline, resource, place, edit, api.options(request, "scale")))


# ---------------------------------------------------------------------- pods


def _container(pod: Object, wanted: str) -> str:
    """The container whose log is asked for. 400 when it is unclear or not there."""
    spec, name = pod.get("spec") or {}, pod["metadata"]["name"]
    names = [c["name"] for c in spec.get("containers") or ()]
    initial = [c["name"] for c in spec.get("initContainers") or ()]
    if wanted:
        if wanted not in (*names, *initial):
            raise bad_request(f"container {wanted} is not valid for pod {name}")
        return wanted
    if len(names) == 1:
        return str(names[0])
    listed = f"[{' '.join(names)}]"
    tail = f" or one of the init containers: [{' '.join(initial)}]" if initial else ""
    raise bad_request(f"a container name must be specified for pod {name}, choose one of: {listed}{tail}")


def _check_started(pod: Object, container: str, previous: bool) -> None:
    """400 while the container has not run, with the kubelet's words."""
    status, name = pod.get("status") or {}, pod["metadata"]["name"]
    found = [c for f in ("containerStatuses", "initContainerStatuses") for c in status.get(f) or () if c["name"] == container]
    state = found[0] if found else {}
    if previous and "terminated" not in (state.get("lastState") or {}):
        raise bad_request(f'previous terminated container "{container}" in pod "{name}" not found')
    waiting = (state.get("state") or {}).get("waiting")
    if waiting is not None and "terminated" not in (state.get("lastState") or {}):
        reason = waiting.get("reason", "ContainerCreating")
        why = {"ErrImagePull": "image can't be pulled", "ImagePullBackOff": "trying and failing to pull image"}.get(reason, reason)
        raise bad_request(f'container "{container}" in pod "{name}" is waiting to start: {why}')


async def _log(api: Api, request: Request, target: Target) -> None:
    if request.method not in ("GET", "HEAD"):
        raise method_not_allowed()
    pod = api.cluster.pipeline.entry(target.resource, target.namespace, target.name).object()
    container = _container(pod, request.query.get("container", ""))
    query = LogQuery(request.query, api.cluster.clock.now(), target.name)
    if not (pod.get("spec") or {}).get("nodeName"):
        await request.answer(204, b"", "text/plain")
        return
    _check_started(pod, container, query.previous)
    chunks = api.cluster.logs(str(target.namespace), target.name, container, request.query)
    await api.send_stream(request, chunks, "text/plain")


async def _eviction(api: Api, request: Request, target: Target) -> None:
    if request.method != "POST":
        raise method_not_allowed()
    body = await request.read()
    if not isinstance(body, dict) or (body.get("metadata") or {}).get("name") != target.name:
        raise bad_request("name in URL does not match name in Eviction object")
    pod = api.cluster.pipeline.entry(target.resource, target.namespace, target.name).object()
    eviction.check(api.cluster.pipeline, pod)
    options = replace(DeleteOptions.read(body.get("deleteOptions") or {}, request.query), user=request.identity.username)
    api.cluster.deletion.delete(target.resource, target.namespace, target.name, options)
    await request.answer(201, _SUCCESS)


async def _binding(api: Api, request: Request, target: Target) -> None:
    if request.method != "POST":
        raise method_not_allowed()
    chosen = (await request.read()).get("target") or {}
    node = chosen.get("name")
    if chosen.get("kind", "Node") not in ("Node", ""):
        refusal = unsupported("target.kind", chosen["kind"], ("Node", "<empty>"))
        raise ApiError(500, "", f"{refusal.field}: {refusal.message}")
    if not node:
        raise bad_request("target.name: Required value")
    scaling.bind(api.cluster.pipeline, str(target.namespace), target.name, node, api.options(request, "binding"))
    await request.answer(201, _SUCCESS)


# ---------------------------------------------------------------------- the rest


async def _token(api: Api, request: Request, target: Target) -> None:
    if request.method != "POST":
        raise method_not_allowed()
    body = await request.read()
    account = api.cluster.pipeline.entry(target.resource, target.namespace, target.name).object()
    spec = body.get("spec") or {}
    seconds = spec.get("expirationSeconds", 3600)
    if seconds < _SHORTEST_TOKEN:
        text = "may not specify a duration less than 10 minutes"
        raise option_invalid("authentication.k8s.io", "TokenRequest", bad_value("spec.expirationSeconds", str(seconds), text))
    token, expires = api.cluster.tokens.issue(account, spec)
    stamp = dt.datetime.fromtimestamp(expires, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    metadata = {"name": target.name, "namespace": target.namespace, "creationTimestamp": api.cluster.timestamp()}
    head = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "metadata": metadata, "spec": spec}
    await request.answer(201, {**head, "status": {"token": token, "expirationTimestamp": stamp}})


async def _finalize(api: Api, request: Request, target: Target) -> None:
    if request.method != "PUT":
        raise method_not_allowed()
    obj = api.cluster.pipeline.update(target.resource, None, target.name, await request.read(), api.options(request, "finalize"))
    await request.answer(200, obj)


async def _proxy(api: Api, request: Request, target: Target) -> None:
    kind, (scheme, name, port) = target.resource.plural, _proxied(target.name)
    api.cluster.pipeline.entry(target.resource, target.namespace, name)
    if scheme not in ("", "http"):
        raise bad_request(f"the sandbox relays http only, not {scheme}")
    backend = api.cluster.backend
    address = await backend(kind, str(target.namespace), name, port) if backend is not None else None
    if address is None:
        raise proxy.unavailable(f'no endpoints available for service "{name}"' if kind == "services" else f'pod "{name}" does not answer')
    await proxy.relay(request, address, target.rest)


def _proxied(text: str) -> tuple[str, str, str]:
    """``scheme:name:port``, ``name:port`` or ``name``."""
    parts = text.split(":")
    if len(parts) == 3:
        return parts[0], parts[1], parts[2]
    return "", parts[0], parts[1] if len(parts) == 2 else ""


_HANDLERS: Final[dict[str, Handler]] = {
    "status": _status, "scale": _scale, "log": _log, "eviction": _eviction, "binding": _binding, "token": _token, "finalize": _finalize,
    "proxy": _proxy,
}  # fmt: skip
