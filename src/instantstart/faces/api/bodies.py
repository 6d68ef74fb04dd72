"""A name stands once in a JSON object: of two, one program reads the first and the next one the last (RFC 8259, section 4).

What a proxy let through as one thing must not be done here as another.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from starlette.requests import HTTPConnection, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from instantstart.base import problems, sentences
from instantstart.base.problems import Violation
from instantstart.faces.api.problems import HttpProblem

_MOST_TOLD = 20


class _Object(list[tuple[str, Any]]):
    """An object as it was written: its names with their values, in order."""


async def names_once(request: HTTPConnection) -> None:
    """A dependency of every route. Raises HttpProblem (400) for a body in which an object has a name twice."""
    if isinstance(request, Request):
        check(await request.body())


def check(body: bytes) -> None:
    """Raises HttpProblem that names every repeated name by its pointer. What is no JSON is somebody else's to refuse."""
    if not body:
        return
    try:
        read = json.loads(body, object_pairs_hook=_Object)
    except (ValueError, RecursionError):
        return
    found = {violation.pointer: violation for violation in _repeated(read)}
    if found:
        told = list(found.values())[:_MOST_TOLD]
        names = " ".join(v.message for v in told)
        detail = f"{names} A name stands once in an object."
        raise HttpProblem(400, told=problems.Invalid("request.name_repeated", detail, hint="Send each name once.", fields=told))


def _repeated(read: Any) -> Iterator[Violation]:
    """Each name that an object has more than once, the outer ones first. Without recursion: a body may lie deep."""
    waiting: list[tuple[list[Any], Any]] = [([], read)]
    for place, value in waiting:
        if isinstance(value, _Object):
            seen: set[str] = set()
            for name, inner in value:
                if name in seen:
                    where = sentences.pointer([*place, name])
                    yield Violation(where, f"{where.removeprefix('/').replace('/', '.')} is given more than once.")
                seen.add(name)
                waiting.append(([*place, name], inner))
        elif isinstance(value, list):
            waiting.extend(([*place, index], inner) for index, inner in enumerate(value) if isinstance(inner, list))


class Whole:
    """ASGI layer for an app that reads its bodies itself (MCP): it gets what was checked, in one piece."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        read: list[Message] = []
        while not read or read[-1].get("more_body"):
            read.append(await receive())
        check(b"".join(message.get("body", b"") for message in read))
        again = iter(read)

        async def replay() -> Message:
            return next(again, None) or await receive()

        await self._app(scope, replay, send)
