"""Workers by label: pods of the cluster that the router itself runs in, listed and then watched with its service account's token."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ..serving.web import read_body, read_head
from .pool import Pool

API, ACCOUNT = "INSTANTSTART_SANDBOX_API", "INSTANTSTART_SANDBOX_SERVICEACCOUNT"
_RETRY_SECONDS = 0.5
_WATCH_SECONDS = 300


class DeniedError(Exception):
    """The API server refused, or spoke of something else than pods."""


class Discovery:
    """Keeps the pool as the pods are: ready, labelled, with an address; everything else leaves at once."""

    def __init__(self, pool: Pool, wanted: dict[str, str], namespace: str | None, port: int, log: Callable[[str], None]) -> None:
        self._pool, self._wanted, self._namespace, self._port, self._log = pool, wanted, namespace, port, log
        self._pods: dict[str, str] = {}

    async def run(self) -> None:
        """List, watch, and again, for ever: a watch that ends or is told to start anew does so."""
        told = ""
        while True:
            try:
                version = await self._list()
                told = ""
                await self._watch(version)
            except (DeniedError, OSError, ValueError, asyncio.IncompleteReadError, TimeoutError) as failure:
                if str(failure) != told:
                    told = str(failure)
                    self._log(f"Error in Kubernetes watcher: {told or type(failure).__name__}")
                await asyncio.sleep(_RETRY_SECONDS)

    @property
    def _path(self) -> str:
        return f"/api/v1/namespaces/{self._namespace}/pods" if self._namespace else "/api/v1/pods"

    async def _list(self) -> str:
        pieces = [piece async for piece in _get(self._path)]
        found = json.loads(b"".join(pieces))
        present: dict[str, Any] = {_key(pod): pod for pod in found.get("items") or []}
        for key in [k for k in self._pods if k not in present]:
            self._leave(key)
        for pod in present.values():
            self._see(pod)
        return str(found["metadata"]["resourceVersion"])

    async def _watch(self, version: str) -> None:
        left = b""
        path = f"{self._path}?watch=true&resourceVersion={version}&timeoutSeconds={_WATCH_SECONDS}"
        async for piece in _get(path):
            left += piece
            *lines, left = left.split(b"\n")
            for line in filter(None, lines):
                event = json.loads(line)
                if event["type"] == "ERROR":
                    return
                if event["type"] == "DELETED":
                    self._leave(_key(event["object"]))
                elif event["type"] in ("ADDED", "MODIFIED"):
                    self._see(event["object"])

    def _see(self, pod: dict[str, Any]) -> None:
        key, url = _key(pod), self._url(pod)
        if self._pods.get(key) == url:
            return
        self._leave(key)
        if url is not None:
            self._pods[key] = url
            self._pool.add(url)

    def _leave(self, key: str) -> None:
        url = self._pods.pop(key, None)
        if url is not None and url not in self._pods.values():
            self._pool.remove(url)

    def _url(self, pod: dict[str, Any]) -> str | None:
        """Where the pod serves; None for one that is not ours, not ready or on its way out."""
        metadata, status = pod["metadata"], pod.get("status") or {}
        labelled = self._wanted.items() <= (metadata.get("labels") or {}).items()
        ready = any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions") or [])
        if not labelled or not ready or metadata.get("deletionTimestamp") or not status.get("podIP"):
            return None
        return f"http://{status['podIP']}:{self._port}"


def _key(pod: dict[str, Any]) -> str:
    return f"{pod['metadata'].get('namespace', '')}/{pod['metadata']['name']}"


async def _get(path: str) -> AsyncIterator[bytes]:
    """The answer's body, as it comes. DeniedError for anything but 200."""
    server, account = os.environ.get(API), os.environ.get(ACCOUNT)
    if not server or not account:
        raise DeniedError("Failed to infer Kubernetes configuration: the pod has no service account token")
    context = ssl.create_default_context(cafile=str(Path(account) / "ca.crt"))
    address = urlsplit(server)
    reader, writer = await asyncio.open_connection(address.hostname, address.port, ssl=context)
    try:
        token = (Path(account) / "token").read_text()
        lines = [f"GET {path} HTTP/1.1", f"Host: {address.netloc}", f"Authorization: Bearer {token}", "Accept: application/json"]
        writer.write("\r\n".join([*lines, "Connection: close", "", ""]).encode())
        head = await read_head(reader)
        if head is None:
            raise DeniedError("the API server closed the connection")
        if head[0].split(" ")[1] != "200":
            body = b"".join([piece async for piece in read_body(reader, head[1])])
            raise DeniedError(json.loads(body).get("message", head[0]) if body.startswith(b"{") else head[0])
        async for piece in read_body(reader, head[1]):
            yield piece
    finally:
        writer.close()
