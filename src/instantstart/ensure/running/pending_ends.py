"""Pods that were ended by others: by a drain, a preemption, the admission of the kubelet, or with their node. Pure."""

from __future__ import annotations

from instantstart.ensure.running.pending_words import Resource, Why, short


def disrupted(pod: Resource) -> Why | None:
    """A pod that something else ended: it was disrupted, it did not fail (case 54)."""
    status = pod.get("status") or {}
    condition = next((c for c in status.get("conditions") or () if c["type"] == "DisruptionTarget" and c["status"] == "True"), None)
    reason = str((condition or {}).get("reason") or status.get("reason") or "")
    message = short(str((condition or {}).get("message") or status.get("message") or ""))
    known = _DISRUPTIONS.get(reason)
    if known is None:
        return None
    code, text, step = known
    node = pod["spec"].get("nodeName")
    return Why(code, "failing", text.format(node=node), {"reason": reason, "node": node, "untrusted_message": message}, step)


_AGAIN = "Its controller makes it again within the job's recovery budget."
_DISRUPTIONS = {
    "PreemptionByScheduler": ("pod.preempted", "It was ended to make room for a pod of higher priority.", "Raise its priority, or wait."),
    "PreemptionByKueue": ("pod.preempted", "The queue took its place back for work of higher priority.", "Raise its priority, or wait."),
    "DeletionByTaintManager": ("pod.disrupted", "It was disrupted: its node {node} got a taint that ends pods.", _AGAIN),
    "EvictionByEvictionAPI": ("pod.disrupted", "It was disrupted: it was evicted from {node} (a drain or a consolidation).", _AGAIN),
    "DeletionByPodGC": ("pod.node_gone", "Its node {node} is gone.", _AGAIN),
    "TerminationByKubelet": ("pod.evicted", "The node {node} ran short of a resource and ended it.", "Ask for what it really uses."),
    "Evicted": ("pod.evicted", "The node {node} ran short of a resource and ended it.", "Ask for the memory and disk it really uses."),
    "NodeLost": ("pod.node_gone", "Its node {node} does not answer.", _AGAIN),
    "Shutdown": ("pod.disrupted", "It was disrupted: its node {node} was shut down.", _AGAIN),
    "Terminated": ("pod.disrupted", "It was disrupted: its node {node} was shut down.", _AGAIN),
}


def admission(pod: Resource) -> Why | None:
    """A kubelet that would not take a pod which the scheduler sent."""
    status = pod.get("status") or {}
    reason, message = str(status.get("reason") or ""), short(str(status.get("message") or ""))
    if reason == "UnexpectedAdmissionError" or reason.startswith("OutOf"):
        text = f"The node {pod['spec'].get('nodeName')} would not take it ({reason}): {message}"
        return Why("pod.not_admitted", "failing", text, {"reason": reason, "untrusted_message": message}, _AGAIN)
    return None


def node_lost(pod: Resource) -> Why | None:
    status = pod.get("status") or {}
    ready: Resource = next((c for c in status.get("conditions") or () if c["type"] == "Ready"), {})
    if status.get("reason") == "NodeLost" or status.get("phase") == "Unknown" or ready.get("reason") == "NodeNotReady":
        node = pod["spec"].get("nodeName")
        text = f"Its node {node} does not answer: whether it still runs there is not known."
        return Why("pod.node_gone", "failing", text, {"node": node}, "HyperPod repairs the node; the job is started again elsewhere.")
    return None
