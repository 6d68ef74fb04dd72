"""What is wrong with a job's pods now: nodes that are ill, pods that are gone, processes that ended. Looks only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..kubelet.agents import Agents
from ..loops.objects import Object, annotations_of, condition_of, deleting, labels_of, name_of, pod_finished, spec_of, status_of, uid_of
from ..nodes import HEALTH
from .pods import rank_of

#: By node name; None when it is not there.
Nodes = Callable[[str], Object | None]
_INSTANCE = "hyperpod-"


@dataclass(frozen=True)
class Fault:
    """``pods`` are at fault; ``lost`` of them have to be made anew, ``forced`` without waiting for their kubelet."""

    reason: str
    message: str
    pods: list[Object] = field(default_factory=list)
    lost: list[Object] = field(default_factory=list)
    forced: bool = False

    def record(self, kind: str) -> Object:
        """``latestFaultyPodInstanceList``."""
        nodes = {spec_of(p).get("nodeName") or "" for p in self.pods} - {""}
        return {
            "restartType": kind,
            "faultyInstanceIdList": sorted(n.removeprefix(_INSTANCE) for n in nodes),
            "faultyPodList": [name_of(p) for p in self.pods],
            "faultyRankList": [str(rank_of(p)) for p in self.pods],
        }


def unhealthy(node: Object | None) -> bool:
    """Whether HyperPod or Kubernetes has given the node up."""
    if node is None or (condition_of(node, "Ready") or {}).get("status") == "Unknown":
        return True
    return labels_of(node).get(HEALTH, "Schedulable") != "Schedulable"


def on_ill_nodes(pods: list[Object], nodes: Nodes) -> list[Object]:
    """The pods that are bound to a node that was given up."""
    return [p for p in pods if (name := spec_of(p).get("nodeName")) and not pod_finished(p) and unhealthy(nodes(name))]


def _ended_text(pod: Object) -> str:
    for status in status_of(pod).get("containerStatuses") or []:
        ended = (status.get("state") or {}).get("terminated")
        if ended and ended.get("exitCode"):
            return f"container {status['name']} ended with exit code {ended['exitCode']} ({ended.get('reason', 'Error')})"
    return str(status_of(pod).get("message") or status_of(pod).get("reason") or "it failed")


def find(pods: list[Object], missing: list[str], nodes: Nodes, agents: Agents) -> Fault | None:
    """The gravest fault, None when all is well. ``missing`` are the names of pods that were there and are not any more."""
    ill = on_ill_nodes(pods, nodes)
    if ill:
        names = sorted({spec_of(p)["nodeName"] for p in ill})
        return Fault("NodeFault", f"Found unhealthy node {', '.join(names)}", ill, ill, forced=True)
    failed = [p for p in pods if status_of(p).get("phase") == "Failed"]
    if failed:
        text = "; ".join(f"{name_of(p)}: {_ended_text(p)}" for p in failed)
        return Fault("PodFault", f"Found failed pods: {text}", failed, failed)
    leaving = [p for p in pods if deleting(p)]
    if leaving or missing:
        names = sorted({*(name_of(p) for p in leaving), *missing})
        return Fault("PodFault", f"Found pods that were deleted: {', '.join(names)}", leaving, leaving)
    ended = [p for p in pods if uid_of(p) in agents.ended]
    if ended:
        told = (f"rank {rank_of(p)} in pod {name_of(p)} ended with exit code {agents.ended[uid_of(p)].code}" for p in ended)
        return Fault("ProcessFault", f"Processes failed: {'; '.join(told)}", ended)
    return None


def started_after(pod: Object, note: str) -> int:
    """How many restarts of the job went before the pod was made."""
    text = annotations_of(pod).get(note, "0")
    return int(text) if text.isdigit() else 0
