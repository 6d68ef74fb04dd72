"""Discovery: /api, /apis, their aggregated form, /version. Built anew when the catalogue changes."""

from __future__ import annotations

from typing import Any, Final

from instantstart_sandbox.kubernetes.resources import Catalog, Resource

Object = dict[str, Any]

#: versions of the aggregated form; clients up to 1.29 know only the older one
_AGGREGATED_VERSIONS: Final = ("v2", "v2beta1")
_VERBS: Final = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
#: in the order of the other server, which serves what definitions define
_CUSTOM_VERBS: Final = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]
_SUBRESOURCES: Final[dict[str, tuple[list[str], str, str, str]]] = {
    # subresource: verbs, kind ("" = the parent's), group, version
    "status": (["get", "patch", "update"], "", "", ""),
    "scale": (["get", "patch", "update"], "Scale", "autoscaling", "v1"),
    "log": (["get"], "", "", ""),
    "exec": (["create", "get"], "PodExecOptions", "", ""),
    "attach": (["create", "get"], "PodAttachOptions", "", ""),
    "portforward": (["create", "get"], "PodPortForwardOptions", "", ""),
    "proxy": (["create", "delete", "get", "patch", "update"], "ProxyOptions", "", ""),
    "binding": (["create"], "Binding", "", ""),
    "eviction": (["create"], "Eviction", "policy", "v1"),
    "token": (["create"], "TokenRequest", "authentication.k8s.io", "v1"),
    "finalize": (["update"], "", "", ""),
    "ephemeralcontainers": (["get", "patch", "update"], "", "", ""),
}
_PROXY_KINDS: Final = {"pods": "PodProxyOptions", "services": "ServiceProxyOptions", "nodes": "NodeProxyOptions"}


def _verbs(resource: Resource) -> list[str]:
    if resource.custom:
        return _CUSTOM_VERBS
    return ["create"] if resource.virtual else _VERBS


def _sub(resource: Resource, name: str) -> tuple[list[str], str, str, str]:
    verbs, kind, group, version = _SUBRESOURCES[name]
    if name == "proxy":
        kind = _PROXY_KINDS[resource.plural]
    return verbs, kind or resource.kind, group, version


class Discovery:
    """The documents of one catalogue."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog, self._generation = catalog, -1
        self._groups: dict[str, dict[str, list[Resource]]] = {}

    def _by_group(self) -> dict[str, dict[str, list[Resource]]]:
        if self._generation != self._catalog.generation:
            groups: dict[str, dict[str, list[Resource]]] = {}
            for resource in self._catalog:
                groups.setdefault(resource.group, {}).setdefault(resource.version, []).append(resource)
            self._groups, self._generation = groups, self._catalog.generation
        return self._groups

    def document(self, path: tuple[str, ...]) -> Object | None:
        """The plain document behind a path such as ``("apis", "apps", "v1")``, or None."""
        groups = self._by_group()
        match path:
            case ("api",):
                address = {"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1:443"}
                return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [address]}
            case ("apis",):
                listed = [self._group(g) for g in groups if g]
                return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}
            case ("api", version):
                return self._resources("", version)
            case ("apis", group) if group in groups:
                return {"kind": "APIGroup", "apiVersion": "v1", **self._group(group)}
            case ("apis", group, version):
                return self._resources(group, version)
        return None

    def _group(self, group: str) -> Object:
        versions = [{"groupVersion": f"{group}/{v}", "version": v} for v in self._by_group()[group]]
        return {"name": group, "versions": versions, "preferredVersion": versions[0]}

    def _resources(self, group: str, version: str) -> Object | None:
        found = self._by_group().get(group, {}).get(version)
        if found is None:
            return None
        listed: list[Object] = []
        for r in found:
            entry: Object = {"name": r.plural, "singularName": r.singular, "namespaced": r.namespaced, "kind": r.kind, "verbs": _verbs(r)}
            if r.short_names:
                entry["shortNames"] = list(r.short_names)
            if r.categories:
                entry["categories"] = list(r.categories)
            listed.append(entry)
            for name in sorted(r.subresources):
                verbs, kind, sub_group, sub_version = _sub(r, name)
                entry = {"name": f"{r.plural}/{name}", "singularName": "", "namespaced": r.namespaced, "kind": kind, "verbs": verbs}
                if sub_group:
                    entry = {**entry, "group": sub_group, "version": sub_version}
                listed.append(entry)
        api_version = f"{group}/{version}" if group else version
        return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version, "resources": listed}

    # ------------------------------------------------------------------ aggregated

    def aggregated(self, root: str, version: str) -> Object:
        """All groups with all their resources in one document; ``root`` is ``api`` or ``apis``."""
        items = []
        for group, versions in self._by_group().items():
            if (root == "api") != (group == ""):
                continue
            listed = [
                {"version": v, "resources": [self._aggregated(r) for r in found], "freshness": "Current"} for v, found in versions.items()
            ]
            metadata: Object = {"name": group, "creationTimestamp": None} if group else {"creationTimestamp": None}
            items.append({"metadata": metadata, "versions": listed})
        return {"kind": "APIGroupDiscoveryList", "apiVersion": f"apidiscovery.k8s.io/{version}", "metadata": {}, "items": items}

    @staticmethod
    def _aggregated(r: Resource) -> Object:
        entry: Object = {
            "resource": r.plural, "responseKind": {"group": r.group, "version": r.version, "kind": r.kind},
            "scope": "Namespaced" if r.namespaced else "Cluster", "singularResource": r.singular, "verbs": _verbs(r),
        }  # fmt: skip
        if r.short_names:
            entry["shortNames"] = list(r.short_names)
        if r.categories:
            entry["categories"] = list(r.categories)
        subs = []
        for name in sorted(r.subresources):
            verbs, kind, group, version = _sub(r, name)
            response = {"group": group or r.group, "version": version or r.version, "kind": kind}
            subs.append({"subresource": name, "responseKind": response, "verbs": verbs})
        return {**entry, "subresources": subs} if subs else entry


def aggregated_version(accept: str) -> str | None:
    """The version of the aggregated form that a client asks for, or None."""
    if "as=APIGroupDiscoveryList" not in accept:
        return None
    return next((v for v in _AGGREGATED_VERSIONS if f"v={v};" in accept), None)


def aggregated_media(version: str) -> str:
    """The content type of the aggregated form."""
    return f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"


def version_document(version: str) -> Object:
    """``/version`` of an EKS cluster of ``major.minor``; the build says that it is the sandbox."""
    major, minor = version.split(".")[:2]
    return {
        "major": major, "minor": minor, "emulationMajor": major, "emulationMinor": minor, "gitVersion": f"v{major}.{minor}.0-eks-sandbox",
        "gitCommit": "", "gitTreeState": "clean", "buildDate": "2026-01-01T00:00:00Z", "goVersion": "none", "compiler": "python",
        "platform": "linux/amd64",
    }  # fmt: skip
