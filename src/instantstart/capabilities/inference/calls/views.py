"""Asking a served model: which replica, how, and what came back. What the model says and what the way says are kept apart."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from instantstart.base import problems, trees
from instantstart.capabilities.inference.calls import judging, objects, rules, specs
from instantstart.capabilities.inference.calls.judging import Figures, Reader
from instantstart.capabilities.room import Room
from instantstart.ensure import sites
from instantstart.ensure.inference import endpoints, served, serving, serving_trouble
from instantstart.ensure.inference.served import Served
from instantstart.ensure.sites import Site
from instantstart.kube.client import Door, KubeCluster
from instantstart.kube.proxying import Flow, Passage, flow

#: bytes of an answer that are read; what is longer is cut off
MOST_BYTES = 1024 * 1024
_MOST_DOORS = 3
_RAW = 4000
#: a tool of an agent must answer within 50 seconds: 10 for the model's name, and twice this for its answer
AGENT_SECONDS = 20
#: a replica that went away since it was found: another is asked
NOBODY_THERE = frozenset({"model.not_reached", "kubernetes.not_found"})


@dataclass(frozen=True)
class Call:
    """A call made ready: to which replicas (the next when one is not reached), with what."""

    kube: KubeCluster
    served: Served
    doors: tuple[Door, ...]
    path: str
    method: str
    body: Mapping[str, Any] | None
    model: str | None
    streams: bool
    silence_seconds: float
    curl: str

    def passage(self, door: Door) -> Passage:
        """The request through one door."""
        sent = None if self.body is None else json.dumps(self.body, ensure_ascii=False).encode()
        return Passage(door, self.path, self.method, sent, self.silence_seconds)


@dataclass(frozen=True)
class CallResult:
    """What a model answered. ``ok`` False: the model itself refused, ``error`` says why; the text is untrusted.

    ``latency_ms`` counts from the question to the end of the answer, ``first_token_ms`` to its first token.
    """

    model: str | None
    served: str
    replica: str
    path: str
    status: int
    ok: bool
    error: str | None
    text: str | None
    reasoning: str | None
    #: the answer whole, where it did not come as a stream
    answer: Any
    truncated: bool
    latency_ms: int
    first_token_ms: int | None
    prompt_tokens: int | None
    completion_tokens: int | None
    tokens_per_second: float | None
    finish_reason: str | None
    curl: str


def prepare(room: Room, tag: str, place: tuple[str, str], ask: specs.CallModel, stream: bool = True) -> Call:
    """Find what is asked, and its ready replicas. Raises Invalid, NotFound, or Busy when no replica is ready."""
    rules.check(ask)
    where = sites.find(room, tag)
    kube = where.kube(room)
    found = served.find(kube, *place)
    doors = tuple(served.doors(kube, found))[:_MOST_DOORS]
    if not doors:
        raise _nobody(room, where, found)
    model = ask.model
    if model is None and ask.api != "json":
        model = _listed(kube, doors)
    streams = stream and ask.api in objects.STREAMED
    body, path = objects.body_of(ask, model, streams), objects.path_of(ask)
    shown = objects.body_of(ask, model, False)
    return Call(
        kube=kube,
        served=found,
        doors=doors,
        path=path,
        method=ask.method,
        body=body,
        model=model,
        streams=streams,
        silence_seconds=float(ask.timeout_seconds),
        curl=_curl(kube, found, path, shown),
    )


def call(room: Room, tag: str, place: tuple[str, str], ask: specs.CallModel, face: str = "") -> CallResult:
    """Ask, and wait for the whole answer, within bounds. Raises Problems for the way only."""
    if face == "mcp":
        ask = ask.model_copy(update={"timeout_seconds": min(ask.timeout_seconds, AGENT_SECONDS)})
    prepared = prepare(room, tag, place, ask)
    if not room.meters.calls.acquire(blocking=False):
        busy = problems.Busy("model_call.too_many", "As many models are being asked as this server waits for at once.")
        busy.retry_after_seconds = 2
        raise busy
    try:
        return _ask(prepared)
    finally:
        room.meters.calls.release()


def _ask(call: Call) -> CallResult:
    began = time.monotonic()
    with _through(call) as (door, answer):
        reader, raw, truncated = Reader(), b"", False
        streamed = "text/event-stream" in answer.content_type
        for chunk in answer.chunks:
            seconds = time.monotonic() - began
            reader.feed(chunk, seconds) if streamed else None
            raw += chunk
            truncated = len(raw) > MOST_BYTES or seconds > call.silence_seconds
            if truncated:
                break
        seconds = time.monotonic() - began
    if streamed:
        return _streamed(call, door, answer.status, reader, truncated, seconds)
    return _at_once(call, door, answer.status, raw[:MOST_BYTES], truncated, seconds)


@contextmanager
def _through(call: Call) -> Iterator[tuple[Door, Flow]]:
    """Through the first door that leads to somebody."""
    *others, last = call.doors
    for door in others:
        opened = flow(call.kube, call.passage(door))
        try:
            answer = opened.__enter__()
        except (problems.Busy, problems.NotFound) as problem:
            if problem.code not in NOBODY_THERE:
                raise
            continue
        try:
            yield door, answer
        finally:
            opened.__exit__(None, None, None)
        return
    with flow(call.kube, call.passage(last)) as answer:
        yield last, answer


def _streamed(call: Call, door: Door, status: int, reader: Reader, truncated: bool, seconds: float) -> CallResult:
    error = judging.error_of(status, {"error": reader.error}, reader.text)
    return _result(call, door, status, error, reader.figures(seconds), (reader.text, reader.reasoning or None, None, truncated))


def _at_once(call: Call, door: Door, status: int, raw: bytes, truncated: bool, seconds: float) -> CallResult:
    told, error = read(status, raw)
    words = judging.text_of(told) if not isinstance(told, str) else told
    return _result(call, door, status, error, judging.whole(told, seconds), (words, None, told, truncated))


def read(status: int, raw: bytes) -> tuple[Any, str | None]:
    """An answer that came at once (its JSON, else its text, cut), and what is wrong by the model's own word."""
    text = raw.decode("utf-8", "replace")
    try:
        told = json.loads(text)
    except ValueError:
        told = text[:_RAW]
    return told, judging.error_of(status, told, text)


