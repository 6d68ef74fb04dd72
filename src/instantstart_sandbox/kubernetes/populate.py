"""A crowd for measurements: nodes and pods written straight into the store, as their kubelets and controllers would have left them.

The API server then serves them like any others: lists, pages, watches, patches. Nothing runs them: the cluster's controllers are halted
until the sandbox is started again (then what has no instance behind it goes).
"""

from __future__ import annotations

import asyncio
import itertools
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from ..world.seams import Instance
from .machines import machine
from .nodes import addresses, capacity, conditions, devices, labels, node_info, node_name, taints
from .store import ADDED

if TYPE_CHECKING:
    from .cluster import Cluster

Object = dict[str, Any]
_CHUNK: Final = 500
#: pods that each node of an EKS cluster with HyperPod runs; the rest of the crowd are workers
_AGENTS: Final = ("aws-node", "kube-proxy", "nvidia-device-plugin", "hyperpod-health-agent")
_NAMESPACE: Final = "default"


@dataclass(frozen=True)
class Crowd:
    """How many, and of what. ``pods`` are agents first (four a node), then workers that fill the nodes, then ``waiting`` ones."""

    nodes: int
    pods: int
    groups: int = 8
    waiting: int = 0
    instance_type: str = "ml.p5.48xlarge"
    cluster_name: str = "ml"


