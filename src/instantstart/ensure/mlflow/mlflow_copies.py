"""Runs copied whole from one MLflow to another: parameters, tags, every point of every metric, times, status, nesting. Artifacts stay.

A copy carries tags that say what it is a copy of, and, written last, in which state the original was. So a look at both sides tells what
is left to do: after a kill, on a second request, or when the original has gone on. Writing what is there already changes nothing
(MLflow: a point is its key, step, time and value; a parameter is written once).
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

from instantstart.base import problems
from instantstart.ensure.mlflow.mlflow_api import METRICS_A_BATCH, PARAMS_A_BATCH, TAGS_A_BATCH, Experiment, Mlflow, Run

SOURCE_RUN, SOURCE_SERVER, SOURCE_STATE = "instantstart.source_run", "instantstart.source_server", "instantstart.source_state"
SOURCE_PARENT, SOURCE_ARTIFACTS, SOURCE_EXPERIMENT = (
    "instantstart.source_parent_run",
    "instantstart.source_artifacts",
    "instantstart.source_experiment",
)
#: what MLflow sets itself, or what would name a run of the other side
_OWN_TAGS = frozenset({"mlflow.parentRunId", "mlflow.rootRunId", "mlflow.runName", SOURCE_RUN, SOURCE_SERVER, SOURCE_STATE, SOURCE_PARENT})
_A_ROUND = 32
T = TypeVar("T")
_DELETED = "deleted"


@dataclass(frozen=True)
class Way:
    """From where to where. ``asked``: MLflow's filter of runs; ``prefix``: before each experiment's name."""

    source: Mlflow
    target: Mlflow
    prefix: str
    asked: str = ""
    workers: int = 8


@dataclass
class Tally:
    """How far it has come. ``failed``: runs that could not be copied, and why."""

    runs: int = 0
    done: int = 0
    copied: int = 0
    experiments: dict[str, str] = field(default_factory=dict)
    failed: dict[str, problems.Problem] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left."""
        return self.done == self.runs


def state_of(run: Run) -> str:
    """What changes whenever anything that is copied does: the latest point of each metric moves with every new one."""
    points = {key: (str(p.value), p.timestamp, p.step) for key, p in run.metrics.items()}
    told = [run.name, run.status, run.started, run.ended, sorted(run.params.items()), sorted(run.tags.items()), sorted(points.items())]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:16]


def go_on(way: Way, experiments: Sequence[Experiment], seconds: float) -> Tally:
    """Copy for about ``seconds``, and tell how far that leads. Raises what stands in the way of all."""
    tally, until = Tally(), time.monotonic() + seconds
    for experiment in experiments:
        _experiment(way, experiment, tally, until)
    return tally


def _experiment(way: Way, experiment: Experiment, tally: Tally, until: float) -> None:
    """One experiment: at least a round, as many as there is time for."""
    originals = {run.id: run for run in way.source.each_run([experiment.id], way.asked)}
    tally.runs += len(originals)
    target = _target_experiment(way, experiment)
    tally.experiments[experiment.name] = target
    copies = _copies(way, target)
    left = [run for run in originals.values() if not _is_copied(run, copies)]
    while left:
        chosen = list(islice(_in_order(left, originals, copies), _A_ROUND))
        with ThreadPoolExecutor(way.workers) as pool:
            outcomes = list(pool.map(lambda run: _attempt(way, run, target, copies), chosen))
        for run, outcome in zip(chosen, outcomes, strict=True):
            if isinstance(outcome, problems.Problem):
                tally.failed[run.id] = outcome
            else:
                copies[run.id] = outcome
                tally.copied += 1
        left = [run for run in left if run not in chosen]
        if time.monotonic() > until:
            break
    tally.done += len(originals) - len(left) - sum(1 for run in originals if run in tally.failed)


