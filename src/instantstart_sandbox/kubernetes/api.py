"""The API server of one cluster as an ASGI application: authenticate, route, authorize, and hand to the pipeline."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from instantstart_sandbox.kubernetes import subresources
from instantstart_sandbox.kubernetes.access import ANONYMOUS, Attributes
from instantstart_sandbox.kubernetes.cluster import Cluster
from instantstart_sandbox.kubernetes.decoding import Options
from instantstart_sandbox.kubernetes.deletion import DeleteOptions
from instantstart_sandbox.kubernetes.discovery import Discovery, aggregated_media, aggregated_version, version_document
from instantstart_sandbox.kubernetes.errors import (
    ApiError,
    Cause,
    NoPageError,
    bad_option,
    forbidden_field,
    method_not_allowed,
    no_such_path,
    required,
    unauthorized,
    unsupported,
)
from instantstart_sandbox.kubernetes.http import MEDIA_TYPES, Receive, Request, Send
from instantstart_sandbox.kubernetes.listing import Listing, revision_of
from instantstart_sandbox.kubernetes.openapi import EMPTY_V2, V2_MEDIA, OpenApi
from instantstart_sandbox.kubernetes.pipeline import PATCHES, unsupported_patch
from instantstart_sandbox.kubernetes.resources import Resource
from instantstart_sandbox.kubernetes.reviews import Reviews
from instantstart_sandbox.kubernetes.selectors import matcher
from instantstart_sandbox.kubernetes.store import StorageError
from instantstart_sandbox.kubernetes.tables import table
from instantstart_sandbox.kubernetes.watch import Stream, Watching, versioned
from instantstart_sandbox.kubernetes.weather import HungUpError, Weather
from instantstart_sandbox.world.seams import Identity

Object = dict[str, Any]
Authenticate = Callable[[str], Awaitable[Identity | None]]

_LOG = logging.getLogger(__name__)
_ROOT_PATHS: Final = ("/api", "/api/v1", "/apis", "/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version")
_HEALTH: Final = frozenset({"/healthz", "/readyz", "/livez", "/healthz/ping", "/readyz/ping", "/livez/ping"})
_LONGEST_MANAGER: Final = 128
_NO_MATCH_TEXT: Final = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
_APPLY: Final = "application/apply-patch+yaml"


@dataclass(frozen=True)
class Target:
    """What a path names. ``rest`` is what follows the subresource (proxy only)."""

    resource: Resource
    namespace: str | None
    name: str
    subresource: str
    rest: str = ""


class Api:
    """One cluster's HTTP interface. ``authenticate`` maps a bearer token to a caller, or None; ``weather`` may spoil a request."""

    def __init__(self, cluster: Cluster, authenticate: Authenticate, weather: Weather | None = None) -> None:
        self.cluster, self.authenticate, self.weather = cluster, authenticate, weather
        self.discovery, self.openapi = Discovery(cluster.catalog), OpenApi(cluster.catalog)
        self.listing = Listing(cluster.pipeline)
        self.reviews = Reviews(cluster.authorizer, authenticate)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Serve one request; refusals become a Status, crashes a 500 that says so."""
        if scope["type"] != "http":
            return
        request = Request(scope, receive, send)
        if self.weather is None:
            await self._answer(request)
            return
        with contextlib.suppress(HungUpError):
            await self._answer_in(self.weather, request)

    async def _answer_in(self, weather: Weather, request: Request) -> None:
        try:
            fault = await weather.begin(request)
        except ApiError as refusal:
            await request.answer(refusal.code, refusal.status())
            return
        if fault is None:
            await self._answer(request)
            return
        request.mute()
        await self._answer(request)
        await weather.lose(request, fault)

    async def _answer(self, request: Request) -> None:
        try:
            await self._route(request)
        except HungUpError:
            raise
        except NoPageError:
            await request.answer(404, b"404 page not found\n", "text/plain; charset=utf-8")
        except ApiError as error:
            if not request.answered:
                await request.answer(error.code, error.status())
        except StorageError as failure:
            full = ApiError(500, "InternalError", f"etcdserver: mvcc: database space exceeded: {failure}", {})
            await request.answer(500, full.status())
        except Exception as crash:  # noqa: BLE001 - the request boundary: a crash is logged and answered as a 500
            _LOG.exception("the API server crashed on a request", extra={"method": request.method, "path": request.path})
            if not request.answered:
                broken = ApiError(500, "InternalError", f"Internal error occurred: {crash!r}", {"causes": [{"message": repr(crash)}]})
                await request.answer(500, broken.status())

    # ------------------------------------------------------------------ routing

    async def _route(self, request: Request) -> None:
        path = request.path.rstrip("/") or "/"
        request.identity = await self._identify(request)
        if path in _HEALTH:
            await request.answer(200, b"ok", "text/plain; charset=utf-8")
            return
        if path == "/version":
            request.check_acceptable(routed="application/json")
            await request.answer(200, version_document(self.cluster.version))
            return
        parts = tuple(path.strip("/").split("/"))
        if parts[0] in ("api", "apis") and (target := self._target(parts)) is not None:
            await self._serve(request, target)
            return
        self.cluster.authorizer.check(request.identity, Attributes(request.method.lower(), path=path))
        if path == "/openapi/v2" and request.method in ("GET", "HEAD"):
            await request.answer(200, EMPTY_V2, V2_MEDIA)
            return
        await self._document(request, path, parts)

    async def _identify(self, request: Request) -> Identity:
        header = request.headers.get("authorization", "")
        if not header:
            return ANONYMOUS
        kind, _, token = header.partition(" ")
        who = None
        if kind.lower() == "bearer" and token:
            who = self.cluster.tokens.authenticate(token) or await self.authenticate(token)
        if who is None:
            raise unauthorized()
        wanted = request.headers.get("impersonate-user")
        if wanted:
            self.cluster.authorizer.check(who, Attributes("impersonate", resource="users", name=wanted))
            groups = tuple(filter(None, [request.headers.get("impersonate-group", "")]))
            return Identity(arn="", username=wanted, groups=groups)
        return who

    def _target(self, parts: tuple[str, ...]) -> Target | None:
        """The resource behind a path; None when the path is a discovery document. 404 for what is not served."""
        group, version, rest = ("", parts[1:2], parts[2:]) if parts[0] == "api" else ("".join(parts[1:2]), parts[2:3], parts[3:])
        if not rest:
            return None
        namespace = None
        if rest[0] == "namespaces" and len(rest) >= 3 and not (len(rest) == 3 and rest[2] in ("status", "finalize")):
            namespace, rest = rest[1], rest[2:]
        resource = self.cluster.catalog.served(group, version[0], rest[0])
        if resource is None or (namespace is not None and not resource.namespaced):
            raise self._nowhere(parts)
        name, subresource = "".join(rest[1:2]), "".join(rest[2:3])
        return Target(resource, namespace, name, subresource, "/".join(rest[3:]))

    def _nowhere(self, parts: tuple[str, ...]) -> ApiError:
        """The 404 of a path: a Status below what the API server itself serves, a plain page elsewhere."""
        is_known = parts[0] in ("api", "version") or (parts[0] == "apis" and self.cluster.catalog.built_in("".join(parts[1:2])))
        return no_such_path() if is_known else NoPageError()

    async def _document(self, request: Request, path: str, parts: tuple[str, ...]) -> None:
        body: Any = None
        version = aggregated_version(request.headers.get("accept", ""))
        if parts[0] in ("api", "apis"):
            request.check_acceptable()
        if path in ("/api", "/apis") and version is not None:
            await request.answer(200, orjson.dumps(self.discovery.aggregated(parts[0], version)), aggregated_media(version))
            return
        if parts[0] in ("api", "apis"):
            body = self.discovery.document(parts)
        elif parts[:2] == ("openapi", "v3"):
            body = self.openapi.index() if len(parts) == 2 else self.openapi.document("/".join(parts[2:]))
        elif path == "/.well-known/openid-configuration":
            body = self.cluster.tokens.discovery()
        elif path == "/openid/v1/jwks":
            body = self.cluster.tokens.keys()
        elif path == "/":
            body = {"paths": list(_ROOT_PATHS)}
        if body is None:
            raise self._nowhere(parts)
        if request.method not in ("GET", "HEAD"):
            raise method_not_allowed()
        await request.answer(200, body)

    # ------------------------------------------------------------------ resources

    async def _serve(self, request: Request, target: Target) -> None:
        resource = target.resource
        verb = self._verb(request, target)
        about = Attributes(verb, resource.group, resource.plural, target.subresource, target.namespace, target.name)
        if resource.qualified == "namespaces" and target.name:
            about = Attributes(verb, "", "namespaces", target.subresource, target.name, target.name)
        self.cluster.authorizer.check(request.identity, about)
        streamed = not (target.name or target.subresource)
        unconvertible = "as=" in request.headers.get("accept", "")
        request.check_acceptable(routed="" if resource.custom or unconvertible else MEDIA_TYPES, streamed=streamed)
        if resource.virtual:
            if verb != "create":
                raise method_not_allowed()
            await request.answer(201, await self.reviews.answer(resource.plural, await request.read(), request.identity))
        elif target.subresource:
            await subresources.serve(self, request, target)
        elif target.name:
            await self._object(request, target)
        else:
            await self._collection(request, target)

    @staticmethod
    def _verb(request: Request, target: Target) -> str:
        if request.method in ("GET", "HEAD"):
            if target.name:
                return "get"
            return "watch" if request.flag("watch") else "list"
        verbs = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete" if target.name else "deletecollection"}
        if request.method not in verbs:
            raise method_not_allowed()
        return verbs[request.method]

    def options(self, request: Request, subresource: str = "") -> Options:
        """How the request wants its write to be done. 422 for values that make no sense."""
        kind = {"POST": "CreateOptions", "PUT": "UpdateOptions"}.get(request.method, "PatchOptions")
        dry, validation = request.query.get("dryRun", ""), request.query.get("fieldValidation", "")
        if dry not in ("", "All"):
            raise bad_option(kind, Cause("dryRun", "FieldValueNotSupported", f'Unsupported value: ["{dry}"]: supported values: "All"'))
        if validation not in ("", "Ignore", "Strict", "Warn"):
            raise bad_option(kind, unsupported("fieldValidation", validation, ("", "Ignore", "Strict", "Warn")))
        manager = request.query.get("fieldManager", "")
        if len(manager) > _LONGEST_MANAGER:
            raise bad_option(kind, Cause("fieldManager", "FieldValueTooLong", f"Too long: may not be more than {_LONGEST_MANAGER} bytes"))
        if "force" in request.query and kind == "PatchOptions" and request.media != _APPLY:
            raise bad_option(kind, forbidden_field("force", "may not be specified for non-apply patch"))
        manager = manager or request.headers.get("user-agent", "unknown").split("/")[0][:_LONGEST_MANAGER]
        user = request.identity.username
        checked, force = validation or "Warn", request.flag("force")
        return Options(manager, user, subresource, dry == "All", checked, force, warnings=request.warnings, duplicates=request.duplicates)

    async def _object(self, request: Request, target: Target) -> None:
        resource, where = target.resource, (target.resource, target.namespace, target.name)
        if resource.namespaced and target.namespace is None:
            raise no_such_path()
        if request.method in ("GET", "HEAD"):
            revision_of(request.query.get("resourceVersion", ""))
            await self.show(request, resource, self.cluster.pipeline.entry(*where).raw)
        elif request.method == "PUT":
            body = await request.read()
            code = 201 if self.cluster.pipeline.created_by_update(*where) else 200
            obj = self.cluster.pipeline.update(*where, body, self.options(request))
            await request.answer(code, self._viewed(request, resource, obj))
        elif request.method == "PATCH":
            await self.patch(request, target)
        elif request.method == "DELETE":
            await self.delete(request, target)
        else:
            raise method_not_allowed()

    async def patch(self, request: Request, target: Target, subresource: str = "") -> None:
        """Serve a PATCH of an object or of its status."""
        where, options = (target.resource, target.namespace, target.name), self.options(request, subresource)
        if request.media == _APPLY:
            if not request.query.get("fieldManager"):
                raise bad_option("PatchOptions", required("fieldManager", "is required for apply patch"))
            obj, created = self.cluster.pipeline.apply(*where, await request.read(), options)
            await request.answer(201 if created else 200, self._viewed(request, target.resource, obj))
            return
        media = request.media
        if media not in PATCHES.values():
            raise unsupported_patch(target.resource, media)
        obj = self.cluster.pipeline.patch(*where, (media, await request.read()), options)
        await request.answer(200, self._viewed(request, target.resource, obj))

    async def delete(self, request: Request, target: Target) -> None:
        """Serve a DELETE of an object."""
        options = replace(DeleteOptions.read(await request.read(optional=True), request.query), user=request.identity.username)
        await request.answer(200, self.cluster.deletion.delete(target.resource, target.namespace, target.name, options))

    async def _collection(self, request: Request, target: Target) -> None:
        resource, namespace = target.resource, target.namespace
        if request.method in ("GET", "HEAD"):
            if request.flag("watch"):
                await self._watch(request, target)
            else:
                await request.answer(200, self.listing.answer(resource, namespace, request, self.cluster.clock.now()))
        elif request.method == "POST":
            if resource.namespaced and namespace is None:
                raise method_not_allowed()
            obj = self.cluster.pipeline.create(resource, namespace, await request.read(kind=resource.kind), self.options(request))
            await request.answer(201, self._viewed(request, resource, obj))
        elif request.method != "DELETE" or resource.qualified == "namespaces":
            raise method_not_allowed()
        else:
            match = matcher(resource, request.query.get("labelSelector", ""), request.query.get("fieldSelector", ""))
            options = replace(DeleteOptions.read(await request.read(optional=True), request.query), user=request.identity.username)
            items = self.cluster.deletion.delete_collection(resource, namespace, match, options)
            metadata = {"resourceVersion": str(self.cluster.store.revision)}
            await request.answer(
                200, {"kind": resource.list_kind, "apiVersion": resource.api_version, "metadata": metadata, "items": items}
            )

    # ------------------------------------------------------------------ views

    async def show(self, request: Request, resource: Resource, raw: bytes) -> None:
        """Answer one stored object in the form that the client accepts."""
        body = versioned(raw, resource)
        if request.table_wanted or request.metadata_wanted or "yaml" in request.headers.get("accept", "") or request.flag("pretty"):
            await request.answer(200, self._viewed(request, resource, orjson.loads(body)))
        else:
            await request.answer(200, body)

    def _viewed(self, request: Request, resource: Resource, obj: Object) -> Object:
        if obj.get("kind") == "Status":
            return obj
        view = self._view(request, resource)
        return view(obj) if view is not None else obj

    def _view(self, request: Request, resource: Resource) -> Callable[[Object], Object] | None:
        if request.table_wanted:
            include = request.included
            return lambda obj: table(
                resource, [obj], {"resourceVersion": obj["metadata"].get("resourceVersion", "")}, self.cluster.clock.now(), include
            )
        if request.metadata_wanted:
            return lambda obj: {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}
        return None

    # ------------------------------------------------------------------ watch

    async def _watch(self, request: Request, target: Target) -> None:
        version = request.query.get("resourceVersion", "")
        initial = request.flag("sendInitialEvents")
        if "sendInitialEvents" in request.query and request.query.get("resourceVersionMatch") != "NotOlderThan":
            raise bad_option("ListOptions", forbidden_field("resourceVersionMatch", _NO_MATCH_TEXT))
        if request.query.get("continue"):
            text = "resourceVersionMatch is forbidden when continue is provided"
            raise bad_option("ListOptions", forbidden_field("resourceVersionMatch", text))
        match_rule = request.query.get("resourceVersionMatch", "")
        if match_rule and not initial:
            text = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            raise bad_option("ListOptions", forbidden_field("resourceVersionMatch", text))
        timeout = request.number("timeoutSeconds")
        wanted = Watching(
            target.resource,
            target.namespace,
            matcher(target.resource, request.query.get("labelSelector", ""), request.query.get("fieldSelector", "")),
            revision_of(version) if not initial else None,
            request.flag("allowWatchBookmarks"),
            initial,
            float(timeout) if timeout else None,
            self._view(request, target.resource),
        )
        stream = Stream(self.cluster.pipeline.collection(target.resource), wanted, lambda: self.cluster.store.revision)
        sending = self.send_stream(request, stream.frames(), "application/json")
        await (self.weather.cut(request, sending) if self.weather else sending)

    @staticmethod
    async def send_stream(request: Request, chunks: AsyncIterator[bytes], media: str) -> None:
        """Send a stream until it ends or the client hangs up."""
        sending = asyncio.ensure_future(request.stream(chunks, media))
        leaving = asyncio.ensure_future(request.gone())
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        finally:
            for task in (sending, leaving):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
