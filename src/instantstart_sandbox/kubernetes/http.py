"""The HTTP side of the API server: a request, its body, what answer it accepts, and how answers are sent (bare ASGI)."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, MutableMapping
from typing import Any, Final
from urllib.parse import parse_qsl

import orjson
import yaml

from instantstart_sandbox.kubernetes import protobuf
from instantstart_sandbox.kubernetes.access import ANONYMOUS
from instantstart_sandbox.kubernetes.errors import ApiError, bad_request
from instantstart_sandbox.world.seams import Identity

Object = dict[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

JSON: Final = "application/json"
_LARGEST_BODY: Final = 3 * 1024 * 1024
MEDIA_TYPES: Final = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
_NO_PROTOBUF: Final = "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
_FOREIGN_PROTOBUF: Final = (
    "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml. "
    "The sandbox knows no protobuf of {kind}; write it as YAML and use: kubectl apply -f"
)


def _from_protobuf(data: bytes, kind: str) -> Any:
    """The object of a protobuf body. 400 for what is none, 415 for kinds whose fields are not known."""
    if not data.startswith(protobuf.PREFIX):
        raise bad_request(f"the object provided is unrecognized (must be of type {kind}): {_NO_PROTOBUF} ({data.hex()})")
    try:
        return protobuf.decode(data)
    except protobuf.UnknownKindError as error:
        raise ApiError(415, "UnsupportedMediaType", _FOREIGN_PROTOBUF.format(kind=error.args[0])) from error
    except protobuf.DamagedError as error:
        raise bad_request(str(error)) from error
    except ValueError as error:
        raise bad_request(f"the object provided is unrecognized (must be of type {kind}): {error} ({data[:64].hex()})") from error


def _acceptable(choice: str) -> bool:
    media, *parameters = [part.strip() for part in choice.split(";")]
    form = next((p.removeprefix("as=") for p in parameters if p.startswith("as=")), "")
    if form and form not in ("Table", "PartialObjectMetadata", "PartialObjectMetadataList", "APIGroupDiscoveryList"):
        return False
    return bool(re.fullmatch(r"application/(json|yaml|\*)|\*/\*|text/plain", media))


class _Loader(yaml.CSafeLoader):
    """YAML as Kubernetes reads it: dates stay text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, expression) for tag, expression in rules if tag != "tag:yaml.org,2002:timestamp"]
    for first, rules in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


async def _nowhere(_message: Message) -> None:
    """Where answers go that are to be lost."""


