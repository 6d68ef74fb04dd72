"""One look of one stage: read the record, call the stage function, write what came of it. Runs in a worker thread."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ValidationError

from instantstart.base import log, metrics, problems, tracing
from instantstart.base.clock import Clock
from instantstart.base.outcome import Done, Wait
from instantstart.operations.declare import Cut, Run, Stage, Workflow
from instantstart.operations.journal import Journal, is_executing
from instantstart.operations.origins import Origins
from instantstart.operations.reactions import Reaction, crashed, last_word, pause_seconds, reaction_to
from instantstart.operations.record import FINISHED, OperationStatus, StageStatus
from instantstart.store import Store
from instantstart.store.records import OperationRow, StageRow

#: after a restart a stage is looked at for at least this part of its deadline, however long the program was down
_FAIR_SHARE = 0.5
_STOPPED = frozenset({StageStatus.failed, StageStatus.blocked})
_logger = log.get(__name__)


@dataclass(frozen=True)
class Tick:
    """What follows a look: come again after ``again_seconds`` (of the world), or nothing (None). ``misses``: bad looks in a row."""

    again_seconds: float | None = None
    misses: int = 0


class Ticker:
    """Ticks stages. One for the process; safe to share between threads."""

    def __init__(self, store: Store, clock: Clock, journal: Journal, workflows: Mapping[str, Workflow]) -> None:
        self._rows = store.operations
        self._clock = clock
        self._journal = journal
        self._workflows = workflows
        self._origins = Origins(store)
        #: when this process first looked at an attempt of a stage
        self._first_looks: dict[tuple[str, str, int], dt.datetime] = {}
        self.room: object = None

    def tick(self, operation_id: str, execution: int, name: str, misses: int) -> Tick:
        """Look once. Never acts when the stage is done, the operation cancelled, or another execution has taken over."""
        operation = self._rows.get(operation_id)
        rows = {row.name: row for row in self._rows.stages(operation_id)}
        if self._may_not_act(operation, execution, rows, name):
            return Tick()
        workflow = self._workflows[operation.workflow]
        stage = next(each for each in workflow.stages() if each.name == name)
        spec = read_spec(workflow, operation)
        if isinstance(spec, problems.Problem):
            self._journal.stage_stopped(rows[name], StageStatus.failed, spec)
            return Tick()
        if stage.when is not None and not stage.when(spec):
            self._journal.stage_left_out(rows[name])
            return Tick()
        row = rows[name] if rows[name].started_at else self._journal.stage_started(rows[name], stage)
        self._first_looks.setdefault((row.operation_id, row.name, row.attempt), self._clock.now())
        with self._origins.looking(operation, row.name, row.attempt) as span:
            return self._look(stage, row, self._run(operation, spec, row, rows), misses, span)

    def _may_not_act(self, operation: OperationRow, execution: int, rows: Mapping[str, StageRow], name: str) -> bool:
        over = operation.cancel_by is not None or not is_executing(operation, execution)
        return over or rows[name].status in FINISHED or any(row.status in _STOPPED for row in rows.values())

    def _run(self, operation: OperationRow, spec: BaseModel, row: StageRow, rows: Mapping[str, StageRow]) -> Run:
        return Run(
            id=operation.id,
            workflow=operation.workflow,
            stage=row.name,
            spec=spec,
            learned={each.name: each.learned or {} for each in rows.values() if each.status in FINISHED},
            waited_seconds=self._waited(row),
            created_at=operation.created_at,
            caller=operation.caller,
            attempt=row.attempt,
        )

    def _waited(self, row: StageRow) -> float:
        return self._clock.elapsed_seconds(row.started_at) if row.started_at else 0.0

    def _looked(self, row: StageRow) -> float:
        """Seconds of the world since this process first looked: a stage is not overdue because nobody was there to look."""
        return self._clock.elapsed_seconds(self._first_looks[row.operation_id, row.name, row.attempt])

    def _look(self, stage: Stage, row: StageRow, run: Run, misses: int, span: tracing.Span) -> Tick:
        try:
            with metrics.timed(metrics.LOOKS, run.workflow, run.stage):
                outcome = stage.act(self.room, run)
        except problems.Problem as problem:
            span.failed(problem.code)
            return self._react(stage, row, problem, misses + 1)
        except Exception as error:
            span.failed(type(error).__name__)
            _logger.error("stage crashed", exc_info=error)
            return self._react(stage, row, crashed(stage.name, error), misses + 1)
        span.note(instantstart__outcome=type(outcome).__name__.lower())
        if isinstance(outcome, Wait):
            return self._wait(stage, row, outcome, None)
        fault = _fault_of(stage.name, outcome)
        if fault is not None:
            return self._react(stage, row, fault, misses)
        self._journal.stage_done(row, outcome)
        return Tick()

    def _react(self, stage: Stage, row: StageRow, problem: problems.Problem, misses: int) -> Tick:
        reaction = reaction_to(problem)
        if reaction is Reaction.again:
            wait = Wait(pause_seconds(misses, problem), problem.detail)
            return Tick(self._wait(stage, row, wait, problem).again_seconds, misses)
        status = StageStatus.blocked if reaction is Reaction.block else StageStatus.failed
        self._journal.stage_stopped(row, status, problem)
        return Tick()

    def _wait(self, stage: Stage, row: StageRow, wait: Wait, problem: problems.Problem | None) -> Tick:
        left = max(stage.within - self._waited(row), stage.within * _FAIR_SHARE - self._looked(row))
        if left <= 0:
            self._journal.stage_stopped(row, StageStatus.blocked, problem or last_word(stage.name, stage.within, wait))
            return Tick()
        self._journal.stage_waits(row, wait, problem)
        return Tick(min(wait.seconds, left))


def _fault_of(stage: str, done: Done) -> problems.Broken | None:
    """What is wrong with what a stage learned: it is kept and shown, so it is small plain JSON without secrets."""
    learned = dict(done.learned)
    try:
        text = json.dumps(learned)
    except (TypeError, ValueError) as error:
        return crashed(stage, error)
    if log.redact(learned) != json.loads(text):
        return crashed(stage, ValueError(f"a secret among what was learned: {sorted(learned)}"))
    return None


def read_spec(workflow: Workflow, operation: OperationRow) -> BaseModel | problems.Problem:
    """The stored spec as its model; a Problem when this program's model no longer takes it."""
    try:
        return workflow.spec.model_validate(operation.spec, strict=False)
    except ValidationError as error:
        return problems.Broken(
            "operation.spec_outdated",
            f"What was asked of {workflow.name} cannot be read by this version of the program.",
            hint="Start the operation anew.",
            evidence={"errors": str(error)[:1000]},
        )


