"""Whether a server of models really answers: one token asked for, through the API server's proxy. "Ready" means this, not a probe.

Both paths ask the same way. Nothing here takes an address: only a Service or a pod of the cluster. OpenAI's shapes, as vLLM and SGLang
serve them: the model as ``/v1/models`` calls it; a chat, else a completion (models without a chat template), else an embedding.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from instantstart.base import problems
from instantstart.ensure.inference.serving import EngineName
from instantstart.kube.client import Answer, Door, KubeCluster

_READ_SECONDS = 60.0
_MOST_TOLD = 300
#: path, and what is asked there beside the model; the first that the server knows and takes is its kind
_ASKS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("v1/chat/completions", {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 1}),
    ("v1/completions", {"prompt": "Hello", "max_tokens": 1}),
    ("v1/embeddings", {"input": "Hello"}),
)
#: it is not this kind of model, or has no such path: the next is asked
_NOT_THIS = frozenset({400, 404, 405, 422, 501})


@dataclass(frozen=True)
class FirstAnswer:
    """A server that answered: what it calls its model, where it was asked, how long it took. ``model`` None: it is no OpenAI server."""

    model: str | None
    path: str
    milliseconds: int


@dataclass(frozen=True)
class NoAnswer:
    """It did not answer (yet). ``why`` is one sentence; ``untrusted`` is what the server itself said."""

    why: str
    untrusted: str | None = None
    #: it serves, and asks for a key that the API server's proxy does not carry: nobody without the key can know more
    wants_key: bool = False


def ask(kube: KubeCluster, door: Door, engine: EngineName, health: str | None) -> FirstAnswer | NoAnswer:
    """Ask once. Raises only what passes (the cluster cannot be reached now)."""
    try:
        if engine == "custom":
            return _of_custom(kube, door, health)
        model = _model(kube, door)
        return model if isinstance(model, NoAnswer) else _first(kube, door, model)
    except (problems.Busy, problems.Unreachable) as problem:
        return NoAnswer(f"Nothing answers behind {door.kind} {door.namespace}/{door.name}: {problem.detail}")


def _of_custom(kube: KubeCluster, door: Door, health: str | None) -> FirstAnswer | NoAnswer:
    """A container of unknown kind: an OpenAI server when it lists models, else it need only answer at its health path."""
    model = _model(kube, door)
    if not isinstance(model, NoAnswer):
        return _first(kube, door, model)
    began = time.monotonic()
    path = health or "/"
    answer = kube.proxy(door, path, read_seconds=_READ_SECONDS)
    if answer.status >= 500 or (health and answer.status >= 400):
        return _refused(path, answer)
    return FirstAnswer(None, path, _since(began))


def _model(kube: KubeCluster, door: Door) -> str | NoAnswer:
    answer = kube.proxy(door, "v1/models", read_seconds=_READ_SECONDS)
    if answer.status in (401, 403):
        return NoAnswer("The server wants a key, which the API server's proxy cannot carry.", _said(answer), wants_key=True)
    if answer.status >= 400:
        return _refused("v1/models", answer)
    listed = _json(answer).get("data")
    named = [str(m["id"]) for m in listed if isinstance(m, Mapping) and m.get("id")] if isinstance(listed, list) else []
    return named[0] if named else NoAnswer("The server lists no model at v1/models.", _said(answer))


def _first(kube: KubeCluster, door: Door, model: str) -> FirstAnswer | NoAnswer:
    last = NoAnswer("The server was asked nothing.")
    for path, body in _ASKS:
        began = time.monotonic()
        answer = kube.proxy(door, path, method="POST", body={"model": model, **body}, read_seconds=_READ_SECONDS)
        if answer.status < 400 and _is_answer(_json(answer)):
            return FirstAnswer(model, path, _since(began))
        last = _refused(path, answer)
        if answer.status not in _NOT_THIS:
            return last
    return last


def _is_answer(told: Mapping[str, Any]) -> bool:
    """A choice, or an embedding."""
    return bool(told.get("choices") or told.get("data"))


def _refused(path: str, answer: Answer) -> NoAnswer:
    return NoAnswer(f"The server answers {path} with status {answer.status}.", _said(answer))


def _said(answer: Answer) -> str:
    return " ".join(answer.body.decode("utf-8", "replace").split())[:_MOST_TOLD]


def _json(answer: Answer) -> dict[str, Any]:
    try:
        told = json.loads(answer.body)
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def _since(began: float) -> int:
    return round((time.monotonic() - began) * 1000)