class Request:
    """One request. Header names are lower case; of a repeated query parameter the last counts."""

    def __init__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        self.method = str(scope["method"])
        self.path = str(scope["path"])
        self.query: dict[str, str] = dict(parse_qsl(scope["query_string"].decode(), keep_blank_values=True))
        self.headers: dict[str, str] = {k.decode("latin-1").lower(): v.decode("latin-1") for k, v in scope["headers"]}
        self.raw_query: bytes = scope["query_string"]
        self.receive, self.send, self._send = receive, send, send
        self.identity: Identity = ANONYMOUS
        self.answered = False
        self.warnings: list[str] = []
        #: paths of the fields that the body held twice, for requests that want to hear of them
        self.duplicates: tuple[str, ...] = ()

    def mute(self) -> None:
        """Let no answer reach the caller."""
        self._send = _nowhere

    # ------------------------------------------------------------------ the question

    def flag(self, name: str) -> bool:
        """A boolean query parameter."""
        return self.query.get(name) in ("true", "1")

    def number(self, name: str) -> int | None:
        """An integer query parameter; 400 when it is none."""
        text = self.query.get(name)
        if text in (None, ""):
            return None
        try:
            return int(text or "")
        except ValueError:
            raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None

    @property
    def media(self) -> str:
        """The media type of the body, without parameters."""
        return self.headers.get("content-type", "").split(";")[0].strip()

    async def body(self) -> bytes:
        """The whole body; 413 above 3 MiB."""
        parts, size, more = [], 0, True
        while more:
            message = await self.receive()
            part = message.get("body", b"")
            size += len(part)
            if size > _LARGEST_BODY:
                raise ApiError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {_LARGEST_BODY}")
            parts.append(part)
            more = message.get("more_body", False)
        return b"".join(parts)

    async def read(self, *, optional: bool = False, kind: str = "object") -> Any:
        """The decoded body of an object of ``kind``: JSON, YAML or protobuf. 415 for other forms, 400 for what cannot be parsed."""
        data = await self.body()
        if not data and optional:
            return {}
        if "protobuf" in self.media:
            return _from_protobuf(data, kind)
        if self.media and not self.media.endswith(("json", "yaml")):
            text = f"the body of the request was in an unknown format - accepted media types include: {MEDIA_TYPES}"
            raise ApiError(415, "UnsupportedMediaType", text)
        if self.query.get("fieldValidation") in ("Strict", "Warn") and data[:1] == b"{":
            self.duplicates = tuple(duplicates(data))
        try:
            return parse(data, yaml_allowed="yaml" in self.media or not self.media)
        except ApiError as refusal:
            # options are decoded elsewhere than objects, and there nobody turns the failure into a bad request
            raise ApiError(500, "", refusal.message) if optional else refusal from refusal

    # ------------------------------------------------------------------ the answer

    @property
    def table_wanted(self) -> bool:
        """Whether the client asks for a Table before anything else."""
        return self.headers.get("accept", "").lstrip().startswith(JSON) and "as=table" in self.headers.get("accept", "").lower()

    @property
    def included(self) -> str:
        """How much of each object a Table is to hold; 400 for a word that says nothing."""
        word = self.query.get("includeObject", "") or "Metadata"
        if word not in ("None", "Metadata", "Object"):
            text = f"Invalid value: \"{word}\": must be 'Metadata', 'Object', 'None', or empty"
            raise bad_request(f"Unable to convert to Table as requested: includeObject: {text}")
        return word

    @property
    def metadata_wanted(self) -> bool:
        """Whether the client asks for metadata only."""
        return "as=PartialObjectMetadata" in self.headers.get("accept", "")

    @property
    def acceptable(self) -> bool:
        """Whether the client takes something that we can make."""
        accept = self.headers.get("accept", "")
        return not accept or any(_acceptable(choice) for choice in accept.split(","))

    def check_acceptable(self, *, routed: str = "", streamed: bool = False) -> None:
        """406 when the client takes nothing that we can make.

        The router speaks first of built-in kinds and of what it serves itself: ``routed`` are the media types that it knows, and with
        ``streamed`` those of watches. Without, the sentence is that of the handlers (discovery, custom resources).
        """
        if self.acceptable:
            return
        if not routed:
            raise ApiError(406, "NotAcceptable", f"only the following media types are accepted: {MEDIA_TYPES}")
        more = ", application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch" if streamed else ""
        told = f"406: Not Acceptable\n\nAvailable representations: {routed}{more}"
        raise ApiError(406, "NotAcceptable", told, {})

    async def answer(self, code: int, body: Any, media: str = JSON) -> None:
        """Send an answer."""
        accept = self.headers.get("accept", "")
        if not isinstance(body, bytes):
            if media == JSON and accept.startswith("application/yaml"):
                body, media = yaml.dump(body, Dumper=yaml.CSafeDumper, sort_keys=True).encode(), "application/yaml"
            else:
                body = orjson.dumps(body, option=orjson.OPT_INDENT_2 if self.flag("pretty") else None)
        headers = [(b"content-type", media.encode()), (b"content-length", str(len(body)).encode())]
        headers += [(b"cache-control", b"no-cache, private")]
        for text in self.warnings:
            quoted = text.replace("\\", "\\\\").replace('"', '\\"')
            headers.append((b"warning", f'299 - "{quoted}"'.encode()))
        if code == 429 or (code in (503, 504) and isinstance(body, bytes) and b"retryAfterSeconds" in body):
            headers.append((b"retry-after", b"1"))
        self.answered = True
        await self._send({"type": "http.response.start", "status": code, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})

    async def stream(self, chunks: AsyncIterator[bytes], media: str = JSON) -> None:
        """Send chunks as they come."""
        self.answered = True
        await self._send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", media.encode())]})
        async for chunk in chunks:
            await self._send({"type": "http.response.body", "body": chunk, "more_body": True})
        await self._send({"type": "http.response.body", "body": b""})

    async def relay(self, code: int, headers: list[tuple[bytes, bytes]], chunks: AsyncIterator[bytes]) -> None:
        """Send another server's answer."""
        self.answered = True
        await self._send({"type": "http.response.start", "status": code, "headers": headers})
        async for chunk in chunks:
            await self._send({"type": "http.response.body", "body": chunk, "more_body": True})
        await self._send({"type": "http.response.body", "body": b""})

    async def gone(self) -> None:
        """Return when the client has hung up."""
        while (await self.receive())["type"] != "http.disconnect":
            pass


def duplicates(data: bytes) -> list[str]:
    """The paths of the names that a JSON text gives twice in one object; of a text that cannot be parsed none."""
    try:
        parsed = json.loads(data, object_pairs_hook=_Pairs)
    except ValueError:
        return []
    return list(_twice(parsed, ""))


class _Pairs(list[tuple[str, Any]]):
    """An object as it is written, every name as often as it is there."""


def _twice(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, _Pairs):
        seen = set()
        for key, item in value:
            where = f"{path}.{key}" if path else key
            if key in seen:
                yield where
            seen.add(key)
            yield from _twice(item, where)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _twice(item, f"{path}[{index}]")


def _go_failure(data: bytes, failure: orjson.JSONDecodeError) -> str:
    """Go's sentence about a text that is no JSON."""
    if failure.pos >= len(data):
        return "unexpected end of JSON input"
    place = "object key string" if "string key" in failure.msg else "value"
    return f"invalid character '{failure.doc[failure.pos]}' looking for beginning of {place}"


def parse(data: bytes, *, yaml_allowed: bool) -> Any:
    """A body as a value. 400 when it cannot be parsed."""
    if not yaml_allowed or data[:1] in (b"{", b"["):
        try:
            return orjson.loads(data)
        except orjson.JSONDecodeError as failure:
            if not yaml_allowed:
                raise bad_request(f"couldn't get version/kind; json parse error: {_go_failure(data, failure)}") from failure
    try:
        return yaml.load(data, Loader=_Loader)  # noqa: S506 - a subclass of CSafeLoader
    except yaml.YAMLError as failure:
        raise bad_request(f"error decoding YAML: {failure}") from failure
