"""All logs that somebody reads, in one thread: of each container one stream, whoever and how many read it; none when nobody does.

Any floor above may use it (``room.kube.logs``)::

    reader = room.kube.logs.open(cluster, Want((Choice("default", labels="app=web"),), tail=100), notify)
    reader.take()      # when notify was called: events to send on (see log_reader)
    reader.close()

The thread sleeps until something comes and then lets more come for a moment before it looks again: with hundreds of containers
half a second. Lines are worked on in blocks. Measured against one ``kubectl logs -f`` for each container in docs/benchmarks.md.
"""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace

from instantstart.base import log, problems
from instantstart.kube import log_pods
from instantstart.kube.cache import Reflector
from instantstart.kube.client import KubeCluster, LogQuery
from instantstart.kube.connection import Ask
from instantstart.kube.log_lines import Position, Resuming, Sieve, reached, text_of, tidy
from instantstart.kube.log_pods import Choice, PodLogs
from instantstart.kube.log_reader import MOST_SOURCES, NOTHING, Cursor, History, Note, Reader, Want
from instantstart.kube.log_source import RING_BYTES, Dialling, First, Key, Source
from instantstart.kube.log_wire import LogStream, dial
from instantstart.kube.watching import Watching

#: how long a stream that nobody reads is kept for who comes back (a page that is loaded again), in seconds
LINGER_SECONDS = 2.0
#: the pause in which more may come: for few containers, and for each one more, and at most
PAUSE_SECONDS, PAUSE_EACH_SECONDS, LONGEST_PAUSE_SECONDS = 0.04, 0.0025, 0.5
#: nothing came: the longest sleep
IDLE_SECONDS = 1.0
#: what was there at first is waited for so long before a reader is told that it has all of it
SETTLE_SECONDS = 4.0
#: what is read for one reader alone, of one container
MOST_HISTORY_BYTES = 4 * 1024 * 1024
#: lines so long that these do not fit into that are cut
FEWEST_LINES = 50
_DIALS = 8
_log = log.get(__name__)


@dataclass
class _Crowd:
    """A live copy of the pods of one choice, and who reads them."""

    cluster: KubeCluster
    choice: Choice
    reflector: Reflector[PodLogs]
    running: Future[None]
    pods: dict[str, PodLogs] = field(default_factory=dict)
    readers: list[Reader] = field(default_factory=list)
    idle_since: float | None = None


@dataclass
class _Read:
    """A source, by whom it is read, and since when nobody does."""

    cluster: KubeCluster
    source: Source
    cursors: list[Cursor] = field(default_factory=list)
    readers: list[Reader] = field(default_factory=list)
    idle_since: float | None = None
    #: the stream that the selector watches
    watched: LogStream | None = None

    def behind(self) -> bool:
        """Whether every reader still has half a ring to take."""
        held = self.source.ring.bytes - RING_BYTES // 2
        return bool(self.cursors) and all(cursor.bytes < held for cursor in self.cursors)


