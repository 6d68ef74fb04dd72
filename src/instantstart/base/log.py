"""JSON log lines, and the one redaction filter that everything written or shown passes through."""

from __future__ import annotations

import datetime as dt
import json
import logging
import re
import sys
from collections.abc import Mapping
from typing import Any

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


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, logger, message, and whatever came in ``extra={"facts": {...}}``."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": dt.datetime.fromtimestamp(record.created, dt.UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": redact(record.getMessage()),
        }
        line.update(redact(getattr(record, "facts", {})))
        if record.exc_info:
            line["exception"] = redact(self.formatException(record.exc_info))
        return json.dumps(line, default=str)


def configure(level: str = "INFO") -> None:
    """Send all logging to standard error as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for noisy in ("alembic", "botocore", "boto3", "urllib3", "httpcore2", "httpx2", "uvicorn.access"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def get(name: str) -> logging.Logger:
    """The logger of a room."""
    return logging.getLogger(name)
