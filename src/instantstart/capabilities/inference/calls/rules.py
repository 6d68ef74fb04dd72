"""What must hold of a call before anything is asked. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from instantstart.base import problems
from instantstart.base.problems import Violation
from instantstart.capabilities.inference.calls import specs

_CHAT_ONLY = ("system", "messages")
#: set by the call itself: a body must not say otherwise
_OWN = ("stream", "stream_options")


def check(ask: specs.CallModel) -> None:
    """Raise Invalid with every violation."""
    found = [*_text(ask), *_json(ask), *_strangers(ask)]
    if found:
        raise problems.Invalid("model_call.refused", " ".join(v.message for v in found), fields=found)


def _text(ask: specs.CallModel) -> Iterable[Violation]:
    if ask.api == "chat" and (ask.prompt is None) == (ask.messages is None):
        yield Violation("/prompt", "A chat takes either prompt or messages.")
    if ask.api == "chat" and ask.messages is not None and not ask.messages:
        yield Violation("/messages", "A chat needs at least one message.")
    if ask.api == "completions" and ask.prompt is None:
        yield Violation("/prompt", "A completion needs the text to go on with: prompt.")
    if ask.api == "embeddings" and (ask.prompt is None) == (ask.inputs is None):
        yield Violation("/prompt", "Embeddings take either prompt or inputs.")


def _json(ask: specs.CallModel) -> Iterable[Violation]:
    if ask.api != "json":
        if ask.path is not None:
            yield Violation("/path", "A path is for api json: the others have their own.")
        if ask.method != "POST":
            yield Violation("/method", "A method is for api json: the others are asked by POST.")
        for name in _OWN:
            if name in (ask.body or {}):
                yield Violation(f"/body/{name}", f"{name} is set by the call itself: leave it out of body.")
        return
    if ask.path is None:
        yield Violation("/path", "api json needs the path to ask, such as v1/rerank.")
    if ask.method == "GET" and ask.body:
        yield Violation("/body", "A GET has no body.")


def _strangers(ask: specs.CallModel) -> Iterable[Violation]:
    """Texts that another api takes."""
    for name in _CHAT_ONLY:
        if ask.api != "chat" and getattr(ask, name) is not None:
            yield Violation(f"/{name}", f"{name} is for api chat.")
    if ask.api != "embeddings" and ask.inputs is not None:
        yield Violation("/inputs", "inputs is for api embeddings.")
    if ask.api == "json" and ask.prompt is not None:
        yield Violation("/prompt", "api json sends only body: put the prompt there.")
