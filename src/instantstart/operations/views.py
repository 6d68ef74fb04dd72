"""From stored rows to what every door shows. Pure: rows, declarations and the clock in, views out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from instantstart.base import problems
from instantstart.base.clock import Clock
from instantstart.operations.declare import Stage, Together, Workflow
from instantstart.operations.reactions import next_step
from instantstart.operations.record import EXECUTING, FINISHED, GOING, TERMINAL, Operation, OperationStatus, StageStatus, StageView
from instantstart.store.records import Json, OperationRow, StageRow

SLOW_FACTOR = 2.0
_NEVER_STALE_SECONDS = 30


def operation_view(row: OperationRow, stages: Sequence[StageRow], workflow: Workflow | None, clock: Clock) -> Operation:
    """The operation as every door shows it. ``workflow`` None: it is no longer declared; its record stays readable."""
    declared = {stage.name: stage for stage in workflow.stages()} if workflow else {}
    views = tuple(stage_view(stage, declared.get(stage.name), clock) for stage in stages)
    skipped = {stage.name for stage in stages if stage.status == StageStatus.skipped and not stage.learned}
    typical = _typical_seconds(workflow, skipped) if workflow else 0.0
    elapsed = clock.elapsed_seconds(row.started_at, row.ended_at) if row.started_at else 0.0
    status = OperationStatus(row.status)
    return Operation(
        id=row.id,
        workflow=row.workflow,
        title=workflow.title if workflow else row.workflow,
        subject=row.subject,
        cluster=row.cluster,
        status=status,
        caller=row.caller,
        spec=row.spec,
        created_at=row.created_at,
        started_at=row.started_at,
        ended_at=row.ended_at,
        elapsed_seconds=elapsed,
        typical_seconds=typical,
        slow=any(view.slow for view in views) or _is_slow(elapsed, typical, going=status in EXECUTING),
        problem=row.problem,
        next_step=next_step(status, problems.from_document(row.problem) if row.problem else None),
        stages=views,
        result=_result(status, stages, workflow),
        next_check_in_seconds=_next_check_seconds(status, views, clock),
        seq=row.seq,
        cancelling=row.cancel_by is not None and status not in TERMINAL,
    )


def stage_view(row: StageRow, stage: Stage | None, clock: Clock) -> StageView:
    """One stage. ``stage`` None: this program no longer declares it."""
    status = StageStatus(row.status)
    elapsed = clock.elapsed_seconds(row.started_at, row.ended_at) if row.started_at else 0.0
    typical = stage.typical if stage else 0.0
    return StageView(
        name=row.name,
        says=stage.says if stage else row.name,
        status=status,
        because=row.because,
        since=row.since,
        elapsed_seconds=elapsed,
        typical_seconds=typical,
        slow=_is_slow(elapsed, typical, going=status in GOING),
        progress=row.progress,
        attempt=row.attempt,
        problem=row.problem,
        learned=row.learned or {},
    )


def _is_slow(elapsed: float, typical: float, *, going: bool) -> bool:
    return going and typical > 0 and elapsed > typical * SLOW_FACTOR


def _typical_seconds(workflow: Workflow, skipped: Iterable[str]) -> float:
    left_out = set(skipped)
    total = 0.0
    for step in workflow.steps:
        members = step.stages if isinstance(step, Together) else (step,)
        total += max((stage.typical for stage in members if stage.name not in left_out), default=0.0)
    return total


def _result(status: OperationStatus, stages: Sequence[StageRow], workflow: Workflow | None) -> Json | None:
    if status is not OperationStatus.succeeded or not stages:
        return None
    last = workflow.stages()[-1].name if workflow else stages[-1].name
    found: Mapping[str, Json] = {stage.name: stage.learned or {} for stage in stages if stage.status in FINISHED}
    return found.get(last, {})


def _next_check_seconds(status: OperationStatus, stages: Sequence[StageView], clock: Clock) -> int:
    """Real seconds: a fifth of what the present stages usually still take, between 1 and 30."""
    if status in TERMINAL:
        return 0
    if status in (OperationStatus.blocked, OperationStatus.awaiting_approval):
        return _NEVER_STALE_SECONDS
    present = [stage for stage in stages if stage.status in GOING]
    left = max((stage.typical_seconds - stage.elapsed_seconds for stage in present), default=0.0)
    return max(1, min(_NEVER_STALE_SECONDS, math.ceil(clock.real_seconds(left) / 5)))
