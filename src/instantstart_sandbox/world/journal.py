"""What went over the wire, and the ledgers that must stay empty: unsupported calls, crashes, malformed requests."""

from __future__ import annotations

import collections
import itertools
import threading
from dataclasses import asdict, dataclass
from typing import Any

from instantstart_sandbox.world.habits import Habits

_KEPT = 50_000


@dataclass(frozen=True)
class Entry:
    """One answered call. ``time`` is virtual, ``wall_ms`` real; ``digest`` is of the parsed parameters."""

    seq: int
    time: float
    service: str
    operation: str
    region: str
    principal: str
    digest: str
    client_token: str | None
    #: the error's code; "" for success
    error: str
    request_id: str
    wall_ms: float
    internal: bool = False
    #: the program that asked, by the last word of its User-Agent
    agent: str = ""
    #: struck by a fault rule of this id
    fault: int | None = None
    #: the ARNs that the call touches, as IAM sees them; ``*`` where AWS knows none
    resources: tuple[str, ...] = ()
    #: the partitions of all ARNs anywhere in the request
    partitions: tuple[str, ...] = ()


class Journal:
    """The last 50,000 calls, and counts of what the sandbox could not do."""

    def __init__(self) -> None:
        self._entries: collections.deque[Entry] = collections.deque(maxlen=_KEPT)
        self._seq = itertools.count(1)
        self._lock = threading.Lock()
        self._unsupported: collections.Counter[str] = collections.Counter()
        self._crashes: list[dict[str, Any]] = []
        self._malformed: list[dict[str, Any]] = []
        self._breaches: dict[str, list[str]] = {}
        self._questions: dict[tuple[str, ...], dict[str, list[str]]] = {}
        self.habits = Habits()

    def next_seq(self) -> int:
        """The number of a new call; its request id is made of it."""
        return next(self._seq)

    def add(self, entry: Entry) -> None:
        """Record an answered call."""
        with self._lock:
            self._entries.append(entry)

    def unsupported(self, service: str, operation: str) -> None:
        """A call that the sandbox does not offer."""
        with self._lock:
            self._unsupported[f"{service}:{operation}"] += 1

    def refused(self, service: str, operation: str, why: str) -> None:
        """A request that breaks the service model: whoever sent it has a mistake in it."""
        with self._lock:
            self._malformed.append({"service": service, "operation": operation, "why": why})

    def breached(self, service: str, operation: str, wrong: list[str]) -> None:
        """An answer of moto's that the service model forbids (settings.check_answers); the first of each operation is kept."""
        with self._lock:
            self._breaches.setdefault(f"{service}:{operation}", wrong[:5])

    def breaches(self) -> dict[str, list[str]]:
        """What was wrong with moto's answers, by ``service:Operation``."""
        with self._lock:
            return dict(self._breaches)

    def asked(self, action: str, resource: str, context: dict[str, list[str]]) -> None:
        """A question that IAM was asked (settings.iam_record); the first context of each action, resource and principal is kept."""
        key = (action, resource, *context.get("aws:principalarn", ()), *context.get("iam:passedtoservice", ()))
        with self._lock:
            self._questions.setdefault(key, context)

    def questions(self) -> list[dict[str, Any]]:
        """Every question kept: ``{action, resource, context}``."""
        with self._lock:
            return [{"action": key[0], "resource": key[1], "context": context} for key, context in self._questions.items()]

    def malformed(self) -> list[dict[str, Any]]:
        """Every request that broke the service model, oldest first."""
        with self._lock:
            return list(self._malformed)

    def crashed(self, service: str, operation: str, error: str, trace: str) -> None:
        """A call on which the sandbox itself failed, or gave an answer that the service model forbids."""
        with self._lock:
            self._crashes.append({"service": service, "operation": operation, "error": error, "trace": trace})

    def since(self, seq: int = 0) -> list[dict[str, Any]]:
        """The calls after number ``seq``."""
        with self._lock:
            return [asdict(entry) for entry in self._entries if entry.seq > seq]

    def unsupported_calls(self) -> dict[str, int]:
        """How often each unsupported ``service:Operation`` was asked for."""
        with self._lock:
            return dict(self._unsupported)

    def crashes(self) -> list[dict[str, Any]]:
        """Every crash, oldest first."""
        with self._lock:
            return list(self._crashes)

    def clear(self) -> None:
        """Empty the journal and its ledgers; numbers go on."""
        with self._lock:
            self._entries.clear()
            self._malformed.clear()
            self._questions.clear()
            self._breaches.clear()
            self._unsupported.clear()
            self._crashes.clear()
        self.habits.clear()
