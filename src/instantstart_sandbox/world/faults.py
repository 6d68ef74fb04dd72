"""Bad weather on request: throttling, server errors, slowness, replies that are lost after the act, callers that hang at a known point."""

from __future__ import annotations

import dataclasses
import itertools
import random
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from instantstart_sandbox.world.settings import Settings

#: the Kubernetes API servers' calls are named ``kubernetes:patch/daemonsets``; only a rule that begins so strikes them
KUBERNETES = "kubernetes"
_WHENS = ("before", "after", "halt", "hold")


@dataclass
class Fault:
    """One rule. ``match`` is a regular expression over the whole of ``service:Operation``.

    ``when``: ``before`` the act, or ``after`` it: the act happens, then the socket is closed without an answer.
    ``halt`` and ``hold`` keep the caller waiting until the rule is taken away, so that whoever kills it knows the moment:
    ``halt`` before the act, which then never happens; ``hold`` after it, and the answer never comes.
    ``code`` may be an error code, or ``throttle`` or ``unavailable`` for what the service in question says then
    (``status`` is then the service's, too). Without a ``code`` a ``before`` fault only delays. ``delay`` is in
    virtual seconds. ``count`` None: for ever. ``lasting``: the rule ends that many virtual seconds after its first hit.
    For Kubernetes ``away`` is a code, too: the socket is closed without an answer, and nothing happens.
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
    lasting: float | None = None
    id: int = 0
    hits: int = 0
    #: the calls that it struck, newest last
    struck: list[str] = field(default_factory=list)
    #: virtual second after which it strikes no more
    until: float | None = None

    @property
    def loses_reply(self) -> bool:
        """Whether the caller gets no answer though the act happens."""
        return self.when in ("after", "hold")

    @property
    def passes(self) -> bool:
        """AWS's services try again among themselves when one of them is busy or its answer is lost: no client sees that."""
        return self.code in _WORDS or (self.when != "before" and not self.code)

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

    def __init__(self, settings: Settings, now: Callable[[], float] = time.time) -> None:
        self.settings = self._settings = settings
        self._now = now
        self._rules: list[Fault] = []
        self._ids = itertools.count(1)
        self._random = random.Random(settings.seed)
        self._lock = threading.Lock()

    def add(self, **fields: Any) -> Fault:
        """Add a rule; ValueError when it cannot be understood."""
        known = {f.name for f in dataclasses.fields(Fault)} - {"id", "hits", "struck", "until"}
        if unknown := set(fields) - known:
            raise ValueError(f"a fault has no {', '.join(sorted(unknown))}; it has {', '.join(sorted(known))}")
        if "match" not in fields:
            raise ValueError("a fault needs match: a regular expression over service:Operation")
        fault = Fault(**fields)
        try:
            re.compile(fault.match)
        except re.error as error:
            raise ValueError(f"match is not a regular expression: {error}") from error
        if fault.when not in _WHENS:
            raise ValueError(f"when is one of {', '.join(_WHENS)}")
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
                if service == KUBERNETES and not fault.match.lstrip("(").startswith(KUBERNETES):
                    continue
                if fault.until is not None and self._now() >= fault.until:
                    continue
                if internal and fault.passes:
                    continue
                if fault.region not in ("", region) or not re.fullmatch(fault.match, name):
                    continue
                if fault.probability < 1.0 and self._random.random() >= fault.probability:
                    continue
                fault.hits += 1
                fault.struck = [*fault.struck[-19:], name]
                if fault.lasting is not None and fault.until is None:
                    fault.until = self._now() + fault.lasting
                if fault.count is not None:
                    fault.count -= 1
                return fault
        return None

    def stands(self, fault: Fault) -> bool:
        """Whether the rule has not been taken away."""
        with self._lock:
            return any(rule is fault for rule in self._rules)

    def take_away(self, number: int) -> None:
        """Remove one rule; whoever it keeps waiting is let go."""
        with self._lock:
            self._rules = [rule for rule in self._rules if rule.id != number]

    def clear(self) -> None:
        """Fair weather; the random sequence starts anew."""
        with self._lock:
            self._rules.clear()
            self._random.seed(self._settings.seed)

    def dump(self) -> list[dict[str, Any]]:
        """The rules, with how often each has struck."""
        with self._lock:
            return [dataclasses.asdict(rule) for rule in self._rules]
