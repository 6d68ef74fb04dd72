"""One container's log as it is written: one stream from the API, a bounded ring of what came last, and any number of readers of it.

A followed log ends without a word when its file is rotated, when the container ends, when a proxy has had enough (case 78). The source
looks at the container and goes on from the last line, says what happened in between, and never gives a line twice. All of it runs in
the hub's one thread.
"""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from instantstart.base import problems
from instantstart.kube.client import LogQuery
from instantstart.kube.log_lines import LONGEST_LINE, Position, Resuming, reached, text_of, tidy
from instantstart.kube.log_pods import Container, PodLogs
from instantstart.kube.log_wire import LogStream, UnauthorizedError

#: what is kept of a container for readers who are behind (bytes)
RING_BYTES = 128 * 1024
#: while every reader is behind by half a ring, the stream is not read: the kubelet waits. Longer than this (seconds) would show the past
PATIENCE_SECONDS = 10.0
#: between two looks at a stream that ended without a reason, at first and at most
AGAIN_SECONDS = (0.3, 10.0)
#: so long a stream may go on after its container has begun anew
OVERDUE_SECONDS = 3.0
#: a part of a line without its end: more of it is given as a line
_MOST_HELD = 4 * LONGEST_LINE


@dataclass(frozen=True)
class Key:
    """Which container of which cluster."""

    cluster: str
    namespace: str
    pod: str
    container: str

    @property
    def name(self) -> str:
        """As readers call it."""
        return f"{self.namespace}/{self.pod}/{self.container}"


class Block(msgspec.Struct, frozen=True, gc=False):
    """Lines that came together (``lines`` of them, each ``TIME TEXT`` with its line end), or what is to be said between them."""

    serial: int
    #: lines and bytes of the source before this block
    lines_before: int
    bytes_before: int
    lines: int
    text: str
    position: Position | None
    #: in bytes, about
    size: int
    note: str | None = None


class Ring:
    """The last blocks. What falls out is counted, so that who missed it can be told."""

    def __init__(self) -> None:
        self.blocks: deque[Block] = deque()
        self.serial = self.lines = self.bytes = 0
        self._held = 0

    def add(self, text: str, lines: int, position: Position | None, note: str | None = None) -> None:
        """One more block; the oldest go when there are too many bytes."""
        size = len(text) + 64
        self.blocks.append(Block(self.serial, self.lines, self.bytes, lines, text, position, size, note))
        self.serial, self.lines, self.bytes, self._held = self.serial + 1, self.lines + lines, self.bytes + size, self._held + size
        while self._held > RING_BYTES and len(self.blocks) > 1:
            self._held -= self.blocks.popleft().size

    def since(self, serial: int) -> list[Block]:
        """The blocks from ``serial`` on that are still there."""
        if serial >= self.serial:
            return []
        return list(itertools.islice(self.blocks, max(serial - self.blocks[0].serial, 0), None))

    def after(self, position: Position) -> int | None:
        """The serial behind the block that ended at ``position``; None when no block here did."""
        found = (b.serial + 1 for b in reversed(self.blocks) if b.position == position and b.lines)
        return next(found, None)


@dataclass
class First:
    """How a source begins: the last ``tail`` lines, what came in the last ``since_seconds``, or what follows a place; else all of it."""

    tail: int | None = None
    since_seconds: int | None = None
    after: Position | None = None


@dataclass(frozen=True)
class Dialling:
    """What to ask the API for."""

    key: Key
    query: LogQuery
    follow: bool
    rejected: str | None = None

    def params(self) -> dict[str, str]:
        """As query parameters."""
        return self.query.params() | ({"follow": "true"} if self.follow else {})


@dataclass
class _Life:
    """Which run of the container has been read, and whether to its end."""

    uid: str = ""
    number: int = -1
    read: bool = False
    #: whether lines of it were read
    lines: bool = False


