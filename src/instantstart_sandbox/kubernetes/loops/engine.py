"""One worker for each cluster runs all its controllers: keys that changed at once, keys with a date when it has come.

Controllers are level-triggered: ``reconcile(key)`` looks at the present state only, so a lost or doubled key does no harm and
a sandbox that starts again goes on where it was. While a key runs whose date has passed, ``now()`` is that date: a long warp
unfolds in the right order.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..errors import ApiError
from .cache import Cache
from .objects import Object, name_of, namespace_of

if TYPE_CHECKING:
    from ..client import Client
    from ..cluster import Cluster

log = logging.getLogger(__name__)
#: A warp or a new rate of the clock is noticed within this many real seconds.
_SLICE_SECONDS = 0.1
#: Dates this near to one another are one moment: a hundred pods that start together make one round of their controllers.
_TOGETHER_SECONDS = 0.2
#: A date is never "now": what rounding leaves over must not spin.
_SHORTEST_SECONDS = 0.01
_BACKOFF_SECONDS = (1.0, 2.0, 4.0, 8.0, 16.0, 60.0)


class Controller:
    """A reconcile loop. ``watched`` are resources; ``keys`` says which keys an object's change concerns."""

    name = ""
    watched: tuple[str, ...] = ()

    def __init__(self, engine: Engine) -> None:
        self.engine, self.cache, self.cluster = engine, engine.cache, engine.cluster
        self.client: Client = engine.cluster.client.named(self.name)

    def concerns(self, resource: str, before: Object | None, after: Object | None) -> bool:
        """Whether a change matters at all; asked before ``keys``. None stands for "not there"."""
        return True

    def begin(self) -> None:
        """Called once, when the cache is filled and before anything runs."""

    def keys(self, resource: str, obj: Object) -> Iterable[str]:
        """The keys to reconcile when ``obj`` of ``resource`` is made, changed or removed."""
        raise NotImplementedError

    async def reconcile(self, key: str) -> None:
        """Bring the world one step nearer to what the object of that key asks."""
        raise NotImplementedError

    def now(self) -> float:
        """Virtual seconds since the epoch."""
        return self.engine.now()

    def later(self, seconds: float, key: str) -> None:
        """Reconcile the key again after ``seconds`` of virtual time, whatever happens meanwhile."""
        self.engine.later(self, seconds, key)

    async def event(self, obj: Object, reason: str, message: str, warning: bool = False) -> None:
        """Tell people about ``obj``; repeated events are counted, and a refused one is not a failure."""
        try:
            await self.client.event(obj, reason, message, type="Warning" if warning else "Normal", component=self.name)
        except ApiError as error:
            log.debug("event %s refused: %s", reason, error)


