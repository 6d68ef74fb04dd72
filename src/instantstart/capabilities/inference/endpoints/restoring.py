"""Back to what is served: the settings that an endpoint had before a change that was rolled back.

The operator takes back what runs, not what the object asks for, so that the next reconciliation would try the failed change again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from instantstart.base import trees
from instantstart.base.trees import Tree
from instantstart.capabilities.inference.endpoints import objects, parts, rules
from instantstart.capabilities.inference.endpoints.scene import Scene
from instantstart.capabilities.room import Room
from instantstart.ensure.inference import endpoint_judging as judging
from instantstart.ensure.inference import endpoints
from instantstart.ensure.inference.endpoint_judging import Seen
from instantstart.operations.record import OperationStatus
from instantstart.store.records import OperationFilter

_FAILED = (OperationStatus.blocked, OperationStatus.cancelled, OperationStatus.failed)
_LOOKED_BACK = 200


def served(room: Room, here: Scene, live: Mapping[str, Any]) -> Tree:
    """The settings that are served: those before the change that failed, where it is known and they are what runs; else the present ones
    with image, command, arguments and accelerators as the Deployment has them. The present ones while they are what runs.
    """
    present, seen = objects.read(live), Seen(live, endpoints.deployment(here.kube, live))
    other = judging.served_otherwise(seen)
    if not other:
        return present
    before = _before(room, here, parts.kept(present))
    if before is not None and not judging.not_running(objects.build(before, live["kind"]), seen):
        return trees.merge({}, before | {"server": {**(before.get("server") or {}), **_variables(present)}}, rules.WHOLE)
    wanted = trees.merge({}, present, rules.WHOLE)
    for each in other:
        if each.served is None:
            trees.drop(wanted, each.setting)
        else:
            trees.put(wanted, each.setting, each.served)
    return wanted


def _variables(settings: Mapping[str, Any]) -> Tree:
    """Variables are not kept in operations, and no change touches them."""
    env = trees.get(settings, "server.env")
    return {"env": env} if env else {}


def _before(room: Room, here: Scene, present: Tree) -> Tree | None:
    """What the newest change that failed changed from, when it asked for what the object still asks for."""
    done = room.engine.list(OperationFilter(cluster=here.where.tag, statuses=_FAILED), limit=_LOOKED_BACK)
    for operation in done.items:
        spec = operation.spec
        mine = (spec.get("namespace"), spec.get("name")) == (here.namespace, here.name)
        if mine and operation.workflow == "inference_endpoint.update" and spec.get("settings") == present:
            before: Tree = dict(spec["before"])
            return before
    return None
