"""What callers do badly without an error: creations without a client token of their own, and lists not read to their end."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from typing import Any

#: how botocore makes a token for whoever gave none
_INVENTED = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TOKENS = frozenset({"clienttoken", "clientrequesttoken"})
#: members that ask for a page, and members that offer the next one
_ASKING = ("NextToken", "nextToken", "Marker", "ContinuationToken")
_OFFERING = ("NextToken", "nextToken", "NextMarker", "Marker", "NextContinuationToken")


@dataclass(frozen=True, order=True)
class Caller:
    """Who asked what: the last word of a User-Agent, by which programs name themselves, and ``service:Operation``."""

    agent: str
    operation: str


def agent_of(header: str) -> str:
    """The last word of a User-Agent header; "" without one."""
    return header.rpartition(" ")[2]


def client_token(params: dict[str, Any], shape: Any) -> tuple[bool, str | None]:
    """Whether the model gives an operation a client token, and the one that these parameters carry."""
    members = [*(getattr(shape, "idempotent_members", None) or ())]
    members += [name for name in getattr(shape, "members", ()) if name.lower() in _TOKENS and name not in members]
    return bool(members), next((str(params[name]) for name in members if params.get(name)), None)


class Habits:
    """Counted by caller and operation, so that it does not grow with the number of calls."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loose: dict[Caller, str] = {}
        self._unread: dict[Caller, set[str]] = {}

    def created(self, caller: Caller, token: str | None) -> None:
        """A call whose model has a client token."""
        why = "no client token" if token is None else "a client token that the SDK invented" if _INVENTED.fullmatch(token) else ""
        if why:
            with self._lock:
                self._loose.setdefault(caller, why)

    def listed(self, caller: Caller, asked: dict[str, Any], answered: dict[str, Any]) -> None:
        """A call and its answer: the page that it asked for is read; the one that the answer offers is not, yet."""
        given = next((asked[name] for name in _ASKING if asked.get(name)), None)
        offered = next((answered[name] for name in _OFFERING if answered.get(name)), None)
        if given is None and offered is None:
            return
        with self._lock:
            waiting = self._unread.setdefault(caller, set())
            waiting.discard(str(given))
            if isinstance(offered, str):
                waiting.add(offered)

    def report(self) -> dict[str, dict[str, dict[str, str]]]:
        """``{agent: {"tokens": {operation: why}, "unread": {operation: why}}}`` of every agent with a bad habit."""
        found: dict[str, dict[str, dict[str, str]]] = {}
        with self._lock:
            rows = [("tokens", caller, why) for caller, why in self._loose.items()]
            rows += [("unread", caller, "a page was offered and never asked for") for caller, left in self._unread.items() if left]
        for kind, caller, why in sorted(rows):
            found.setdefault(caller.agent, {"tokens": {}, "unread": {}})[kind][caller.operation] = why
        return found

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._loose.clear()
            self._unread.clear()