@dataclass
class Source:
    """See the module. ``dial`` asks for a stream; the hub answers with ``dialled``."""

    key: Key
    first: First
    dial: Callable[[Source, Dialling], None]
    ring: Ring = field(default_factory=Ring)
    pod: PodLogs | None = None
    position: Position | None = None
    stream: LogStream | None = None
    #: what there was at first has been read, or there is nothing to read yet
    settled: bool = False
    asked: Dialling | None = None
    #: not before this moment (monotonic) is it tried again
    again_at: float = 0.0
    _life: _Life = field(default_factory=_Life)
    _resuming: Resuming | None = None
    _rest: bytes = b""
    _begun_inside: bool = False
    _pause: float = AGAIN_SECONDS[0]
    _paused_since: float | None = None
    _trouble: str | None = None
    _came: bool = False
    _overdue_at: float | None = None

    # ------------------------------------------------------------------ the container

    def seen(self, pod: PodLogs | None) -> None:
        """How the pod is now; None: it is gone."""
        if pod is None and self.pod is not None:
            self.note("The pod is gone.")
        self.pod, self.again_at = pod, 0.0
        container = self._container()
        if container is None or container.life == self._life.number:
            self._overdue_at = None
        else:
            self._overdue_at = self._overdue_at or time.monotonic() + OVERDUE_SECONDS

    def let_go(self, now: float) -> None:
        """Close a stream that ought to have ended: its container runs anew for a while already."""
        if self.stream is not None and self._overdue_at is not None and now > self._overdue_at:
            self._ended(now)

    def look(self, now: float) -> None:
        """Open a stream when there is something to read and none is open."""
        if self.stream is not None or self.asked is not None or now < self.again_at:
            return
        container = self._container()
        if self.pod is None or container is None or container.state == "waiting":
            self.settled = True
            return
        if not self._life.uid:
            self._life = _Life(self.pod.uid, container.life)
        elif (self._life.uid, self._life.number) != (self.pod.uid, container.life) and self._changed(self.pod, container):
            return
        if container.state == "ended" and self._life.read:
            self.settled = True
            return
        self._ask(follow=container.state == "running")

    def _changed(self, pod: PodLogs, container: Container) -> bool:
        """Another run than the one that was read: say so; True when what the last one said at its end is to be read first."""
        life = self._life
        if life.uid != pod.uid:
            self.note("The pod was replaced by another of the same name.")
        elif not life.read and container.life == life.number + 1:
            life.read = True
            self._ask(follow=False, previous=True)
            return True
        else:
            self.note(f"The container {container.name} was restarted (restart {container.life}).")
        self._life = _Life(pod.uid, container.life)
        return False

    def _ask(self, *, follow: bool, previous: bool = False, rejected: str | None = None) -> None:
        query = LogQuery(container=self.key.container, previous=previous, timestamps=True)
        first = self.first
        self._begun_inside = False
        seen = self.position or first.after
        if seen is not None:
            query = LogQuery(container=self.key.container, previous=previous, timestamps=True, since_time=seen.at)
            self._resuming = Resuming(seen)
        elif first.tail is not None or first.since_seconds is not None:
            self._begun_inside = True
            query = LogQuery(
                container=self.key.container, timestamps=True, tail_lines=first.tail, since_seconds=first.since_seconds, previous=previous
            )
        self._came = False
        self.asked = Dialling(self.key, query, follow, rejected)
        self.dial(self, self.asked)

    # ------------------------------------------------------------------ the stream

    def dialled(self, stream: LogStream) -> None:
        """The answer to ``dial``."""
        self.stream, self._rest = stream, b""

    def failed(self, problem: problems.Problem, now: float) -> None:
        """There is no stream, and why. It is said once, and tried again, less and less often."""
        ordinary = isinstance(problem, (problems.Busy, problems.NotFound, problems.Invalid))
        if not ordinary and problem.code != self._trouble:
            self._trouble = problem.code
            self.note(f"Not read at the moment: {problem.detail}")
        self._ended(now)

    def read(self, now: float, behind: Callable[[], bool]) -> bool:
        """Take what has come; whether there was anything to tell. ``behind``: every reader still has much to take."""
        stream = self.stream
        if stream is None or self._waits_for_readers(now, behind):
            return False
        try:
            data = stream.drain()
        except UnauthorizedError:
            self._with_another_token(stream)
            return False
        except problems.Problem as problem:
            self.failed(problem, now)
            return True
        told = self._take(data, final=stream.complete) if data or stream.closed else False
        if not stream.more:
            self.settled = True
        if stream.closed:
            self._done(now)
        return told

    def close(self) -> None:
        """Nobody reads any more."""
        if self.stream is not None:
            self.stream.close()
        self.stream = self.asked = None

    def note(self, text: str) -> None:
        """Say something that is no line."""
        self.ring.add("", 0, self.position, text)

    def _waits_for_readers(self, now: float, behind: Callable[[], bool]) -> bool:
        if not behind():
            self._paused_since = None
            return False
        self._paused_since = self._paused_since or now
        return now - self._paused_since < PATIENCE_SECONDS

    def _with_another_token(self, stream: LogStream) -> None:
        asked = self.asked
        stream.close()
        self.stream, again = None, asked is not None and asked.rejected is None
        if again and asked is not None:
            self.asked = Dialling(asked.key, asked.query, asked.follow, stream.token)
            self.dial(self, self.asked)
            return
        self.asked = None
        self.note("Not read at the moment: the cluster does not take our token.")
        self.again_at = float("inf")  # until something is new about the pod

    def _take(self, data: bytes, final: bool) -> bool:
        """New lines into the ring. The end of a stream ends a line, a torn one too: what is missing of it comes again."""
        block = self._rest + data
        end = block.rfind(b"\n") + 1
        self._rest = block[end:]
        block = block[:end]
        if len(self._rest) > _MOST_HELD or (final and self._rest and self._is_last()):
            block, self._rest = block + self._rest + b"\n", b""
        if not block:
            return False
        self._came = True
        block = tidy(block, self.position)
        if self._resuming is not None:
            block = self._resume(self._resuming, block)
        if not block:
            return False
        self.position = reached(block, self.position, self._begun_inside)
        self._begun_inside, self._life.lines = False, True
        self._pause, self._trouble = AGAIN_SECONDS[0], None
        self.ring.add(text_of(block), block.count(b"\n"), self.position)
        return True

    def _is_last(self) -> bool:
        """Whether the container will not write the rest of a line any more."""
        return self.asked is not None and not self.asked.follow

    def _resume(self, resuming: Resuming, block: bytes) -> bytes:
        block = resuming.cut(block)
        if resuming.over:
            self._resuming = None
            if not resuming.met:  # of the same file, the last line told should have come again
                self._another_file()
        return block

    def _another_file(self) -> None:
        container = self._container()
        if self.pod is not None and container is not None and container.life != self._life.number:
            self.note(f"The container {container.name} was restarted (restart {container.life}).")
            self._life = _Life(self.pod.uid, container.life)
        elif self._life.lines:
            self.note("The log begins anew here (it was rotated, or the container restarted): lines may be missing.")

    def _container(self) -> Container | None:
        return self.pod.container(self.key.container) if self.pod else None

    def _done(self, now: float) -> None:
        """The stream has ended: was that the end of the run?"""
        asked = self.asked
        whole = self.stream is not None and self.stream.complete
        if whole and asked is not None and not asked.follow and not asked.query.previous:
            container = self._container()
            if container is not None and container.state == "ended" and container.life == self._life.number:
                self._life.read = True
                self.note(container.ending)
        self._ended(now)

    def _ended(self, now: float) -> None:
        if self.stream is not None:
            self.stream.close()
        quiet = not self._came
        self.stream = self.asked = None
        self.settled = True
        self._pause = min(self._pause * 2, AGAIN_SECONDS[1]) if quiet else AGAIN_SECONDS[0]
        self.again_at = now + self._pause
        self._overdue_at = None
