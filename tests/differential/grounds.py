"""A namespace and the definition of the drawn operations' custom kind, on one side, for as long as a test needs them."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx2
from tests.differential.operations import DEPLOYMENT, WIDGET, definition
from tests.differential.sides import Side

_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_PATIENCE_SECONDS = 30.0


@contextmanager
def ground(side: Side) -> Iterator[tuple[httpx2.Client, str]]:
    """(client, namespace), both for this test alone; everything in it is taken away after."""
    namespace = f"drawn-{secrets.token_hex(4)}"
    with side.client() as client:
        client.post("/api/v1/namespaces", json={"metadata": {"name": namespace}}).raise_for_status()
        if client.post(_DEFINITIONS, json=definition()).status_code not in (201, 409):
            raise AssertionError("the definition was refused")
        wait(lambda: client.get(WIDGET.path(namespace)).status_code == 200, "the custom kind is not served")
        try:
            yield client, namespace
        finally:
            for kind in (DEPLOYMENT, WIDGET):
                for item in client.get(kind.path(namespace)).json()["items"]:
                    release(client, kind.path(namespace, item["metadata"]["name"]))
            client.delete(f"/api/v1/namespaces/{namespace}")


def release(client: httpx2.Client, path: str) -> None:
    """Take an object's finalizers away."""
    merge = {"Content-Type": "application/merge-patch+json"}
    client.patch(path, json={"metadata": {"finalizers": None}}, headers=merge)


def wait(holds: Callable[[], bool], complaint: str) -> None:
    """Until something holds; fails with the complaint when it does not in time."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, complaint
        time.sleep(0.02)
