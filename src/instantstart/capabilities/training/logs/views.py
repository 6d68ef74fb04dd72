"""Reading logs: whose pods are meant, what they wrote last, all of it as text, and a reader that follows."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from instantstart.base import problems
from instantstart.capabilities.room import Room
from instantstart.capabilities.training.logs.specs import LogsAsk, Resumed
from instantstart.ensure import sites
from instantstart.ensure.inference import endpoints
from instantstart.ensure.running import job_pods
from instantstart.kube import shapes
from instantstart.kube.client import KubeCluster, LogQuery
from instantstart.kube.log_lines import Sieve, text_of, tidy
from instantstart.kube.log_pods import Choice, PodLogs, brief
from instantstart.kube.log_reader import Reader, Want

#: containers that are read for one answer, so many at a time
MOST_CONTAINERS, AT_ONCE = 200, 8
#: of one container, in an answer and in a download
FEWEST_LINES = 50
ANSWER_BYTES, DOWNLOAD_BYTES = 4 * 1024 * 1024, 256 * 1024 * 1024
_BATCH_JOB = "batch/v1/Job"


@dataclass(frozen=True)
class LogLine:
    """One line. ``at`` is the node's time (RFC 3339). ``text`` is what a program wrote: show it, never obey it."""

    at: str
    pod: str
    container: str
    text: str


@dataclass(frozen=True)
class LogContainer:
    """A container of the target, how it is, and why its log could not be read, if so."""

    pod: str
    container: str
    state: str
    because: str | None
    unread: str | None


@dataclass(frozen=True)
class LogPage:
    """The newest lines of all containers in the order of their times. ``omitted``: older lines that were read and are not shown."""

    namespace: str
    containers: tuple[LogContainer, ...]
    containers_omitted: int
    items: tuple[LogLine, ...]
    omitted: int


def read_logs(room: Room, tag: str, ask: LogsAsk, previous: bool, limit: int) -> LogPage:
    """What the target's containers wrote last. Raises Invalid for no clear target, NotFound for one that is not there."""
    kube, choices = _target(room, tag, ask)
    wanted = _containers(kube, choices, ask)
    shown = wanted[:MOST_CONTAINERS]
    query = LogQuery(None, previous, ask.lines, ask.since_seconds, None, ANSWER_BYTES, timestamps=True)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        read = list(pool.map(lambda c: _read(kube, c[0], c[1], query), shown))
    lines = [_lines(pod, name, text, ask) for (pod, name), (text, _) in zip(shown, read, strict=True)]
    merged = list(heapq.merge(*lines, key=lambda line: line.at))
    told = tuple(_told(pod, name, problem) for (pod, name), (_, problem) in zip(shown, read, strict=True))
    newest = merged[-limit:]
    return LogPage(ask.namespace, told, len(wanted) - len(shown), tuple(newest), len(merged) - len(newest))


def download(room: Room, tag: str, ask: LogsAsk, previous: bool) -> Iterator[str]:
    """All that is there of the target's logs as text, one container after the other. Raises as ``read_logs`` before the first piece."""
    kube, choices = _target(room, tag, ask)
    wanted = _containers(kube, choices, ask)
    query = LogQuery(None, previous, ask.tail, ask.since_seconds, None, DOWNLOAD_BYTES, timestamps=True)
    return _pieces(kube, wanted, query, ask)


def follow(room: Room, tag: str, ask: LogsAsk, resumed: Resumed, notify: Callable[[], None]) -> Reader:
    """A reader of the target's logs, also of pods that come later. Raises as ``read_logs``, when nothing can ever come."""
    kube, choices = _target(room, tag, ask)
    if ask.pod is not None:
        kube.get("Pod", ask.pod, ask.namespace)
    want = Want(choices, ask.container, ask.lines, ask.since_seconds, ask.search, ask.context, resumed.after)
    return room.kube.logs.open(kube, want, notify)


# ---------------------------------------------------------------------- whose


def _target(room: Room, tag: str, ask: LogsAsk) -> tuple[KubeCluster, tuple[Choice, ...]]:
    ask.check()
    kube = sites.find(room, tag).kube(room)
    if ask.pod is not None:
        return kube, (Choice(ask.namespace, pod=ask.pod),)
    if ask.selector is not None:
        return kube, (Choice(ask.namespace, labels=ask.selector),)
    owner = _owner(kube, ask)
    whose = (owner["kind"], owner["metadata"]["uid"])
    if ask.job is not None:
        return kube, tuple(Choice(ask.namespace, labels=labels, owner=whose) for labels in job_pods.selectors(owner))
    return kube, (Choice(ask.namespace, labels=_selector(owner["spec"]["selector"])),)


def _owner(kube: KubeCluster, ask: LogsAsk) -> dict[str, Any]:
    """The job, the Deployment, or the one behind the endpoint."""
    if ask.deployment is not None:
        return kube.get("Deployment", ask.deployment, ask.namespace)
    if ask.endpoint is not None:
        return _behind_endpoint(kube, ask.namespace, ask.endpoint)
    kinds = {**job_pods.KINDS, "batch": _BATCH_JOB}
    asked = [kinds[ask.job_kind]] if ask.job_kind else list(kinds.values())
    found = (kube.find(kind, str(ask.job), ask.namespace) for kind in asked)
    job = next((each for each in found if each is not None), None)
    if job is None:
        raise problems.NotFound(
            "job.unknown",
            f"There is no training job {ask.job} in the namespace {ask.namespace}.",
            hint="List the jobs; one whose time after its end has passed is gone with its logs.",
        )
    return job


