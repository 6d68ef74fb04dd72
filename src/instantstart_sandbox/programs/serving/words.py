"""What the model says: tokens that are pieces of words, and answers made of the question, the same ones each time."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator
from typing import Any

_PIECE = re.compile(r"\s?\w{1,5}|\s?[^\w\s]|\s")
_WIDTH = 64
_FILLER = (
    "It is answered by the sandbox's own small server, which runs no model.",
    "The same question gets the same answer, word for word.",
    "Its tokens are pieces of words, so that the counts of usage are real counts.",
    "The queue, the cache and the timing behind it are kept as the real server keeps them.",
    "Ask for more tokens and it goes on; ask for fewer and it stops in the middle.",
)


def tokens(text: str) -> list[str]:
    """The pieces of a text; joined they are the text again."""
    return _PIECE.findall(text)


def content(value: Any) -> str:
    """The text of a chat message's content: a string, or the text parts of a list."""
    if isinstance(value, str):
        return value
    parts = value if isinstance(value, list) else []
    return " ".join(str(p.get("text", f"[{p.get('type', 'part')}]")) if isinstance(p, dict) else str(p) for p in parts)


def prompt_of(messages: list[Any]) -> str:
    """A conversation as one prompt, in the way of a chat template."""
    said = [f"<|{m.get('role', 'user')}|>\n{content(m.get('content'))}" for m in messages if isinstance(m, dict)]
    return "\n".join([*said, "<|assistant|>\n"])


def answer(model: str, question: str) -> Iterator[str]:
    """The pieces of an answer without an end: how far it goes is the caller's affair."""
    asked = " ".join(question.split())
    shown = asked if len(asked) <= 200 else f"{asked[:200]}…"
    yield from tokens(f"{model} was asked: “{shown}”.")
    turn = int(hashlib.sha256(asked.encode()).hexdigest(), 16)
    while True:
        yield from tokens(f" {_FILLER[turn % len(_FILLER)]}")
        turn += 1


def natural_length(question: str) -> int:
    """How many pieces the answer has when nobody sets a limit: from 24 to 120."""
    return 24 + int(hashlib.sha256(question.encode()).hexdigest(), 16) % 97


def json_answer(schema: Any, question: str) -> str:
    """A document that fits the schema (its common part); without a schema an object with the question in it."""
    if not isinstance(schema, dict):
        return json.dumps({"answer": " ".join(question.split())[:200]})
    return json.dumps(_example(schema))


def _example(schema: dict[str, Any]) -> Any:
    if schema.get("enum"):
        return schema["enum"][0]
    if "const" in schema:
        return schema["const"]
    kind = schema.get("type")
    if kind == "object" or "properties" in schema:
        wanted = schema.get("required") or list(schema.get("properties") or {})
        return {name: _example((schema.get("properties") or {}).get(name) or {}) for name in wanted}
    if kind == "array":
        return [_example(schema.get("items") or {})] * int(schema.get("minItems", 1))
    if kind in ("integer", "number"):
        return schema.get("minimum", 1)
    return {"boolean": True, "null": None}.get(str(kind), "sandbox")


def embedding(text: str, size: int = _WIDTH) -> list[float]:
    """A vector of length 1 that is the text's own: texts that share words lie near one another."""
    values = [0.0] * size
    for word in re.findall(r"\w+", text.lower()) or [""]:
        digest = hashlib.sha256(word.encode()).digest()
        for place in range(size):
            values[place] += (digest[place % len(digest)] + place) % 251 / 125.5 - 1.0
    length = math.sqrt(sum(v * v for v in values)) or 1.0
    return [v / length for v in values]
