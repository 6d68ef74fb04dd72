"""One sentence for why pods do not run."""

from __future__ import annotations

from typing import Any

import pytest

from instantstart.ensure.installs import pods
from instantstart.kube import shapes


def a_pod(phase: str = "Pending", node: str | None = "n1", **status: Any) -> shapes.Pod:
    return shapes.pod({"metadata": {"name": "a", "namespace": "x"}, "spec": {"nodeName": node}, "status": {"phase": phase, **status}})


def waiting(reason: str, message: str = "", **more: Any) -> shapes.Pod:
    state = {"waiting": {"reason": reason, "message": message}}
    return a_pod(containerStatuses=[{"name": "main", "image": "web:1", "state": state, **more}])


READY = a_pod("Running", conditions=[{"type": "Ready", "status": "True"}])
SENTENCE = "0/3 nodes are available: 1 Insufficient nvidia.com/gpu, 2 Too many pods."
UNSCHEDULABLE = a_pod(node=None, conditions=[{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": SENTENCE}])


@pytest.mark.parametrize(
    ("pod", "trouble", "part"),
    [
        (UNSCHEDULABLE, pods.Trouble.no_place, "no node fits: " + SENTENCE),
        (
            a_pod(node=None, conditions=[{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]),
            pods.Trouble.no_place,
            "scheduling gate",
        ),
        (a_pod(node=None), pods.Trouble.coming_up, "has not looked at it yet"),
        (waiting("ImagePullBackOff", "Back-off pulling image"), pods.Trouble.failing, "the image web:1 of main cannot be pulled"),
        (
            waiting("CrashLoopBackOff", restartCount=4, lastState={"terminated": {"exitCode": 137, "reason": "OOMKilled"}}),
            pods.Trouble.failing,
            "keeps ending (4 restarts); last time it was killed: it used more memory than its limit",
        ),
        (
            waiting("CrashLoopBackOff", restartCount=2, lastState={"terminated": {"exitCode": 3, "reason": "Error"}}),
            pods.Trouble.failing,
            "last time it ended with exit code 3.",
        ),
        (waiting("CreateContainerConfigError", 'secret "hf" not found'), pods.Trouble.failing, 'secret "hf" not found'),
        (waiting("ContainerCreating"), pods.Trouble.coming_up, "is being started (ContainerCreating)"),
        (a_pod("Running"), pods.Trouble.coming_up, "runs and is not ready yet"),
        (a_pod(), pods.Trouble.coming_up, "it is being started"),
        (
            a_pod("Failed", reason="Evicted", message="The node was low on resource: memory."),
            pods.Trouble.failing,
            "Evicted The node was low",
        ),
        (
            a_pod("Failed", containerStatuses=[{"name": "main", "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}]),
            pods.Trouble.failing,
            "the container main ended with exit code 1",
        ),
        (
            a_pod("Running", containerStatuses=[{"name": "side", "state": {"terminated": {"exitCode": 2}}}]),
            pods.Trouble.failing,
            "the container side ended with exit code 2",
        ),
    ],
)
def test_a_pod_says_why(pod: shapes.Pod, trouble: pods.Trouble, part: str) -> None:
    found = pods.why(pod)
    assert found is not None
    assert found.trouble is trouble
    assert part in found.text


def test_a_ready_or_finished_pod_has_no_trouble() -> None:
    assert pods.why(READY) is None
    assert pods.why(a_pod("Succeeded")) is None
    assert pods.explain([READY]) is None
    assert pods.explain([]) is None


def test_of_many_pods_the_worst_is_told_and_counted() -> None:
    crash = waiting("CrashLoopBackOff", restartCount=1)
    found = pods.explain([READY, UNSCHEDULABLE, UNSCHEDULABLE, crash])
    assert found is not None
    assert found.text.startswith("1 of 4 pods: the container main keeps ending")


def test_an_old_pod_on_its_way_out_is_not_failing() -> None:
    pod = shapes.pod({"metadata": {"name": "a", "deletionTimestamp": "2026-11-30T12:00:00Z"}, "status": {"phase": "Running"}})
    found = pods.why(pod)
    assert found is not None
    assert found.trouble is pods.Trouble.coming_up


def test_a_very_long_message_is_cut() -> None:
    found = pods.why(waiting("ErrImagePull", "x" * 5000))
    assert found is not None
    assert len(found.text) < 500