def _result(
    call: Call, door: Door, status: int, error: str | None, figures: Figures, said: tuple[str | None, str | None, Any, bool]
) -> CallResult:
    return CallResult(
        model=call.model,
        served=call.served.reference,
        replica=door.name,
        path=call.path,
        status=status,
        ok=error is None,
        error=error,
        text=said[0],
        reasoning=said[1],
        answer=said[2],
        truncated=said[3],
        latency_ms=figures.latency_ms,
        first_token_ms=figures.first_token_ms,
        prompt_tokens=figures.prompt_tokens,
        completion_tokens=figures.completion_tokens,
        tokens_per_second=figures.tokens_per_second,
        finish_reason=figures.finish_reason,
        curl=call.curl,
    )


def _listed(kube: KubeCluster, doors: tuple[Door, ...]) -> str | None:
    """The first model that the server lists; None when it lists none: then the request says none."""
    for door in doors:
        try:
            answer = kube.proxy(door, "v1/models", read_seconds=10.0)
            told = json.loads(answer.body) if answer.status < 400 else {}
        except (problems.Busy, problems.NotFound, ValueError):
            continue
        data = told.get("data") if isinstance(told, Mapping) else None
        named = [m.get("id") for m in data or () if isinstance(m, Mapping)]
        return str(named[0]) if named and named[0] else None
    return None


def _nobody(room: Room, where: Site, found: Served) -> problems.Busy:
    why = serving_trouble.explain(room, where, found.workload, served.pods(where.kube(room), found)) if found.workload else None
    none = "It is scaled to 0 replicas." if found.workload and not found.wanted else "None of its pods is ready."
    told = why.text if why else none
    problem = problems.Busy(
        "model.no_replica",
        f"No replica of {found.reference} can be asked: {told}",
        hint=(why.next_step if why else "") or "Wait until one is ready, or look at it.",
        evidence={"served": found.reference, "ready": found.ready, "wanted": found.wanted},
    )
    problem.retry_after_seconds = 10
    return problem


def _curl(kube: KubeCluster, found: Served, path: str, body: Mapping[str, Any] | None) -> str:
    """The same by hand: by the load balancer where there is one, else through a forwarded port."""
    sent = None if body is None else dict(body)
    host = _balancer(kube, found)
    if host:
        return objects.curl(host, path, sent)
    kind = "service" if found.kind == "Service" else "deployment"
    name = found.workload["metadata"]["name"] if found.workload else found.name
    forward = f"kubectl port-forward -n {found.namespace} {kind}/{name} {found.port}:{found.port} &"
    return objects.curl(f"http://localhost:{found.port}", path, sent, forward)


def _balancer(kube: KubeCluster, found: Served) -> str | None:
    if found.path == "managed":
        address = endpoints.hostname(endpoints.balancer(kube, found.owner))
        return f"https://{address}" if address else None
    labels = serving.selector(name=found.name) if found.path == "self_managed" else None
    for service in kube.list("Service", found.namespace, labels=labels) if labels else ():
        told = trees.get(service, "status.loadBalancer.ingress") or []
        port = (trees.get(service, "spec.ports") or [{}])[0].get("port")
        if told and told[0].get("hostname"):
            return f"http://{told[0]['hostname']}:{port}"
    return None
