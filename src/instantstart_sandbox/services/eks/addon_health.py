"""How an add-on fares: installed, degraded while its pods have no node, failed over a conflict, and gone.

The workloads are those that the Kubernetes side installs (``kubernetes.addon_manifests``); whether they run is asked
of ``world.kubernetes``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from instantstart_sandbox.kubernetes.addon_manifests import MANIFESTS
from instantstart_sandbox.services.eks.state import Record, clusters

if TYPE_CHECKING:
    from instantstart_sandbox.world.state import World

#: virtual seconds between two looks at an add-on's workloads
_PROBE_UNHEALTHY_SECONDS, _PROBE_HEALTHY_SECONDS = 15.0, 60.0
_REPLICAS = "The add-on is unhealthy because it doesn't have the desired number of replicas."
#: what an add-on's own objects need to be accepted (facts A9, A13): the kinds of these add-ons
NEEDS = {
    "amazon-sagemaker-hyperpod-training-operator": ("cert-manager",),
    "amazon-sagemaker-hyperpod-inference": ("cert-manager", "metrics-server", "aws-mountpoint-s3-csi-driver", "aws-fsx-csi-driver"),
}


def configuration_of(view: dict[str, Any]) -> dict[str, Any]:
    """``configurationValues`` parsed; empty when there are none."""
    values: dict[str, Any] = json.loads(view.get("configurationValues") or "{}")
    return values


def workloads_ready(world: World, arn: str, name: str, configuration: dict[str, Any]) -> bool:
    """Whether every Deployment and DaemonSet of an add-on has its replicas ready."""
    objects = MANIFESTS[name](configuration)
    work = [o for o in objects if o["kind"] in ("Deployment", "DaemonSet")]
    return all(world.kubernetes.workload_ready(arn, o["metadata"]["namespace"], o["kind"], o["metadata"]["name"]) for o in work)


def settle(world: World, arn: str, name: str, update: str | None = None) -> None:
    """The installation or update has come to its end, well or not."""
    record = clusters(world).get(arn)
    addon = record["addons"].get(name) if record else None
    if record is None or addon is None or addon["view"]["status"] not in ("CREATING", "UPDATING"):
        return
    if update is not None:
        addon["updates"][update]["status"] = "Successful"
    problem = None if addon["installed"] else _obstacle(world, record, addon)
    if problem is not None:
        _set_status(world, addon, "CREATE_FAILED", problem)
    else:
        addon["installed"] = True
        record["self_managed"] = [n for n in record["self_managed"] if n != name]
        _judge(world, arn, addon)
        _probe_later(world, arn, addon)
    world.kubernetes.nudge(arn)
    world.changed()


def _obstacle(world: World, record: Record, addon: Record) -> dict[str, Any] | None:
    view, arn = addon["view"], record["view"]["arn"]
    if view["addonName"] in record["self_managed"] and addon["resolve"] != "OVERWRITE":
        message = (
            "Conflicts found when trying to apply. Will not continue due to resolve conflicts mode. "
            f"Conflicts: {view['addonName']} in namespace {view['namespaceConfig']['namespace']} is managed by someone else"
        )
        return {"code": "ConfigurationConflict", "message": message, "resourceIds": []}
    foreign = [] if addon["resolve"] == "OVERWRITE" else world.kubernetes.foreign_objects(arn, view["addonName"], configuration_of(view))
    if foreign:
        message = (
            "Conflicts found when trying to apply. Will not continue due to resolve conflicts mode. "
            f"Conflicts: {', '.join(foreign[:10])} {'is' if len(foreign) == 1 else 'are'} managed by someone else"
        )
        return {"code": "ConfigurationConflict", "message": message, "resourceIds": foreign[:10]}
    for needed in NEEDS.get(view["addonName"], ()):
        if needed not in record["addons"] and not workloads_ready(world, arn, needed, {}):
            message = f"Add-on {view['addonName']} needs {needed}, whose resources were not found in the cluster."
            return {"code": "K8sResourceNotFound", "message": message, "resourceIds": [needed]}
    return None


def _judge(world: World, arn: str, addon: Record) -> None:
    view = addon["view"]
    if workloads_ready(world, arn, view["addonName"], configuration_of(view)):
        _set_status(world, addon, "ACTIVE")
    else:
        issue = {"code": "InsufficientNumberOfReplicas", "message": _REPLICAS, "resourceIds": []}
        _set_status(world, addon, "DEGRADED", issue)


def _set_status(world: World, addon: Record, status: str, issue: dict[str, Any] | None = None) -> None:
    view = addon["view"]
    view["health"] = {"issues": [issue] if issue else []}
    if view["status"] != status:
        view |= {"status": status, "modifiedAt": world.clock.utc()}


def _probe_later(world: World, arn: str, addon: Record) -> None:
    healthy = addon["view"]["status"] == "ACTIVE"
    seconds = _PROBE_HEALTHY_SECONDS if healthy else _PROBE_UNHEALTHY_SECONDS
    addon["probe"] = world.clock.now() + seconds
    world.clock.after(seconds, "eks.addon.probe", arn=arn, name=addon["view"]["addonName"], due=addon["probe"])


def probe(world: World, arn: str, name: str, due: float) -> None:
    """Look again at an installed add-on's workloads; a probe that was overtaken by a newer one ends."""
    record = clusters(world).get(arn)
    addon = record["addons"].get(name) if record else None
    if addon is None or addon.get("probe") != due or addon["view"]["status"] not in ("ACTIVE", "DEGRADED"):
        return
    before = addon["view"]["status"]
    _judge(world, arn, addon)
    _probe_later(world, arn, addon)
    if addon["view"]["status"] != before:
        world.kubernetes.nudge(arn)
        world.changed()


def gone(world: World, arn: str, name: str) -> None:
    """The add-on has been removed."""
    record = clusters(world).get(arn)
    addon = record["addons"].pop(name, None) if record else None
    if record is None or addon is None:
        return
    if addon["preserve"] and addon["installed"]:
        record["self_managed"].append(name)
    elif addon["installed"]:
        record["self_managed"] = [n for n in record["self_managed"] if n != name]
    world.kubernetes.nudge(arn)
    world.changed()


TIMERS = {"eks.addon.settle": settle, "eks.addon.probe": probe, "eks.addon.gone": gone}
