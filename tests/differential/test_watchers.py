"""(c) While drawn writes run, watchers with selectors resume and are killed: each one's copy is the final list. On each side by itself."""

from __future__ import annotations

import random
import secrets
from functools import partial
from typing import Any

import httpx2
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from tests.differential.grounds import ground, wait
from tests.differential.operations import DEPLOYMENT, WIDGET, Kind, Operation, Writer, scripts
from tests.differential.sides import Side
from tests.differential.watchers import Watcher

SELECTORS = ("", "x=1", "x!=1", "y in (1,2)")
_SETTINGS = settings(
    max_examples=12, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, phases=[Phase.generate, Phase.explicit]
)


def listed(client: httpx2.Client, path: str, selector: str) -> dict[str, Any]:
    """The present objects by name."""
    items = client.get(path, params={"labelSelector": selector} if selector else {}).raise_for_status().json()["items"]
    return {item["metadata"]["name"]: _bare(item) for item in items}


def _bare(obj: dict[str, Any]) -> dict[str, Any]:
    """Items of a list bear no kind."""
    return {k: v for k, v in obj.items() if k not in ("kind", "apiVersion")}


def copy_of(watcher: Watcher) -> dict[str, Any]:
    return {name: _bare(obj) for name, obj in dict(watcher.copy).items()}


def _is_the_list(watcher: Watcher, client: httpx2.Client, path: str, selector: str) -> bool:
    return copy_of(watcher) == listed(client, path, selector)


def watched(side: Side, kind: Kind) -> None:
    """Draw writes, tear watchers, and compare their copies with the list."""
    with ground(side) as (client, namespace):
        path = kind.path(namespace)
        watchers = [Watcher(side, path, s, 2 + n, initial_events=n % 2 == 1) for n, s in enumerate((*SELECTORS, *SELECTORS[:2]))]
        chance = random.Random(7)

        @given(scripts)
        @_SETTINGS
        def write(script: list[Operation]) -> None:
            writer = Writer(client, namespace, "w" + secrets.token_hex(4))
            for operation in script:
                writer.act(operation)
                if chance.random() < 0.1:
                    chance.choice(watchers).cut()

        try:
            write()
            for watcher in watchers:
                selector = watcher.query.get("labelSelector", "")
                equal = partial(_is_the_list, watcher, client, path, selector)
                wait(equal, f"the copy of {selector!r} is not the list")
        finally:
            for watcher in watchers:
                watcher.end()
        assert [w.complaints for w in watchers] == [[] for _ in watchers]


@pytest.mark.parametrize("kind", [DEPLOYMENT, WIDGET], ids=lambda k: k.kind)
def test_a_torn_watch_adds_up_on_the_sandbox(ours: Side, kind: Kind) -> None:
    watched(ours, kind)


@pytest.mark.parametrize("kind", [DEPLOYMENT, WIDGET], ids=lambda k: k.kind)
def test_a_torn_watch_adds_up_on_the_real_server(real: Side, kind: Kind) -> None:
    """The same watchers on the real side: what they expect of a server is what a server does."""
    watched(real, kind)
