"""The VPC network plugin (aws-node): its version, who holds it, prefix delegation; brought to what HyperPod takes only when asked.

Facts: HyperPod EKS prerequisites (1.18.3 and newer, the only plugin supported); aws-facts A9 (configuration of the add-on vpc-cni), C38.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from instantstart.aws.session import Aws
from instantstart.base import problems
from instantstart.base.outcome import Done, Outcome, Wait
from instantstart.ensure.installs import addons
from instantstart.ensure.installs.releases import manager_of
from instantstart.kube.client import KubeCluster

OLDEST = "1.18.3"
ADDON, DAEMON, _SPACE = "vpc-cni", "aws-node", "kube-system"
_PREFIXES = "ENABLE_PREFIX_DELEGATION"
_IMAGE = re.compile(r"amazon-k8s-cni:v(\d+)\.(\d+)\.(\d+)")


@dataclass(frozen=True)
class Plugin:
    """The plugin as its DaemonSet tells it; ``version`` None: another image, or a tag that says nothing."""

    version: str | None
    prefix_delegation: bool
    manager: str

    @property
    def is_too_old(self) -> bool:
        """Whether HyperPod refuses it."""
        return self.version is not None and _parts(self.version) < _parts(OLDEST)


@dataclass(frozen=True)
class Wanted:
    """What is asked of it."""

    newest: bool = False
    prefix_delegation: bool = False


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def read(kube: KubeCluster) -> Plugin | None:
    """The plugin, or None when there is no aws-node."""
    daemon = kube.find("DaemonSet", DAEMON, _SPACE)
    if daemon is None:
        return None
    containers = daemon["spec"]["template"]["spec"]["containers"]
    found = next((match for c in containers if (match := _IMAGE.search(c["image"]))), None)
    values = {e["name"]: e.get("value") for c in containers for e in c.get("env") or ()}
    return Plugin(".".join(found.groups()) if found else None, values.get(_PREFIXES) == "true", manager_of(daemon))


def check(kube: KubeCluster) -> None:
    """Raise Conflict when the plugin is older than HyperPod takes. One that is not there, or not AWS's, is left to HyperPod's judgement."""
    plugin = read(kube)
    if plugin is not None and plugin.is_too_old:
        raise problems.Conflict(
            "eks.network_plugin_too_old",
            f"The VPC network plugin of {kube.ref.name} is {plugin.version}; HyperPod needs {OLDEST} or newer.",
            hint=f"Update the add-on {ADDON} (aws eks update-addon), or import the cluster again with update_network_plugin, then retry.",
            evidence={"version": plugin.version, "oldest": OLDEST},
        )


def ensure(aws: Aws, kube: KubeCluster, cluster: dict[str, Any], wanted: Wanted, token: str) -> Outcome:
    """Move one step towards the plugin as asked. A self-managed one becomes an add-on when a newer version is asked for.

    Raises Conflict ``addon.failed`` with EKS's own reason.
    """
    have = addons.find(aws, cluster["name"], ADDON)
    if have is None:
        return _adopt(aws, kube, cluster, wanted, token) if wanted.newest else _set_prefixes(kube)
    if have["status"] in ("CREATING", "UPDATING", "DELETING"):
        return Wait(5, f"The add-on {ADDON} is {have['status']}")
    if have["status"] in ("CREATE_FAILED", "UPDATE_FAILED"):
        raise addons.failure(have)
    version = addons.default_version(aws, ADDON, cluster["version"]) if wanted.newest else have["addonVersion"]
    values = _values(have.get("configurationValues"), wanted)
    if (have["addonVersion"], have.get("configurationValues")) == (version, values):
        return Done({"version": version, "prefix_delegation": wanted.prefix_delegation})
    params = {"clusterName": cluster["name"], "addonName": ADDON, "addonVersion": version, "clientRequestToken": token}
    params |= {"configurationValues": values} if values else {}
    params |= {"serviceAccountRoleArn": have["serviceAccountRoleArn"]} if have.get("serviceAccountRoleArn") else {}
    aws.write("eks", "update_addon", **params, resolveConflicts="PRESERVE")  # what others set on it stays
    return Wait(10, f"Asked EKS to bring {ADDON} to {version}")


def _values(before: str | None, wanted: Wanted) -> str | None:
    """The add-on's configuration with prefix delegation on, everything else as it was; the text stays as it is when nothing changes."""
    if not wanted.prefix_delegation:
        return before
    told: dict[str, Any] = json.loads(before or "{}")
    if (told.get("env") or {}).get(_PREFIXES) == "true":
        return before
    return json.dumps({**told, "env": {**(told.get("env") or {}), _PREFIXES: "true"}}, sort_keys=True, separators=(",", ":"))


def _adopt(aws: Aws, kube: KubeCluster, cluster: dict[str, Any], wanted: Wanted, token: str) -> Outcome:
    """Make the add-on over the self-managed copy, which EKS documents as the way; its prefix delegation is kept."""
    plugin = read(kube)
    keep = Wanted(prefix_delegation=wanted.prefix_delegation or (plugin is not None and plugin.prefix_delegation))
    params = {
        "clusterName": cluster["name"],
        "addonName": ADDON,
        "addonVersion": addons.default_version(aws, ADDON, cluster["version"]),
        "resolveConflicts": "OVERWRITE",
        "clientRequestToken": token,
    }
    values = _values(None, keep)
    aws.create("eks", "create_addon", **params, **({"configurationValues": values} if values else {}))
    return Wait(10, f"Asked EKS to take over {ADDON} as an add-on")


def _set_prefixes(kube: KubeCluster) -> Outcome:
    """On a self-managed plugin: the one variable, and nothing else of it."""
    plugin = read(kube)
    if plugin is None:
        raise problems.Conflict(
            "eks.no_network_plugin", f"{kube.ref.name} has no VPC network plugin.", hint="Ask for update_network_plugin."
        )
    if plugin.prefix_delegation:
        return Done({"prefix_delegation": True})
    container = {"name": DAEMON, "env": [{"name": _PREFIXES, "value": "true"}]}
    kube.apply(
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": DAEMON, "namespace": _SPACE},
            "spec": {"template": {"spec": {"containers": [container]}}},
        },
        force=True,
    )
    return Wait(2, f"Set {_PREFIXES} on the network plugin")
