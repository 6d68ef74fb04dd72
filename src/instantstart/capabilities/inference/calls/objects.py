"""The request that a call is, as the server takes it, and as a person would send it with curl. Pure."""

from __future__ import annotations

import json
import shlex
from typing import Any

from instantstart.capabilities.inference.calls import specs

PATHS = {"chat": "v1/chat/completions", "completions": "v1/completions", "embeddings": "v1/embeddings"}
#: apis whose answer comes word by word
STREAMED = frozenset({"chat", "completions"})


def path_of(ask: specs.CallModel) -> str:
    """Where it is asked."""
    return ask.path or "" if ask.api == "json" else PATHS[ask.api]


def body_of(ask: specs.CallModel, model: str | None, stream: bool) -> dict[str, Any] | None:
    """What is sent; None for a GET."""
    if ask.api == "json":
        return dict(ask.body or {}) if ask.method == "POST" else None
    named = {"model": ask.model or model} if ask.model or model else {}
    made: dict[str, Any] = {**named, **_text(ask)}
    if ask.api in STREAMED:
        made["max_tokens"] = ask.max_tokens
        made |= {"temperature": ask.temperature} if ask.temperature is not None else {}
        made |= {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
    return {**made, **(ask.body or {})}


def _text(ask: specs.CallModel) -> dict[str, Any]:
    if ask.api == "completions":
        return {"prompt": ask.prompt}
    if ask.api == "embeddings":
        return {"input": ask.inputs if ask.inputs is not None else ask.prompt}
    told = [m.model_dump() for m in ask.messages] if ask.messages is not None else [{"role": "user", "content": ask.prompt}]
    first = [{"role": "system", "content": ask.system}] if ask.system is not None else []
    return {"messages": [*first, *told]}


def curl(base: str, path: str, body: dict[str, Any] | None, before: str | None = None) -> str:
    """The same request by hand; every word quoted for the shell. ``before``: a line that opens the way."""
    words = ["curl", "-sS", f"{base.rstrip('/')}/{path}"]
    if body is not None:
        words += ["-H", "Content-Type: application/json", "-d", json.dumps(body, ensure_ascii=False)]
    line = " ".join(shlex.quote(word) for word in words)
    return f"{before}\n{line}" if before else line
