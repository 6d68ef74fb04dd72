"""Bad weather on request: throttling, server errors, slowness, and replies that are lost after the act."""

from __future__ import annotations

import dataclasses
import itertools
import random
import re
import threading
from dataclasses import dataclass
from typing import Any

from instantstart_sandbox.world.settings import Settings


@dataclass
class Fault:
    """One rule. ``match`` is a regular expression over the whole of ``service:Operation``.

    ``when``: ``before`` the act, or ``after`` it: the act happens, then the socket is closed without an answer.
    ``code`` may be an error code, or ``throttle`` or ``unavailable`` for what the service in question says then
    (``status`` is then the service's, too). Without a ``code`` a ``before`` fault only delays. ``delay`` is in
    virtual seconds. ``count`` None: for ever.
    """

    match: str
    code: str = ""
    message: str = "This error was asked for by a fault rule of the sandbox."
    status: int = 400
    count: int | None = 1
    probability: float = 1.0
    delay: float = 0.0
    when: str = "before"
    region: str = ""
    id: int = 0
    hits: int = 0

    @property
    def passes(self) -> bool:
        """AWS's services try again among themselves when one of them is busy or its answer is lost: no client sees that."""
        return self.code in _WORDS or (self.when == "after" and not self.code)

    def error(self, service: str) -> tuple[str, str, int]:
        """Code, message and HTTP status of this fault in a service."""
        words = _WORDS.get(self.code)
        return (self.code, self.message, self.status) if words is None else words.get(service, words[""])


#: how each service says that it is asked too often, and that it cannot answer; "" is every other service
_THROTTLE = {
    "": ("ThrottlingException", "Rate exceeded", 400),
    "ec2": ("RequestLimitExceeded", "Request limit exceeded.", 503),
    "s3": ("SlowDown", "Please reduce your request rate.", 503),
    "iam": ("Throttling", "Rate exceeded", 400),
    "sts": ("Throttling", "Rate exceeded", 400),
    "cloudformation": ("Throttling", "Rate exceeded", 400),
    "service-quotas": ("TooManyRequestsException", "Rate exceeded", 429),
}
_UNAVAILABLE = {
    "": ("InternalFailure", "The request processing has failed because of an unknown error, exception or failure.", 500),
    "ec2": ("Unavailable", "The server is overloaded and can't handle the request.", 503),
    "s3": ("ServiceUnavailable", "Service is unable to handle request.", 503),
    "eks": ("ServerException", "The service is unable to process your request.", 500),
    "iam": ("ServiceFailure", "The request processing has failed because of an unknown error, exception or failure.", 500),
}
_WORDS: dict[str, dict[str, tuple[str, str, int]]] = {"throttle": _THROTTLE, "unavailable": _UNAVAILABLE}


class Faults:
    """The rules in force; drawn in the order in which they were added, the first that strikes wins."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._rules: list[Fault] = []
        self._ids = itertools.count(1)
        self._random = random.Random(settings.seed)
        self._lock = threading.Lock()

    def add(self, **fields: Any) -> Fault:
        """Add a rule; ValueError when it cannot be understood."""
        known = {f.name for f in dataclasses.fields(Fault)} - {"id", "hits"}
        if unknown := set(fields) - known:
            raise ValueError(f"a fault has no {', '.join(sorted(unknown))}; it has {', '.join(sorted(known))}")
        if "match" not in fields:
            raise ValueError("a fault needs match: a regular expression over service:Operation")
        fault = Fault(**fields)
        try:
            re.compile(fault.match)
        except re.error as error:
            raise ValueError(f"match is not a regular expression: {error}") from error
        if fault.when not in ("before", "after"):
            raise ValueError("when is 'before' or 'after'")
        with self._lock:
            fault.id = next(self._ids)
            self._rules.append(fault)
        return fault

    def draw(self, service: str, operation: str, region: str, *, internal: bool = False) -> Fault | None:
        """The fault that strikes this call, counted off; None: fair weather. ``internal``: one service of AWS calls another."""
        name = f"{service}:{operation}"
        with self._lock:
            for fault in self._rules:
                if fault.count is not None and fault.count <= 0:
                    continue
                if internal and fault.passes:
                    continue
                if fault.region not in ("", region) or not re.fullmatch(fault.match, name):
                    continue
                if fault.probability < 1.0 and self._random.random() >= fault.probability:
                    continue
                fault.hits += 1
                if fault.count is not None:
                    fault.count -= 1
                return fault
        return None

    def clear(self) -> None:
        """Fair weather; the random sequence starts anew."""
        with self._lock:
            self._rules.clear()
            self._random.seed(self._settings.seed)

    def dump(self) -> list[dict[str, Any]]:
        """The rules, with how often each has struck."""
        with self._lock:
            return [dataclasses.asdict(rule) for rule in self._rules]
