"""The Kubernetes objects of a pool and its bindings, as data."""

from __future__ import annotations

import json
from typing import Any

from instantstart.capabilities import server_asks
from instantstart.capabilities.inference.pools import specs
from instantstart.ensure.inference import pools, servers, serving
from instantstart.ensure.inference.servers import Rollout, Server, Settled
from instantstart.ensure.inference.serving import BUSINESS, DELETION_COST, POOL, UNASSIGNED, WORKERS, Marks

Resource = dict[str, Any]


def marks_of(server: Server) -> Marks:
    """The marks of a pool and its workers."""
    return Marks(server.name, "model-pool", server.engine, server.model)


def make(ask: specs.CreateModelPool, server: Server, settled: Settled, size: int) -> list[Resource]:
    """The pool: its Deployment, and a budget for more than one worker. It has no Service: bindings have."""
    marks = marks_of(server)
    pod = servers.template(server, settled, marks, {BUSINESS: UNASSIGNED, POOL: server.name})
    pod["metadata"]["annotations"] |= {DELETION_COST: pools.COST_FREE}
    told = {k: v for k, v in server_asks.kept(ask).items() if k in specs.CreateModelPool.model_fields}
    kept = {serving.ASKED: json.dumps(told, sort_keys=True)}
    made = [servers.deployment(server, marks, pod, size, Rollout(False, settled.startup_seconds), kept)]
    return [*made, servers.budget(server, marks)] if size > 1 else made


def bind(pool: pools.Pool, business: str) -> Resource:
    """The Service of a business. The count of its workers is not applied: it is kept by whoever gives and takes them."""
    marks = serving.marks(pool.live)
    port = serving.container_port(pool.live)
    metadata = pool.live["metadata"]
    own = Marks(
        pools.binding_name(pool.name, business), "model-binding", marks.engine if marks else "custom", marks.model if marks else None
    )
    path = serving.ENGINES[own.engine].metrics
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": own.name,
            "namespace": metadata["namespace"],
            "labels": {**own.labels(), POOL: pool.name, BUSINESS: business},
            "annotations": {**own.annotations(), **serving.scraped(int(port or 0), path)},
        },
        "spec": {
            "type": "ClusterIP",
            "selector": {**pool.live["spec"]["selector"]["matchLabels"], BUSINESS: business},
            "ports": [{"name": serving.PORT_NAME, "port": port, "targetPort": serving.PORT_NAME, "protocol": "TCP"}],
        },
    }


#: the annotation that ``bind`` leaves out
COUNT = WORKERS


def asked_of(live: Resource) -> specs.CreateModelPool | None:
    """What was asked of a live pool, with the size that it has now; None when that cannot be read."""
    told = {k: v for k, v in serving.asked(live).items() if k in specs.CreateModelPool.model_fields}
    if not told:
        return None
    volumes = [server_asks.VolumeMount.model_construct(**v) for v in told.get("volumes", ())]
    return specs.CreateModelPool.model_construct(**{**told, "volumes": volumes, "workers": live["spec"].get("replicas", 1)})
