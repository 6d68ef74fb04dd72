"""Container and pod status as the kubelet writes them. Pure functions."""

from __future__ import annotations

from ..loops.objects import Object, meta, name_of, spec_of, stamp, status_of, uid_of, with_condition
from ..loops.quantity import quality_of_service
from .addresses import loopback_address

FIRST_BACKOFF_SECONDS, LONGEST_BACKOFF_SECONDS = 10.0, 300.0


def backoff_seconds(restarts: int) -> float:
    """The wait before the next start of a container that has been restarted so often: 0, 10, 20, ... 300."""
    if restarts <= 0:
        return 0.0
    return min(FIRST_BACKOFF_SECONDS * 2.0 ** (restarts - 1), LONGEST_BACKOFF_SECONDS)


def fresh(container: Object) -> Object:
    """The status of a container that has not started."""
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": "",
        "ready": False,
        "started": False,
        "restartCount": 0,
        "state": {"waiting": {"reason": "ContainerCreating"}},
        "lastState": {},
    }


def waiting(status: Object, reason: str, message: str = "") -> Object:
    """The status with the container waiting."""
    state = {"waiting": {"reason": reason, "message": message} if message else {"reason": reason}}
    return {**status, "ready": False, "started": False, "state": state}


def running(status: Object, now: float, container_id: str) -> Object:
    """The status with the container running since ``now``."""
    state = {"running": {"startedAt": stamp(now)}}
    image = status["image"]
    image_id = f"{image}@sha256:{container_id[:64].ljust(64, '0')}"
    return {**status, "state": state, "started": True, "imageID": image_id, "containerID": f"containerd://{container_id}"}


def terminated(status: Object, code: int, reason: str, now: float) -> Object:
    """The status with the container ended now."""
    began = (status["state"].get("running") or {}).get("startedAt") or stamp(now)
    end = {
        "exitCode": code,
        "reason": reason or ("Completed" if code == 0 else "Error"),
        "startedAt": began,
        "finishedAt": stamp(now),
        "containerID": status.get("containerID", ""),
    }
    return {**status, "ready": False, "started": False, "state": {"terminated": end}}


def restarting(status: Object, reason: str, message: str) -> Object:
    """A terminated container that is to be started again."""
    return {**waiting(status, reason, message), "lastState": status["state"]}


def exit_code(status: Object) -> int | None:
    """The exit code of a terminated container, or None."""
    ended = status["state"].get("terminated")
    return int(ended["exitCode"]) if ended else None


def is_running(status: Object) -> bool:
    """Whether the container runs."""
    return "running" in status["state"]


def restarts_again(pod: Object, container: Object, code: int, initial: bool) -> bool:
    """Whether a container that ended with ``code`` is started again."""
    policy = spec_of(pod).get("restartPolicy", "Always")
    if initial and container.get("restartPolicy") == "Always":
        return True
    if initial:
        return code != 0 and policy != "Never"
    return bool(policy == "Always" or (policy == "OnFailure" and code != 0))


def sidecar(container: Object) -> bool:
    """Whether an init container goes on running beside the others."""
    return container.get("restartPolicy") == "Always"


def phase_of(pod: Object, initial: list[Object], main: list[Object]) -> str:
    """The pod's phase."""
    policy = spec_of(pod).get("restartPolicy", "Always")
    if any((exit_code(s) or 0) != 0 for s in initial) and policy == "Never":
        return "Failed"
    codes = [exit_code(s) for s in main]
    if main and all(code is not None for code in codes) and policy != "Always":
        if all(code == 0 for code in codes):
            return "Succeeded"
        if policy == "Never":
            return "Failed"
    begun = any(is_running(s) or exit_code(s) is not None or s["lastState"] for s in main)
    return "Running" if begun else "Pending"


def conditions_of(pod: Object, initialized: bool, main: list[Object], facts: tuple[str, float]) -> list[Object]:
    """The pod's conditions; ``facts`` are its phase and the present moment."""
    phase, now = facts
    unready = [s["name"] for s in main if not s["ready"]]
    over = phase in ("Succeeded", "Failed")
    listed = " ".join(unready)
    if phase == "Succeeded":
        ready: Object = {"status": "False", "reason": "PodCompleted"}
    elif phase == "Failed":
        ready = {"status": "False", "reason": "PodFailed"}
    elif unready:
        ready = {"status": "False", "reason": "ContainersNotReady", "message": f"containers with unready status: [{listed}]"}
    else:
        ready = {"status": "True"}
    conditions = status_of(pod).get("conditions")
    begun: Object = {"status": "True"} if initialized or over else {"status": "False", "reason": "ContainersNotInitialized"}
    if not initialized and not over:
        names = " ".join(c["name"] for c in spec_of(pod).get("initContainers") or [])
        begun["message"] = f"containers with incomplete status: [{names}]"
    for kind, wanted in (("Initialized", begun), ("ContainersReady", ready), ("Ready", ready)):
        conditions = with_condition(conditions, {"type": kind, **wanted}, now)
    return without_empty(conditions or [])


def without_empty(conditions: list[Object]) -> list[Object]:
    """Conditions without fields that say nothing."""
    return [{k: v for k, v in c.items() if v not in ("", None)} for c in conditions]


def identity(pod: Object, node: Object) -> Object:
    """The status fields that a pod gets from its node: addresses, quality of service."""
    host = next((a["address"] for a in status_of(node).get("addresses") or [] if a["type"] == "InternalIP"), "")
    own = host if spec_of(pod).get("hostNetwork") else loopback_address(uid_of(pod))
    return {
        "hostIP": host,
        "hostIPs": [{"ip": host}],
        "podIP": own,
        "podIPs": [{"ip": own}],
        "qosClass": status_of(pod).get("qosClass") or quality_of_service(pod),
    }


def ready_delay(container: Object) -> float:
    """Virtual seconds from start to Ready of a simulated container: its probes' initial delays, since nobody is there to answer them."""
    probe = container.get("readinessProbe") or {}
    startup = container.get("startupProbe") or {}
    return float(probe.get("initialDelaySeconds") or 0) + float(startup.get("initialDelaySeconds") or 0)


def grace_of(pod: Object) -> float:
    """Seconds between SIGTERM and SIGKILL."""
    given = meta(pod).get("deletionGracePeriodSeconds")
    return float(given if given is not None else spec_of(pod).get("terminationGracePeriodSeconds", 30))


def backoff_text(pod: Object, container: str, seconds: float) -> str:
    """The message of a CrashLoopBackOff."""
    shown = f"{int(seconds)}s" if seconds < 60 else f"{int(seconds) // 60}m{int(seconds) % 60}s"
    return f"back-off {shown} restarting failed container={container} pod={name_of(pod)}_{meta(pod).get('namespace')}({uid_of(pod)})"
