"""HyperPod instances as Nodes: made, kept in step, judged ready, removed; labels that ask for a repair go back to AWS."""

from __future__ import annotations

from collections.abc import Iterable

from ..world.seams import Instance
from .aws_view import AwsView
from .loops.engine import Controller, Engine
from .loops.objects import (
    Object,
    annotations_of,
    condition_of,
    controller_of,
    key_of,
    labels_of,
    micro_stamp,
    name_of,
    pod_finished,
    pod_ready,
    spec_of,
    stamp,
    status_of,
    uid_of,
    with_condition,
)
from .machines import machine
from .nodes import (
    ASKED_ACTIONS,
    HEALTH,
    NOT_READY,
    PREFIX,
    UNREACHABLE,
    addresses,
    capacity,
    conditions,
    devices,
    labels,
    node_info,
    node_name,
    taints,
)

_WRITTEN = "sandbox.instantstart.dev/health-written"
_ASKED = "sandbox.instantstart.dev/action-asked"
_CORDONED = "node.kubernetes.io/unschedulable"
#: A node answers while its instance is in one of these states.
_ANSWERING = frozenset({"Running", "DeepHealthCheckInProgress", "ShuttingDown"})
#: Words in a DaemonSet's name or images -> the device resources its pod announces.
_PLUGINS = (
    (("nvidia", "device-plugin"), ("nvidia.com/gpu",)),
    (("efa", "device-plugin"), ("vpc.amazonaws.com/efa",)),
    (("neuron", "device-plugin"), ("aws.amazon.com/neurondevice", "aws.amazon.com/neuron", "aws.amazon.com/neuroncore")),
)
_LEASES, _LEASE_NAMESPACE = "leases.coordination.k8s.io", "kube-node-lease"
#: Leases are renewed this seldom: a simulated node needs no proof of life, people only want to see one.
_RENEW_SECONDS, _RENEW_REAL_SECONDS = 60.0, 20.0


def announced(pods: list[Object]) -> set[str]:
    """The device resources whose plugin runs among these pods."""
    found: set[str] = set()
    for pod in pods:
        owner = controller_of(pod)
        if owner is None or owner["kind"] != "DaemonSet" or not pod_ready(pod):
            continue
        text = " ".join([owner["name"], *(c["image"] for c in spec_of(pod)["containers"])])
        for words, resources in _PLUGINS:
            if all(word in text for word in words):
                found.update(resources)
    return found


def network_runs(pods: list[Object]) -> bool:
    """Whether the CNI's and kube-proxy's pods are ready."""
    ready = {labels_of(p).get("k8s-app") for p in pods if pod_ready(p)}
    return {"aws-node", "kube-proxy"} <= ready