class LogHub:
    """See the module. Safe from any thread."""

    def __init__(self, watching: Watching) -> None:
        self._watching = watching
        self._lock = threading.RLock()
        self._calls: deque[Callable[[], None]] = deque()
        self._thread: threading.Thread | None = None
        self._stopped = False
        self._reads: dict[Key, _Read] = {}
        self._crowds: dict[tuple[int, Choice], _Crowd] = {}
        self._opened: dict[Reader, float] = {}
        self._told: set[Reader] = set()

    # ------------------------------------------------------------------ for everybody

    def open(self, cluster: KubeCluster, want: Want, notify: Callable[[], None]) -> Reader:
        """A reader; ``notify`` is called in the hub's thread when there is something to take, and must not block."""
        reader = Reader(want, notify, lambda who: self._call(lambda: self._left(who)), self._lock)
        with self._lock:
            self._start()
        self._call(lambda: self._join(cluster, reader))
        return reader

    def streams(self) -> list[str]:
        """The containers whose logs are open, by name."""
        with self._lock:
            return sorted(r.source.key.name for r in self._reads.values() if r.source.stream is not None)

    def close(self) -> None:
        """Close every stream and end the thread."""
        with self._lock:
            thread, self._stopped = self._thread, True
        if thread is not None:
            self._wake()
            thread.join(timeout=5)

    # ------------------------------------------------------------------ the thread

    def _start(self) -> None:
        if self._thread is None:
            self._selector = selectors.DefaultSelector()
            self._bell, self._ring_bell = socket.socketpair()
            for each in (self._bell, self._ring_bell):
                each.setblocking(False)
            self._selector.register(self._bell, selectors.EVENT_READ, None)
            self._pool = ThreadPoolExecutor(_DIALS, "kube-logs-dial")
            self._thread = threading.Thread(target=self._run, name="kube-logs", daemon=True)
            self._thread.start()

    def _call(self, act: Callable[[], None]) -> None:
        """Do something in the thread."""
        self._calls.append(act)
        self._wake()

    def _wake(self) -> None:
        with suppress(BlockingIOError, OSError):
            self._ring_bell.send(b"!")

    def _run(self) -> None:
        try:
            self._go_round()
        finally:
            self._end()

    def _go_round(self) -> None:
        pause = 0.0
        while not self._stopped:
            if pause:
                time.sleep(pause)
            ready = self._selector.select(0 if pause else self._until_due())
            with self._lock:
                self._turn({id(key.data): key.data for key, _ in ready if key.data is not None})
            pause = min(PAUSE_SECONDS + PAUSE_EACH_SECONDS * len(self._reads), LONGEST_PAUSE_SECONDS) if ready else 0.0

    def _until_due(self) -> float:
        """Seconds until something is to be done though nothing comes."""
        if self._opened or any(read.source.stream is not None and read.source.stream.more for read in self._reads.values()):
            return PAUSE_SECONDS
        due = min((r.source.again_at for r in self._reads.values() if r.source.stream is None and r.source.asked is None), default=0.0)
        wait = due - time.monotonic()
        return min(wait, IDLE_SECONDS) if wait > 0 else IDLE_SECONDS

    def _end(self) -> None:
        """Let go of everything. When it was not asked for, whoever reads is told, and the next one that comes begins anew."""
        with self._lock:
            readers = {*self._opened, *(r for crowd in self._crowds.values() for r in crowd.readers)}
            for reader in readers if not self._stopped else ():
                reader.problem = problems.Broken("log.reading_stopped", "Reading logs stopped by a fault of ours.", hint="Open them again.")
                reader.notify()
            for read in self._reads.values():
                read.source.close()
            for crowd in self._crowds.values():
                crowd.running.cancel()
            self._reads, self._crowds, self._opened, self._thread = {}, {}, {}, None
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._selector.close()
        self._bell.close()
        self._ring_bell.close()

    def _turn(self, ready: dict[int, _Read]) -> None:
        with suppress(BlockingIOError):
            self._bell.recv(4096)
        while self._calls:
            self._calls.popleft()()
        now = time.monotonic()
        for read in list(self._reads.values()):
            source = read.source
            if source.stream is not None and (id(read) in ready or source.stream.more) and source.read(now, read.behind):
                self._told.update(read.readers)
            source.let_go(now)
            if source.stream is None:
                self._look(read, now)
        self._sweep(now)
        told, self._told = self._told, set()
        for reader in told:
            reader.notify()

    def _look(self, read: _Read, now: float) -> None:
        serial = read.source.ring.serial
        self._unregister(read)
        read.source.look(now)
        if read.source.ring.serial != serial:
            self._told.update(read.readers)

    def _sweep(self, now: float) -> None:
        """Who has all there was is told so; what nobody reads is closed."""
        for reader in {reader for read in self._reads.values() for reader in read.readers if reader.waiting}:
            reader.feed()
        for reader, since in list(self._opened.items()):
            self._settle(reader, now - since)
        for key, read in list(self._reads.items()):
            if read.readers:
                read.idle_since = None
            elif now - (read.idle_since or now) >= LINGER_SECONDS or read.source.pod is None:
                self._unregister(read)
                read.source.close()
                del self._reads[key]
            else:
                read.idle_since = read.idle_since or now
        for crowd_key, crowd in list(self._crowds.items()):
            crowd.idle_since = None if crowd.readers else crowd.idle_since or now
            if crowd.idle_since is not None and now - crowd.idle_since >= LINGER_SECONDS:
                crowd.running.cancel()
                del self._crowds[crowd_key]

    def _settle(self, reader: Reader, waited: float) -> None:
        if self._calls:
            return  # pods that were listed may be among them
        crowds = [c for c in self._crowds.values() if reader in c.readers]
        for crowd in crowds:
            told = crowd.reflector.freshness()
            if told.problem is not None and not told.synced:
                reader.problem = told.problem
        reader.listed = reader.listed or all(c.reflector.synced.is_set() for c in crowds)
        settled = all(c.source.settled and c.history is not None for c in reader.cursors.values())
        if reader.problem is not None or (reader.listed and settled) or (reader.listed and waited > SETTLE_SECONDS):
            reader.ready = True
            del self._opened[reader]
            self._told.add(reader)

    # ------------------------------------------------------------------ readers and pods

    def _join(self, cluster: KubeCluster, reader: Reader) -> None:
        if reader.closed:
            return
        self._opened[reader] = time.monotonic()
        for choice in reader.want.choices:
            crowd = self._crowd(cluster, choice)
            crowd.readers.append(reader)
            for pod in crowd.pods.values():
                self._pod_for(crowd, reader, pod)

    def _crowd(self, cluster: KubeCluster, choice: Choice) -> _Crowd:
        key = (id(cluster), choice)
        if key not in self._crowds:
            reflector = Reflector(cluster.connection, log_pods.source(choice))
            crowd = _Crowd(cluster, choice, reflector, self._watching.run(reflector))
            self._crowds[key] = crowd
            self._watching.tell(reflector, lambda before, after: self._call(lambda: self._pod(crowd, before, after)))
        return self._crowds[key]

    def _pod(self, crowd: _Crowd, before: PodLogs | None, after: PodLogs | None) -> None:
        """A pod of a crowd is new, changed, or gone."""
        known = after or before
        if known is None or not crowd.choice.means(known):
            return
        if after is not None:
            crowd.pods[after.name] = after
        else:
            crowd.pods.pop(known.name, None)
        for reader in crowd.readers:
            self._pod_for(crowd, reader, known, gone=after is None)

    def _pod_for(self, crowd: _Crowd, reader: Reader, pod: PodLogs, gone: bool = False) -> None:
        for container in pod.containers:
            if reader.want.container not in (None, container.name):
                continue
            key = Key(str(id(crowd.cluster)), pod.namespace, pod.name, container.name)
            cursor = reader.cursors.get(key.name)
            if cursor is None and not gone:
                cursor = self._attach(crowd.cluster, reader, key, pod)
            if cursor is None:
                continue
            cursor.source.seen(None if gone else pod)
            reader.see(cursor, None if gone else pod)
            self._told.add(reader)

    def _attach(self, cluster: KubeCluster, reader: Reader, key: Key, pod: PodLogs) -> Cursor | None:
        if len(reader.cursors) >= MOST_SOURCES:
            if not reader.full:
                reader.news.append(Note("", f"Only {MOST_SOURCES} containers are followed at once; choose fewer."))
            reader.full = True
            return None
        told = pod.container(key.container)
        first = reader.want.first(key.name, late=reader.listed or told is None or told.state == "waiting")
        read = self._reads.get(key)
        new = read is None
        if read is None:
            source = Source(key, first, lambda who, asked: self._dial(cluster, who, asked), pod=pod)
            read = self._reads[key] = _Read(cluster, source)
        cursor = Cursor(read.source, sieve=Sieve(reader.want.search, reader.want.context) if reader.want.search else None)
        reader.cursors[key.name] = cursor
        read.cursors.append(cursor)
        read.readers.append(reader)
        if not new:
            self._catch_up(reader, read, cursor, first)
        return cursor

    def _left(self, reader: Reader) -> None:
        self._opened.pop(reader, None)
        for crowd in self._crowds.values():
            if reader in crowd.readers:
                crowd.readers.remove(reader)
        for read in self._reads.values():
            if reader in read.readers:
                at = read.readers.index(reader)
                del read.readers[at], read.cursors[at]

    # ------------------------------------------------------------------ what goes to other threads

    def _dial(self, cluster: KubeCluster, source: Source, asked: Dialling) -> None:
        """Open a stream in the pool; the source is told in this thread."""
        path = cluster.kinds.resolve("Pod").path(asked.key.namespace, asked.key.pod, "log")

        def work() -> None:
            try:
                stream = dial(cluster.connection, path, asked.params(), asked.rejected)
            except problems.Problem as problem:
                self._call(lambda problem=problem: source.failed(problem, time.monotonic()))  # type: ignore[misc]
                return
            self._call(lambda: self._dialled(source, asked, stream))

        self._pool.submit(work)

    def _dialled(self, source: Source, asked: Dialling, stream: LogStream) -> None:
        read = self._reads.get(source.key)
        if read is None or read.source is not source or source.asked is not asked:
            stream.close()
            return
        source.dialled(stream)
        self._selector.register(stream, selectors.EVENT_READ, read)
        read.watched = stream

    def _unregister(self, read: _Read) -> None:
        """A closed socket leaves the selector by itself, but not its table."""
        if read.watched is not None:
            self._selector.unregister(read.watched)
            read.watched = None

    def _catch_up(self, reader: Reader, read: _Read, cursor: Cursor, first: First) -> None:
        """A reader that comes to a log that is open already: from its ring when that has the place, else what it wants is read for it."""
        source = read.source
        cursor.begin(source.ring.serial)
        serial = source.ring.after(first.after) if first.after is not None else None
        if serial is not None:
            cursor.begin(serial)
            return
        cursor.history = None
        reader.waiting.append(lambda: self._begin_history(read, cursor, first))

    def _begin_history(self, read: _Read, cursor: Cursor, first: First) -> None:
        cursor.begin(read.source.ring.serial)  # from here on the ring has it; what comes twice meanwhile is left out
        self._pool.submit(self._read_history, read, cursor, first)

    def _read_history(self, read: _Read, cursor: Cursor, first: First) -> None:
        content = b""
        with suppress(problems.Problem):  # it has no log yet, or cannot be read: the source itself says why
            content = self._all_of(read, first)
        self._call(lambda: self._history(read, cursor, first, content))

    def _all_of(self, read: _Read, first: First) -> bytes:
        """What there is. A limit of bytes cuts the newest off, so fewer lines are asked for when it is met."""
        key, after = read.source.key, first.after
        path = read.cluster.kinds.resolve("Pod").path(key.namespace, key.pod, "log")
        query = LogQuery(key.container, limit_bytes=MOST_HISTORY_BYTES, timestamps=True)
        if after is not None:
            return read.cluster.connection.send(Ask("GET", path, replace(query, since_time=after.at).params()))
        tail = first.tail
        while True:
            asked = replace(query, tail_lines=tail, since_seconds=first.since_seconds)
            content = read.cluster.connection.send(Ask("GET", path, asked.params()))
            if len(content) < MOST_HISTORY_BYTES or tail is None or tail < FEWEST_LINES:
                return content
            tail //= 4

    def _history(self, read: _Read, cursor: Cursor, first: First, content: bytes) -> None:
        block = content[: content.rfind(b"\n") + 1]
        seen: Position | None = None
        if block:
            block = tidy(block, None)
            seen = reached(block, None, begun_inside=True)
            block = Resuming(first.after).cut(block) if first.after else block
        cursor.history = History(text_of(block), str(seen)) if block else NOTHING
        cursor.skip = Resuming(seen) if seen else None
        self._told.update(read.readers)
