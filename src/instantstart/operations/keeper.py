"""Looks after what no call would move: turns, executions that were lost, replicas that died, cancels asked elsewhere."""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Callable, Iterable, Sequence

from instantstart.base import log, problems
from instantstart.base.clock import Clock
from instantstart.operations.desk import Desk
from instantstart.operations.durable import Durable, Standing
from instantstart.operations.journal import Journal, is_executing
from instantstart.operations.record import EXECUTING, Level, OperationStatus
from instantstart.store import Store
from instantstart.store.lease import ReplicaLease
from instantstart.store.records import OperationRow

EVERY_SECONDS = 1.0
FORGET_EVERY_SECONDS = 3600.0
FORGET_AFTER = dt.timedelta(days=7)
ORPHAN_SECONDS = 15.0
DEAD_SECONDS = 3.0
_LONGEST_PAUSE_SECONDS = 60.0
_logger = log.get(__name__)


class Keeper:
    """A thread that makes the true state the wished one, over and over; each round is safe to lose."""

    #: real seconds that an execution of this process may be nowhere before it is begun anew
    orphan_seconds = ORPHAN_SECONDS
    #: real seconds that a replica's name must be free before its executions are begun anew here
    dead_seconds = DEAD_SECONDS

    def __init__(self, store: Store, desk: Desk, journal: Journal, durable: Durable, clock: Clock) -> None:
        self._store = store
        self._rows = store.operations
        self._desk = desk
        self._journal = journal
        self._durable = durable
        self._clock = clock
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="keeper", daemon=True)
        self._mended: dict[str, tuple[int, float]] = {}
        self._forget_at = 0.0
        self._lost_since: dict[tuple[str, int], float] = {}
        self._dead: set[str] = set()
        #: this process's name in DBOS
        self.replica = ""
        self.lease: ReplicaLease | None = None
        #: called once, when the database has become another version's: nothing more may be executed here
        self.retire: Callable[[problems.Conflict], None] = lambda _: None

    def start(self) -> None:
        """Begin the rounds."""
        self._thread.start()

    def stop(self) -> None:
        """End the rounds; returns when the present one is over."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            if self._is_overtaken():
                return
            for chore in (self.keep_lease, self.take_turns, self.mend_executions, self.pass_cancels, self.forget_the_old):
                self._attempt(chore)
            self._stop.wait(EVERY_SECONDS)

    def _is_overtaken(self) -> bool:
        """The database is another version's now: what runs here ends at its next record, and what is held is given back.

        A database that does not answer says nothing of its version.
        """
        try:
            self._store.check()
        except problems.Conflict as told:
            _logger.error("overtaken by another version; executing nothing more", extra={"facts": {"problem": told.code}})
            self.retire(told)
            return True
        except problems.Problem:
            return False
        return False

    def _attempt(self, chore: Callable[[], None]) -> None:
        try:
            chore()
        except Exception as error:
            _logger.error("keeper's round failed", exc_info=error, extra={"facts": {"chore": chore.__name__}})

    def take_turns(self) -> None:
        """Begin what is queued on subjects that are free."""
        for subject in self._desk.queued_subjects():
            self.take_turn(subject)

    def take_turn(self, subject: str) -> None:
        """Begin what is next on one subject, if anything is."""
        begun = self._desk.next_turn(subject)
        if begun is not None:
            self._durable.start(begun.id, begun.execution)

    def mend_executions(self) -> None:
        """Give every executing operation a living execution: one that was never started, or that broke, is begun (anew)."""
        executing = self._executing()
        self._mended = {row.id: self._mended[row.id] for row in executing if row.id in self._mended}
        loose = [row for row in executing if not self._durable.is_live(row.id, row.execution)]
        if not loose:
            return
        standings = self._durable.standings([(row.id, row.execution) for row in loose])
        self._look_for_the_dead(each.replica for each in standings.values() if each.running)
        for row in loose:
            self._mend(row, standings.get((row.id, row.execution)))

    def _executing(self) -> Sequence[OperationRow]:
        return self._rows.list_active(sorted(EXECUTING))

    def _mend(self, row: OperationRow, standing: Standing | None) -> None:
        if standing is None:
            self._durable.start(row.id, row.execution)
        elif standing.given_up:
            self._give_up(row)
        elif (standing.over or self._is_lost(row, standing)) and self._may_mend(row.id):
            self._begin_anew(row, standing)

    def _is_lost(self, row: OperationRow, standing: Standing) -> bool:
        """Nobody executes it for a while now, though DBOS believes so.

        Here: the database was away when it broke. Elsewhere: the replica has died. A replica that only lost its session has
        taken its name back within the while; should it be overtaken all the same, the execution number keeps it from acting.
        """
        here = standing.replica == self.replica
        if not standing.running or not (here or standing.replica in self._dead):
            self._lost_since.pop((row.id, row.execution), None)
            return False
        since = self._lost_since.setdefault((row.id, row.execution), time.monotonic())
        return time.monotonic() - since > (self.orphan_seconds if here else self.dead_seconds)

    def _look_for_the_dead(self, replicas: Iterable[str | None]) -> None:
        self._dead = set()
        for replica in {each for each in replicas if each is not None and each != self.replica}:
            if self.lease is not None and self.lease.is_free(replica):
                self._dead.add(replica)

    def _may_mend(self, operation_id: str) -> bool:
        """Pauses of 1, 2, 4 ... 60 seconds, so that a fault that stays does not spin."""
        count, not_before = self._mended.get(operation_id, (0, 0.0))
        if time.monotonic() < not_before:
            return False
        self._mended[operation_id] = (count + 1, time.monotonic() + min(2.0**count, _LONGEST_PAUSE_SECONDS))
        return True

    def _begin_anew(self, row: OperationRow, standing: Standing) -> None:
        """A new execution; an old one that should wake up after all finds that it may not act any more."""
        with self._journal.writing(f"subject/{row.subject}"):
            if not self._rows.claim_execution(row.id, row.execution, sorted(EXECUTING)):
                return  # it came to rest meanwhile, or another replica was first
            self._journal.tell(row.id, "The engine lost this operation and goes on where it stood", level=Level.warning)
        _logger.error("execution was lost", extra={"facts": {"operation": row.id, "execution": row.execution}})
        self._lost_since.pop((row.id, row.execution), None)
        if not standing.over:
            self._durable.drop(row.id, row.execution)
        self._durable.start(row.id, row.execution + 1)

    def _give_up(self, row: OperationRow) -> None:
        problem = problems.Blocked(
            "operation.restarted_too_often",
            "The program was restarted again and again while this operation ran; it may be the cause.",
            hint="Look at the program's log, then retry the operation.",
            evidence={"execution": row.execution},
        )
        with self._journal.writing(f"subject/{row.subject}") as now:
            present = self._rows.get(row.id)
            if is_executing(present, row.execution):
                self._journal.end(present, OperationStatus.blocked, problem.detail, problem, now)

    def pass_cancels(self) -> None:
        """Wake what another replica's caller has cancelled here."""
        for row in self._executing():
            if row.cancel_by is not None and self._durable.is_live(row.id, row.execution):
                self._durable.wake(row.id)

    def keep_lease(self) -> None:
        """Hold this replica's name, also over a restart of the database."""
        if self.lease is not None:
            self.lease.renew()

    def forget_the_old(self) -> None:
        """Once an hour, drop DBOS's own rows of what ended a week ago. Our records stay."""
        if time.monotonic() >= self._forget_at:
            self._forget_at = time.monotonic() + FORGET_EVERY_SECONDS
            self._durable.forget(self._clock.now() - FORGET_AFTER)
