"""The OpenAI-compatible API: models, chat, completions, embeddings; whole or as a stream of events."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

from . import words
from .engine import Usage, Wish
from .service import RefusedError, Route, Service, event, event_stream, new_id
from .web import Request, Response, answer_json

_MOST_CHOICES = 16


async def models(service: Service, _: Request) -> Response:
    """``GET /v1/models``."""
    model, facts = service.engine.model, service.facts
    owner = "sglang" if facts.kind == "sglang" else "vllm"
    common = {"object": "model", "created": facts.began, "owned_by": owner, "root": model.name, "max_model_len": model.context}
    return answer_json({"object": "list", "data": [{"id": name, **common, "parent": None, "permission": []} for name in facts.names]})


def _limit(body: dict[str, Any], *names: str) -> int | None:
    for name in names:
        value = body.get(name)
        if value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool):
            raise RefusedError(
                400, f"[{{'type': 'int_parsing', 'loc': ('body', '{name}'), 'msg': 'Input should be a valid integer'}}]", name
            )
        return value
    return None


def _stops(body: dict[str, Any]) -> tuple[str, ...]:
    found = body.get("stop") or ()
    return (found,) if isinstance(found, str) else tuple(map(str, found))


def _choices(body: dict[str, Any]) -> int:
    count = body.get("n") or 1
    if not isinstance(count, int) or not 1 <= count <= _MOST_CHOICES:
        raise RefusedError(400, f"n must be an int from 1 to {_MOST_CHOICES}, got {count}.", "n")
    temperature = body.get("temperature")
    if temperature is not None and (not isinstance(temperature, int | float) or temperature < 0):
        raise RefusedError(400, f"temperature must be non-negative, got {temperature}.", "temperature")
    return count


def _said(body: dict[str, Any], question: str) -> str | None:
    wanted = body.get("response_format") or {}
    if wanted.get("type") == "json_schema":
        return words.json_answer((wanted.get("json_schema") or {}).get("schema"), question)
    if wanted.get("type") == "json_object":
        return words.json_answer(None, question)
    schema = body.get("guided_json")
    return words.json_answer(schema, question) if isinstance(schema, dict) else None


def _question(messages: list[Any]) -> str:
    asked = [words.content(m.get("content")) for m in messages if isinstance(m, dict) and m.get("role") == "user"]
    return asked[-1] if asked else words.content(messages[-1].get("content") if isinstance(messages[-1], dict) else messages[-1])


async def chat(service: Service, request: Request) -> Response:
    """``POST /v1/chat/completions``."""
    body = service.body(request)
    model, messages = service.check_model(body), body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise RefusedError(400, "[{'type': 'missing', 'loc': ('body', 'messages'), 'msg': 'Field required'}]", "messages")
    if service.engine.model.embedding:
        raise RefusedError(400, "The model does not support Chat Completions API")
    question = _question(messages)
    prompt = words.prompt_of(messages)
    limit, count = _limit(body, "max_completion_tokens", "max_tokens"), _choices(body)
    wishes = [_wish(body, prompt, question, number) for number in range(count)]
    return await _answer(service, request, body, _Shape("chat.completion", "chatcmpl", model, True), wishes, limit)


async def completions(service: Service, request: Request) -> Response:
    """``POST /v1/completions``."""
    body = service.body(request)
    model, given = service.check_model(body), body.get("prompt")
    prompts = [given] if isinstance(given, str) or (isinstance(given, list) and given and isinstance(given[0], int)) else given
    if not isinstance(prompts, list) or not prompts:
        raise RefusedError(400, "[{'type': 'missing', 'loc': ('body', 'prompt'), 'msg': 'Field required'}]", "prompt")
    if service.engine.model.embedding:
        raise RefusedError(400, "The model does not support Completions API")
    limit, count = _limit(body, "max_tokens"), _choices(body)
    texts = [p if isinstance(p, str) else " ".join(map(str, p)) for p in prompts]
    wishes = [_wish(body, text, text, number) for text in texts for number in range(count)]
    return await _answer(service, request, body, _Shape("text_completion", "cmpl", model, False), wishes, 16 if limit is None else limit)


def _wish(body: dict[str, Any], prompt: str, question: str, number: int) -> Wish:
    asked = question if number == 0 else f"{question} ({number + 1})"
    return Wish(prompt, asked, None, _stops(body), _said(body, question), bool(body.get("ignore_eos")))


class _Shape:
    """How an answer of chat or of completions looks."""

    def __init__(self, kind: str, prefix: str, model: str, chat: bool) -> None:
        self.kind, self.model, self.chat = kind, model, chat
        self.id, self.created = new_id(prefix), int(time.time())

    def whole(self, choices: list[dict[str, Any]], usage: dict[str, Any]) -> dict[str, Any]:
        """The whole answer."""
        head = {"id": self.id, "object": self.kind, "created": self.created, "model": self.model}
        return {**head, "choices": choices, "system_fingerprint": None, "usage": usage}

    def choice(self, index: int, text: str, finish: str) -> dict[str, Any]:
        """One choice of it."""
        rest = {"logprobs": None, "finish_reason": finish, "stop_reason": None}
        if not self.chat:
            return {"index": index, "text": text, **rest}
        return {"index": index, "message": {"role": "assistant", "content": text, "tool_calls": []}, **rest}

    def chunk(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        """One event."""
        kind = "chat.completion.chunk" if self.chat else self.kind
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model, "choices": choices}

    def delta(self, index: int, text: str, finish: str | None, role: bool = False) -> dict[str, Any]:
        """One choice of an event."""
        if not self.chat:
            return {"index": index, "text": text, "logprobs": None, "finish_reason": finish}
        delta = {"role": "assistant", "content": ""} if role else {"content": text}
        return {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish}


async def _answer(
    service: Service, request: Request, body: dict[str, Any], shape: _Shape, wishes: list[Wish], limit: int | None
) -> Response:
    counted = [service.admit(wish, limit) for wish in wishes]
    spoilt = service.wishes(request)
    if body.get("stream"):
        return event_stream(_events(service, body, shape, list(zip(wishes, counted, strict=True)), spoilt))
    choices = []
    for index, (wish, usage) in enumerate(zip(wishes, counted, strict=True)):
        text, finish = [], "stop"
        async for piece in service.engine.generate(wish, usage, spoilt):
            text.append(piece.text)
            finish = piece.finish or finish
        choices.append(shape.choice(index, "".join(text), finish))
    return answer_json(shape.whole(choices, service.usage(counted)))


async def _events(
    service: Service, body: dict[str, Any], shape: _Shape, wishes: list[tuple[Wish, Usage]], spoilt: Any
) -> AsyncIterator[bytes]:
    options = body.get("stream_options") or {}
    for index, (wish, usage) in enumerate(wishes):
        if shape.chat:
            yield event(shape.chunk([shape.delta(index, "", None, role=True)]))
        async for piece in service.engine.generate(wish, usage, spoilt):
            chunk = shape.chunk([shape.delta(index, piece.text, piece.finish)])
            if options.get("continuous_usage_stats"):
                chunk["usage"] = service.usage([usage])
            yield event(chunk)
    if options.get("include_usage"):
        yield event({**shape.chunk([]), "usage": service.usage([u for _, u in wishes])})
    yield event("[DONE]")


async def embeddings(service: Service, request: Request) -> Response:
    """``POST /v1/embeddings``."""
    body = service.body(request)
    model, given = service.check_model(body), body.get("input")
    if not service.engine.model.embedding:
        raise RefusedError(400, "The model does not support Embeddings API")
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list) or not texts:
        raise RefusedError(400, "[{'type': 'missing', 'loc': ('body', 'input'), 'msg': 'Field required'}]", "input")
    service.wishes(request)
    size = _limit(body, "dimensions") or 64
    data = [{"object": "embedding", "index": i, "embedding": words.embedding(str(t), size)} for i, t in enumerate(texts)]
    prompt = sum(service.engine.count(Wish(str(t), str(t))).prompt for t in texts)
    service.engine.gauges.prompt_tokens += prompt
    usage = {"prompt_tokens": prompt, "total_tokens": prompt, "completion_tokens": 0, "prompt_tokens_details": None}
    return answer_json({"id": new_id("embd"), "object": "list", "created": int(time.time()), "model": model, "data": data, "usage": usage})


ROUTES: dict[tuple[str, str], Route] = {
    ("GET", "/v1/models"): models,
    ("POST", "/v1/chat/completions"): chat,
    ("POST", "/v1/completions"): completions,
    ("POST", "/v1/embeddings"): embeddings,
}