class Populating:
    """Writes a crowd into one cluster."""

    def __init__(self, cluster: Cluster, crowd: Crowd) -> None:
        self.cluster, self.crowd = cluster, crowd
        self.now = cluster.timestamp()
        self._ids = itertools.count(1)
        self.written, self.seconds, self.done = 0, 0.0, False

    def told(self) -> Object:
        """How far it is."""
        return {"written": self.written, "seconds": round(self.seconds, 2), "done": self.done}

    async def run(self) -> None:
        """Halt the controllers, write everything, let others have the loop in between. Runs in the cluster's loop."""
        self.cluster.halt()
        began = time.monotonic()
        written = itertools.chain((("nodes", o) for o in self._nodes()), (("pods", o) for o in self._pods()))
        for resource, obj in written:
            self._write(resource, obj)
            self.written += 1
            if self.written % _CHUNK == 0:
                await asyncio.sleep(0)
        self.seconds, self.done = time.monotonic() - began, True

    def _write(self, qualified: str, obj: Object) -> None:
        resource = self.cluster.catalog.find(qualified)
        metadata = obj["metadata"]
        key = resource.key(metadata.get("namespace"), metadata["name"])
        collection = self.cluster.pipeline.collection(resource)
        if collection.get(key) is None:
            self.cluster.store.commit(collection, ADDED, key, obj)

    def _metadata(self, name: str, **more: Any) -> Object:
        return {"name": name, "uid": str(uuid.UUID(int=next(self._ids), version=4)), "creationTimestamp": self.now, **more}

    def _instance(self, number: int) -> Instance:
        crowd = self.crowd
        return Instance(
            instance_id=f"i-0{number:016x}",
            cluster_name=crowd.cluster_name,
            group=f"workers-{number % crowd.groups}",
            instance_type=crowd.instance_type,
            status="Running",
            zone=f"{self.cluster.region}b",
            zone_id="az2",
            private_ip=f"10.{1 + number // 65536}.{number // 256 % 256}.{number % 256}",
            capacity_type="OnDemand",
            joined=True,
        )

    def _nodes(self) -> Iterator[Object]:
        kind = machine(self.crowd.instance_type)
        whole, allocatable = capacity(kind, devices(kind))
        moments = {"lastHeartbeatTime": self.now, "lastTransitionTime": self.now}
        ready = [{**condition, **moments} for condition in conditions(reachable=True, network=True)]
        for number in range(self.crowd.nodes):
            instance = self._instance(number)
            dns = f"ip-{instance.private_ip.replace('.', '-')}.{self.cluster.region}.compute.internal"
            yield {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": self._metadata(node_name(instance.instance_id), labels=labels(instance, kind, self.cluster.region)),
                "spec": {
                    "providerID": f"aws:///{instance.zone_id}/sagemaker/{instance.instance_id}",
                    "taints": taints(instance, ready=True),
                },
                "status": {
                    "capacity": whole,
                    "allocatable": allocatable,
                    "conditions": ready,
                    "addresses": addresses(instance, dns),
                    "nodeInfo": node_info(self.cluster.version, instance, kind),
                },
            }

    def _pods(self) -> Iterator[Object]:
        crowd = self.crowd
        placed = max(crowd.pods - crowd.waiting, 0)
        for number in range(placed):
            turn, node = divmod(number, max(crowd.nodes, 1))
            agent = turn < len(_AGENTS)
            yield self._pod(_AGENTS[turn] if agent else f"worker-{turn - len(_AGENTS)}", node, agent)
        for number in range(crowd.pods - placed):
            yield self._waiting(number)

    def _pod(self, role: str, node: int, agent: bool) -> Object:
        gpus = 0 if agent or role != "worker-0" else machine(self.crowd.instance_type).gpus
        pod = self._skeleton(f"{role}-{node:06}", role, gpus, "DaemonSet" if agent else "Job")
        pod["spec"]["nodeName"] = node_name(self._instance(node).instance_id)
        container = {"name": "main", "image": f"registry.example/{role}:1", "imageID": "", "containerID": f"containerd://{role}-{node}"}
        state = {"ready": True, "started": True, "restartCount": 0, "state": {"running": {"startedAt": self.now}}}
        told = [
            {"type": t, "status": "True"} for t in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
        ]
        pod["status"] |= {
            "phase": "Running",
            "conditions": [{**condition, "lastProbeTime": None, "lastTransitionTime": self.now} for condition in told],
            "containerStatuses": [{**container, **state}],
            "podIP": f"10.{100 + node // 65536}.{node // 256 % 256}.{node % 256}",
            "startTime": self.now,
        }
        return pod

    def _waiting(self, number: int) -> Object:
        pod = self._skeleton(f"waiting-{number:06}", "waiting", machine(self.crowd.instance_type).gpus, "Job")
        message = f"0/{self.crowd.nodes} nodes are available: {self.crowd.nodes} Insufficient nvidia.com/gpu."
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
            "lastTransitionTime": self.now,
        }
        pod["status"] |= {"phase": "Pending", "conditions": [condition]}
        return pod

    def _skeleton(self, name: str, role: str, gpus: int, owner: str) -> Object:
        job = f"{role}-{next(self._ids) % 100}"
        asked = {"cpu": "1", "memory": "1Gi"} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
        token = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - where it is mounted
        container = {
            "name": "main",
            "image": f"registry.example/{role}:1",
            "command": ["python", "train.py"],
            "env": [{"name": "RANK", "value": "0"}, {"name": "MASTER_ADDR", "value": f"{job}-0.{_NAMESPACE}"}],
            "resources": {"requests": asked, "limits": asked},
            "volumeMounts": [{"name": "kube-api-access", "readOnly": True, "mountPath": token}],
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "imagePullPolicy": "IfNotPresent",
        }
        tolerations = [
            {"key": f"node.kubernetes.io/{k}", "operator": "Exists", "effect": "NoExecute"} for k in ("not-ready", "unreachable")
        ]
        reference = {"apiVersion": "batch/v1", "kind": owner, "name": job, "uid": job, "controller": True, "blockOwnerDeletion": True}
        labels = {"app": role, "batch.kubernetes.io/job-name": job}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": self._metadata(name, namespace=_NAMESPACE, labels=labels, ownerReferences=[reference]),
            "spec": {
                "containers": [container],
                "volumes": [{"name": "kube-api-access", "emptyDir": {}}],
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 30,
                "dnsPolicy": "ClusterFirst",
                "serviceAccountName": "default",
                "serviceAccount": "default",
                "securityContext": {},
                "schedulerName": "default-scheduler",
                "tolerations": tolerations,
                "priority": 0,
                "enableServiceLinks": True,
                "preemptionPolicy": "PreemptLowerPriority",
            },
            "status": {"qosClass": "Guaranteed"},
        }


def crowd_of(body: Object) -> Crowd:
    """The crowd that an admin request describes. ValueError for numbers that are none."""
    fields = {name: body[name] for name in ("groups", "waiting", "instance_type", "cluster_name") if name in body}
    made = replace(Crowd(int(body["nodes"]), int(body["pods"])), **fields)
    if min(made.nodes, made.pods, made.waiting) < 0 or made.groups < 1:
        raise ValueError("nodes, pods and waiting are 0 or more, groups 1 or more")
    return made
