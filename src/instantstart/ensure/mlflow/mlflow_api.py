"""MLflow's REST API on SageMaker: experiments, runs, metrics. Verbs and typed answers; no decisions.

Where it answers and what its requests carry (aws-facts A3; the plugin sagemaker-mlflow 0.5): a tracking server at
``REGION.experiments.sagemaker.aws`` signed for ``sagemaker-mlflow``, an app at ``mlflow.sagemaker.REGION.app.aws`` signed for
``sagemaker``; a header names the ARN. An endpoint that the environment gives for AWS stands in their place.
The API itself: MLflow, "REST API", version 2.0.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from instantstart.aws import signed
from instantstart.aws.session import Aws
from instantstart.base import problems
from instantstart.ensure.mlflow.tracking import Place, TrackingKind, place_of

_ROOT = "/api/2.0/mlflow/"
_PAGE = 1000
_HISTORY_PAGE = 25_000
#: what one log-batch takes (MLflow, "Log Batch": request limits)
METRICS_A_BATCH, PARAMS_A_BATCH, TAGS_A_BATCH = 1000, 100, 100
_NOUNS = {"run_id": "run", "experiment_id": "experiment", "experiment_name": "experiment"}
#: MLflow's error codes that mean something to a caller
_NOT_FOUND, _EXISTS, _INVALID = "RESOURCE_DOES_NOT_EXIST", "RESOURCE_ALREADY_EXISTS", "INVALID_PARAMETER_VALUE"


@dataclass(frozen=True)
class Point:
    """One value of a metric. ``timestamp`` in milliseconds; ``value`` may be infinite or not a number."""

    key: str
    value: float
    timestamp: int
    step: int

    @property
    def order(self) -> tuple[int, int]:
        """Where it stands in its history."""
        return self.step, self.timestamp

    def told(self) -> dict[str, Any]:
        """As log-batch takes it; JSON has no word for what is no number, MLflow reads these."""
        words = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}
        return {"key": self.key, "value": words.get(str(self.value), self.value), "timestamp": self.timestamp, "step": self.step}


@dataclass(frozen=True)
class Run:
    """A run. Times in milliseconds; ``metrics`` are the latest point of each."""

    id: str
    experiment_id: str
    name: str
    status: str
    started: int | None
    ended: int | None
    user: str
    artifact_uri: str | None
    params: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, Point] = field(default_factory=dict)

    @property
    def parent(self) -> str | None:
        """The run that it is nested in."""
        return self.tags.get("mlflow.parentRunId")


@dataclass(frozen=True)
class Experiment:
    """An experiment; ``stage``: active or deleted."""

    id: str
    name: str
    stage: str
    artifact_location: str | None
    created: int | None
    updated: int | None
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Search:
    """What runs are asked for. ``filter`` and ``order_by`` in MLflow's own words."""

    experiment_ids: Sequence[str]
    filter: str = ""
    order_by: Sequence[str] = ()
    limit: int = _PAGE
    cursor: str | None = None


