"""One reader of logs: where it is in each container's log, and what it is to be told next.

``take`` is called by whoever sends it on, in any thread, when ``notify`` said that there is something, and only when it can be sent: what
a slow reader has not taken stays in the rings of the sources, which do not grow, and what fell out of them is told by number.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec

from instantstart.base import problems
from instantstart.kube.log_lines import Position, Resuming, Sieve
from instantstart.kube.log_pods import Choice, PodLogs
from instantstart.kube.log_source import Block, First, Source

#: containers that one reader may follow
MOST_SOURCES = 500
#: pieces of old logs that are held for one reader until it takes them
MOST_HISTORIES = 8


class Place(msgspec.Struct, tag_field="type", tag="source"):
    """A container that is followed, and how it is: waiting, running, ended, gone."""

    source: str
    namespace: str
    pod: str
    container: str
    state: str
    because: str | None = None


class Lines(msgspec.Struct, tag_field="type", tag="lines"):
    """Lines of a container, each ``TIME TEXT`` with a line end; ``position`` is the place after them."""

    source: str
    position: str
    lines: int
    text: str


class Note(msgspec.Struct, tag_field="type", tag="note"):
    """Something between the lines: restarted, ended, rotated, gone."""

    source: str
    text: str


class Dropped(msgspec.Struct, tag_field="type", tag="dropped"):
    """So many lines were not told: the reader was too slow for what was written."""

    source: str
    lines: int


class Settled(msgspec.Struct, tag_field="type", tag="settled"):
    """All there was at first has been told; from here on it is what happens. ``sources``: how many containers."""

    sources: int


Event = Place | Lines | Note | Dropped | Settled
_encode = msgspec.json.Encoder().encode


def encode(events: list[Event]) -> str:
    """As JSON, for the wire."""
    return _encode(events).decode()


@dataclass(frozen=True)
class Want:
    """What a reader wants. ``after``: places it has been told up to, by source; ``container``: only that one of each pod."""

    choices: tuple[Choice, ...]
    container: str | None = None
    tail: int | None = None
    since_seconds: int | None = None
    search: str | None = None
    context: int = 0
    after: Mapping[str, Position] = field(default_factory=dict)

    def first(self, source: str, late: bool) -> First:
        """How to begin with a container; one that came while we followed is read from its beginning."""
        if source in self.after:
            return First(after=self.after[source])
        return First() if late else First(self.tail, self.since_seconds)


@dataclass(frozen=True)
class History:
    """What was in a log before a reader came to its ring."""

    text: str = ""
    position: str = ""


NOTHING = History()


@dataclass
class Cursor:
    """Where a reader is in one source."""

    source: Source
    serial: int = 0
    lines: int = 0
    bytes: int = 0
    #: what was read for this reader alone, to be told before what the ring has; None while it is being read
    history: History | None = NOTHING
    skip: Resuming | None = None
    sieve: Sieve | None = None
    gone: bool = False
    #: how the container was said to be
    place: Place | None = None

    def begin(self, serial: int) -> None:
        """Stand before a block that is still there, or at the end."""
        ring = self.source.ring
        found = next(iter(ring.since(serial)), None)
        self.serial = found.serial if found else ring.serial
        self.lines, self.bytes = (found.lines_before, found.bytes_before) if found else (ring.lines, ring.bytes)


class Reader:
    """See the module. Made by ``LogHub.open``."""

    def __init__(self, want: Want, notify: Callable[[], None], leave: Callable[[Reader], None], lock: threading.RLock) -> None:
        self.want = want
        self.notify, self._leave, self._lock = notify, leave, lock
        self.cursors: dict[str, Cursor] = {}
        self.news: list[Event] = []
        self.problem: problems.Problem | None = None
        #: all there was at first has been read by the sources
        self.ready = False
        #: the first pods are known
        self.listed = False
        self.full = False
        #: what is to be read for this reader alone, in turn: no more is held than it takes
        self.waiting: deque[Callable[[], object]] = deque()
        self._settled = False
        self.closed = False

    def take(self, most_bytes: int = 256 * 1024) -> list[Event]:
        """What is to be told next, not much more than ``most_bytes``. Raises what stands in the way of reading at all."""
        with self._lock:  # the sources are not at work meanwhile
            if self.problem is not None:
                raise self.problem
            told, self.news = self.news, []
            left = most_bytes
            for name, cursor in list(self.cursors.items()):
                if left <= 0:
                    return told
                left -= self._take_from(name, cursor, told)
            if self.ready and not self._settled and left > 0:
                self._settled = True
                told.append(Settled(len(self.cursors)))
            return told

    def feed(self) -> None:
        """Begin with what waits to be read for this reader, while little of that is untaken. In the hub's thread."""
        untaken = sum(c.history is None or bool(c.history.text) for c in self.cursors.values()) - len(self.waiting)
        while self.waiting and untaken < MOST_HISTORIES:
            self.waiting.popleft()()
            untaken += 1

    def close(self) -> None:
        """Read no more."""
        if not self.closed:
            self.closed = True
            self._leave(self)

    def _take_from(self, name: str, cursor: Cursor, told: list[Event]) -> int:
        """One source's news; how many bytes."""
        ring, history, before = cursor.source.ring, cursor.history, cursor.bytes
        if history is None:
            return 0
        if history.text:
            self._tell(name, cursor, history.text, history.position, told)
            cursor.history = NOTHING
        if cursor.serial != ring.serial:
            blocks = ring.since(cursor.serial)
            if blocks and blocks[0].lines_before > cursor.lines:
                told.append(Dropped(name, blocks[0].lines_before - cursor.lines))
            self._tell_blocks(name, cursor, blocks, told)
            cursor.serial, cursor.lines, cursor.bytes = ring.serial, ring.lines, ring.bytes
        elif cursor.gone:
            del self.cursors[name]
        return cursor.bytes - before + len(history.text)

    def _tell_blocks(self, name: str, cursor: Cursor, blocks: list[Block], told: list[Event]) -> None:
        """Blocks that follow one another as one piece, with the notes in between."""
        for is_note, group in itertools.groupby(blocks, lambda b: b.note is not None):
            if is_note:
                told.extend(Note(name, str(b.note)) for b in group)
                continue
            run = list(group)
            text = "".join([b.text for b in run])
            if cursor.skip is not None:
                text = cursor.skip.cut(text.encode()).decode()
                cursor.skip = None if cursor.skip.over else cursor.skip
            self._tell(name, cursor, text, str(run[-1].position), told)

    def _tell(self, name: str, cursor: Cursor, text: str, position: str, told: list[Event]) -> None:
        if cursor.sieve is not None and text:
            kept = cursor.sieve.keep(text[:-1].split("\n"))
            text = "\n".join(kept) + "\n" if kept else ""
        if text:
            told.append(Lines(name, position, text.count("\n"), text))

    def see(self, cursor: Cursor, pod: PodLogs | None) -> None:
        """How a container's pod is now."""
        key = cursor.source.key
        container = pod.container(key.container) if pod else None
        state = container.state if container else "gone"
        why = None if container is None else container.ending if state == "ended" else container.why
        place = Place(key.name, key.namespace, key.pod, key.container, state, why)
        if place != cursor.place:
            cursor.place = place
            self.news.append(place)
        cursor.gone = pod is None
