"""Why a pod, or a workload that has no pod, does not run: ONE sentence, its code, the evidence, and the next step (case 57).

``explain`` takes pods as the API tells them and what else is ``Known``; ``explain_absent`` works from the events of the owner, when no
pod exists at all (quota, webhooks, service account). Both are pure; ``pending_reads.py`` reads what they want to know.
Texts are those of kube-scheduler, the kubelet, containerd and the controllers; they come from the cluster, so evidence is untrusted text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from instantstart.ensure.installs import pods
from instantstart.ensure.running import pending_ends
from instantstart.ensure.running.pending_images import image_trouble
from instantstart.ensure.running.pending_places import Place, no_place
from instantstart.ensure.running.pending_refusals import gated, refused
from instantstart.ensure.running.pending_words import Resource, Why, short
from instantstart.kube import shapes

#: how soon each kind of reason wants a person: the smallest number is told first
_RANK = {"failing": 0, "blocked": 1, "waiting": 2, "starting": 3}
_FAILED_CREATE = frozenset({"FailedCreate", "FailedCreatePod", "ReplicaSetCreateError"})


@dataclass(frozen=True)
class Known:
    """What is known beside the pods. ``places``: the nodes (None: not read); ``coming``: a sentence about nodes on their way;
    ``last_words``: the end of the log of a container that failed, by pod name; ``workload``: Kueue's Workload.
    """

    places: Sequence[Place] | None = None
    events: Sequence[Resource] = ()
    coming: str | None = None
    last_words: Mapping[str, str] = field(default_factory=dict)
    workload: Resource | None = None
    #: claims of the namespace by name (None: not read)
    claims: Mapping[str, Resource] | None = None


def explain(found: Sequence[Resource], known: Known | None = None) -> Why | None:
    """The reason that matters most among pods, with how many share it; None when all run and are ready, or have ended well."""
    known = known or Known()
    told = [(pod, why) for pod in found if (why := why_pod(pod, known)) is not None]
    if not told:
        return None
    shared = Counter((why.code, why.text) for _, why in told)
    _, worst = min(told, key=lambda each: (_RANK[each[1].kind], -shared[each[1].code, each[1].text]))
    count = shared[worst.code, worst.text]
    return worst if len(found) == 1 else worst.counted(count, len(found))


def why_pod(pod: Resource, known: Known) -> Why | None:
    """Why one pod does not run, or runs and is not ready."""
    status, slim = pod.get("status") or {}, shapes.pod(pod)
    if pods.why(slim) is None:
        return None
    disrupted = pending_ends.disrupted(pod)
    if slim.status.phase == "Failed":
        return disrupted or pending_ends.admission(pod) or _ended(pod, known)
    if slim.metadata.deletion_timestamp is not None:
        return disrupted or Why("pod.ending", "waiting", "The pod is ending.", {}, "It is gone when its grace period is over.")
    lost = pending_ends.node_lost(pod)
    if lost:
        return lost
    if not slim.spec.node_name:
        return _unplaced(pod, known)
    for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        found = _container(pod, container, known)
        if found is not None:
            return found
    return _between(pod, known)


def explain_absent(owner: Resource, known: Known) -> Why | None:
    """Why a workload has no pods, from Kueue's object and the owner's events, newest first; None when nothing tells."""
    if known.workload is not None:
        held = gated(known.workload)
        if held:
            return held
    for event in newest_first(known.events):
        if event.get("type") == "Warning" and (event.get("reason") in _FAILED_CREATE or "rror creating" in str(event.get("message"))):
            return refused(str(event.get("message") or ""), owner)
    return None


def newest_first(events: Iterable[Resource]) -> list[Resource]:
    """Events, the newest first."""
    return sorted(events, key=lambda e: str(e.get("lastTimestamp") or e.get("eventTime") or e["metadata"].get("creationTimestamp") or ""))[
        ::-1
    ]


def _unplaced(pod: Resource, known: Known) -> Why:
    gates = [g["name"] for g in pod["spec"].get("schedulingGates") or ()]
    if gates:
        if known.workload is not None and (held := gated(known.workload)):
            return held
        text = f"It is held back by the scheduling gate {', '.join(gates)}: whoever set it has not let it go."
        return Why("pod.gated", "waiting", text, {"gates": gates}, "Look at the queue that admits it.")
    conditions: list[Resource] = (pod.get("status") or {}).get("conditions") or []
    condition: Resource = next((c for c in conditions if c["type"] == "PodScheduled"), {})
    claim = _claim(pod, known)
    if claim:
        return claim
    if condition.get("status") != "False":
        return Why("pod.unseen", "starting", "The scheduler has not looked at it yet.", {}, "Wait a moment.")
    return no_place(pod, str(condition.get("message") or ""), known.places, known.coming)


def _claim(pod: Resource, known: Known) -> Why | None:
    """A claim of the pod that is missing or not bound."""
    if known.claims is None:
        return None
    for volume in pod["spec"].get("volumes") or ():
        name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if not name:
            continue
        claim = known.claims.get(name)
        if claim is None:
            step = "Make the volume, or name a claim of this namespace."
            return Why("claim.missing", "blocked", f"The volume claim {name} is not in the namespace.", {"claim": name}, step)
        phase = (claim.get("status") or {}).get("phase")
        if claim["metadata"].get("deletionTimestamp"):
            text = f"The volume claim {name} is being removed."
            return Why("claim.ending", "blocked", text, {"claim": name}, "Make the volume anew.")
        if phase == "Lost" or (phase == "Pending" and claim["spec"].get("volumeName")):
            text = f"The volume claim {name} wants the volume {claim['spec'].get('volumeName')}, which is not bound to it ({phase})."
            return Why("claim.unbound", "blocked", text, {"claim": name, "phase": phase}, "Look at the volume.")
    return None


def _ended(pod: Resource, known: Known) -> Why:
    status = pod.get("status") or {}
    for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        ended = (container.get("state") or {}).get("terminated") or {}
        if ended.get("exitCode"):
            return _terminated(pod, container, ended, known, "ended")
    message = " ".join(part for part in (status.get("reason"), short(str(status.get("message") or ""))) if part)
    return Why("pod.failed", "failing", f"It failed: {message or 'no reason given'}.", {}, "Look at its log.")


def _container(pod: Resource, status: Resource, known: Known) -> Why | None:
    state, name = status.get("state") or {}, status["name"]
    waiting = state.get("waiting")
    if waiting:
        return _waiting(pod, status, str(waiting.get("reason") or ""), str(waiting.get("message") or ""), known)
    ended = state.get("terminated") or {}
    if ended.get("exitCode"):
        return _terminated(pod, status, ended, known, "ended")
    if "running" in state and not status.get("ready") and not _is_init(pod, name):
        return _unready(pod, status, known)
    return None


def _waiting(pod: Resource, status: Resource, reason: str, message: str, known: Known) -> Why | None:
    if reason in pods.IMAGE:
        return image_trouble(status, reason, message, known.events)
    if reason == "CrashLoopBackOff":
        ended = (status.get("lastState") or {}).get("terminated") or {}
        return _terminated(pod, status, ended, known, f"keeps ending ({status.get('restartCount', 0)} restarts); last time it ended")
    if reason in pods.CONFIG:
        return _unstartable(status, reason, message)
    mounts = _mounts(known.events)
    if mounts:
        return mounts
    if reason in ("ContainerCreating", "PodInitializing", ""):
        return None
    text = f"The container {status['name']} waits ({reason}). {short(message)}".rstrip()
    return Why("container.waiting", "starting", text, {"reason": reason}, "Wait, or look at the pod's events.")


def _unstartable(status: Resource, reason: str, message: str) -> Why:
    told = {"container": status["name"], "reason": reason, "untrusted_message": short(message)}
    missing = re.search(r'(?P<kind>configmap|secret) "(?P<name>[^"]+)" not found', message)
    if missing:
        kind = "Secret" if missing["kind"] == "secret" else "ConfigMap"
        text = f"The container {status['name']} needs the {kind} {missing['name']}, which is not in the namespace."
        return Why(f"{missing['kind']}.missing", "blocked", text, told, f"Make the {kind}; the container starts by itself then.")
    key = re.search(r"couldn't find key (?P<key>\S+) in (?P<kind>\w+) (?P<name>\S+)", message)
    if key:
        text = f"The container {status['name']} needs the key {key['key']} of the {key['kind']} {key['name']}, which has none."
        return Why(f"{key['kind'].lower()}.key_missing", "blocked", text, told, "Add the key.")
    if "executable file not found" in message or "no such file or directory" in message:
        return _no_command(status, message, told)
    text = f"The container {status['name']} cannot be started ({reason}): {short(message)}"
    return Why("container.unstartable", "failing", text, told, "Mend what the message names, and submit again.")


def _no_command(status: Resource, message: str, told: Mapping[str, Any]) -> Why:
    found = re.search(r'exec: "([^"]+)"|stat ([^\s:]+)', message)
    command = (found[1] or found[2]) if found else "its command"
    text = f"The image {status.get('image')} has no {command}: the container {status['name']} cannot be started."
    return Why("container.command_missing", "failing", text, told, f"Use an image that has {command}, or give another command.")


def _terminated(pod: Resource, status: Resource, ended: Resource, known: Known, how: str) -> Why:
    name, words = status["name"], known.last_words.get(pod["metadata"]["name"])
    evidence = {"container": name, "exit_code": ended.get("exitCode"), "restarts": status.get("restartCount", 0)}
    evidence |= {"untrusted_last_words": words} if words else {}
    if ended.get("reason") == "OOMKilled":
        asked: Resource = next((c for c in pod["spec"]["containers"] if c["name"] == name), {})
        limit = ((asked.get("resources") or {}).get("limits") or {}).get("memory", "its limit")
        text = f"The container {name} was killed: it used more memory than {limit}."
        return Why("container.out_of_memory", "failing", text, evidence, "Give it more memory, or a smaller batch; /dev/shm counts too.")
    if ended.get("reason") in ("StartError", "ContainerCannotRun"):
        return _unstartable(status, str(ended["reason"]), str(ended.get("message") or ""))
    probed = _killed_by_probe(pod, status, known) if ended.get("exitCode") in (0, 137, 143) else None
    if probed is not None:
        return probed
    said = f": {short(words.strip().splitlines()[-1])}" if words and words.strip() else ""
    text = f"The container {name} {how} with exit code {ended.get('exitCode', '?')}{said}"
    if words and "exec format error" in words:
        step = "The image is for another processor: use one for this instance type's architecture."
        return Why("image.wrong_architecture", "failing", text, evidence, step)
    return Why("container.failed", "failing", text if text.endswith(".") else text + ".", evidence, _exit_hint(ended.get("exitCode")))


def _killed_by_probe(pod: Resource, status: Resource, known: Known) -> Why | None:
    """A container that ended because the kubelet ends what fails its startup or liveness probe: its own log says nothing of that."""
    mine = [e for e in newest_first(known.events) if (e.get("involvedObject") or {}).get("name") == pod["metadata"]["name"]]
    name, killed = status["name"], next((e for e in mine if e.get("reason") == "Killing"), None)
    found = re.search(r"failed (startup|liveness) probe", str((killed or {}).get("message") or ""))
    if found is None or f"ontainer {name} " not in str((killed or {}).get("message")):
        return None
    probe, restarts = found[1], int(status.get("restartCount", 0))
    told = next((str(e.get("message")) for e in mine if e.get("reason") == "Unhealthy" and probe in str(e.get("message")).lower()), "")
    said = f": {short(told)}" if told else "."
    times = f" ({restarts} restarts)" if restarts else ""
    text = f"The container {name} is ended again and again, because its {probe} probe fails{times}{said}"
    step = "Check the path and port of the probe; give it longer to start if its log shows that it still loads."
    return Why("container.probe_failing", "failing", text, {"container": name, "restarts": restarts, "untrusted_message": told}, step)


def _exit_hint(code: Any) -> str:
    hints = {
        126: "The command is there and may not be executed: check its permissions.",
        127: "The command is not in the image: check the image and the path.",
        137: "It was killed (SIGKILL): by its memory, its liveness probe, or whoever ended the pod.",
        139: "It crashed in native code (SIGSEGV): check versions of CUDA, NCCL and the framework.",
        143: "It was asked to end (SIGTERM) by whoever ended the pod.",
    }
    return hints.get(code, "Read its log from the end.") if isinstance(code, int) else "Read its log from the end."


def _unready(pod: Resource, status: Resource, known: Known) -> Why:
    """It runs, and is not ready: its probe says why."""
    probed = _killed_by_probe(pod, status, known) if status.get("restartCount") and status.get("started") is False else None
    if probed is not None:
        return probed
    for event in newest_first(known.events):
        if event.get("reason") == "Unhealthy" and event.get("involvedObject", {}).get("name") == pod["metadata"]["name"]:
            message = short(str(event.get("message") or ""))
            text = f"The container {status['name']} runs, and its probe fails: {message}"
            step = "Wait while it loads; read its log if that takes longer than usual."
            return Why("container.probe_failing", "waiting", text, {"untrusted_message": message}, step)
    if any("Probe" in key for c in pod["spec"]["containers"] if c["name"] == status["name"] for key in c):
        text = f"The container {status['name']} runs and does not answer its probe yet."
        return Why("container.not_ready", "starting", text, {}, "Wait while it loads; read its log.")
    return Why("container.not_ready", "starting", f"The container {status['name']} runs and is not ready yet.", {}, "Wait a moment.")


def _between(pod: Resource, known: Known) -> Why:
    """Placed, and its containers are not made yet."""
    mounts = _mounts(known.events)
    if mounts:
        return mounts
    pulling = any(e.get("reason") == "Pulling" for e in newest_first(known.events)[:1])
    text = f"Its image is being pulled on {pod['spec'].get('nodeName')}." if pulling else "It is being started."
    return Why("image.pulling" if pulling else "pod.starting", "starting", text, {}, "Wait; a large image takes minutes on a new node.")


def _mounts(events: Sequence[Resource]) -> Why | None:
    """The newest event that says why volumes or the network of a placed pod are not there."""
    for event in newest_first(events):
        reason, message = str(event.get("reason")), str(event.get("message") or "")
        if event.get("type") != "Warning":
            continue
        told = {"untrusted_message": short(message)}
        if reason in ("FailedMount", "FailedAttachVolume", "FailedMapVolume"):
            missing = re.search(r'(configmap|secret|persistentvolumeclaim) "([^"]+)" not found', message)
            if missing:
                text = f"It needs the {missing[1]} {missing[2]}, which is not in the namespace."
                return Why(f"{missing[1]}.missing", "blocked", text, told, "Make it; the pod goes on by itself then.")
            step = "Look at the driver's pods, the bucket or file system, and its permissions."
            return Why("volume.not_mounted", "blocked", f"A volume cannot be mounted: {short(message)}", told, step)
        if reason == "FailedCreatePodSandBox":
            if "assign an IP address" in message:
                step = "Free addresses, use a larger subnet, or efa-only interfaces."
                return Why("network.no_address", "blocked", "The node's subnet has no free address for the pod.", told, step)
            return Why("network.not_ready", "waiting", f"The node cannot set the pod up: {short(message)}", told, "Look at the node.")
    return None


def _is_init(pod: Resource, name: str) -> bool:
    return any(c["name"] == name and c.get("restartPolicy") != "Always" for c in pod["spec"].get("initContainers") or ())
