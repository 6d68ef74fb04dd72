"""Pages of a list, with the opaque token that AWS gives."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import TypeVar

from instantstart_sandbox.gateway.errors import AwsError

Item = TypeVar("Item")
_PREFIX = "page:"
_REFUSAL = "ValidationException"


def page(items: Sequence[Item], token: str | None, size: int | None, refusal: str = _REFUSAL) -> tuple[list[Item], str | None]:
    """One page of ``items`` (default and most 100) and the token of the next one, None on the last.

    A token that was not given by this function is refused with the error code ``refusal``.
    """
    start = _decode(token, refusal) if token else 0
    end = start + (size or 100)
    return list(items[start:end]), _encode(end) if end < len(items) else None


def _encode(start: int) -> str:
    return base64.urlsafe_b64encode(f"{_PREFIX}{start}".encode()).decode()


def _decode(token: str, code: str) -> int:
    try:
        text = base64.urlsafe_b64decode(token.encode()).decode()
        if not text.startswith(_PREFIX):
            raise ValueError(text)
        return int(text.removeprefix(_PREFIX))
    except ValueError as error:
        raise AwsError(code, "The pagination token is invalid.") from error
