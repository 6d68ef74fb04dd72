"""Log lines, as JSON or text, and the one redaction filter that everything written or shown passes through.

Foreign words (names, events, errors of others) come into lines as values. Neither format lets them begin a line of their own or move a
terminal's cursor: what is not printable is written as an escape.
"""

from __future__ import annotations

import datetime as dt
import json
import logging
import re
import sys
from collections.abc import Mapping
from typing import Any

from instantstart.base import trail

DEBUG, INFO = logging.DEBUG, logging.INFO
HIDDEN = "[redacted]"
_SECRET_KEY = re.compile(
    r"(?i)(^|[_-])(token|secret|password|passwd|authorization|api[_-]?key|cookie|credential|session)s?$|secret[_-]?access[_-]?key"
)
_PLAIN_KEYS = frozenset({"client_token", "clientrequesttoken", "next_token", "nexttoken"})
_SECRET_TEXT = re.compile(
    r"(?:k8s-aws-v1\.[\w-]{16,}"  # an EKS token
    r"|X-Amz-(?:Signature|Security-Token)=[^&\s\"']+"
    r"|Bearer\s+[\w.~+/=-]{12,}"
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"
    r"|\bhf_[A-Za-z0-9]{20,}"
    r"|\bist_[A-Za-z0-9_-]{16,}"  # our own tokens
    r"|(?<=://)[^/\s:@]*:[^/\s@]+(?=@))"  # who may enter at an address
)


def redact(value: Any) -> Any:
    """``value`` with secrets hidden: by the name of their key, and by their own looks inside any text."""
    if isinstance(value, str):
        return _SECRET_TEXT.sub(HIDDEN, value)
    if isinstance(value, Mapping):
        return {k: HIDDEN if _is_secret(str(k)) and not _is_plain(str(k), v) else redact(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [redact(each) for each in value]
    return value


def _is_secret(key: str) -> bool:
    return key.lower() not in _PLAIN_KEYS and _SECRET_KEY.search(key) is not None


def _is_plain(key: str, value: Any) -> bool:
    """Nothing, or how many tokens a model read or wrote."""
    return value in (None, "") or (isinstance(value, (int, float)) and key.lower().endswith("tokens"))


def told(record: logging.LogRecord) -> dict[str, Any]:
    """A record as names and values: the fixed four, the trail of what was worked on, then ``extra={"facts": {...}}``.

    What is further in wins, but nothing takes the place of the fixed four.
    """
    moment = dt.datetime.fromtimestamp(record.created, dt.UTC).isoformat(timespec="milliseconds")
    fixed = {"time": moment, "level": record.levelname, "logger": record.name, "message": redact(record.getMessage())}
    return {**fixed, **redact(dict(trail.facts())), **redact(getattr(record, "facts", {})), **fixed}


class JsonLines(logging.Formatter):
    """One JSON object a line, in ASCII."""

    def format(self, record: logging.LogRecord) -> str:
        line = told(record)
        if record.exc_info:
            line["exception"] = redact(self.formatException(record.exc_info))
        return json.dumps(line, default=str)


class TextLines(logging.Formatter):
    """``time level logger: message name=value ...`` for a person; the lines of an exception are indented behind a bar."""

    def format(self, record: logging.LogRecord) -> str:
        line = told(record)
        moment, level, logger, message = (line.pop(name) for name in ("time", "level", "logger", "message"))
        facts = "".join(f" {_plain(str(name))}={_value(value)}" for name, value in line.items())
        shown = f"{moment} {level:<7} {logger}: {_plain(message)}{facts}"
        if not record.exc_info:
            return shown
        return shown + "".join(f"\n  | {_plain(each)}" for each in redact(self.formatException(record.exc_info)).splitlines())


def _value(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if re.fullmatch(r"[\w./:+@-]+", text, re.ASCII) else json.dumps(text)


def _plain(text: str) -> str:
    """One printable line."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


FORMATS: Mapping[str, type[logging.Formatter]] = {"json": JsonLines, "text": TextLines}


def configure(level: str = "INFO", shape: str = "json") -> None:
    """Send all logging to standard error, one line each; ``shape`` is a name of FORMATS."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(FORMATS[shape]())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for noisy in ("alembic", "botocore", "boto3", "urllib3", "httpcore2", "httpx2", "uvicorn.access"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def get(name: str) -> logging.Logger:
    """The logger of a room."""
    return logging.getLogger(name)
