"""The durable engine's door: start, look at, retry, cancel and approve operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict, Unpack

from instantstart.base import problems
from instantstart.base.clock import Clock
from instantstart.base.settings import Settings
from instantstart.operations.declare import Together, Workflow, check_declarations
from instantstart.operations.desk import Desk, Request
from instantstart.operations.durable import Durable
from instantstart.operations.journal import Journal, is_executing
from instantstart.operations.keeper import Keeper
from instantstart.operations.record import TERMINAL, Operation, OperationStatus
from instantstart.operations.ticking import Tick, Ticker, settle, succeed
from instantstart.operations.views import operation_view
from instantstart.operations.watch import Watch
from instantstart.store import ENGINE_FILE_NAME, Store, embedded_url
from instantstart.store.lease import FolderLock, ReplicaLease
from instantstart.store.records import EventRow, OperationFilter, OperationRow, Page

_EMBEDDED_REPLICA = "single"
#: a killed process's session ends a moment after it; its next life has the same name
_PATIENCE_SECONDS = 3.0
#: DBOS's own file in the data folder; its default would be the current folder


class Manner(TypedDict, total=False):
    """What a start may also say."""

    #: an Idempotency-Key: the same key of the same caller repeats the answer
    key: str | None
    #: hash of the body that the key stands for; empty: of workflow, subject and spec
    request_hash: str | None
    #: True: a person must approve before anything is done
    approval: bool


class Engine:
    """Runs declared workflows, durably. One engine a process: ``bind`` the room, then ``launch``."""

    def __init__(self, store: Store, clock: Clock, settings: Settings, workflows: Sequence[Workflow]) -> None:
        """Raises ValueError when two workflows, or two stages of one, share a name."""
        check_declarations(workflows)
        self._store = store
        self._clock = clock
        self._settings = settings
        self._workflows = {workflow.name: workflow for workflow in workflows}
        self._watch = Watch()
        self._journal = Journal(store, clock, self._watch)
        self._desk = Desk(store, self._journal, self._workflows)
        self._ticker = Ticker(store, clock, self._journal, self._workflows)
        self._durable = Durable(_Script(self), clock, settings.workers)
        self._keeper = Keeper(store, self._desk, self._journal, self._durable, clock)
        self._lock: FolderLock | ReplicaLease | None = None
        self._launched = False
        #: why nothing more may be executed by this process
        self._retired: problems.Conflict | None = None
        self._keeper.retire = self._retire

    # --- life ---------------------------------------------------------------------------------------------------

    def bind(self, room: object) -> None:
        """``room`` is what every stage is called with."""
        self._ticker.room = room

    def launch(self) -> None:
        """Take the data folder (or the replica's name), adopt what was in flight, run.

        Raises Conflict (engine.folder_in_use, engine.replica_in_use) when a living process has it.
        """
        if self._store.embedded:
            self._keeper.replica = _EMBEDDED_REPLICA
            self._lock = FolderLock(self._settings.data_dir)
        else:
            self._keeper.replica = self._settings.replica_id
            self._lock = self._keeper.lease = ReplicaLease(self._store.url, self._settings.replica_id)
        self._lock.hold(_PATIENCE_SECONDS)
        try:
            url = embedded_url(self._settings.data_dir / ENGINE_FILE_NAME) if self._store.embedded else self._store.url
            self._durable.launch(url, self._keeper.replica)
        except BaseException:
            self._lock.release()
            raise
        self._launched = True
        self._keeper.start()

    def shutdown(self) -> None:
        """Let acts in flight finish and stop; what is unfinished goes on at the next launch. Again: no change."""
        if self._launched:
            self._launched = False
            self._keeper.stop()
            if self._retired is None:
                self._durable.shutdown()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _retire(self, overtaken: problems.Conflict) -> None:
        """Take no more work, let looks in flight be recorded, and give the name back, so that others go on with what ran here."""
        self._retired = overtaken
        self._durable.shutdown()
        if self._lock is not None:
            self._lock.release()

    def _check_in_charge(self) -> None:
        if self._retired is not None:
            told = self._retired
            raise problems.Conflict(told.code, told.detail, hint=told.hint)

    @property
    def holds_its_name(self) -> bool:
        """This process may execute here: it holds the folder, or its replica's name as of the keeper's last round."""
        return self._lock is not None and self._lock.is_held

    def declared(self) -> Mapping[str, Workflow]:
        """Every workflow by name."""
        return self._workflows

    # --- ask ----------------------------------------------------------------------------------------------------

    def start(self, workflow: str, spec: Any, *, caller: str, cluster: str | None = None, **how: Unpack[Manner]) -> tuple[Operation, bool]:
        """The operation for this request, and whether it was made now. ``spec``: the workflow's model, or JSON that fits it.

        The same wish while one is active answers that one; where it was blocked, it goes on, as by ``retry``. Raises NotFound
        (operation.workflow_unknown), Invalid (operation.spec),
        Conflict (operation.subject_busy, operation.key_reused).
        """
        self._check_in_charge()
        row, created = self._desk.accept(workflow, spec, Request(caller, cluster, **how))
        if created or row.status == OperationStatus.queued:
            self._pass_cancels(row.subject)
            self._go_on(row.subject)
        return self.get(row.id), created

    def overtaken(self, workflow: str, spec: Any) -> Sequence[Operation]:
        """What ``start`` would cancel first, since this workflow overtakes it."""
        return self._views(self._desk.overtaken(workflow, spec))

    def under_way(self, workflow: str, spec: Any) -> bool:
        """Whether ``start`` would answer with an operation that has not ended."""
        return self._desk.under_way(workflow, spec)

    def repeated(self, key: str, caller: str, request_hash: str) -> Operation | None:
        """The operation that this Idempotency-Key became, if it did. Raises Conflict (operation.key_reused)."""
        row = self._desk.find_repeat(key, caller, request_hash)
        return None if row is None else self.get(row.id)

    def retry(self, operation_id: str, caller: str) -> Operation:
        """Go on at the failed stage, with a fresh deadline. Raises NotFound, Conflict (operation.not_retryable, operation.subject_busy)."""
        self._check_in_charge()
        return self._moved(self._desk.retry(operation_id, caller))

    def cancel(self, operation_id: str, caller: str) -> Operation:
        """Stop between ticks; an act in flight finishes and is recorded. Raises NotFound, Conflict (operation.ended)."""
        self._check_in_charge()
        row = self._desk.cancel(operation_id, caller)
        self._durable.wake(row.id)
        return self._moved(row)

    def approve(self, operation_id: str, caller: str) -> Operation:
        """A person's yes. Raises NotFound, Conflict (operation.not_awaiting)."""
        self._check_in_charge()
        row = self._desk.decide(operation_id, caller, grant=True)
        self._pass_cancels(row.subject)
        return self._moved(row)

    def reject(self, operation_id: str, caller: str) -> Operation:
        """A person's no: the operation is cancelled and cannot be retried. Raises NotFound, Conflict (operation.not_awaiting)."""
        self._check_in_charge()
        return self._moved(self._desk.decide(operation_id, caller, grant=False))

    def _moved(self, row: OperationRow) -> Operation:
        self._go_on(row.subject)
        return self.get(row.id)

    def _pass_cancels(self, subject: str) -> None:
        """Let what is to be cancelled look now instead of when its wait is over."""
        for row in self._store.operations.find_active(subject):
            if row.cancel_by is not None:
                self._durable.wake(row.id)

    def _go_on(self, subject: str) -> None:
        if self._launched and self._retired is None:  # before launch, and after a crash right here, the keeper's first round does it
            self._keeper.take_turn(subject)

    # --- look ---------------------------------------------------------------------------------------------------

    def get(self, operation_id: str) -> Operation:
        """Raises NotFound (operation.unknown)."""
        return self._views([self._store.operations.get(operation_id)])[0]

    def events(self, operation_id: str, after: int = 0, limit: int = 500) -> Sequence[EventRow]:
        """Events with a sequence above ``after``, oldest first. Raises NotFound."""
        self._store.operations.get(operation_id)
        return self._store.operations.events(operation_id, after, limit)

    def wait_for_change(self, operation_id: str, seq: int, timeout: float) -> Operation:
        """The operation as soon as it has an event above ``seq`` or has ended, or as it is after ``timeout`` real seconds."""
        return self._watch.until(lambda: self.get(operation_id), lambda seen: seen.seq > seq or seen.status in TERMINAL, timeout)

    def wait_until(self, operation_id: str, enough: Callable[[Operation], bool], timeout: float) -> Operation:
        """The operation as soon as ``enough`` says so, or as it is after ``timeout`` real seconds."""
        return self._watch.until(lambda: self.get(operation_id), enough, timeout)

    def list(self, wanted: OperationFilter | None = None, *, limit: int = 50, cursor: str | None = None) -> Page[Operation]:
        """One page, newest first unless asked otherwise. Raises Invalid (list.cursor)."""
        page = self._store.operations.list(wanted or OperationFilter(), limit, cursor)
        return Page(tuple(self._views(page.items)), page.cursor)

    def _views(self, rows: Sequence[OperationRow]) -> Sequence[Operation]:
        stages = self._store.operations.stages_of([row.id for row in rows])
        return [operation_view(row, stages[row.id], self._workflows.get(row.workflow), self._clock) for row in rows]


class _Script:
    """What the durable executor runs, with the next turn taken whenever an operation comes to rest."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def begin(self, operation_id: str, execution: int) -> tuple[tuple[str, ...], ...]:
        engine = self._engine
        row = engine._store.operations.get(operation_id)
        workflow = engine._workflows.get(row.workflow)
        if workflow is None:
            self._end_unknown(row, execution)
            return ()
        engine._journal.declare_stages(operation_id, workflow)
        groups = (step.stages if isinstance(step, Together) else (step,) for step in workflow.steps)
        return tuple(tuple(stage.name for stage in group) for group in groups)

    def _end_unknown(self, row: OperationRow, execution: int) -> None:
        told = f"This version of the program has no workflow {row.workflow}."
        problem = problems.Broken("operation.workflow_gone", told, hint="Run the version that accepted it.")
        with self._engine._journal.writing(f"subject/{row.subject}") as now:
            present = self._engine._store.operations.get(row.id)
            if is_executing(present, execution):
                self._engine._journal.end(present, OperationStatus.failed, problem.detail, problem, now)

    def tick(self, operation_id: str, execution: int, name: str, misses: int) -> Tick:
        return self._engine._ticker.tick(operation_id, execution, name, misses)

    def settle(self, operation_id: str, execution: int, names: tuple[str, ...]) -> bool:
        engine = self._engine
        workflow = engine._workflows.get(engine._store.operations.get(operation_id).workflow)
        goes_on = settle(engine._store, engine._journal, operation_id, execution, names, workflow)
        if not goes_on:
            self._next(operation_id)
        return goes_on

    def succeed(self, operation_id: str, execution: int) -> None:
        succeed(self._engine._store, self._engine._journal, operation_id, execution)
        self._next(operation_id)

    def _next(self, operation_id: str) -> None:
        self._engine._go_on(self._engine._store.operations.get(operation_id).subject)
