"""Reading a model's answer as it comes: its text, its tokens, and how fast they were. Pure, fed with bytes and seconds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_LINE_LIMIT = 4 * 1024 * 1024


@dataclass(frozen=True)
class Figures:
    """How it went. Tokens are those that the server counted; ``tokens_per_second`` counts from the first token to the last."""

    latency_ms: int
    first_token_ms: int | None
    prompt_tokens: int | None
    completion_tokens: int | None
    tokens_per_second: float | None
    finish_reason: str | None


@dataclass
class Reader:
    """Fed with an event stream of OpenAI's shape."""

    text: str = ""
    reasoning: str = ""
    error: Any = None
    first_at: float | None = None
    last_at: float = 0.0
    pieces: int = 0
    usage: dict[str, Any] = field(default_factory=dict)
    finish_reason: str | None = None
    _rest: bytes = b""

    def feed(self, chunk: bytes, seconds: float) -> None:
        """More bytes, ``seconds`` after the question was sent."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        self._rest = self._rest[-_LINE_LIMIT:]
        for line in lines:
            if line.startswith(b"data:"):
                self._event(line[5:].strip(), seconds)

    def _event(self, data: bytes, seconds: float) -> None:
        if data == b"[DONE]":
            return
        try:
            told = json.loads(data)
        except ValueError:
            return
        if not isinstance(told, Mapping):
            return
        if told.get("error") is not None:
            self.error = told["error"]
        self.usage = dict(told.get("usage") or self.usage)
        for choice in told.get("choices") or ():
            if isinstance(choice, Mapping):
                self._choice(choice, seconds)

    def _choice(self, choice: Mapping[str, Any], seconds: float) -> None:
        delta = choice.get("delta") or {}
        words = delta.get("content") or choice.get("text") or ""
        thought = delta.get("reasoning_content") or delta.get("reasoning") or ""
        self.finish_reason = choice.get("finish_reason") or self.finish_reason
        if words or thought or delta.get("tool_calls"):
            self.first_at = seconds if self.first_at is None else self.first_at
            self.last_at = seconds
            self.pieces += 1
        self.text += str(words)
        self.reasoning += str(thought)

    def figures(self, seconds: float) -> Figures:
        """How it went, at its end."""
        tokens = self.usage.get("completion_tokens")
        counted = tokens if isinstance(tokens, int) else self.pieces or None
        between = self.last_at - (self.first_at or 0.0)
        rate = (counted - 1) / between if counted and counted > 1 and self.first_at is not None and between > 0 else None
        return Figures(
            latency_ms=round(seconds * 1000),
            first_token_ms=None if self.first_at is None else round(self.first_at * 1000),
            prompt_tokens=_whole(self.usage.get("prompt_tokens")),
            completion_tokens=counted,
            tokens_per_second=None if rate is None else round(rate, 2),
            finish_reason=self.finish_reason,
        )


def whole(told: Any, seconds: float) -> Figures:
    """The figures of an answer that came at once."""
    usage = told.get("usage") if isinstance(told, Mapping) else None
    usage = usage if isinstance(usage, Mapping) else {}
    tokens = _whole(usage.get("completion_tokens"))
    rate = round(tokens / seconds, 2) if tokens and seconds > 0 else None
    return Figures(round(seconds * 1000), None, _whole(usage.get("prompt_tokens")), tokens, rate, _finish(told))


def text_of(told: Any) -> str | None:
    """The words of an answer that came at once; None when it has none (embeddings, another shape)."""
    choices = told.get("choices") if isinstance(told, Mapping) else None
    first = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], Mapping) else None
    if first is None:
        return None
    message = first.get("message") if isinstance(first.get("message"), Mapping) else {}
    words = (message or {}).get("content") or first.get("text")
    return str(words) if words is not None else None


def error_of(status: int, told: Any, raw: str) -> str | None:
    """What the model says is wrong; None when nothing is."""
    error = told.get("error") if isinstance(told, Mapping) else None
    if isinstance(error, Mapping):
        error = error.get("message") or error.get("type")
    if status < 400 and error is None:
        return None
    said = error or (told.get("message") or told.get("detail") if isinstance(told, Mapping) else None) or raw
    return str(said)[:1000] or f"The server answers with status {status} and says nothing."


def _finish(told: Any) -> str | None:
    choices = told.get("choices") if isinstance(told, Mapping) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    return first.get("finish_reason") if isinstance(first, Mapping) else None


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) else None
