"""Every change of an operation's record, each with its event, each in one transaction."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
from collections.abc import Iterator
from typing import Any

from instantstart.base import log, problems
from instantstart.base.clock import Clock
from instantstart.base.outcome import Done, Wait
from instantstart.operations.declare import Stage, Workflow
from instantstart.operations.origins import Origins
from instantstart.operations.record import EXECUTING, FINISHED, GOING, Level, OperationStatus, StageStatus
from instantstart.operations.watch import Watch
from instantstart.store import Store
from instantstart.store.records import EventRow, OperationRow, StageRow


class Journal:
    """The engine's pen. It decides nothing; it writes what has been decided, and rings the bell."""

    def __init__(self, store: Store, clock: Clock, watch: Watch) -> None:
        self._store = store
        self._origins = Origins(store)
        self._rows = store.operations
        self._clock = clock
        self._watch = watch

    @contextlib.contextmanager
    def writing(self, lock: str) -> Iterator[dt.datetime]:
        """One transaction alone under ``lock``; gives the present moment. Rings when it is committed."""
        with self._store.transaction(lock):
            yield self._clock.now()
        self._watch.ring()

    def tell(self, operation_id: str, message: str, *, stage: str | None = None, level: Level = Level.info, evidence: Any = None) -> None:
        """Append an event."""
        shown = log.redact(dict(evidence or {}))
        self._rows.add_event(EventRow(operation_id, 0, self._clock.now(), level, stage, log.redact(message), shown))

    # --- stages -------------------------------------------------------------------------------------------------

    def stage_started(self, row: StageRow, stage: Stage) -> StageRow:
        """The stage runs for the first time in this attempt: its deadline counts from now."""
        with self.writing(f"operation/{row.operation_id}") as now:
            started = dataclasses.replace(row, status=StageStatus.running, since=now, started_at=now, ended_at=None)
            self._rows.put_stage(started)
            self.tell(row.operation_id, stage.says, stage=row.name)
            self._restate(row.operation_id)
        return started

    def stage_waits(self, row: StageRow, wait: Wait, problem: problems.Problem | None = None) -> None:
        """The stage waits. Writes only what a person would see change."""
        because = log.redact(wait.because)
        waiting = dataclasses.replace(
            row,
            status=StageStatus.waiting,
            because=because,
            progress=dataclasses.asdict(wait.progress) if wait.progress else None,
            problem=log.redact(problem.document()) if problem else None,
        )
        if waiting == row:
            return
        with self.writing(f"operation/{row.operation_id}") as now:
            same = (row.status, row.because) == (waiting.status, waiting.because)
            self._rows.put_stage(waiting if same else dataclasses.replace(waiting, since=now))
            level = Level.warning if problem else Level.info
            self.tell(row.operation_id, because, stage=row.name, level=level, evidence=waiting.progress or waiting.problem)
            self._restate(row.operation_id)

    def stage_done(self, row: StageRow, done: Done) -> None:
        """The stage's wish is true: what it learned is kept for later stages."""
        status = StageStatus.skipped if done.already else StageStatus.done
        message = done.note or ("Already so; nothing to do" if done.already else "Done")
        self._stage_ended(row, status, message, learned=dict(done.learned))

    def stage_left_out(self, row: StageRow) -> None:
        """This spec does not need the stage."""
        self._stage_ended(row, StageStatus.skipped, "Not needed here")

    def stage_stopped(self, row: StageRow, status: StageStatus, problem: problems.Problem) -> None:
        """The stage failed, or is blocked. The operation follows when all beside it have come to rest."""
        document = log.redact(problem.document())
        self._stage_ended(row, status, problem.detail, level=Level.error, problem=document)

    def _stage_ended(
        self, row: StageRow, status: StageStatus, message: str, *, level: Level = Level.info, learned: Any = None, problem: Any = None
    ) -> None:
        with self.writing(f"operation/{row.operation_id}") as now:
            kept = row.because if status in (StageStatus.blocked, StageStatus.failed) else None
            ended = dataclasses.replace(row, status=status, because=kept, since=now, ended_at=now, learned=learned, problem=problem)
            self._rows.put_stage(ended)
            self.tell(row.operation_id, message, stage=row.name, level=level, evidence=problem)
            self._restate(row.operation_id)

    def _restate(self, operation_id: str) -> None:
        """The operation waits when everything that goes on in it waits, and runs otherwise."""
        stages = [StageStatus(row.status) for row in self._rows.stages(operation_id)]
        going = GOING & set(stages)
        status = OperationStatus.waiting if going == {StageStatus.waiting} else OperationStatus.running
        if self._rows.get(operation_id).status != status:
            self._rows.update(operation_id, status=status)

    def declare_stages(self, operation_id: str, workflow: Workflow) -> None:
        """Make the stored stages those of the present declaration: renamed ones keep what they know, new ones are added."""
        known = {row.name: row for row in self._rows.stages(operation_id)}
        with self._store.transaction(f"operation/{operation_id}"):
            for old, new in workflow.renamed.items():
                if old in known and new not in known:
                    self._rows.rename_stage(operation_id, old, new)
                    known[new] = dataclasses.replace(known.pop(old), name=new)
            for position, stage in enumerate(workflow.stages()):
                row = known.get(stage.name, StageRow(operation_id, stage.name, position, StageStatus.pending))
                if stage.name not in known or row.position != position:
                    self._rows.put_stage(dataclasses.replace(row, position=position))

    # --- operations: call inside ``writing`` under the subject's lock ----------------------------------------------

    def begin(self, row: OperationRow, now: dt.datetime) -> bool:
        """A queued operation's turn has come. False: another replica was first."""
        if not self._rows.claim_execution(row.id, row.execution, (OperationStatus.queued,)):
            return False
        self._rows.update(row.id, status=OperationStatus.running, started_at=row.started_at or now)
        return True

    def end(self, row: OperationRow, status: OperationStatus, message: str, problem: problems.Problem | None, now: dt.datetime) -> None:
        """The operation comes to rest. A blocked one keeps its place: it has not ended."""
        for stage in self._rows.stages(row.id):
            if stage.status in GOING:
                self._rows.put_stage(at_rest(stage, now))
        document = log.redact(problem.document()) if problem else None
        ended_at = None if status is OperationStatus.blocked else now
        self._rows.update(row.id, status=status, ended_at=ended_at, problem=document, cancel_by=None)
        level = Level.error if problem else Level.info
        self.tell(row.id, message, level=level, evidence=document)
        self._origins.tell_end(row, str(status), problem, now)

    def reopen(self, row: OperationRow, caller: str, now: dt.datetime) -> None:
        """A retry: what is done stays, the failed stage gets a new attempt and a fresh deadline."""
        for stage in self._rows.stages(row.id):
            if stage.status in FINISHED:
                continue
            again = stage.status in (StageStatus.failed, StageStatus.blocked)
            fresh = dataclasses.replace(at_rest(stage, now), attempt=stage.attempt + 1 if again else stage.attempt)
            self._rows.put_stage(fresh)
        self._rows.update(row.id, status=OperationStatus.queued, ended_at=None, problem=None, cancel_by=None)
        self.tell(row.id, f"Retried by {self.name_of(caller)}")

    def name_of(self, caller: str | None) -> str:
        """What a person calls an identity: its name, or its id when the store has none of it."""
        found = self._store.identities.find(caller) if caller else None
        return found.name if found else str(caller)


def at_rest(stage: StageRow, now: dt.datetime) -> StageRow:
    """An unfinished stage as it stands when nothing goes on: pending, to be begun anew."""
    cleared = {"because": None, "started_at": None, "ended_at": None, "progress": None, "problem": None}
    return dataclasses.replace(stage, status=StageStatus.pending, since=now, **cleared)  # type: ignore[arg-type]


def is_executing(row: OperationRow, execution: int) -> bool:
    """True when ``execution`` is the one that may act for this operation."""
    return row.status in EXECUTING and row.execution == execution
