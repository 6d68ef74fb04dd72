"""Bundles: rendered manifests in folders, pinned by version and digest, read from disk and never from the network (case 33).

A bundle is a folder with ``bundle.json`` and the ``*.yaml`` files it lists. The digest covers the names and bytes of those files, so
neither a changed nor an added file passes. What differs from place to place is a parameter, ``@REGION@`` style, replaced in whole parsed
strings and never in YAML text. The format is described in docs/bundles.md.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from instantstart.base import problems
from instantstart.ensure.installs.releases import Check, Release, Resource, Role

DESCRIPTION = "bundle.json"
SHIPPED = Path(__file__).parents[2] / "bundles"
_PARAMETER = re.compile(r"@[A-Z][A-Z0-9_]*@")
_FLOATING_TAG = re.compile(r"(^|:)(latest|stable|main|master)$")


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class CheckSpec(_Strict):
    """A workload that must exist and be ready."""

    kind: Literal["Deployment", "DaemonSet", "StatefulSet"]
    namespace: str
    name: str
    needs_nodes: bool = True


class RoleSpec(_Strict):
    """What there must be only one of in a cluster: how a copy of somebody else is recognised."""

    name: str
    kinds: tuple[Literal["Deployment", "DaemonSet", "StatefulSet"], ...]
    images: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


class ParameterSpec(_Strict):
    """Where a parameter's value comes from: the fact ``source`` as it is, or looked up in ``table``."""

    source: Literal["region", "partition", "account", "cluster", "dns_suffix"]
    table: Mapping[str, str] | None = None


class SourceSpec(_Strict):
    """Where the manifests came from: ``stand-in`` (written for the sandbox) or ``helm`` (rendered when the container was built)."""

    kind: Literal["stand-in", "helm"]
    chart: str | None = None
    commit: str | None = None
    chart_digest: str | None = None