class Mlflow:
    """One tracking server or app, reached as one identity. Thread-safe."""

    def __init__(self, aws: Aws, arn: str) -> None:
        self.place = place_of(arn)
        self._aws = aws
        self._endpoint = _endpoint(aws, self.place)
        is_app = self.place.kind is TrackingKind.app
        self._service = "sagemaker" if is_app else "sagemaker-mlflow"
        self._headers = {"x-sm-mlflow-app-arn" if is_app else "x-mlflow-sm-tracking-server-arn": arn}

    # --- reads

    def experiments(self, name_filter: str = "", limit: int = _PAGE, cursor: str | None = None) -> tuple[list[Experiment], str | None]:
        """A page of the active experiments, newest change first."""
        body: dict[str, Any] = {"max_results": limit, "order_by": ["last_update_time DESC"], "view_type": "ACTIVE_ONLY"}
        body |= {"filter": name_filter} if name_filter else {}
        told = self._read("POST", "experiments/search", body=body | ({"page_token": cursor} if cursor else {}))
        return [_experiment(e) for e in told.get("experiments", ())], told.get("next_page_token") or None

    def all_experiments(self) -> list[Experiment]:
        """Every active experiment."""
        found, cursor = self.experiments()
        while cursor:
            more, cursor = self.experiments(cursor=cursor)
            found += more
        return found

    def experiment_named(self, name: str) -> Experiment | None:
        """The experiment of that name, deleted or not, or None."""
        try:
            return _experiment(self._read("GET", "experiments/get-by-name", {"experiment_name": name})["experiment"])
        except problems.NotFound:
            return None

    def experiment(self, experiment_id: str) -> Experiment:
        """One experiment. Raises NotFound."""
        return _experiment(self._read("GET", "experiments/get", {"experiment_id": experiment_id})["experiment"])

    def runs(self, search: Search) -> tuple[list[Run], str | None]:
        """A page of runs, and the cursor of the next."""
        body: dict[str, Any] = {"experiment_ids": list(search.experiment_ids), "max_results": search.limit, "run_view_type": "ACTIVE_ONLY"}
        body |= {"filter": search.filter} if search.filter else {}
        body |= {"order_by": list(search.order_by)} if search.order_by else {}
        body |= {"page_token": search.cursor} if search.cursor else {}
        told = self._read("POST", "runs/search", body=body)
        return [_run(r) for r in told.get("runs", ())], told.get("next_page_token") or None

    def each_run(self, experiment_ids: Sequence[str], asked: str = "") -> Iterator[Run]:
        """Every run of some experiments, page by page, oldest first."""
        cursor: str | None = None
        while True:
            found, cursor = self.runs(Search(experiment_ids, asked, ("attributes.start_time ASC",), cursor=cursor))
            yield from found
            if not cursor:
                return

    def run(self, run_id: str) -> Run:
        """One run. Raises NotFound."""
        return _run(self._read("GET", "runs/get", {"run_id": run_id})["run"])

    def history(self, run_id: str, key: str) -> list[Point]:
        """Every value of a metric, first to last."""
        points: list[Point] = []
        query = {"run_id": run_id, "metric_key": key, "max_results": str(_HISTORY_PAGE)}
        while True:
            told = self._read("GET", "metrics/get-history", query)
            points += [_point(m) for m in told.get("metrics", ())]
            if not told.get("next_page_token"):
                return sorted(points, key=lambda p: p.order)
            query["page_token"] = str(told["next_page_token"])

    # --- writes: each is sent once

    def create_experiment(self, name: str, tags: Mapping[str, str]) -> str:
        """Make an experiment; its id. Raises Conflict ``mlflow.exists``."""
        return str(self._write("experiments/create", {"name": name, "tags": _pairs(tags)})["experiment_id"])

    def create_run(self, experiment_id: str, name: str, started: int | None, user: str, tags: Mapping[str, str]) -> str:
        """Make a run; its id."""
        body = {"experiment_id": experiment_id, "run_name": name, "user_id": user, "tags": _pairs(tags)}
        told = self._write("runs/create", body | ({"start_time": started} if started is not None else {}))
        return str(told["run"]["info"]["run_id"])

    def log(
        self, run_id: str, *, points: Sequence[Point] = (), params: Mapping[str, str] | None = None, tags: Mapping[str, str] | None = None
    ) -> None:
        """Log one batch, within its limits. What is there already, with the same value, stays once."""
        body: dict[str, Any] = {"run_id": run_id, "metrics": [p.told() for p in points]}
        self._write("runs/log-batch", body | {"params": _pairs(params or {}), "tags": _pairs(tags or {})})

    def end_run(self, run_id: str, status: str, ended: int | None, name: str) -> None:
        """Set status, end and name."""
        body = {"run_id": run_id, "status": status, "run_name": name}
        self._write("runs/update", body | ({"end_time": ended} if ended is not None else {}))

    # --- the wire

    def _read(
        self, method: str, path: str, query: Mapping[str, str] | None = None, body: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        return self._send(signed.Call(self._service, self._endpoint, method, _ROOT + path, query or {}, body, self._headers), repeat=True)

    def _write(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return self._send(signed.Call(self._service, self._endpoint, "POST", _ROOT + path, {}, body, self._headers), repeat=False)

    def _send(self, call: signed.Call, *, repeat: bool) -> dict[str, Any]:
        try:
            text = signed.send(self._aws, call, repeat=repeat)
        except signed.Refusal as refusal:
            raise self._translated(refusal, call) from refusal
        try:
            told = json.loads(text or b"{}")
        except ValueError as error:
            raise problems.Unreachable("mlflow.no_json", f"{self.place.arn} did not answer as MLflow does.") from error
        return told if isinstance(told, dict) else {}

    def _absent(self, call: signed.Call) -> str:
        return f"There is no {_absent_noun({**(call.body or {}), **call.query})} in {self.place.arn}."

    def _translated(self, refusal: signed.Refusal, call: signed.Call) -> problems.Problem:
        told = refusal.told()
        code, said = str(told.get("error_code", "")), str(told.get("message") or told.get("Message") or "")[:1000]
        evidence = {"arn": self.place.arn, "operation": call.path.removeprefix(_ROOT), "status": refusal.status, "mlflow_code": code}
        evidence |= {"untrusted_message": said} if said else {}
        if refusal.status in (401, 403):
            return problems.Denied(
                "mlflow.denied",
                f"This identity may not do {evidence['operation']} on {self.place.arn}: {said or refusal.status}",
                hint="Allow sagemaker-mlflow actions on that ARN for it.",
                evidence=evidence,
            )
        if code == _NOT_FOUND or refusal.status == 404:
            return problems.NotFound("mlflow.not_found", self._absent(call), hint="List the runs or experiments.", evidence=evidence)
        if refusal.status == 409:
            sentence = said or f"{self.place.arn} is not active."
            return problems.Conflict("mlflow.not_active", sentence, hint="Wait until it is usable, or start it.", evidence=evidence)
        if code == _EXISTS:
            return problems.Conflict("mlflow.exists", said, evidence=evidence)
        return problems.Invalid("mlflow.refused", f"MLflow refused {evidence['operation']}: {said or refusal.status}", evidence=evidence)


def _absent_noun(asked: Mapping[str, Any]) -> str:
    """What was asked for, by the name that it was asked by."""
    for key, noun in _NOUNS.items():
        if asked.get(key):
            return f"{noun} {asked[key]}"
    return "such thing"


def _endpoint(aws: Aws, place: Place) -> str:
    given = signed.configured_endpoint(aws, "sagemaker-mlflow")
    if given:
        return given
    if place.kind is TrackingKind.app:
        return f"https://mlflow.sagemaker.{place.region}.app.aws"
    return f"https://{place.region}.experiments.sagemaker.aws"


def _pairs(values: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in values.items()]


def _whole(value: Any) -> int | None:
    return None if value is None else int(value)


def _point(told: Mapping[str, Any]) -> Point:
    return Point(str(told["key"]), float(told.get("value", 0)), int(told.get("timestamp", 0)), int(told.get("step", 0)))


def _run(told: Mapping[str, Any]) -> Run:
    info, data = told["info"], told.get("data", {})
    tags = {t["key"]: str(t.get("value", "")) for t in data.get("tags", ())}
    return Run(
        id=str(info.get("run_id") or info["run_uuid"]),
        experiment_id=str(info["experiment_id"]),
        name=str(info.get("run_name") or tags.get("mlflow.runName", "")),
        status=str(info.get("status", "")),
        started=_whole(info.get("start_time")),
        ended=_whole(info.get("end_time")),
        user=str(info.get("user_id") or tags.get("mlflow.user", "")),
        artifact_uri=info.get("artifact_uri"),
        params={p["key"]: str(p.get("value", "")) for p in data.get("params", ())},
        tags=tags,
        metrics={m["key"]: _point(m) for m in data.get("metrics", ())},
    )


def _experiment(told: Mapping[str, Any]) -> Experiment:
    return Experiment(
        id=str(told["experiment_id"]),
        name=str(told["name"]),
        stage=str(told.get("lifecycle_stage", "active")),
        artifact_location=told.get("artifact_location"),
        created=_whole(told.get("creation_time")),
        updated=_whole(told.get("last_update_time")),
        tags={t["key"]: str(t.get("value", "")) for t in told.get("tags", ())},
    )
