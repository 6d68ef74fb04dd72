"""What is not OpenAI's: health, versions, metrics, SGLang's ``/generate``, SageMaker's ``/ping`` and ``/invocations``, LMI's ``inputs``."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from . import gauges, openai, sglang, words
from .engine import Usage, Wish
from .service import RefusedError, Route, Service, event, event_stream, health, new_id, spoil
from .web import Request, Response, answer_json, answer_text

_METRICS_KIND = "text/plain; version=0.0.4; charset=utf-8"


async def _version(service: Service, _: Request) -> Response:
    return answer_json({"version": service.facts.version})


async def _metrics(service: Service, _: Request) -> Response:
    if not service.facts.metrics:
        return answer_json({"detail": "Not Found"}, 404) if service.facts.kind == "sglang" else answer_text("", kind=_METRICS_KIND)
    page = gauges.sglang_page if service.facts.kind == "sglang" else gauges.vllm_page
    return answer_text(page(service.facts.names[0], service.engine.gauges), kind=_METRICS_KIND)


async def _tokenize(service: Service, request: Request) -> Response:
    body = service.body(request)
    text = words.prompt_of(body["messages"]) if body.get("messages") else str(body.get("prompt", ""))
    count = len(words.tokens(text))
    return answer_json({"count": count, "max_model_len": service.engine.model.context, "tokens": list(range(count)), "token_strs": None})


async def _load(service: Service, _: Request) -> Response:
    return answer_json({"server_load": service.engine.gauges.running + service.engine.gauges.waiting})


async def _ping(service: Service, request: Request) -> Response:
    return await health(service, request)


async def _invocations(service: Service, request: Request) -> Response:
    """SageMaker's one path: the document says what it is."""
    body = service.body(request)
    if "messages" in body:
        return await openai.chat(service, request)
    if "prompt" in body:
        return await openai.completions(service, request)
    if "input" in body:
        return await openai.embeddings(service, request)
    if "inputs" in body:
        return await _inputs(service, request, body)
    raise RefusedError(400, "Cannot find suitable handler for request. Expected one of: messages, prompt, input")


async def _inputs(service: Service, request: Request, body: dict[str, Any]) -> Response:
    """LMI's and TGI's own document."""
    asked, parameters = str(body["inputs"]), body.get("parameters") or {}
    wish = Wish(asked, asked)
    usage = service.admit(wish, int(parameters.get("max_new_tokens", 30)))
    text = "".join([p.text async for p in service.engine.generate(wish, usage, service.wishes(request))])
    return answer_json({"generated_text": (asked if parameters.get("return_full_text") else "") + text})


# ---------------------------------------------------------------------- SGLang


async def _generate(service: Service, request: Request) -> Response:
    """``POST /generate``."""
    body = service.body(request)
    text, sampling = body.get("text"), body.get("sampling_params") or {}
    if text is None and body.get("input_ids") is None:
        raise RefusedError(400, "Either text, input_ids or input_embeds should be provided.")
    asked = text if isinstance(text, str) else " ".join(map(str, text or body["input_ids"]))
    stop = sampling.get("stop") or ()
    wish = Wish(asked, asked, None, (stop,) if isinstance(stop, str) else tuple(stop), None, bool(sampling.get("ignore_eos")))
    usage, spoilt = service.admit(wish, int(sampling.get("max_new_tokens", 128))), service.wishes(request)
    if body.get("stream"):
        return event_stream(_generated(service, wish, usage, spoilt))
    began, pieces, finish = service.engine.moments.now(), [], "length"
    async for piece in service.engine.generate(wish, usage, spoilt):
        pieces.append(piece.text)
        finish = piece.finish or finish
    spent = service.engine.moments.now() - began
    return answer_json({"text": "".join(pieces), "meta_info": _meta(new_id("gen"), usage, finish, spent)})


async def _generated(service: Service, wish: Wish, usage: Usage, spoilt: Any) -> AsyncIterator[bytes]:
    name, began, said = new_id("gen"), service.engine.moments.now(), ""
    async for piece in service.engine.generate(wish, usage, spoilt):
        said += piece.text
        yield event({"text": said, "meta_info": _meta(name, usage, piece.finish, service.engine.moments.now() - began)})
    yield event("[DONE]")


def _meta(name: str, usage: Usage, finish: str | None, spent: float) -> dict[str, Any]:
    ending: dict[str, Any] | None = None
    if finish == "length":
        ending = {"type": "length", "length": usage.completion}
    elif finish is not None:
        ending = {"type": "stop", "matched": 2}
    return {
        "id": name.removeprefix("gen-"),
        "finish_reason": ending,
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "cached_tokens": usage.cached,
        "e2e_latency": spent,
        "weight_version": "default",
    }


async def _model_info(service: Service, _: Request) -> Response:
    model = service.engine.model
    found = {"model_path": model.name, "tokenizer_path": model.name, "is_generation": not model.embedding}
    return answer_json({**found, "preferred_sampling_params": None, "weight_version": "default"})


async def _server_info(service: Service, _: Request) -> Response:
    g = service.engine.gauges
    state = [{"last_gen_throughput": g.throughput, "memory_usage": {"kvcache": 0, "token_capacity": g.cache_tokens}}]
    found = {"model_path": service.engine.model.name, "served_model_name": service.facts.names[0]}
    return answer_json({**found, "internal_states": state, "version": sglang.VERSION})


async def _flush(service: Service, _: Request) -> Response:
    service.engine._prefixes.clear()
    return answer_text("Cache flushed.\nPlease check backend logs for more details.\n")


async def _live_generate(service: Service, request: Request) -> Response:
    wish = Wish("health", "health")
    usage = service.admit(wish, 1)
    async for _ in service.engine.generate(wish, usage, service.spoilt):
        pass
    return await health(service, request)


_COMMON: dict[tuple[str, str], Route] = {
    **openai.ROUTES,
    ("GET", "/health"): health,
    ("GET", "/ping"): _ping,
    ("POST", "/ping"): _ping,
    ("POST", "/invocations"): _invocations,
    ("GET", "/metrics"): _metrics,
    ("POST", "/_sandbox/serving"): spoil,
}
VLLM: dict[tuple[str, str], Route] = {
    **_COMMON,
    ("GET", "/version"): _version,
    ("GET", "/load"): _load,
    ("POST", "/tokenize"): _tokenize,
}
SGLANG: dict[tuple[str, str], Route] = {
    **_COMMON,
    ("GET", "/health_generate"): _live_generate,
    ("GET", "/get_model_info"): _model_info,
    ("GET", "/model_info"): _model_info,
    ("GET", "/get_server_info"): _server_info,
    ("GET", "/server_info"): _server_info,
    ("POST", "/generate"): _generate,
    ("POST", "/flush_cache"): _flush,
}
