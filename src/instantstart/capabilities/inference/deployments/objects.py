"""The Kubernetes objects of a deployment, as data."""

from __future__ import annotations

import json
from typing import Any

from instantstart.capabilities import server_asks
from instantstart.capabilities.inference.deployments import specs
from instantstart.ensure.inference import servers, serving
from instantstart.ensure.inference.servers import Rollout, Server, Settled

Resource = dict[str, Any]
#: what was settled when it was made: a repeat of the ask shall not change pods because a hub answers otherwise today
SETTLED = "instantstart.dev/settled"


def kept(ask: specs.CreateModelDeployment, settled: Settled) -> dict[str, str]:
    """The annotations that say what was asked and settled."""
    told = {k: v for k, v in server_asks.kept(ask).items() if k in specs.CreateModelDeployment.model_fields}
    return {serving.ASKED: json.dumps(told, sort_keys=True), SETTLED: json.dumps(settled.document(), sort_keys=True)}


def make(ask: specs.CreateModelDeployment, server: Server, settled: Settled, surge: bool, replicas: int) -> list[Resource]:
    """Everything that is wanted, in the order of making."""
    marks = server.marks
    inside = servers.service(server, marks)
    pod = servers.template(server, settled, marks)
    rollout = Rollout(surge, settled.startup_seconds)
    made = [inside, servers.deployment(server, marks, pod, replicas, rollout, kept(ask, settled))]
    if ask.exposure == "load_balancer":
        made.append(servers.balancer(inside, ask.scheme, ask.source_ranges, server.health))
    if replicas > 1:
        made.append(servers.budget(server, marks))
    return made


def settled_of(deployment: Resource) -> Settled | None:
    """What was settled when it was made; None when that cannot be read."""
    try:
        return Settled.of(json.loads(deployment["metadata"]["annotations"][SETTLED]))
    except (KeyError, ValueError, TypeError):
        return None


def asked_of(deployment: Resource) -> specs.CreateModelDeployment | None:
    """What was asked of a live Deployment, with the replicas that it has now; None when it was not made by us."""
    told = serving.asked(deployment)
    if not told:
        return None
    told = {k: v for k, v in told.items() if k in specs.CreateModelDeployment.model_fields}
    volumes = [server_asks.VolumeMount.model_construct(**v) for v in told.get("volumes", ())]
    return specs.CreateModelDeployment.model_construct(**{**told, "volumes": volumes, "replicas": deployment["spec"].get("replicas", 1)})
