"""Secrets in places where everyone who may read pods, records or answers would see them. Pure."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from instantstart.base import log

_HUB_TOKEN = re.compile(r"\bhf_[A-Za-z0-9]{8,}")


def in_text(text: str) -> bool:
    """Whether a token of the hub, or another secret with looks of its own, stands in a text."""
    return _HUB_TOKEN.search(text) is not None or log.redact(text) != text


def in_variable(name: str, value: str) -> bool:
    """Whether a variable is called as secrets are and holds something (a number of tokens is none), or holds what looks like one."""
    held: int | str = int(value) if re.fullmatch(r"\d{1,18}", value) else value
    return in_text(value) or log.redact({name: held}) != {name: held}


def in_address(address: str) -> bool:
    """Whether an address says who enters: a name, or a name and a password, before its host."""
    try:
        return "@" in urlsplit(address).netloc
    except ValueError:
        return "@" in address
