"""Pods and Services of a RayCluster, as KubeRay makes them: names, labels, commands, ports."""

from __future__ import annotations

import copy

from ..loops.objects import Object, name_of, namespace_of, owner_reference
from ..loops.replicaset import pod_from

CLUSTER, TYPE, GROUP = "ray.io/cluster", "ray.io/node-type", "ray.io/group"
_HEAD_GROUP = "headgroup"
PORTS = {"gcs-server": 6379, "dashboard": 8265, "client": 10001, "metrics": 8080, "serve": 8000}
_LONGEST_PREFIX = 50


def head_service(cluster: str) -> str:
    """The name of the head's Service."""
    return f"{cluster}-head-svc"


def address(cluster: Object) -> str:
    """The head's host name in the cluster."""
    return f"{head_service(name_of(cluster))}.{namespace_of(cluster)}.svc.cluster.local"


def _start(group: Object, kind: str, host: str) -> str:
    given = group.get("rayStartParams") or {}
    head = {"head": "", "dashboard-host": "0.0.0.0"} if kind == "head" else {"address": f"{host}:{PORTS['gcs-server']}"}
    params = {**head, "metrics-export-port": str(PORTS["metrics"]), "block": "", **given}
    words = " ".join(f"--{k}={v}" if v and v != "true" else f"--{k}" for k, v in sorted(params.items()))
    return f"ulimit -n 65536; ray start {words}"


def build(cluster: Object, group: Object, kind: str) -> Object:
    """A pod of the head (``kind`` head) or of a worker group."""
    label = _HEAD_GROUP if kind == "head" else group["groupName"]
    pod = pod_from(copy.deepcopy(group["template"]), cluster)
    prefix = f"{name_of(cluster)}-head" if kind == "head" else f"{name_of(cluster)}-{label}-worker"
    pod["metadata"]["generateName"] = f"{prefix[:_LONGEST_PREFIX]}-"
    pod["metadata"]["labels"] |= {
        "app.kubernetes.io/created-by": "kuberay-operator",
        "app.kubernetes.io/name": "kuberay",
        CLUSTER: name_of(cluster),
        GROUP: label,
        "ray.io/identifier": f"{name_of(cluster)}-{kind}",
        "ray.io/is-ray-node": "yes",
        TYPE: kind,
    }
    _equip(pod["spec"]["containers"][0], cluster, group, kind)
    if kind == "worker":
        waiting = pod["spec"]["containers"][0]
        wait = {"name": "wait-gcs-ready", "image": waiting["image"], "command": ["/bin/bash", "-c", "--"]}
        wait |= {"args": [f"ray health-check --address {address(cluster)}:{PORTS['gcs-server']}"], "env": waiting["env"]}
        pod["spec"]["initContainers"] = [wait, *(pod["spec"].get("initContainers") or [])]
    return pod


def _equip(container: Object, cluster: Object, group: Object, kind: str) -> None:
    start = _start(group, kind, address(cluster))
    own = " ".join([*(container.get("command") or []), *(container.get("args") or [])])
    container["command"], container["args"] = ["/bin/bash", "-c", "--"], [f"{own} && {start}" if own else start]
    host = "127.0.0.1" if kind == "head" else address(cluster)
    wanted = {"RAY_CLUSTER_NAME": name_of(cluster), "RAY_PORT": str(PORTS["gcs-server"]), "RAY_ADDRESS": f"{host}:{PORTS['gcs-server']}"}
    wanted |= {"FQ_RAY_IP": address(cluster), "RAY_IP": host.partition(".")[0], "RAY_USAGE_STATS_KUBERAY_IN_USE": "1"}
    given = {e["name"] for e in container.get("env") or []}
    container["env"] = [*(container.get("env") or []), *({"name": k, "value": v} for k, v in wanted.items() if k not in given)]
    if kind == "head":
        named = {p.get("name") for p in container.get("ports") or []}
        taken = {p.get("containerPort") for p in container.get("ports") or []}
        more = [{"name": n, "containerPort": p} for n, p in PORTS.items() if n != "serve" and n not in named and p not in taken]
        container["ports"] = [*(container.get("ports") or []), *more]


def service(cluster: Object) -> Object:
    """The head's Service."""
    selector = {CLUSTER: name_of(cluster), TYPE: "head", "ray.io/identifier": f"{name_of(cluster)}-head"}
    ports = [{"name": n, "port": p, "targetPort": p, "protocol": "TCP"} for n, p in PORTS.items()]
    metadata = {
        "name": head_service(name_of(cluster)),
        "namespace": namespace_of(cluster),
        "labels": {**selector, "app.kubernetes.io/name": "kuberay"},
        "ownerReferences": [owner_reference(cluster)],
    }
    kind = (cluster["spec"].get("headGroupSpec") or {}).get("serviceType") or "ClusterIP"
    spec: Object = {"selector": selector, "ports": ports, "type": kind}
    if kind == "ClusterIP":
        spec["clusterIP"] = "None"
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}
