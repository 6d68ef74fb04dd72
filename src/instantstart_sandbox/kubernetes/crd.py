"""CustomResourceDefinitions: their defaults, serving what they define, and their conditions."""

from __future__ import annotations

from typing import Any, Final

from instantstart_sandbox.kubernetes.resources import Catalog, Column, Resource, Scale

Object = dict[str, Any]

CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"


def prepare(obj: Object) -> None:
    """The defaults of a definition: singular, list kind, conversion strategy."""
    spec = obj.get("spec")
    if not isinstance(spec, dict) or not isinstance(spec.get("names"), dict):
        return
    names = spec["names"]
    kind = names.get("kind", "")
    names.setdefault("singular", kind.lower())
    names.setdefault("listKind", f"{kind}List")
    spec.setdefault("conversion", {"strategy": "None"})
    if "status" not in obj:
        stored = [v["name"] for v in spec.get("versions") or () if v.get("storage") and v.get("name")]
        obj["status"] = {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": stored}


def _columns(version: Object) -> tuple[Column, ...]:
    return tuple(
        Column(c["name"], c["type"], c["jsonPath"], c.get("format", ""), c.get("priority", 0), c.get("description", ""))
        for c in version.get("additionalPrinterColumns") or ()
    )


def _scale(version: Object) -> Scale | None:
    paths = (version.get("subresources") or {}).get("scale")
    if paths is None:
        return None
    return Scale(paths["specReplicasPath"], paths["statusReplicasPath"], paths.get("labelSelectorPath"))


def _resource(obj: Object, version: Object, stored: str) -> Resource:
    spec, names = obj["spec"], obj["spec"]["names"]
    schema = version["schema"]["openAPIV3Schema"]
    return Resource(
        spec["group"], version["name"], names["plural"], names["kind"], spec["scope"] == "Namespaced",
        frozenset(version.get("subresources") or ()), tuple(names.get("shortNames") or ()), tuple(names.get("categories") or ()),
        singular=names.get("singular", names["kind"].lower()), schema=schema, custom=True, stored_version=stored, scale=_scale(version),
        columns=_columns(version), list_kind=names.get("listKind", f"{names['kind']}List"),
    )  # fmt: skip


def serve(catalog: Catalog, obj: Object) -> None:
    """Serve every served version of a definition, replacing what was served of it before."""
    spec = obj["spec"]
    stored = next(v["name"] for v in spec["versions"] if v.get("storage"))
    catalog.remove(spec["group"], spec["names"]["plural"])
    served = [v for v in spec["versions"] if v.get("served")]
    best = min(served, key=lambda v: _rank(v["name"]), default=None)
    for version in sorted(served, key=lambda v: _rank(v["name"])):
        catalog.add(_resource(obj, version, stored), preferred=version is best)


def _rank(version: str) -> tuple[int, int, int, str]:
    """Kubernetes' order of versions: v2, v1, v1beta2, v1beta1, v1alpha1, then the rest by name."""
    for stage, word in enumerate(("", "beta", "alpha")):
        major, _, minor = version[1:].partition(word) if word else (version[1:], "", "0")
        if version[:1] == "v" and major.isdigit() and minor.isdigit() and (word == "" or word in version):
            return (stage, -int(major), -int(minor), "")
    return (3, 0, 0, version)


def established_status(obj: Object, now: str) -> Object:
    """The status of a definition whose names were accepted; conditions that hold already keep their time."""
    spec = obj["spec"]
    before = {c["type"]: c for c in (obj.get("status") or {}).get("conditions") or ()}
    wanted = (
        ("NamesAccepted", "NoConflicts", "no conflicts found"),
        ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
    )
    conditions = []
    for kind, reason, message in wanted:
        since = before[kind]["lastTransitionTime"] if before.get(kind, {}).get("status") == "True" else now
        conditions.append({"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": since})
    stored = list((obj.get("status") or {}).get("storedVersions") or [])
    storage = next(v["name"] for v in spec["versions"] if v.get("storage"))
    if storage not in stored:
        stored.append(storage)
    return {"conditions": conditions, "acceptedNames": spec["names"], "storedVersions": stored}
