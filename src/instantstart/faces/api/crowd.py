"""How many connections are kept at once, in all and for each address, so that nobody can hold all of them.

When there is no room, the connection that has waited longest for a request of its caller gives up its place. Where all are at work, the
new one is only told that there is no room; the health of the process it may ask all the same. Lives in the server's loop; no locks.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Protocol

from instantstart.base.settings import Settings
from instantstart.faces.api.origin import network_of

#: connections beyond the limit that are heard at once, to be told so or to ask for the process' health
SPARE = 64


class Member(Protocol):
    """A connection as the crowd sees it."""

    transport: Any

    @property
    def is_waiting(self) -> bool:
        """Whether it has no request at work."""

    def give_up(self) -> None:
        """Close it."""


class Crowd:
    """The connections of this process, oldest first. 0 of either: no limit. ``proxies``: addresses that stand for many callers."""

    def __init__(self, most: int = 0, most_each: int = 0, proxies: frozenset[str] = frozenset()) -> None:
        self._most, self._most_each, self._proxies = most, most_each, proxies
        self._members: dict[Member, str] = {}
        self._each: Counter[str] = Counter()
        self._spare: dict[Member, None] = {}

    def __len__(self) -> int:
        return len(self._members)

    def enter(self, member: Member, address: str) -> bool:
        """Take a place for a connection from ``address``; False when there is none for it."""
        place = address if address in self._proxies else network_of(address)
        if self._is_full(place):
            self._forget_closed()
        if self._is_full(place) and not self._make_room(place):
            self._stand_aside(member)
            return False
        self._members[member] = place
        self._each[place] += 1
        return True

    def leave(self, member: Member) -> None:
        """The connection is closed; once more is no harm."""
        self._spare.pop(member, None)
        place = self._members.pop(member, None)
        if place is not None:
            self._each[place] -= 1
            if not self._each[place]:
                del self._each[place]

    def _is_full(self, place: str) -> bool:
        return bool(self._most and len(self._members) >= self._most) or self._has_its_share(place)

    def _has_its_share(self, place: str) -> bool:
        return bool(self._most_each and place not in self._proxies and self._each[place] >= self._most_each)

    def _forget_closed(self) -> None:
        """A connection that became a WebSocket does not say when it ends."""
        for member in [each for each in self._members if each.transport.is_closing()]:
            self.leave(member)

    def _make_room(self, place: str) -> bool:
        """An address that has its share makes room among its own."""
        own = self._has_its_share(place)
        for member, where in self._members.items():
            if member.is_waiting and (where == place or not own):
                self.leave(member)
                member.give_up()
                return True
        return False

    def _stand_aside(self, member: Member) -> None:
        if len(self._spare) >= SPARE:
            oldest = next(iter(self._spare))
            self.leave(oldest)
            oldest.give_up()
        self._spare[member] = None


def of_settings(settings: Settings) -> Crowd:
    """The crowd that the settings allow."""
    proxies = frozenset(each.strip() for each in settings.trusted_proxies.split(",") if each.strip())
    return Crowd(settings.max_connections, settings.max_connections_per_address, proxies)