class Description(_Strict):
    """``bundle.json``."""

    name: str = Field(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")
    title: str
    version: str = Field(min_length=1, max_length=63)
    digest: str = Field(pattern=r"^sha256:[0-9a-f]{64}$")
    source: SourceSpec
    set: str | None = None
    default: bool = True
    files: tuple[str, ...] = Field(min_length=1)
    checks: tuple[CheckSpec, ...] = ()
    roles: tuple[RoleSpec, ...] = ()
    parameters: Mapping[str, ParameterSpec] = Field(default_factory=dict)


@dataclass(frozen=True)
class Bundle:
    """A verified bundle; its manifests may still hold parameters."""

    description: Description
    manifests: tuple[Resource, ...]

    @property
    def name(self) -> str:
        """The bundle's name, unique in its folder."""
        return self.description.name

    def release(self, facts: Mapping[str, str]) -> Release:
        """The release for one place; ``facts``: region, partition, account, cluster, dns_suffix, as far as they are used.

        Raises Invalid ``bundle.parameter_unknown`` when a table has no entry for this place (a region the chart does not serve).
        """
        values = {name: self._value(name, spec, facts) for name, spec in self.description.parameters.items()}
        told = self.description
        return Release(
            name=told.name,
            version=told.version,
            digest=told.digest,
            resources=tuple(_filled(resource, values) for resource in self.manifests),
            checks=tuple(Check(c.kind, c.namespace, c.name, c.needs_nodes) for c in told.checks),
            roles=tuple(Role(r.name, r.kinds, r.images, r.names) for r in told.roles),
        )

    def _value(self, name: str, spec: ParameterSpec, facts: Mapping[str, str]) -> str:
        fact = facts.get(spec.source)
        value = fact if spec.table is None else spec.table.get(fact or "")
        if value is None:
            detail = f"The bundle {self.name} has no value of {name} for {spec.source} {fact}."
            raise problems.Invalid("bundle.parameter_unknown", detail, evidence={"bundle": self.name, "known": sorted(spec.table or ())})
        return value


@dataclass(frozen=True)
class Catalog:
    """The bundles of a folder."""

    folder: Path
    bundles: Mapping[str, Bundle]

    def get(self, name: str) -> Bundle:
        """A bundle by name. Raises NotFound ``bundle.not_shipped``."""
        if name not in self.bundles:
            raise problems.NotFound(
                "bundle.not_shipped",
                f"There is no bundle {name} in {self.folder}.",
                hint="Bundles are made when the container is built; INSTANTSTART_BUNDLES_DIR names another folder of them.",
                evidence={"known": sorted(self.bundles)},
            )
        return self.bundles[name]

    def in_set(self, name: str, *, only_default: bool = True) -> list[Bundle]:
        """The bundles of a set, by name; those that are off by default only when asked for."""
        members = [b for b in self.bundles.values() if b.description.set == name]
        return sorted((b for b in members if b.description.default or not only_default), key=lambda b: b.name)


def load(folder: Path | None) -> Catalog:
    """Read and verify every bundle of a folder (None: the shipped one; a folder that is not there is an empty catalogue).

    Raises Broken ``bundle.changed``, ``bundle.unpinned`` or ``bundle.unreadable`` naming the file: a doubtful bundle is never used.
    """
    folder = folder or SHIPPED
    found = [read(path.parent) for path in sorted(folder.glob(f"*/{DESCRIPTION}"))]
    return Catalog(folder, {bundle.name: bundle for bundle in found})


def read(folder: Path) -> Bundle:
    """One verified bundle. Raises as :func:`load`."""
    try:
        told = Description.model_validate_json((folder / DESCRIPTION).read_bytes())
    except (ValidationError, OSError) as error:
        raise problems.Broken("bundle.unreadable", f"{folder / DESCRIPTION} is no description of a bundle: {error}") from error
    there = {path.name for path in folder.glob("*.yaml")}
    actual = digest_of(folder, told.files) if there == set(told.files) else "a different set of files"
    if actual != told.digest:
        detail = f"The bundle {told.name} {told.version} is not what it was when it was pinned."
        raise problems.Broken("bundle.changed", detail, evidence={"folder": str(folder), "pinned": told.digest, "found": actual})
    manifests = tuple(resource for name in told.files for resource in _documents(folder / name))
    _refuse_floating(told, manifests)
    return Bundle(told, manifests)


def digest_of(folder: Path, files: tuple[str, ...]) -> str:
    """``sha256:`` over the names and bytes of the files, in order of their names."""
    total = hashlib.sha256()
    for name in sorted(files):
        content = (folder / name).read_bytes()
        total.update(f"{name}\0{len(content)}\0".encode() + content)
    return f"sha256:{total.hexdigest()}"


def _documents(path: Path) -> Iterator[Resource]:
    try:
        documents = list(yaml.load_all(path.read_text(), Loader=yaml.CSafeLoader))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise problems.Broken("bundle.unreadable", f"{path} is no YAML: {error}") from error
    for document in documents:
        if not document:
            continue
        if not isinstance(document, dict) or not {"apiVersion", "kind", "metadata"} <= document.keys():
            raise problems.Broken("bundle.unreadable", f"{path} holds something that is no Kubernetes object.")
        yield document


def _refuse_floating(told: Description, manifests: tuple[Resource, ...]) -> None:
    """A version, or an image, that may be another one tomorrow is not pinned."""
    floating = [] if not _FLOATING_TAG.search(told.version) else [f"version {told.version}"]
    for image in _images(list(manifests)):
        tag = image.rsplit("/", 1)[-1]
        if "@sha256:" not in image and (":" not in tag or _FLOATING_TAG.search(tag)):
            floating.append(f"image {image}")
    if floating:
        detail = f"The bundle {told.name} is not pinned: {', '.join(floating)}."
        raise problems.Broken("bundle.unpinned", detail, evidence={"bundle": told.name, "floating": floating})


def _images(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key in ("containers", "initContainers") and isinstance(inner, list):
                yield from (str(c["image"]) for c in inner if isinstance(c, Mapping) and "image" in c)
            yield from _images(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _images(inner)


def _filled(value: Any, values: Mapping[str, str]) -> Any:
    """``value`` with every parameter in its strings replaced. Raises Broken for one that the description does not know."""
    if isinstance(value, str):
        return _PARAMETER.sub(lambda found: _known(found[0], values), value)
    if isinstance(value, Mapping):
        return {key: _filled(inner, values) for key, inner in value.items()}
    if isinstance(value, list):
        return [_filled(inner, values) for inner in value]
    return value


def _known(name: str, values: Mapping[str, str]) -> str:
    if name not in values:
        raise problems.Broken("bundle.unreadable", f"A manifest uses the parameter {name}, which its bundle.json does not describe.")
    return values[name]
