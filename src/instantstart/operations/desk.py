"""Decisions about whole operations, each under the lock of its subject: accept, refuse, begin, retry, cancel, approve."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from instantstart.base import problems, sentences, tracing
from instantstart.operations.declare import Workflow
from instantstart.operations.journal import Journal
from instantstart.operations.record import EXECUTING, HOLDING, RETRYABLE, TERMINAL, OperationStatus, StageStatus
from instantstart.operations.ticking import left_behind
from instantstart.store import Store, new_id
from instantstart.store.records import OperationRow, Repeat, StageRow


@dataclasses.dataclass(frozen=True)
class Request:
    """Who asks, about which cluster, and how a repeat is known."""

    caller: str
    cluster: str | None = None
    key: str | None = None
    #: hash of the request body; empty: of workflow, subject and spec
    request_hash: str | None = None
    approval: bool = False


class Desk:
    """Accepts and moves operations. Executing them is not its matter."""

    def __init__(self, store: Store, journal: Journal, workflows: Mapping[str, Workflow]) -> None:
        self._store = store
        self._rows = store.operations
        self._journal = journal
        self._workflows = workflows

    # --- accept -------------------------------------------------------------------------------------------------

    def accept(self, name: str, given: Any, request: Request) -> tuple[OperationRow, bool]:
        """The operation for this request, and whether it is new. Raises Invalid, NotFound, Conflict."""
        workflow = self._workflow(name)
        spec = _parse(workflow, given)
        subject = workflow.subject(spec)
        stored = spec.model_dump(mode="json")
        spec_hash = _spec_hash(workflow, subject, spec)
        with contextlib.ExitStack() as stack:
            if request.key is not None:
                stack.enter_context(self._journal.writing(f"key/{request.caller}/{request.key}"))
                known = self.find_repeat(request.key, request.caller, request.request_hash or spec_hash)
                if known is not None:
                    return known, False
            now = stack.enter_context(self._journal.writing(f"subject/{subject}"))
            active = self._rows.find_active(subject)
            row = next((each for each in active if (each.workflow, each.spec_hash) == (name, spec_hash)), None)
            created = row is None
            if row is None:
                self._claim(workflow, subject, active)
                if not request.approval:
                    self._make_way(workflow, active, request.caller, now)
                status = OperationStatus.awaiting_approval if request.approval else OperationStatus.queued
                row = OperationRow(new_id("op"), name, subject, request.cluster, status, request.caller, stored, spec_hash, now)
                row = self._insert(dataclasses.replace(row, needs_approval=request.approval), workflow)
            elif row.status == OperationStatus.blocked:  # asked again, by one who thinks that it can go on now
                self._journal.reopen(row, request.caller, now)
                row = self._rows.get(row.id)
            if request.key is not None:
                self._rows.add_repeat(request.key, request.caller, Repeat(request.request_hash or spec_hash, {"operation_id": row.id}))
            return row, created

    def _insert(self, row: OperationRow, workflow: Workflow) -> OperationRow:
        stages = [StageRow(row.id, stage.name, at, StageStatus.pending) for at, stage in enumerate(workflow.stages())]
        stored = self._rows.insert(row, stages)
        waits = "; waits for approval" if row.needs_approval else ""
        asked = f"Asked by {self._journal.name_of(row.caller)}: {workflow.title}{waits}"
        self._journal.tell(row.id, asked, evidence=tracing.origin_of_now())  # operations.origins reads it
        return stored

    def _workflow(self, name: str) -> Workflow:
        workflow = self._workflows.get(name)
        if workflow is None:
            raise problems.NotFound("operation.workflow_unknown", f"There is no workflow {name}.")
        return workflow

    def find_repeat(self, key: str, caller: str, request_hash: str) -> OperationRow | None:
        """What this key of this caller became. Raises Conflict (operation.key_reused) when it stood for another request."""
        repeat = self._rows.find_repeat(key, caller)
        if repeat is None:
            return None
        known = str(repeat.answer["operation_id"])
        if repeat.request_hash != request_hash:
            raise problems.Conflict(
                "operation.key_reused",
                f"The Idempotency-Key was used for another request; that one became operation {known}.",
                hint="Use a new key for a new request.",
                evidence={"operation_id": known},
            )
        return self._rows.get(known)

    def _claim(self, workflow: Workflow, subject: str, active: Sequence[OperationRow]) -> None:
        """Raise Conflict when another holds the subject, and is neither waited for nor overtaken."""
        holding = [row for row in active if row.status in HOLDING and row.workflow not in workflow.overtakes]
        if holding and not workflow.queueable:
            raise _busy(subject, holding[0])

    def _make_way(self, workflow: Workflow, active: Sequence[OperationRow], caller: str, now: dt.datetime) -> None:
        """Cancel what is overtaken; what executes ends between two looks, and only then is the subject free."""
        for row in active:
            if row.status in HOLDING and row.workflow in workflow.overtakes and row.cancel_by is None:
                self._stop(row, caller, now)

    def under_way(self, name: str, given: Any) -> bool:
        """Whether a request for this would be answered with an operation that has not ended."""
        workflow = self._workflow(name)
        spec = _parse(workflow, given)
        subject = workflow.subject(spec)
        wanted = _spec_hash(workflow, subject, spec)
        return any((row.workflow, row.spec_hash) == (name, wanted) for row in self._rows.find_active(subject))

    def overtaken(self, name: str, given: Any) -> list[OperationRow]:
        """What a request for this would cancel first."""
        workflow = self._workflow(name)
        active = self._rows.find_active(workflow.subject(_parse(workflow, given))) if workflow.overtakes else ()
        return [row for row in active if row.status in HOLDING and row.workflow in workflow.overtakes]

    # --- turns --------------------------------------------------------------------------------------------------

    def next_turn(self, subject: str) -> OperationRow | None:
        """Begin the first queued operation of a subject, when nothing holds it. The answer is what was begun."""
        if not any(row.status == OperationStatus.queued for row in self._rows.find_active(subject)):
            return None
        with self._journal.writing(f"subject/{subject}") as now:
            active = self._rows.find_active(subject)
            if any(row.status in EXECUTING or row.status == OperationStatus.blocked for row in active):
                return None
            row = next((each for each in active if each.status == OperationStatus.queued), None)
            if row is None or not self._journal.begin(row, now):
                return None
            return self._rows.get(row.id)

    def queued_subjects(self) -> list[str]:
        """Subjects with something queued."""
        return sorted({row.subject for row in self._rows.list_active([OperationStatus.queued])})

    # --- move ---------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _holding(self, operation_id: str) -> Iterator[tuple[OperationRow, Any]]:
        with self._journal.writing(f"subject/{self._rows.get(operation_id).subject}") as now:
            yield self._rows.get(operation_id), now

    def retry(self, operation_id: str, caller: str) -> OperationRow:
        """Queue it again, to go on at the failed stage. Raises Conflict."""
        with self._holding(operation_id) as (row, now):
            if row.status not in RETRYABLE:
                raise problems.Conflict("operation.not_retryable", f"Operation {row.id} is {row.status}; there is nothing to retry.")
            if row.needs_approval and row.approved_by is None:
                raise problems.Conflict("operation.not_approved", f"Operation {row.id} was never approved.", hint="Ask for it anew.")
            workflow = self._workflow(row.workflow)
            others = [each for each in self._rows.find_active(row.subject) if each.id != row.id]
            self._claim(workflow, row.subject, others)
            same = next((each for each in others if (each.workflow, each.spec_hash) == (row.workflow, row.spec_hash)), None)
            if same is not None:
                raise _busy(row.subject, same)
            self._journal.declare_stages(row.id, workflow)
            self._journal.reopen(row, caller, now)
            return self._rows.get(row.id)

    def cancel(self, operation_id: str, caller: str) -> OperationRow:
        """Stop it: at once when nothing goes on, else between ticks. Again: no change. Raises Conflict when it ended otherwise."""
        with self._holding(operation_id) as (row, now):
            if row.status == OperationStatus.cancelled or row.cancel_by is not None:
                return row
            if row.status in TERMINAL:
                raise problems.Conflict("operation.ended", f"Operation {row.id} has {row.status} already.")
            self._stop(row, caller, now)
            return self._rows.get(row.id)

    def _stop(self, row: OperationRow, caller: str, now: dt.datetime) -> None:
        """Ask what executes to end; end what is at rest."""
        if row.status in EXECUTING:
            self._rows.update(row.id, cancel_by=caller)
            self._journal.tell(row.id, f"Cancel asked by {self._journal.name_of(caller)}; takes effect between looks")
            return
        left = left_behind(self._workflows.get(row.workflow), row, self._rows.stages(row.id))
        self._journal.end(row, OperationStatus.cancelled, f"Cancelled by {self._journal.name_of(caller)}", left, now)

    def decide(self, operation_id: str, caller: str, *, grant: bool) -> OperationRow:
        """A person's yes or no. Raises Conflict when none is asked for."""
        with self._holding(operation_id) as (row, now):
            if row.status != OperationStatus.awaiting_approval:
                raise problems.Conflict("operation.not_awaiting", f"Operation {row.id} is {row.status}; no approval is asked for.")
            if grant:
                self._rows.update(row.id, status=OperationStatus.queued, approved_by=caller)
                self._journal.tell(row.id, f"Approved by {self._journal.name_of(caller)}")
                self._make_way(self._workflow(row.workflow), self._rows.find_active(row.subject), caller, now)
            else:
                self._journal.end(row, OperationStatus.cancelled, f"Rejected by {self._journal.name_of(caller)}", None, now)
            return self._rows.get(row.id)


def hash_of(value: Any) -> str:
    """SHA-256 of a JSON value in one canonical spelling."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _spec_hash(workflow: Workflow, subject: str, spec: BaseModel) -> str:
    """What two requests have in common that are answered with one operation."""
    return hash_of([workflow.name, subject, spec.model_dump(mode="json")])


def _parse(workflow: Workflow, given: Any) -> BaseModel:
    if isinstance(given, workflow.spec):
        return given
    try:
        return workflow.spec.model_validate_json(json.dumps(given))
    except ValidationError as error:
        fields = sentences.violations(error.errors())
        told = " ".join(field.message for field in fields)
        raise problems.Invalid("operation.spec", f"What is asked of {workflow.name} is not right: {told}", fields=fields) from error


def _busy(subject: str, holder: OperationRow) -> problems.Conflict:
    return problems.Conflict(
        "operation.subject_busy",
        f"Operation {holder.id} ({holder.workflow}, {holder.status}) works on {subject}.",
        hint=f"Wait for operation {holder.id} to end, or cancel it.",
        evidence={"operation_id": holder.id, "workflow": holder.workflow, "status": str(holder.status), "subject": subject},
    )
