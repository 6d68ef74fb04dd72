"""What every answer of the server must be, whatever was asked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from instantstart.base import problems

_CODE = re.compile(r"[a-z][a-z0-9_]*(\.[a-z0-9_]+)+")
_NEEDED = ("type", "title", "status", "kind", "code", "detail", "retryable")


def faults(answer: Any) -> Iterator[str]:
    """What is wrong with an answer whatever the document says."""
    status = answer.status_code
    if status >= 500:
        yield f"status {status} {_code_of(answer)}"
    if status < 400:
        return
    media = answer.headers.get("content-type", "")
    if problems.MEDIA_TYPE not in (media, *media):  # schemathesis has a list of them
        yield f"refusal as {media}"
        return
    told = answer.json()
    if any(each not in told for each in _NEEDED) or told["status"] != status or told["kind"] not in problems.KINDS:
        yield "problem without its fields"
    elif not _CODE.fullmatch(told["code"]) or told["type"] != f"urn:instantstart:problem:{told['code']}":
        yield f"problem code {told['code']}"
    elif not told["detail"].strip() or b"Traceback" in answer.content:
        yield "problem without a sentence"


def _code_of(answer: Any) -> str:
    try:
        return str(json.loads(answer.content).get("code"))
    except ValueError:
        return "no problem"