class NodeBridge(Controller):
    """Keys are node names."""

    name = "kubelet-node"
    watched = ("nodes", "pods")

    def __init__(self, engine: Engine, view: AwsView) -> None:
        super().__init__(engine)
        self._view = view
        view.listeners.append(self.look)

    def look(self) -> None:
        """Look at every node and every instance."""
        names = {name_of(n) for n in self.cache.all("nodes")} | set(self._view.instances or {})
        for name in sorted(names):
            self.engine.enqueue(self, name)

    def keys(self, resource: str, obj: Object) -> Iterable[str]:
        """The node; or the node of a pod that it needs to be ready or that announces a device."""
        if resource == "nodes":
            return [key_of(obj)]
        node, owner = spec_of(obj).get("nodeName"), controller_of(obj)
        return [node] if node and owner is not None and owner["kind"] == "DaemonSet" else []

    async def reconcile(self, key: str) -> None:
        """One node."""
        if self._view.instances is None:
            return
        instance, node = self._view.instances.get(key), self.cache.get("nodes", key)
        if instance is None or not instance.joined:
            if node is not None and labels_of(node).get(PREFIX + "compute-type") == "hyperpod":
                await self._remove(node)
            return
        if node is None:
            node = await self._register(instance)
        await self._repair(node, instance)
        await self._describe(node, instance)
        await self._renew(key)

    # ------------------------------------------------------------------ coming and going

    async def _register(self, instance: Instance) -> Object:
        wanted = labels(instance, machine(instance.instance_type), self.cluster.region)
        provider = f"aws:///{instance.zone_id}/sagemaker/cluster/hyperpod-{instance.cluster_name}-{instance.instance_id}"
        node = await self.client.create(
            "nodes",
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {
                    "name": node_name(instance.instance_id),
                    "labels": wanted,
                    "annotations": {_WRITTEN: instance.health, "node.alpha.kubernetes.io/ttl": "0"},
                },
                "spec": {"providerID": provider, "taints": self._taints([], instance, ready=False)},
            },
        )
        await self.event(node, "Starting", "Starting kubelet.")
        await self.event(node, "RegisteredNode", f"Node {name_of(node)} event: Registered Node {name_of(node)} in Controller")
        return node

    async def _remove(self, node: Object) -> None:
        await self.event(node, "RemovingNode", f"Node {name_of(node)} event: Removing Node {name_of(node)} from Controller")
        await self.client.delete("nodes", name_of(node))
        await self.client.delete(_LEASES, name_of(node), _LEASE_NAMESPACE)

    # ------------------------------------------------------------------ health labels

    async def _repair(self, node: Object, instance: Instance) -> None:
        """A person wrote a label that asks for a reboot or replacement: tell AWS once."""
        asked = labels_of(node).get(HEALTH, "")
        notes = annotations_of(node)
        if asked not in ASKED_ACTIONS or asked in (notes.get(_WRITTEN), notes.get(_ASKED)) or asked == instance.health:
            return
        await self.client.patch("nodes", name_of(node), {"metadata": {"annotations": {_ASKED: asked}}})
        action = ASKED_ACTIONS[asked]
        self.cluster.start(self._ask(instance.instance_id, action), name=f"{action} {instance.instance_id}")

    async def _ask(self, instance_id: str, action: str) -> None:
        await self.cluster.ask_aws(self.cluster.aws.request_node_action, self.cluster.arn, instance_id, action)

    def _health_label(self, node: Object, instance: Instance) -> str | None:
        """What the health label should be; None to leave a person's word alone until AWS has news."""
        written, present = annotations_of(node).get(_WRITTEN), labels_of(node).get(HEALTH)
        if present != written and instance.health == written:
            return None
        return instance.health

    # ------------------------------------------------------------------ keeping in step

    async def _describe(self, node: Object, instance: Instance) -> None:
        name = name_of(node)
        pods = [p for p in self.cache.pods_on(name) if not pod_finished(p)]
        reachable = instance.status in _ANSWERING
        network = network_runs(pods)
        ready = reachable and network
        change = self._label_change(node, instance)
        wanted = self._taints(spec_of(node).get("taints") or [], instance, ready, reachable, bool(spec_of(node).get("unschedulable")))
        if wanted != (spec_of(node).get("taints") or []):
            change["spec"] = {"taints": wanted}
        if change:
            node = await self.client.patch("nodes", name, change)
        before = (condition_of(node, "Ready") or {}).get("status")
        await self._status(node, instance, conditions(reachable, network), announced(pods))
        after = "Unknown" if not reachable else str(network)
        if before != after:
            word = {"True": "NodeReady", "False": "NodeNotReady"}.get(after, "NodeNotReady")
            await self.event(node, word, f"Node {name} status is now: {word}")

    def _label_change(self, node: Object, instance: Instance) -> Object:
        wanted = labels(instance, machine(instance.instance_type), self.cluster.region)
        health = self._health_label(node, instance)
        if health is None:
            del wanted[HEALTH]
        have = labels_of(node)
        differing = {k: v for k, v in wanted.items() if have.get(k) != v}
        change: Object = {"labels": differing} if differing else {}
        if health is not None and annotations_of(node).get(_WRITTEN) != health:
            change["annotations"] = {_WRITTEN: health, _ASKED: None}
        return {"metadata": change} if change else {}

    def _taints(
        self, present: list[Object], instance: Instance, ready: bool, reachable: bool = True, cordoned: bool = False
    ) -> list[Object]:
        wanted = taints(instance, ready or not reachable)
        if not reachable:
            wanted += [{"key": UNREACHABLE, "effect": effect} for effect in ("NoSchedule", "NoExecute")]
        if cordoned:
            wanted.append({"key": _CORDONED, "effect": "NoSchedule"})
        own = {HEALTH, NOT_READY, UNREACHABLE, _CORDONED, *(t["key"] for t in wanted)}
        kept = [t for t in present if t.get("key") not in own]
        found = []
        for taint in wanted:
            same = next((t for t in present if (t["key"], t["effect"]) == (taint["key"], taint["effect"])), {})
            if taint["effect"] == "NoExecute":
                taint = {**taint, "timeAdded": same.get("timeAdded") or stamp(self.now())}
            found.append(taint)
        return [*kept, *found]

    async def _status(self, node: Object, instance: Instance, wanted: list[Object], plugins: set[str]) -> None:
        kind, now = machine(instance.instance_type), self.now()
        usable = {name: count for name, count in devices(kind).items() if name in plugins}
        whole, allocatable = capacity(kind, usable)
        merged = status_of(node).get("conditions")
        for condition in wanted:
            merged = with_condition(merged, {**condition, "lastHeartbeatTime": stamp(now)}, now)
        if _same(merged or [], status_of(node).get("conditions") or []):
            merged = status_of(node).get("conditions")
        gone = {r: None for r in status_of(node).get("capacity") or {} if r not in whole}
        fields = {
            "capacity": {**whole, **gone},
            "allocatable": {**allocatable, **gone},
            "conditions": merged,
            "addresses": addresses(instance, self._dns(instance)),
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": node_info(self.cluster.version, instance, kind),
        }
        await self.engine.write_status("nodes", node, fields, self.client)

    def _dns(self, instance: Instance) -> str:
        return f"ip-{instance.private_ip.replace('.', '-')}.{self.cluster.region}.compute.internal"

    async def _renew(self, name: str) -> None:
        period = max(_RENEW_SECONDS, _RENEW_REAL_SECONDS * self.cluster.clock.rate)
        lease, now = self.cluster.read(_LEASES, name, _LEASE_NAMESPACE), self.now()
        due = self.engine.first_seen(("lease", name)) + period
        if lease is not None and due > now:
            self.later(due - now, name)
            return
        self.engine.forget(("lease", name))
        self.engine.first_seen(("lease", name))
        self.later(period, name)
        if lease is None:
            node = self.cache.get("nodes", name)
            owner = [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid_of(node)}] if node else []
            metadata = {"name": name, "namespace": _LEASE_NAMESPACE, "ownerReferences": owner}
            spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": micro_stamp(now)}
            built = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
            await self.client.create(_LEASES, built)
        else:
            await self.client.patch(_LEASES, name, {"spec": {"renewTime": micro_stamp(now)}}, _LEASE_NAMESPACE)


def _same(left: list[Object], right: list[Object]) -> bool:
    """Whether two lists of conditions differ in nothing but the time of the last heartbeat."""

    def plain(conditions: list[Object]) -> list[Object]:
        return [{k: v for k, v in c.items() if k != "lastHeartbeatTime"} for c in conditions]

    return plain(left) == plain(right)
