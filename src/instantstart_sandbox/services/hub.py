"""A stand-in of the model hub at ``/_hub``: a few small repositories of our own, and the hub's own ways of saying no.

Exact (Hub API pages): the listing with ``blobs=true``, ``resolve`` with ranges, ``X-Error-Code``, 401 for a missing repository without
a token, a gated one whose list is public and whose files are not. Simple: one commit for each repository; ``main`` and the commit itself.
``admin hub mode=throttle|failing|html|torn|slow count=N`` spoils the next N answers that give a file.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from instantstart_sandbox.world.admin import VERBS

if TYPE_CHECKING:
    from instantstart_sandbox.world.state import World

PREFIX = "/_hub"
#: tokens: the first may read everything, the second's owner has accepted no licence and sees nothing private
TOKENS = {"hf_sandbox": True, "hf_stranger": False}
MODES = ("", "throttle", "failing", "html", "torn", "slow")
#: larger files are stored apart on the hub, which then knows their sha256
_LARGE_BYTES = 100_000
_SLOW_SECONDS = 0.2
_CHUNK = 64 * 1024
_LISTING = re.compile(r"^/api/(models|datasets)/(?P<id>[^/]+(?:/[^/]+)?)(?:/revision/(?P<revision>[^/]+))?$")
_FILE = re.compile(r"^/(?P<kind>datasets/)?(?P<id>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<path>.+)$")
StartResponse = Callable[[str, list[tuple[str, str]]], Any]


@dataclass(frozen=True)
class Repository:
    """A repository of ours: its files by path with their sizes in bytes."""

    id: str
    kind: str
    files: dict[str, int]
    gated: bool = False
    private: bool = False

    @property
    def commit(self) -> str:
        """Its one commit."""
        return hashlib.sha1(self.id.encode()).hexdigest()  # noqa: S324 - as git makes them

    def content(self, path: str) -> bytes:
        """What a file holds: settings that can be read, weights that are noise."""
        if path.endswith(".json"):
            text = json.dumps({"model_type": "sandbox", "repository": self.id})
            return text.encode().ljust(self.files[path])[: self.files[path]]
        seed = hashlib.sha256(f"{self.id}/{path}".encode()).digest()
        return (seed * (self.files[path] // len(seed) + 1))[: self.files[path]]


_WEIGHTS = {"config.json": 120, "README.md": 2_000, "tokenizer.json": 5_000}
REPOSITORIES = {
    each.id: each
    for each in (
        Repository(
            "sandbox/tiny-model",
            "model",
            _WEIGHTS | {"model-00001-of-00002.safetensors": 900_000, "model-00002-of-00002.safetensors": 700_000},
        ),
        Repository("sandbox/large-model", "model", _WEIGHTS | {"model.safetensors": 24_000_000}),
        Repository("sandbox/gated-model", "model", _WEIGHTS | {"model.safetensors": 300_000}, gated=True),
        Repository("sandbox/private-model", "model", _WEIGHTS | {"model.safetensors": 300_000}, private=True),
        Repository("sandbox/tiny-text", "dataset", {"README.md": 500, "data/train.jsonl": 150_000, "data/test.jsonl": 20_000}),
    )
}


@dataclass(frozen=True)
class _Answer:
    status: str
    headers: tuple[tuple[str, str], ...]
    body: bytes = b""


def install(world: World) -> None:
    """Answer below ``/_hub``, and take the admin verb."""
    world.gateway.hub = Hub(world)
    VERBS.update(STEERING)


def _steer(world: World, body: dict[str, Any]) -> Any:
    """``{mode, count?}``: spoil the next answers that give a file."""
    mode = str(body.get("mode", ""))
    if mode not in MODES:
        raise ValueError(f"mode is one of {', '.join(MODES[1:])}, or empty")
    world.section("hub").update({"mode": mode, "count": int(body.get("count", 1))})
    return {"mode": mode}


STEERING = {("POST", "hub"): _steer}


class Hub:
    """The WSGI application."""

    def __init__(self, world: World) -> None:
        self._world = world

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        """One request. A torn answer promises more than it sends."""
        path = unquote(environ["PATH_INFO"].removeprefix(PREFIX))
        token = environ.get("HTTP_AUTHORIZATION", "").removeprefix("Bearer ") or None
        mode = self._mode() if _FILE.match(path) and environ["REQUEST_METHOD"] == "GET" else ""
        answer = _spoilt(mode) or self._answer(path, token, environ.get("HTTP_RANGE", ""))
        body = b"" if environ["REQUEST_METHOD"] == "HEAD" else answer.body
        start_response(answer.status, [*answer.headers, ("Content-Length", str(len(answer.body)))])
        if mode == "torn":
            return [body[: len(body) // 2]]
        return _slowly(body) if mode == "slow" else [body]

    def _mode(self) -> str:
        state = self._world.section("hub")
        if not state.get("mode") or state.get("count", 0) <= 0:
            return ""
        state["count"] -= 1
        return str(state["mode"])

    def _answer(self, path: str, token: str | None, range_header: str) -> _Answer:
        if listed := _LISTING.match(path):
            return _listing(listed["id"], unquote(listed["revision"] or "main"), token)
        if asked := _FILE.match(path):
            return _file(asked["id"], asked["revision"], asked["path"], token, range_header)
        return _refuse(404, "", "Not found")


def _find(repository_id: str, revision: str, token: str | None) -> Repository | _Answer:
    found = REPOSITORIES.get(repository_id)
    if token is not None and token not in TOKENS:
        return _refuse(401, "", "Invalid credentials in Authorization header")
    if found is None or (found.private and not TOKENS.get(token or "")):
        return _refuse(404 if token else 401, "RepoNotFound", "Repository not found")
    if revision not in ("main", found.commit):
        return _refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
    return found


def _listing(repository_id: str, revision: str, token: str | None) -> _Answer:
    found = _find(repository_id, revision, token)
    if isinstance(found, _Answer):
        return found
    siblings = []
    for path, size in found.files.items():
        large = {"sha256": hashlib.sha256(found.content(path)).hexdigest(), "size": size, "pointerSize": 134}
        siblings.append({"rfilename": path, "size": size} | ({"lfs": large} if size >= _LARGE_BYTES else {}))
    told = {"id": found.id, "sha": found.commit, "private": found.private, "gated": "auto" if found.gated else False, "siblings": siblings}
    return _Answer("200 OK", (("Content-Type", "application/json; charset=utf-8"),), json.dumps(told).encode())


def _file(repository_id: str, revision: str, path: str, token: str | None, range_header: str) -> _Answer:
    found = _find(repository_id, revision, token)
    if isinstance(found, _Answer):
        return found
    if found.gated and not TOKENS.get(token or ""):
        return _refuse(403 if token else 401, "GatedRepo", "Access to this repository is restricted.")
    if path not in found.files:
        return _refuse(404, "EntryNotFound", "Entry not found")
    body = found.content(path)
    begin = re.match(r"^bytes=(\d+)-$", range_header)
    kind = ("Content-Type", "application/octet-stream")
    if not begin:
        return _Answer("200 OK", (kind, ("Accept-Ranges", "bytes")), body)
    start = int(begin[1])
    return _Answer("206 Partial Content", (kind, ("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")), body[start:])


def _refuse(status: int, code: str, message: str) -> _Answer:
    words = {401: "Unauthorized", 403: "Forbidden", 404: "Not Found", 429: "Too Many Requests", 503: "Service Unavailable"}
    headers = [("Content-Type", "application/json"), ("X-Error-Message", message), *([("X-Error-Code", code)] if code else [])]
    return _Answer(f"{status} {words[status]}", tuple(headers), json.dumps({"error": message}).encode())


def _spoilt(mode: str) -> _Answer | None:
    if mode == "throttle":
        answer = _refuse(429, "", "Too many requests")
        return _Answer(answer.status, (*answer.headers, ("Retry-After", "1")), answer.body)
    if mode == "failing":
        return _refuse(503, "", "Service unavailable")
    if mode == "html":
        return _Answer("200 OK", (("Content-Type", "text/html"),), b"<html><body>Please sign in</body></html>")
    return None


def _slowly(body: bytes) -> Iterable[bytes]:
    for start in range(0, len(body), _CHUNK):
        time.sleep(_SLOW_SECONDS)
        yield body[start : start + _CHUNK]