def _target_experiment(way: Way, experiment: Experiment) -> str:
    """The experiment there, made when it is not. Raises Conflict when it lies in the bin."""
    name = f"{way.prefix}{experiment.name}"
    have = way.target.experiment_named(name)
    if have is None:
        tags = {SOURCE_EXPERIMENT: experiment.id, SOURCE_SERVER: way.source.place.arn}
        try:
            return way.target.create_experiment(name, tags)
        except problems.Conflict:
            have = way.target.experiment_named(name)  # another made it meanwhile, or our own answer was lost
    if have is None or have.stage == _DELETED:
        raise problems.Conflict(
            "mlflow.experiment_deleted",
            f"The experiment {name} was deleted in {way.target.place.arn} and keeps its name.",
            hint="Have it restored there, or choose another prefix.",
        )
    return have.id


def _copies(way: Way, experiment_id: str) -> dict[str, Run]:
    """What is there already of this source: original's id -> the copy. Of two (an answer was lost) the older."""
    found: dict[str, Run] = {}
    for run in way.target.each_run([experiment_id], f"tags.`{SOURCE_SERVER}` = '{way.source.place.arn}'"):
        found.setdefault(run.tags.get(SOURCE_RUN, ""), run)
    return found


def _is_copied(run: Run, copies: Mapping[str, Run]) -> bool:
    copy = copies.get(run.id)
    return copy is not None and copy.tags.get(SOURCE_STATE) == state_of(run)


def _in_order(left: Iterable[Run], originals: Mapping[str, Run], copies: Mapping[str, Run]) -> Iterable[Run]:
    """Those whose parent is there, or is not among what is copied; when only a circle is left, all."""
    waiting = list(left)
    ready = [run for run in waiting if run.parent is None or run.parent not in originals or run.parent in copies]
    return ready or waiting


def _attempt(way: Way, run: Run, experiment_id: str, copies: Mapping[str, Run]) -> Run | problems.Problem:
    """One run. What is wrong with it alone is answered, what is wrong with all is raised."""
    try:
        return _copy(way, run, experiment_id, copies)
    except (problems.Invalid, problems.NotFound) as problem:
        return problem


def _copy(way: Way, run: Run, experiment_id: str, copies: Mapping[str, Run]) -> Run:
    have = copies.get(run.id)
    origin = {SOURCE_RUN: run.id, SOURCE_SERVER: way.source.place.arn}
    target = way.target
    copy_id = have.id if have else target.create_run(experiment_id, run.name, run.started, run.user, origin)
    for some in _batches(list(run.params.items()), PARAMS_A_BATCH):
        target.log(copy_id, params=dict(some))
    for key, latest in run.metrics.items():
        if have is None or have.metrics.get(key) != latest:
            for points in _batches(way.source.history(run.id, key), METRICS_A_BATCH):
                target.log(copy_id, points=points)
    for some in _batches(list(_tags(run, copies).items()), TAGS_A_BATCH):
        target.log(copy_id, tags=dict(some))
    target.end_run(copy_id, run.status, run.ended, run.name)
    state = state_of(run)
    target.log(copy_id, tags={SOURCE_STATE: state})
    return Run(copy_id, experiment_id, run.name, run.status, run.started, run.ended, run.user, None, tags={**origin, SOURCE_STATE: state})


def _tags(run: Run, copies: Mapping[str, Run]) -> dict[str, str]:
    """The run's own tags, its place among the copies, and where its artifacts are."""
    kept = {key: value for key, value in run.tags.items() if key not in _OWN_TAGS}
    if run.parent is not None:
        kept[SOURCE_PARENT] = run.parent
        parent = copies.get(run.parent)
        kept |= {"mlflow.parentRunId": parent.id} if parent else {}
    return kept | ({SOURCE_ARTIFACTS: run.artifact_uri} if run.artifact_uri else {})


def _batches(items: Sequence[T], size: int) -> list[Sequence[T]]:
    return [items[at : at + size] for at in range(0, len(items), size)]