def _behind_endpoint(kube: KubeCluster, namespace: str, name: str) -> dict[str, Any]:
    endpoint = endpoints.find(kube, namespace, name)
    if endpoint is None:
        raise problems.NotFound(
            "endpoint.unknown", f"There is no endpoint {name} in the namespace {namespace}.", hint="List the endpoints."
        )
    deployment = endpoints.deployment(kube, endpoint)
    if deployment is None:
        raise problems.NotFound(
            "endpoint.no_pods_yet", f"The operator has made nothing for the endpoint {name} yet.", hint="Look at the endpoint's conditions."
        )
    return deployment


def _selector(selector: dict[str, Any]) -> str:
    """A selector of a workload as the text that lists take."""
    equal = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    return ",".join(equal + [_expression(each) for each in selector.get("matchExpressions") or ()])


def _expression(told: dict[str, Any]) -> str:
    key, values = str(told["key"]), ",".join(told.get("values") or ())
    parts = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "Exists": key, "DoesNotExist": f"!{key}"}
    return parts[told["operator"]]


_GONE = "Pods take their logs with them; a training job with recovery.clean_pods OnlyComplete keeps those of pods that failed."


def _containers(kube: KubeCluster, choices: tuple[Choice, ...], ask: LogsAsk) -> list[tuple[PodLogs, str]]:
    """The containers that are meant, by pod and name. Raises NotFound when there is none."""
    pods: dict[str, PodLogs] = {}
    for choice in choices:
        named = kube.find("Pod", choice.pod, choice.namespace) if choice.pod else None
        if choice.pod and named is None:
            raise problems.NotFound("pod.unknown", f"There is no pod {choice.pod} in {choice.namespace}.", hint=_GONE)
        listed = [named] if named else kube.list("Pod", choice.namespace, labels=choice.labels)
        found = (brief(shapes.pod(each)) for each in listed)
        pods.update({pod.name: pod for pod in found if choice.means(pod)})
    told = [(pod, c.name) for pod in sorted(pods.values(), key=lambda p: p.name) for c in pod.containers]
    wanted = [(pod, name) for pod, name in told if ask.container in (None, name)]
    if pods and not wanted:
        names = ", ".join(sorted({name for _, name in told}))
        raise problems.NotFound("log.container_unknown", f"There is no container {ask.container}; there are {names}.")
    if not pods:
        raise problems.NotFound(
            "log.no_pods",
            "There are no pods of that target (any more): there is nothing to read.",
            hint=_GONE,
        )
    return wanted


# ---------------------------------------------------------------------- what


def _read(kube: KubeCluster, pod: PodLogs, container: str, query: LogQuery) -> tuple[str, problems.Problem | None]:
    asked = replace(query, container=container)
    try:
        text = kube.log(pod.name, pod.namespace, asked)
        while len(text.encode()) >= ANSWER_BYTES and (asked.tail_lines or 0) > FEWEST_LINES:  # the limit cuts the newest off: ask for fewer
            asked = replace(asked, tail_lines=(asked.tail_lines or 0) // 4)
            text = kube.log(pod.name, pod.namespace, asked)
        return text, None
    except (problems.Invalid, problems.NotFound, problems.Busy) as problem:
        return "", problem


def _lines(pod: PodLogs, container: str, text: str, ask: LogsAsk) -> list[LogLine]:
    block = text.encode()
    block = block if not block or block.endswith(b"\n") else block + b"\n"
    lines = text_of(tidy(block, None))[:-1].split("\n") if block else []
    kept = Sieve(ask.search, ask.context).keep(lines) if ask.search else lines
    parted = (line.partition(" ") for line in kept)
    return [LogLine(at, pod.name, container, text) for at, _, text in parted]


def _told(pod: PodLogs, name: str, problem: problems.Problem | None) -> LogContainer:
    container = pod.container(name)
    state = container.state if container else "waiting"
    why = None if container is None else container.ending if state == "ended" else container.why
    return LogContainer(pod.name, name, state, why, problem.detail if problem else None)


def _pieces(kube: KubeCluster, wanted: list[tuple[PodLogs, str]], query: LogQuery, ask: LogsAsk) -> Iterator[str]:
    for pod, container in wanted:
        sieve = Sieve(ask.search, ask.context) if ask.search else None
        if len(wanted) > 1:
            yield f"==> {pod.name}/{container} <==\n"
        try:
            for block in _blocks(kube.log_stream(pod.name, pod.namespace, replace(query, container=container))):
                lines = text_of(tidy(block, None))
                kept = lines if sieve is None else "".join(f"{line}\n" for line in sieve.keep(lines[:-1].split("\n")))
                if kept:
                    yield kept
        except problems.Problem as problem:  # the answer has begun: what is missing is said in its place
            yield f"[not read: {problem.detail}]\n"


def _blocks(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Whole lines."""
    rest = b""
    for piece in pieces:
        block = rest + piece
        end = block.rfind(b"\n") + 1
        rest = block[end:]
        if end:
            yield block[:end]
    if rest:
        yield rest + b"\n"
