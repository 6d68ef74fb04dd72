"""(c) Watchers that keep a copy: they list, watch, are cut off, resume from the last revision they saw, and list anew on 410."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from typing import Any

import httpx2
from tests.differential.sides import Side

Object = dict[str, Any]


class Watcher:
    """A copy of one path, kept in a thread of its own. ``cut`` tears its stream as a dying connection would."""

    def __init__(self, side: Side, path: str, selector: str = "", seconds: int = 3, *, initial_events: bool = False) -> None:
        self.side, self.path, self.seconds, self.initial_events = side, path, seconds, initial_events
        self.query = {"labelSelector": selector} if selector else {}
        self.copy: dict[str, Object] = {}
        self.version = ""
        self.lists = self.streams = 0
        self.complaints: list[str] = []
        self._stop = threading.Event()
        self._response: httpx2.Response | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def cut(self) -> None:
        """Tear the stream."""
        stream = self._response.extensions.get("network_stream") if self._response is not None else None
        if stream is not None:
            with contextlib.suppress(OSError):  # it has just ended by itself
                stream.get_extra_info("socket").shutdown(socket.SHUT_RDWR)

    def end(self) -> None:
        """Stop after the present stream."""
        self._stop.set()
        self.cut()
        self._thread.join(30)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                with self.side.client() as client:
                    if not self.version:
                        self._list(client)
                    self._watch(client)
            except (httpx2.HTTPError, OSError, ValueError):
                continue  # torn on purpose, perhaps in the middle of a line: go on from the last revision

    def _list(self, client: httpx2.Client) -> None:
        self.lists += 1
        fresh: dict[str, Object] = {}
        if self.initial_events:
            self.copy, self.version = fresh, ""
            return
        query = {"limit": "2", **self.query}
        while True:
            page = client.get(self.path, params=query).raise_for_status().json()
            fresh |= {item["metadata"]["name"]: item for item in page["items"]}
            if not page["metadata"].get("continue"):
                break
            query["continue"] = page["metadata"]["continue"]
        self.copy, self.version = fresh, page["metadata"]["resourceVersion"]

    def _watch(self, client: httpx2.Client) -> None:
        self.streams += 1
        query = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(self.seconds), **self.query}
        if self.version:
            query["resourceVersion"] = self.version
        else:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        with client.stream("GET", self.path, params=query) as response:
            self._response = response
            if response.status_code == 410:
                self.version = ""
                return
            response.raise_for_status()
            for line in response.iter_lines():
                if line:
                    self._take(json.loads(line))
                if self._stop.is_set():
                    return

    def _take(self, event: Object) -> None:
        obj = event["object"]
        if event["type"] == "ERROR":
            self.version = ""
            return
        name = obj["metadata"].get("name", "")
        known = name in self.copy
        if event["type"] == "DELETED":
            if not known:
                self.complaints.append(f"DELETED {name}, which was not there")
            self.copy.pop(name, None)
        elif event["type"] != "BOOKMARK":
            if known == (event["type"] == "ADDED"):
                self.complaints.append(f"{event['type']} {name}, which was {'' if known else 'not '}there")
            self.copy[name] = obj
        if self.version and int(obj["metadata"]["resourceVersion"]) < int(self.version):
            self.complaints.append(f"{name} went back from {self.version} to {obj['metadata']['resourceVersion']}")
        if self.version or event["type"] == "BOOKMARK":
            self.version = obj["metadata"]["resourceVersion"]
