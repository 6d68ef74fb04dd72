"""What our own journal knows of the operation that made, or changed, the subject; handed in by the slice, which may ask the engine."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from instantstart.ensure.diagnosis import causes_told
from instantstart.ensure.diagnosis.causes_told import Meaning
from instantstart.ensure.diagnosis.findings import DiagnosisCause, DiagnosisEvidence, DiagnosisStep, look, renew, restart, seen, unquoted

#: a wait that lasted too long: what was waited for is the cause, not the wait
OVERDUE = "operation.stage_overdue"
_KINDS: Mapping[str, Meaning] = {
    "out_of_quota": causes_told.QUOTA,
    "no_capacity": causes_told.CAPACITY,
    "denied": causes_told.DENIED,
}
#: what takes away what an operation made, by the operation's noun: never more than its subject; a node's or another's has none
_RENEWS: Mapping[str, str] = {
    **dict.fromkeys(("cluster", "eks", "dependencies", "hyperpod", "storage"), "cluster_delete"),
    "training_job": "training_job_delete",
    "inference_endpoint": "inference_endpoint_delete",
    "model_deployment": "model_deployment_delete",
}
_STOPPED = frozenset({"failed", "blocked"})


@dataclass(frozen=True)
class Journal:
    """One operation. ``stage``, ``because`` and ``since`` are of the stage that goes on or stopped; ``problem`` is its document."""

    id: str
    workflow: str
    status: str
    stage: str | None = None
    because: str | None = None
    since: dt.datetime | None = None
    slow: bool = False
    problem: Mapping[str, Any] | None = None
    done: tuple[str, ...] = ()
    to_come: tuple[str, ...] = field(default=())

    @property
    def standing(self) -> str:
        """How it stands, in one sentence."""
        where = f" in the stage {self.stage}" if self.stage else ""
        ended = self.status in ("succeeded", "failed")
        return f"{self.workflow} (operation {self.id}) {'has' if ended else 'is'} {self.status}{where}."

    def evidence(self) -> DiagnosisEvidence:
        """The operation as evidence."""
        told = str((self.problem or {}).get("detail") or self.because or "") or None
        return seen("operation", f"operation {self.id}", self.standing, self.since, told)


def causes(journal: Journal | None) -> list[DiagnosisCause]:
    """The problem that an operation stopped on, or that it takes longer than usual. Pure."""
    if journal is None:
        return []
    if journal.status in _STOPPED and journal.problem:
        return [_stopped(journal, journal.problem)]
    if journal.slow:
        text = f"The stage {journal.stage} of {journal.workflow} takes longer than it usually does."
        step = look("Watch what the stage waits for.", "operation_get")
        return [DiagnosisCause("operation.slow", text, "possible", (journal.evidence(),), (step,))]
    return []


def _stopped(journal: Journal, problem: Mapping[str, Any]) -> DiagnosisCause:
    code, hint = str(problem.get("code")), str(problem.get("hint") or "")
    detail = unquoted(str(problem.get("detail") or ""), problem.get("evidence") or {})
    known = _KINDS.get(str(problem.get("kind"))) or causes_told.meaning(detail)
    evidence = (journal.evidence(), *_asked(journal, problem))
    if code == OVERDUE:
        text = f"The stage {journal.stage} waited longer than it may: what it waited for did not come."
        return DiagnosisCause(code, text, "possible", evidence, _steps(journal, hint))
    if known is None:
        return DiagnosisCause(code, detail, "certain", evidence, _steps(journal, hint))
    steps = tuple(dict.fromkeys((*([look(hint)] if hint else []), *known.steps)))
    return DiagnosisCause(known.code, detail, "certain", evidence, steps)


def _asked(journal: Journal, problem: Mapping[str, Any]) -> list[DiagnosisEvidence]:
    """The call of AWS that was refused, where the problem names one."""
    told = problem.get("evidence") or {}
    if not told.get("operation") or not told.get("service"):
        return []
    text = f"{told['service']}:{told['operation']} answered {told.get('aws_code') or 'with a refusal'}."
    reference = f"request {told['request_id']}" if told.get("request_id") else f"{told['service']}:{told['operation']}"
    return [seen("aws", reference, text, journal.since, str(told.get("message") or "") or None)]


def _steps(journal: Journal, hint: str) -> tuple[DiagnosisStep, ...]:
    first = look(hint or "Read what it did and saw.", "operation_events")
    again = restart("Let it go on at the stage where it stopped.", "operation_retry")
    tool = _RENEWS.get(journal.workflow.partition(".")[0])
    if tool is None:
        return first, again
    return first, again, renew("Delete what was made and begin anew, when it cannot be mended.", tool)