def left_behind(workflow: Workflow | None, operation: OperationRow, rows: Sequence[StageRow]) -> problems.Problem | None:
    """What a cancelled operation leaves, when its workflow says so."""
    if workflow is None or workflow.left_behind is None:
        return None
    spec = read_spec(workflow, operation)
    if isinstance(spec, problems.Problem):
        return None
    learned = {row.name: row.learned or {} for row in rows if row.status in FINISHED}
    return workflow.left_behind(Cut(spec, learned, frozenset(row.name for row in rows if row.started_at is not None)))


def settle(
    store: Store, journal: Journal, operation_id: str, execution: int, names: tuple[str, ...], workflow: Workflow | None = None
) -> bool:
    """All of one step have come to rest: say where the operation stands. True: the next step may run."""
    operation = store.operations.get(operation_id)
    with journal.writing(f"subject/{operation.subject}") as now:
        operation = store.operations.get(operation_id)
        if not is_executing(operation, execution):
            return False
        rows = [row for row in store.operations.stages(operation_id) if row.name in names]
        for status in (StageStatus.failed, StageStatus.blocked):
            stopped = [row for row in rows if row.status == status]
            if stopped:
                problem = problems.from_document(stopped[0].problem or {})
                journal.end(operation, OperationStatus(status.value), f"Stopped at stage {stopped[0].name}: {problem.detail}", problem, now)
                return False
        if all(row.status in FINISHED for row in rows):
            return True
        left = left_behind(workflow, operation, store.operations.stages(operation_id))
        journal.end(operation, OperationStatus.cancelled, f"Cancelled by {journal.name_of(operation.cancel_by)}", left, now)
        return False


def succeed(store: Store, journal: Journal, operation_id: str, execution: int) -> None:
    """Every stage is done."""
    operation = store.operations.get(operation_id)
    with journal.writing(f"subject/{operation.subject}") as now:
        operation = store.operations.get(operation_id)
        if is_executing(operation, execution):
            journal.end(operation, OperationStatus.succeeded, "All done", None, now)