class Engine:
    """The queues and the worker. ``add`` every controller, then ``cluster.start(engine.run())``."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.cache = Cache(cluster, self._observe)
        self.controllers: list[Controller] = []
        self._by_resource: dict[str, list[Controller]] = {}
        self._ready: dict[tuple[str, str], Controller] = {}
        self._dated: list[tuple[float, int, str, str]] = []
        self._dates: dict[tuple[str, str], float] = {}
        self._named: dict[str, Controller] = {}
        self._failures: dict[tuple[str, str], int] = {}
        self._seen: dict[tuple[str, str], float] = {}
        self._sequence = itertools.count()
        self._wake = asyncio.Event()
        self._moment: float | None = None

    def add(self, controller: Controller) -> None:
        """Register a controller before the engine runs."""
        self.controllers.append(controller)
        self._named[controller.name] = controller
        for resource in controller.watched:
            self._by_resource.setdefault(resource, []).append(controller)

    def controller(self, name: str) -> Controller:
        """The controller of that name. KeyError."""
        return self._named[name]

    def follow(self, controller: Controller, resource: str) -> None:
        """Let a controller hear of one more resource: a custom kind that is served only now."""
        hearers = self._by_resource.setdefault(resource, [])
        if controller in hearers:
            return
        hearers.append(controller)
        if not self.cache.holds(resource):
            self.cache.follow([resource])
            return
        for obj in self.cache.all(resource):
            for key in controller.keys(resource, obj):
                self.enqueue(controller, key)

    def now(self) -> float:
        """The virtual moment of what is being done."""
        return self.cluster.clock.now() if self._moment is None else self._moment

    def enqueue(self, controller: Controller, key: str) -> None:
        """Reconcile the key as soon as its turn comes."""
        self._ready.setdefault((controller.name, key), controller)
        self._wake.set()

    def later(self, controller: Controller, seconds: float, key: str) -> None:
        """Reconcile the key in ``seconds``; of several dates for one key the earliest counts."""
        due, ident = self.now() + max(seconds, _SHORTEST_SECONDS), (controller.name, key)
        if self._dates.get(ident, due + 1) <= due:
            return
        self._dates[ident] = due
        heapq.heappush(self._dated, (due, next(self._sequence), controller.name, key))
        self._wake.set()

    def first_seen(self, what: tuple[str, str]) -> float:
        """When that was first asked about: the start of a delay. A sandbox that starts again counts anew."""
        return self._seen.setdefault(what, self.now())

    def forget(self, *whats: tuple[str, str]) -> None:
        """End delays begun by ``first_seen``."""
        for what in whats:
            self._seen.pop(what, None)

    async def write_status(self, resource: str, obj: Object, fields: Object, client: Client) -> None:
        """Merge ``fields`` into the status when one of them differs; None removes a field."""
        status = obj.get("status") or {}
        if any(status.get(name) != value for name, value in fields.items()):
            await client.status(resource, name_of(obj), fields, namespace_of(obj) or None)

    def _observe(self, resource: str, before: Object | None, after: Object | None) -> None:
        for controller in self._by_resource.get(resource, ()):
            if not controller.concerns(resource, before, after):
                continue
            for obj in (before, after):
                if obj is not None:
                    for key in controller.keys(resource, obj):
                        self._ready.setdefault((controller.name, key), controller)
        self._wake.set()

    def begin(self) -> None:
        """Take up everything that exists."""
        self.cache.follow(list(self._by_resource))
        for controller in self.controllers:
            controller.begin()

    @property
    def next_due(self) -> float | None:
        """The virtual moment of the next dated key."""
        return self._dated[0][0] if self._dated else None

    async def run(self) -> None:
        """Begin, and work for ever."""
        self.begin()
        try:
            await self.work()
        finally:
            self.cache.leave()

    async def work(self) -> None:
        """Work for ever; after each key the API's requests get a turn."""
        while True:
            if await self.step():
                await asyncio.sleep(0)
            else:
                await self._rest()

    async def step(self) -> bool:
        """Run one key; False when nothing is to be done now."""
        if not self._ready and not self._pop_due():
            self._moment = None
            return False
        (name, key), controller = next(iter(self._ready.items()))
        del self._ready[name, key]
        await self._run(controller, key)
        return True

    def _pop_due(self) -> bool:
        """Take the keys of the next moment whose time has come; what is due almost at once is taken along."""
        now, first = self.cluster.clock.now(), None
        while self._dated and self._dated[0][0] <= min(now, now if first is None else first + _TOGETHER_SECONDS):
            due, _, name, key = heapq.heappop(self._dated)
            if self._dates.get((name, key)) == due:
                del self._dates[name, key]
                first = due if first is None else first
                self._moment = due
                self._ready[name, key] = self._named[name]
        return first is not None

    async def _run(self, controller: Controller, key: str) -> None:
        ident = (controller.name, key)
        try:
            await controller.reconcile(key)
        except ApiError as error:
            # Somebody else wrote meanwhile, or the object is gone: the next look decides.
            log.debug("%s %s: %s", controller.name, key, error)
            self._retry(ident, controller)
        except Exception as error:
            log.exception("controller %s failed on %s", controller.name, key)
            self.cluster.crashes.append(f"controller {controller.name} on {key}: {error!r}")
            self._retry(ident, controller)
        else:
            self._failures.pop(ident, None)

    def _retry(self, ident: tuple[str, str], controller: Controller) -> None:
        failures = self._failures.get(ident, 0)
        self._failures[ident] = failures + 1
        self.later(controller, _BACKOFF_SECONDS[min(failures, len(_BACKOFF_SECONDS) - 1)], ident[1])

    async def _rest(self) -> None:
        timeout = None
        if self._dated:
            left = (self._dated[0][0] - self.cluster.clock.now()) / self.cluster.clock.rate
            timeout = max(min(left, _SLICE_SECONDS), 0.001)
        try:
            async with asyncio.timeout(timeout):
                await self._wake.wait()
        except TimeoutError:
            return
        self._wake.clear()
