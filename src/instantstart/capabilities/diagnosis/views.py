"""Diagnoses: of a cluster's creation, a node, a job, an endpoint, a deployment, and of the communication between nodes (NCCL)."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from instantstart.base import problems
from instantstart.base.counting import counted
from instantstart.base.problems import Violation
from instantstart.capabilities.room import Room
from instantstart.ensure import sites
from instantstart.ensure.diagnosis import creation, creation_causes, journal, nccl, nccl_causes, node, node_causes, work, work_causes
from instantstart.ensure.diagnosis.creation_causes import CreationFacts
from instantstart.ensure.diagnosis.findings import DiagnosisCause, DiagnosisUnread, ranked
from instantstart.ensure.diagnosis.journal import Journal
from instantstart.ensure.diagnosis.reading import Reader
from instantstart.ensure.sites import Site
from instantstart.operations.record import FINISHED, Operation, StageStatus
from instantstart.store.records import OperationFilter

Subject = Literal["cluster", "node", "job", "endpoint", "deployment", "nccl"]
JobKind = Literal["pytorch", "ray_job", "ray_cluster"]
#: what makes a cluster, whole or step by step
_MAKING = frozenset({
    "cluster.create", "eks.create", "dependencies.configure", "hyperpod.create", "storage.configure", "cluster.verify",
    "cluster.import",
})  # fmt: skip
_OPERATIONS = 100
_COUNT = re.compile(r"^\d+ of \d+ pods: ")


@dataclass(frozen=True)
class DiagnosisAsk:
    """What is to be diagnosed. ``name`` is not needed for a cluster; for NCCL it is the job, or nothing: the cluster's side alone."""

    of: Subject
    name: str | None = None
    namespace: str = "default"
    job_kind: JobKind = "pytorch"
    detail: bool = False


@dataclass(frozen=True)
class Diagnosis:
    """One diagnosis. ``found``: causes; nothing (all was read); unknown (nothing, and a part was not read). Nothing was changed.

    ``causes`` come the surest first. Texts under ``untrusted_text`` and ``because`` were written by others.
    """

    of: Subject
    name: str
    namespace: str | None
    cluster: str
    found: Literal["causes", "nothing", "unknown"]
    verdict: str
    standing: str
    causes: tuple[DiagnosisCause, ...]
    causes_omitted: int
    looked_at: tuple[str, ...]
    unread: tuple[DiagnosisUnread, ...]
    read_at: dt.datetime


def diagnose(room: Room, tag: str, ask: DiagnosisAsk) -> Diagnosis:
    """Look once at everything, and say what is wrong. Raises Invalid for no name, NotFound for a subject that nobody knows."""
    if not (ask.name or "").strip() and ask.of not in ("cluster", "nccl"):
        violation = Violation("/name", f"says which {ask.of} is meant")
        raise problems.Invalid("diagnosis.no_name", f"Say which {ask.of} is to be diagnosed: its name.", fields=[violation])
    with Reader() as reader:
        where = _place(room, tag, reader)
        standing, causes = _READERS[ask.of](room, tag, where, ask, reader)
        return _told(tag, ask, (standing, causes), reader)


def _place(room: Room, tag: str, reader: Reader) -> Site | None:
    """Where the cluster lives; None when AWS cannot be asked: then only our own journal speaks. Raises NotFound, Invalid."""
    try:
        return sites.find(room, tag)
    except (problems.NotFound, problems.Invalid):
        raise
    except problems.Problem as problem:
        reader.missed("the account on AWS", problem.detail, problem.code)
        return None


def _told(tag: str, ask: DiagnosisAsk, seen: tuple[str, Sequence[DiagnosisCause]], reader: Reader) -> Diagnosis:
    standing, found = seen
    causes, omitted = ranked(found, ask.detail)
    if causes:
        verdict = causes[0].text
    elif reader.unread:
        verdict = f"Nothing was found in what could be read; {counted(len(reader.unread), 'part')} could not be read."
    else:
        verdict = "Nothing found."
    return Diagnosis(
        of=ask.of,
        name=tag if ask.of == "cluster" else ask.name or "",
        namespace=None if ask.of in ("cluster", "node") or ask.name is None else ask.namespace,
        cluster=tag,
        found="causes" if causes else "unknown" if reader.unread else "nothing",
        verdict=verdict,
        standing=standing,
        causes=causes,
        causes_omitted=omitted,
        looked_at=tuple(reader.looked),
        unread=tuple(reader.unread),
        read_at=dt.datetime.now(dt.UTC),
    )


Seen = tuple[str, Sequence[DiagnosisCause]]
_UNKNOWN = "How it stands is not known: AWS could not be asked."


