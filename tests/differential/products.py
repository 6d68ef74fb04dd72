"""Every Kubernetes object that the product can make: what all workflows applied, and what makers make of all their inputs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml
from tests.differential.applied import known
from tests.inference import serving_objects, wishes
from tests.training import asks

import instantstart_sandbox
from instantstart.capabilities.inference.endpoints import objects
from instantstart.ensure.inference.endpoints import CONFIG, JUMPSTART
from instantstart.ensure.storage.volumes import S3Volume

Object = dict[str, Any]
_BUNDLES = Path(instantstart_sandbox.__file__).parent / "bundles"


def bundles() -> Iterator[tuple[str, Object]]:
    """The dependency bundles, file by file in the order in which they are applied."""
    for path in sorted(_BUNDLES.glob("*/*.yaml")):
        for number, document in enumerate(filter(None, yaml.load_all(path.read_text(), Loader=yaml.CSafeLoader))):
            yield f"{path.parent.name}/{path.stem}[{number}] {document['kind']}", document


def volumes() -> Iterator[tuple[str, Object]]:
    """S3 volumes: with defaults, with everything set, and all between."""
    for prefix, read_only, owner in itertools.product(("", "team/a/"), (False, True), (None, 1000)):
        volume = S3Volume("data", "ns", "a-bucket", "region-1", prefix, read_only, owner, owner)
        for resource in volume.release().resources:
            about = " ".join(filter(None, [prefix, "read-only" if read_only else "", f"uid {owner}" if owner else ""]))
            yield f"s3 volume {about or 'plain'} {resource['kind']}", dict(resource)


def training() -> Iterator[tuple[str, Object]]:
    """Training jobs: every recipe on every kind of job that it runs on, with little said and with everything."""
    seen = set()
    for about, wanted in asks.shapes():
        for resource in wanted.resources():
            if (resource["kind"], resource["metadata"]["name"]) not in seen or resource["kind"] != "ConfigMap":
                seen.add((resource["kind"], resource["metadata"]["name"]))
                yield f"training {about} {resource['kind']}", resource


def endpoints() -> Iterator[tuple[str, Object]]:
    """Managed endpoints: plain, with every setting, from every kind of place, and of JumpStart."""
    asked = {"plain": wishes.plain(), "whole": wishes.everything(), "jumpstart": wishes.jumpstart()}
    asked |= {f"from {kind}": wishes.of_source(kind) for kind in wishes.SOURCES}
    for about, settings in asked.items():
        kind = JUMPSTART if about == "jumpstart" else CONFIG
        yield f"endpoint {about}", objects.resource(wishes.target(settings, kind))


def serving() -> Iterator[tuple[str, Object]]:
    """Deployments, pools with their guard, routers and autoscalers."""
    yield from serving_objects.everything()


def applied() -> Iterator[tuple[str, Object]]:
    """What the product applied while every workflow ran, one object of each shape."""
    for number, obj in enumerate(known()):
        yield f"applied[{number}] {obj['kind']} {obj['metadata']['name']}", obj


MAKERS: tuple[Callable[[], Iterator[tuple[str, Object]]], ...] = (bundles, volumes, training, endpoints, serving, applied)


def everything() -> list[tuple[str, Object]]:
    """(what it is, the object)"""
    return [made for maker in MAKERS for made in maker()]
