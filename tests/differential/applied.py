"""What the product applied while every workflow ran (tests/aws/everything.py): one object of each shape, kept in ``applied.json``.

Whoever adds a workflow adds it to that run; its objects are then asked for here, and are held against a real server with all others.
``INSTANTSTART_RECORD=1`` keeps the new ones.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from instantstart.kube.client import KubeCluster

Object = dict[str, Any]
FILE = Path(__file__).parent / "applied.json"


def shape(value: Any, path: str = "") -> Iterator[str]:
    """The places of an object that hold something, items of lists taken together."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            # the keys of these are names, not fields
            named = path.rpartition(".")[2] in ("labels", "annotations", "matchLabels", "data", "stringData")
            yield from shape(item, path if named else f"{path}.{key}")
    elif isinstance(value, list):
        for item in value:
            yield from shape(item, f"{path}[]")
    yield path


def key(obj: Object) -> str:
    """Objects with the same key differ in their values only."""
    return json.dumps([obj["apiVersion"], obj["kind"], sorted(set(shape(obj)))])


def known() -> list[Object]:
    """What was kept."""
    return list(json.loads(FILE.read_text())) if FILE.exists() else []


@contextmanager
def watched() -> Iterator[list[Object]]:
    """The objects that are applied meanwhile."""
    seen: list[Object] = []
    original = KubeCluster.apply

    def apply(self: KubeCluster, resource: Mapping[str, Any], *, force: bool = False, dry_run: bool = False) -> Any:
        seen.append(copy.deepcopy(dict(resource)))
        return original(self, resource, force=force, dry_run=dry_run)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KubeCluster, "apply", apply)
        yield seen


def unknown(seen: list[Object]) -> list[str]:
    """Kind and name of each object of a new shape; none when they are to be recorded, or when nothing ever was."""
    kept = {key(obj): obj for obj in known()}
    fresh = {key(obj): obj for obj in seen if key(obj) not in kept}
    if fresh and os.environ.get("INSTANTSTART_RECORD") == "1":
        every = sorted((kept | fresh).values(), key=lambda o: (o["kind"], o["metadata"]["name"], key(o)))
        FILE.write_text("[\n" + ",\n".join(json.dumps(obj, sort_keys=True) for obj in every) + "\n]\n")
        return []
    return [] if not kept else [f"{obj['kind']} {obj['metadata']['name']}" for obj in fresh.values()]
