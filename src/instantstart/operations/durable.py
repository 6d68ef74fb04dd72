"""The only speaker of DBOS: one durable workflow that runs any operation, step by step, on an event loop of its own.

What DBOS gives: the execution of an operation is begun exactly once, goes on after a crash, and its finished steps are not
entered again. What it does not give, our own tables do: what is listed, what was learned, and by name which stages are done.
The reasons are in docs/decisions/0003-operations-on-dbos.md.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, TypeVarTuple

from dbos import DBOS, DBOSConfig, DBOSPortableJSONSerializer, SetWorkflowID

from instantstart.base import log, problems
from instantstart.base.clock import Clock
from instantstart.operations.ticking import Tick
from instantstart.store import trouble

#: bumped by hand when the shape of ``_operation`` changes. DBOS's own guess, a hash of the code, would strand what is in flight
APPLICATION_VERSION = "instantstart-1"
#: restarts of the process that one execution survives before it is taken for the cause of the crashes
MAX_RECOVERIES = 25
_SHORTEST_SLEEP_SECONDS = 0.02
_LIBRARY_THREADS = 8
#: real seconds until a call that met a full, held or absent database is made again
_DATABASE_PAUSE_SECONDS = 1.0
_logger = log.get(__name__)

Answer = TypeVar("Answer")
Given = TypeVarTuple("Given")


class Script(Protocol):
    """What an execution does, synchronously; every call runs in a worker thread."""

    def begin(self, operation_id: str, execution: int) -> tuple[tuple[str, ...], ...]:
        """The names of the stages of each step."""

    def tick(self, operation_id: str, execution: int, name: str, misses: int) -> Tick:
        """Look at one stage once."""

    def settle(self, operation_id: str, execution: int, names: tuple[str, ...]) -> bool:
        """All stages of a step rest. True: go on."""

    def succeed(self, operation_id: str, execution: int) -> None:
        """Every step is done."""


@dataclass(frozen=True)
class Standing:
    """How an execution stands in DBOS, and with which replica."""

    status: str
    replica: str | None

    @property
    def running(self) -> bool:
        """DBOS believes that ``replica`` executes it now."""
        return self.status == "PENDING"

    @property
    def over(self) -> bool:
        """It will not go on by itself."""
        return self.status in ("SUCCESS", "ERROR", "CANCELLED")

    @property
    def given_up(self) -> bool:
        """It was restarted too often."""
        return self.status == "MAX_RECOVERY_ATTEMPTS_EXCEEDED"


class Durable:
    """One for the process: DBOS itself is a singleton."""

    def __init__(self, script: Script, clock: Clock, workers: int) -> None:
        self._script = script
        self._clock = clock
        self._workers = ThreadPoolExecutor(max_workers=workers, thread_name_prefix="tick")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run_loop, name="operations", daemon=True)
        self._stopping = False
        self._sleepers: dict[str, set[asyncio.Event]] = {}
        self._calls: dict[str, int] = {}
        self._live: set[tuple[str, int]] = set()

    # --- life ---------------------------------------------------------------------------------------------------

    def launch(self, url: str, replica: str) -> None:
        """Start DBOS on ``url`` as executor ``replica``; it adopts what this replica had in flight."""
        _quieten()
        self._thread.start()
        self._on_loop(self._launch, url, replica)

    def _run_loop(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.set_default_executor(ThreadPoolExecutor(max_workers=_LIBRARY_THREADS, thread_name_prefix="dbos"))
        self._loop.run_forever()

    async def _launch(self, url: str, replica: str) -> None:
        global _current  # DBOS keeps workflows in a registry of the process, so the way back to us is one too
        _current = self
        config: DBOSConfig = {
            "name": "instantstart",
            "system_database_url": url,
            "executor_id": replica,
            "application_version": APPLICATION_VERSION,
            "serializer": DBOSPortableJSONSerializer(),
            "max_executor_threads": _LIBRARY_THREADS,
            "notification_listener_polling_interval_sec": 1.0,
            "log_level": "WARNING",
            "enable_otlp": False,
        }
        DBOS(config=config)
        _quieten()
        DBOS.launch()  # called in this loop's thread, DBOS takes this loop for its own coroutines

    def shutdown(self) -> None:
        """Let looks in flight finish and be recorded; leave the rest as it stands for the next launch."""
        self._on_loop(self._stop_looking)
        self._workers.shutdown(wait=True, cancel_futures=True)
        logging.getLogger("dbos").setLevel(logging.ERROR)  # it warns of every coroutine that is dropped here on purpose
        self._on_loop(self._drop_tasks)
        DBOS.destroy()
        self._on_loop(self._drop_tasks)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    async def _stop_looking(self) -> None:
        self._stopping = True

    async def _drop_tasks(self) -> None:
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _on_loop(self, call: Callable[[*Given], Any], *given: *Given) -> Any:
        return asyncio.run_coroutine_threadsafe(call(*given), self._loop).result()

    # --- executions ---------------------------------------------------------------------------------------------

    def start(self, operation_id: str, execution: int) -> None:
        """Begin an execution. Beginning it twice, even from two replicas, begins it once."""
        self._on_loop(self._start, operation_id, execution)

    async def _start(self, operation_id: str, execution: int) -> None:
        if self._stopping:
            return  # the next launch finds it unstarted and starts it
        with SetWorkflowID(execution_id(operation_id, execution)):
            await DBOS.start_workflow_async(_operation, operation_id, execution)

    def is_live(self, operation_id: str, execution: int) -> bool:
        """This process is executing it now."""
        return (operation_id, execution) in self._live

    def standings(self, executions: Sequence[tuple[str, int]]) -> dict[tuple[str, int], Standing]:
        """How executions stand in DBOS; one that was never begun is missing."""
        names = {execution_id(*each): each for each in executions}
        found = DBOS.list_workflows(workflow_ids=list(names), load_input=False, load_output=False)
        return {names[each.workflow_id]: Standing(each.status, each.executor_id) for each in found}

    def drop(self, operation_id: str, execution: int) -> None:
        """Make DBOS end an execution that was overtaken."""
        DBOS.cancel_workflow(execution_id(operation_id, execution))

    def forget(self, before: dt.datetime) -> int:
        """Drop what DBOS keeps of executions that ended before a moment; our own records stay. The answer counts them."""
        ended = ["SUCCESS", "ERROR", "CANCELLED"]
        found = DBOS.list_workflows(status=ended, completed_before=before.isoformat(), limit=500, load_input=False, load_output=False)
        if found:
            DBOS.delete_workflows([each.workflow_id for each in found])
        return len(found)

    def wake(self, operation_id: str) -> None:
        """Make the stages of an operation look now instead of when their wait is over."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake, operation_id)

    def _wake(self, operation_id: str) -> None:
        self._calls[operation_id] = self._calls.get(operation_id, 0) + 1
        for sleeper in self._sleepers.get(operation_id, ()):
            sleeper.set()

    # --- one execution, on the loop -----------------------------------------------------------------------------

    async def run(self, operation_id: str, execution: int) -> str:
        """Every step in declared order, whatever our tables say: DBOS counts steps. A done stage is left at once."""
        self._live.add((operation_id, execution))
        try:
            for names in await self._work(self._script.begin, operation_id, execution):
                step = {"name": "+".join(names)}
                if not await DBOS.run_step_async(step, self._step, operation_id, execution, list(names)):  # type: ignore[call-overload]
                    return "stopped"
            await DBOS.run_step_async({"name": "end"}, self._end, operation_id, execution)
            return "ended"
        finally:
            self._live.discard((operation_id, execution))
            self._calls.pop(operation_id, None)

    async def _step(self, operation_id: str, execution: int, names: list[str]) -> bool:
        await asyncio.gather(*(self._stage(operation_id, execution, name) for name in names))
        return await self._work(self._script.settle, operation_id, execution, tuple(names))

    async def _end(self, operation_id: str, execution: int) -> bool:
        await self._work(self._script.succeed, operation_id, execution)
        return True

    async def _stage(self, operation_id: str, execution: int, name: str) -> None:
        misses = 0
        while True:
            heard = self._calls.get(operation_id, 0)
            tick = await self._work(self._script.tick, operation_id, execution, name, misses)
            misses = tick.misses
            if tick.again_seconds is None:
                self._wake(operation_id)  # those beside it need not sleep on when it has failed
                return
            await self._sleep(operation_id, self._clock.real_seconds(tick.again_seconds), heard)

    async def _sleep(self, operation_id: str, seconds: float, heard: int) -> None:
        """Sleep without a thread, unless somebody has called since ``heard``."""
        if self._calls.get(operation_id, 0) != heard:
            return
        called = asyncio.Event()
        sleepers = self._sleepers.setdefault(operation_id, set())
        sleepers.add(called)
        try:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(called.wait(), max(seconds, _SHORTEST_SLEEP_SECONDS))
        finally:
            sleepers.discard(called)
            if not sleepers:
                self._sleepers.pop(operation_id, None)

    async def _work(self, call: Callable[[*Given], Answer], *given: *Given) -> Answer:
        """Call in a worker thread. While stopping nothing new begins: the coroutine rests until it is dropped.

        While the disk is full or the database is held or away, the call is made again: each of them looks before it acts, and
        a transaction that failed has written nothing.
        """
        while True:
            if self._stopping:
                await asyncio.Event().wait()
            try:
                return await self._loop.run_in_executor(self._workers, call, *given)
            except problems.Problem as problem:
                if not trouble.passes(problem):
                    raise
                _logger.warning("the database cannot serve now", extra={"facts": {"code": problem.code, "error": problem.evidence}})
                await asyncio.sleep(_DATABASE_PAUSE_SECONDS)


_NAME = "operation"
_current: Durable | None = None


@DBOS.workflow(name=_NAME, max_recovery_attempts=MAX_RECOVERIES)
async def _operation(operation_id: str, execution: int) -> str:
    assert _current is not None, "launched first"
    return await _current.run(operation_id, execution)


def execution_id(operation_id: str, execution: int) -> str:
    """The name of an execution in DBOS."""
    return f"{operation_id}:{execution}"


def _quieten() -> None:
    """DBOS's lines go where ours go, without its console handler, its advert and its tracebacks of recorded problems."""
    logger = logging.getLogger("dbos")
    for handler in list(logger.handlers):
        logger.removeHandler(handler)
    logger.propagate = True
    logger.setLevel(logging.WARNING)
