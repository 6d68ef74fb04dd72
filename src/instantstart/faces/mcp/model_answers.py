"""What a model of the cluster said, for the model that asked: all of it is foreign text, and bounded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_MOST = 4000
_FIGURES = (
    "served", "model", "replica", "path", "status", "ok", "truncated", "latency_ms", "first_token_ms", "prompt_tokens", "completion_tokens",
    "tokens_per_second", "finish_reason",
)  # fmt: skip
_WORDS = ("error", "text", "reasoning")


def told(document: Mapping[str, Any]) -> dict[str, Any]:
    """The figures as they are; the words marked, in lines short enough not to be cut again."""
    kept = {name: document.get(name) for name in _FIGURES if document.get(name) is not None}
    words = {f"untrusted_{name}": _lines(str(document[name])) for name in _WORDS if document.get(name)}
    answer = document.get("answer")
    if answer is not None and not document.get("text"):
        words["untrusted_answer"] = _lines(json.dumps(answer, ensure_ascii=False))
    return {**kept, **words}


def _lines(text: str) -> list[str]:
    """A long text as a list: single strings are cut at a few hundred characters on their way."""
    cut = text[:_MOST]
    lines = [cut[at : at + 380] for at in range(0, len(cut), 380)]
    return [*lines, f"(and {len(text) - _MOST} characters more)"] if len(text) > _MOST else lines
