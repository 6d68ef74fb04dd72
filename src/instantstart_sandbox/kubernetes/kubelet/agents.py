"""What the elastic agent inside of a training pod does: it outlives the processes of the job, and starts them again when it is told to.

A pod of a HyperPodPyTorchJob whose process fails goes on running, as on a real cluster: the agent reports, and the operator decides
whether the processes start again in their containers (kept logs, same pods) or the pods go. Memory only; what a restarted sandbox needs
to know is in the job's status.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..loops.objects import Object, condition_of, controller_of, key_of, namespace_of, seconds_of, spec_of, status_of, uid_of
from .environment import Reader

_JOB = "HyperPodPyTorchJob"
_JOBS = "hyperpodpytorchjobs.sagemaker.amazonaws.com"


@dataclass(frozen=True)
class Ended:
    """How the processes of a pod ended."""

    code: int
    reason: str
    moment: float


class Agents:
    """The agents of one cluster, by pod uid. The operator listens and commands, the kubelet reports and obeys."""

    def __init__(self) -> None:
        self.ended: dict[str, Ended] = {}
        self.listener: Callable[[str], None] | None = None
        self.poke: Callable[[str], None] | None = None
        self._again: set[str] = set()
        self._released: set[str] = set()

    @staticmethod
    def hold(pod: Object, container: str) -> bool:
        """Whether an agent watches over the container: the first one of a pod of a training job."""
        owner = controller_of(pod) or {}
        return owner.get("kind") == _JOB and spec_of(pod)["containers"][0]["name"] == container

    def report(self, pod: Object, ended: Ended) -> None:
        """The processes failed; told once."""
        if uid_of(pod) not in self.ended:
            self.ended[uid_of(pod)] = ended
            if self.listener is not None:
                owner = controller_of(pod) or {}
                self.listener(f"{namespace_of(pod)}/{owner.get('name', '')}")

    def restart(self, pod: Object) -> None:
        """Let the processes of the pod be started again in their container."""
        self._again.add(uid_of(pod))
        self.ended.pop(uid_of(pod), None)
        self._look(pod)

    def release(self, pod: Object) -> None:
        """Nothing more is to be expected: the container ends as its processes did."""
        self._released.add(uid_of(pod))
        self._look(pod)

    def _look(self, pod: Object) -> None:
        if self.poke is not None:
            self.poke(key_of(pod))

    def is_released(self, pod: Object) -> bool:
        """Whether the pod was released."""
        return uid_of(pod) in self._released

    def is_told(self, pod: Object) -> bool:
        """Whether the processes are to be started again."""
        return uid_of(pod) in self._again

    def begun(self, pod: Object) -> None:
        """The processes were started again."""
        self._again.discard(uid_of(pod))
        self.ended.pop(uid_of(pod), None)

    def forget(self, uid: str) -> None:
        """The pod is gone."""
        self.ended.pop(uid, None)
        self._again.discard(uid)
        self._released.discard(uid)


def _job_of(read: Reader, pod: Object) -> Object | None:
    owner = controller_of(pod) or {}
    return read(_JOBS, owner["name"], namespace_of(pod)) if owner.get("kind") == _JOB else None


def restarts(read: Reader, pod: Object) -> int | None:
    """How often the pod's job was restarted so far; None for other pods."""
    job = _job_of(read, pod)
    return None if job is None else int(status_of(job).get("restartCount") or 0)


def began(read: Reader, pod: Object, started: float) -> float:
    """When the processes of a container that started at ``started`` were last begun."""
    running = condition_of(_job_of(read, pod) or {}, "Running") or {}
    return max(started, seconds_of(running.get("lastTransitionTime"))) if running.get("status") == "True" else started


def topology(read: Reader, pod: Object) -> dict[str, str]:
    """What the operator tells the agent at each start of the processes: where rank 0 is, and how often they were restarted."""
    job = _job_of(read, pod)
    if job is None:
        return {}
    told = {"MASTER_ADDR": status_of(job).get("masterAddr"), "MASTER_PORT": status_of(job).get("masterPort")}
    return {**{k: str(v) for k, v in told.items() if v}, "TORCHELASTIC_RESTART_COUNT": str(restarts(read, pod) or 0)}