def _cluster(room: Room, tag: str, where: Site | None, ask: DiagnosisAsk, reader: Reader) -> Seen:
    del ask
    made = _journal(room, tag, reader, lambda o: o.workflow in _MAKING)
    facts = creation.gather(room, where, made, reader) if where else CreationFacts(operation=made)
    return creation_causes.standing(facts) if where else made.standing if made else _UNKNOWN, creation_causes.causes(facts)


def _node(room: Room, tag: str, where: Site | None, ask: DiagnosisAsk, reader: Reader) -> Seen:
    name = str(ask.name).strip()
    acted = _journal(room, tag, reader, lambda o: o.workflow.startswith("node.") and name in o.spec.get("nodes", ()))
    if where is None:
        return _UNKNOWN, journal.causes(acted)
    facts = node.gather(room, where, name, reader)
    return node_causes.standing(facts), _behind(node_causes.causes(facts), acted)


def _work(room: Room, tag: str, where: Site | None, ask: DiagnosisAsk, reader: Reader) -> Seen:
    prefix = {"job": "training_job.", "endpoint": "inference_endpoint.", "deployment": "model_deployment."}[ask.of]
    acted = _journal(room, tag, reader, lambda o: o.workflow.startswith(prefix) and _about(o, ask))
    if where is None:
        return _UNKNOWN, journal.causes(acted)
    try:
        facts = _facts(room, where, ask, reader)
    except problems.NotFound:
        stopped = journal.causes(acted)
        if not stopped:
            raise
        return str(acted and acted.standing), stopped  # it was never made: the operation says why
    return work_causes.standing(facts), _behind(work_causes.causes(facts), None if facts.well else acted)


def _facts(room: Room, where: Site, ask: DiagnosisAsk, reader: Reader) -> work_causes.WorkFacts:
    name = str(ask.name)
    if ask.of == "job":
        return work.job(room, where, (ask.job_kind, ask.namespace, name), reader)
    gather = work.endpoint if ask.of == "endpoint" else work.deployment
    return gather(room, where, ask.namespace, name, reader)


def _nccl(room: Room, tag: str, where: Site | None, ask: DiagnosisAsk, reader: Reader) -> Seen:
    del tag
    if where is None:
        return _UNKNOWN, []
    facts = nccl.gather(room, where, (ask.job_kind, ask.namespace, ask.name) if ask.name else None, reader)
    return nccl_causes.standing(facts), nccl_causes.causes(facts)


_READERS: dict[Subject, Callable[[Room, str, Site | None, DiagnosisAsk, Reader], Seen]] = {
    "cluster": _cluster, "node": _node, "job": _work, "endpoint": _work, "deployment": _work, "nccl": _nccl,
}  # fmt: skip


def _behind(found: list[DiagnosisCause], acted: Journal | None) -> list[DiagnosisCause]:
    """What the world shows, then what an operation stopped on: where the world says why, the operation only repeats it."""
    known = any(c.confidence == "certain" for c in found)
    told = {_sentence(c) for c in found}
    more = [c for c in journal.causes(acted) if _sentence(c) not in told]
    repeated = [e for c in journal.causes(acted) if _sentence(c) in told for e in c.evidence]
    found = [replace(c, evidence=(*c.evidence, *repeated)) if i == 0 else c for i, c in enumerate(found)]
    return [*found, *(replace(c, confidence="possible") if known else c for c in more)]


def _sentence(cause: DiagnosisCause) -> str:
    """A cause's sentence without what merely goes before it or ends it: ``3 of 8 pods: ...``."""
    return _COUNT.sub("", cause.text).strip().rstrip(".").casefold()


def _about(operation: Operation, ask: DiagnosisAsk) -> bool:
    spec = operation.spec.get("asked") or operation.spec
    return bool(spec.get("name") == ask.name and spec.get("namespace", "default") == ask.namespace)


def _journal(room: Room, tag: str, reader: Reader, wanted: Callable[[Operation], bool]) -> Journal | None:
    """The newest operation that is meant, from our own journal."""
    page = reader.read("our journal of operations", lambda: room.engine.list(OperationFilter(cluster=tag), limit=_OPERATIONS).items) or ()
    found = next((o for o in page if wanted(o)), None)
    if found is None:
        return None
    stages = [s for s in found.stages if s.status not in (*FINISHED, StageStatus.pending)]
    at = next((s for s in stages if s.problem), stages[0] if stages else None)
    return Journal(
        id=found.id,
        workflow=found.workflow,
        status=str(found.status),
        stage=at.name if at else None,
        because=at.because if at else None,
        since=at.since if at else found.started_at,
        slow=found.slow,
        problem=found.problem or (at.problem if at else None),
        done=tuple(s.name for s in found.stages if s.status in FINISHED),
        to_come=tuple(s.name for s in found.stages if s.status is StageStatus.pending),
    )
