"""Runs as they are told: bounded texts, numbers that JSON has words for, how fast they are, curves thinned out, tables for spreadsheets."""

from __future__ import annotations

import csv
import datetime as dt
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from instantstart.ensure.mlflow.mlflow_api import Experiment, Point, Run

_TEXT_LIMIT = 500
#: metrics that tell how fast a training is, the first that is there: name, unit
THROUGHPUT = (
    ("tokens_per_second", "tokens/s"),
    ("train/tokens_per_second", "tokens/s"),
    ("train_tokens_per_second", "tokens/s"),
    ("perf/throughput", "tokens/s/GPU"),
    ("throughput", "tokens/s"),
    ("train_samples_per_second", "samples/s"),
    ("samples_per_second", "samples/s"),
    ("train_steps_per_second", "steps/s"),
)


#: the most runs of one export; a filter brings the rest
MOST_RUNS = 10_000
_FIRST = ("id", "name", "experiment", "status", "started_at", "ended_at", "duration_seconds", "user", "job", "parent")
#: a spreadsheet would take a text that begins so for a formula
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True)
class ExperimentItem:
    """An experiment: untrusted text in its name."""

    id: str
    name: str
    created_at: dt.datetime | None
    updated_at: dt.datetime | None


@dataclass(frozen=True)
class Throughput:
    """The latest value of the metric that tells how fast a run is, or was."""

    value: float
    unit: str
    metric: str


@dataclass(frozen=True)
class RunItem:
    """A run. ``metrics`` are the latest values; None for what is no number. ``job``: the training job that made it, if it said so."""

    id: str
    experiment_id: str
    experiment: str | None
    name: str
    status: str
    started_at: dt.datetime | None
    ended_at: dt.datetime | None
    duration_seconds: float | None
    user: str
    job: str | None
    parent: str | None
    throughput: Throughput | None
    params: dict[str, str]
    metrics: dict[str, float | None]
    tags: dict[str, str]
    artifact_uri: str | None


@dataclass(frozen=True)
class Series:
    """One metric of one run over its steps. ``points``: step, milliseconds, value (None: no number). ``total``: before thinning out."""

    run_id: str
    metric: str
    points: tuple[tuple[int, int, float | None], ...]
    total: int


@dataclass(frozen=True)
class Difference:
    """A parameter or metric of the runs that are compared, in their order; None where a run has none."""

    name: str
    values: tuple[str | float | None, ...]
    differs: bool


def throughput_of(metrics: Mapping[str, float | None]) -> Throughput | None:
    """How fast a run is, by the first metric that tells it."""
    for name, unit in THROUGHPUT:
        value = metrics.get(name)
        if value is not None:
            return Throughput(value, unit, name)
    return None


def differences(columns: Sequence[Mapping[str, str | float | None]]) -> tuple[Difference, ...]:
    names = dict.fromkeys(name for column in columns for name in column)
    rows = [(name, tuple(column.get(name) for column in columns)) for name in names]
    found = [Difference(name, values, len(set(values)) > 1) for name, values in rows]
    return tuple(sorted(found, key=lambda d: (not d.differs, d.name)))


def thin(points: Sequence[Point], most: int) -> list[Point]:
    """At most ``most`` points that keep the shape: of each stretch the least and the greatest, and the first and last of all."""
    if len(points) <= most or most < 4:
        return list(points[:most]) if most < 4 else list(points)
    stretches = (most - 2) // 2
    inner = points[1:-1]
    kept: list[Point] = [points[0]]
    for number in range(stretches):
        stretch = inner[number * len(inner) // stretches : (number + 1) * len(inner) // stretches]
        if stretch:
            ends = {min(stretch, key=_height), max(stretch, key=_height)}
            kept += sorted(ends, key=lambda p: p.order)
    return [*kept, points[-1]]


def _height(point: Point) -> float:
    return -math.inf if math.isnan(point.value) else point.value


def experiment_item(told: Experiment) -> ExperimentItem:
    return ExperimentItem(told.id, _text(told.name), _time(told.created), _time(told.updated))


def run_item(run: Run, names: Mapping[str, str]) -> RunItem:
    metrics = {key: _number(point.value) for key, point in sorted(run.metrics.items())}
    ended = run.ended - run.started if run.ended and run.started else None
    return RunItem(
        id=run.id,
        experiment_id=run.experiment_id,
        experiment=names.get(run.experiment_id),
        name=_text(run.name),
        status=run.status,
        started_at=_time(run.started),
        ended_at=_time(run.ended),
        duration_seconds=ended / 1000 if ended is not None else None,
        user=_text(run.user),
        job=run.tags.get("instantstart.job"),
        parent=run.parent,
        throughput=throughput_of(metrics),
        params=_texts(run.params),
        metrics=metrics,
        tags=_texts({key: value for key, value in run.tags.items() if not key.startswith("mlflow.")}),
        artifact_uri=run.artifact_uri,
    )


def _texts(values: Mapping[str, str]) -> dict[str, str]:
    return {_text(key): _text(value) for key, value in sorted(values.items())}


def _text(value: str) -> str:
    return value if len(value) <= _TEXT_LIMIT else f"{value[:_TEXT_LIMIT]}…"


def _number(value: float) -> float | None:
    """JSON has no word for what is infinite or no number."""
    return value if math.isfinite(value) else None


def point_told(point: Point) -> tuple[int, int, float | None]:
    return point.step, point.timestamp, _number(point.value)


def _time(milliseconds: int | None) -> dt.datetime | None:
    return dt.datetime.fromtimestamp(milliseconds / 1000, dt.UTC) if milliseconds else None


# --- tables


def table(runs: Sequence[RunItem]) -> Iterator[str]:
    """The lines of some runs."""
    params = sorted({name for run in runs for name in run.params})
    metrics = sorted({name for run in runs for name in run.metrics})
    header = [*_FIRST, "throughput", "throughput_unit", *(f"params.{name}" for name in params), *(f"metrics.{name}" for name in metrics)]
    yield _line(header)
    for run in runs:
        speed = run.throughput
        first = [getattr(run, name) for name in _FIRST]
        fast = [speed.value if speed else None, speed.unit if speed else None]
        yield _line([*first, *fast, *(run.params.get(name) for name in params), *(run.metrics.get(name) for name in metrics)])


def _line(cells: Sequence[Any]) -> str:
    text = io.StringIO()
    csv.writer(text).writerow([_cell(cell) for cell in cells])
    return text.getvalue()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if hasattr(value, "isoformat"):
        return str(value.isoformat())
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else str(value)
