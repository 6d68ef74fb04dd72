"""Reading containers' logs: the files the kubelet writes, cut and followed as the query of the request asks.

A line on disk is ``<RFC3339Nano> <text>``. Without ``timestamps`` the stamp is taken off.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import BinaryIO, Final

from instantstart_sandbox.kubernetes.errors import ApiError, Cause, bad_request

_POLL_SECONDS: Final = 0.1
_BLOCK: Final = 256 * 1024


def _integer(query: dict[str, str], field: str, least: int, pod: str) -> int | None:
    text = query.get(field)
    if text is None:
        return None
    try:
        value = int(text)
    except ValueError:
        raise bad_request(f'unable to decode query: strconv.ParseInt: parsing "{text}": invalid syntax') from None
    if value < least:
        rule = "must be greater than 0" if least == 1 else "must be greater than or equal to 0"
        text = f"Invalid value: {value}: {rule}"
        raise _refusal(pod, Cause(field, "FieldValueInvalid", text))
    return value


def _refusal(pod: str, cause: Cause) -> ApiError:
    details = {"name": pod, "kind": "PodLogOptions"}
    causes = [{"reason": cause.reason, "message": cause.message, "field": cause.field}]
    message = f'PodLogOptions "{pod}" is invalid: {cause.field}: {cause.message}'
    return ApiError(422, "Invalid", message, {**details, "causes": causes})


class LogQuery:
    """The query of a log request. 400 or 422 for values that make no sense."""

    def __init__(self, query: dict[str, str], now: float, pod: str = "") -> None:
        self.follow = query.get("follow") in ("true", "1")
        self.previous = query.get("previous") in ("true", "1")
        self.timestamps = query.get("timestamps") in ("true", "1")
        self.tail = _integer(query, "tailLines", 0, pod)
        self.limit = _integer(query, "limitBytes", 1, pod)
        seconds = _integer(query, "sinceSeconds", 1, pod)
        self.since: float | None = now - seconds if seconds is not None else None
        if query.get("sinceTime") and seconds is not None:
            text = "Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified"
            raise _refusal(pod, Cause("[]", "FieldValueForbidden", text))
        if query.get("sinceTime"):
            self.since = _moment(query["sinceTime"])


def _moment(text: str) -> float:
    try:
        return dt.datetime.fromisoformat(text).timestamp()
    except ValueError:
        raise bad_request(f'unable to decode query: parsing time "{text}"') from None


def stamp_of(line: bytes) -> float | None:
    """Seconds since the epoch of a line on disk, or None for a line without a stamp."""
    stamp = line.split(b" ", 1)[0].decode(errors="replace")
    try:
        return dt.datetime.fromisoformat(stamp[:26].rstrip("Z") + "+00:00").timestamp()
    except ValueError:
        return None


def _shown(line: bytes, query: LogQuery) -> bytes | None:
    if query.since is not None and (stamp_of(line) or 0.0) < query.since:
        return None
    if query.timestamps or stamp_of(line) is None:
        return line
    return line.split(b" ", 1)[1] if b" " in line else b"\n"


def tail_offset(path: Path, lines: int) -> int:
    """Where the last ``lines`` lines begin; the file is read from its end."""
    size = path.stat().st_size
    if lines == 0:
        return size
    found, position = 0, size
    with path.open("rb") as log:
        while position > 0:
            step = min(_BLOCK, position)
            position -= step
            log.seek(position)
            block = log.read(step)
            end = len(block) - 1 if position + step == size and block.endswith(b"\n") else len(block)
            while (end := block.rfind(b"\n", 0, end)) >= 0:
                found += 1
                if found == lines:
                    return position + end + 1
    return 0


async def read(path: Path, query: LogQuery, running: Callable[[], bool]) -> AsyncIterator[bytes]:
    """The log in chunks of whole lines. With ``follow``, until the container no longer runs, or another run has begun a file of its own."""
    offset = 0
    left = query.limit
    log: BinaryIO | None = None
    try:
        while True:
            alive = query.follow and running() and (log is None or _is_at(log, path))
            if log is None and path.exists():
                log, offset = path.open("rb"), tail_offset(path, query.tail) if query.tail is not None else 0
            if log is not None:
                chunk, offset = _next_lines(log, offset, query, final=not alive)
                if left is not None:
                    chunk, left = chunk[:left], left - len(chunk[:left])
                if chunk:
                    yield chunk
                if left == 0:
                    return
                if chunk:
                    continue
            if not alive:
                return
            await asyncio.sleep(_POLL_SECONDS)
    finally:
        if log is not None:
            log.close()


def _is_at(log: BinaryIO, path: Path) -> bool:
    """Whether an open log is still the one at its path."""
    try:
        return os.path.samestat(os.fstat(log.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _next_lines(log: BinaryIO, offset: int, query: LogQuery, *, final: bool) -> tuple[bytes, int]:
    log.seek(offset)
    block = log.read(_BLOCK)
    if not block:
        return b"", offset
    end = len(block) if final and len(block) < _BLOCK else block.rfind(b"\n") + 1
    if end == 0:
        return (block, offset + len(block)) if len(block) == _BLOCK else (b"", offset)
    lines = (_shown(line, query) for line in re.findall(rb"[^\n]*\n|[^\n]+$", block[:end]))  # a carriage return ends no line
    shown = b"".join(line for line in lines if line is not None)
    if not shown and end:
        return _next_lines(log, offset + end, query, final=final)
    return shown, offset + end
