"""MLflow's data plane: the processes by ARN, and the way to them through the sandbox's endpoint.

As on AWS, a client sends MLflow's REST requests to one endpoint for all servers of a region, signed for ``sagemaker-mlflow`` (Signature
Version 4), with the ARN in the header ``x-mlflow-sm-tracking-server-arn`` or ``x-sm-mlflow-app-arn``; here that is the sandbox's own
endpoint. A presigned address leads once to the process itself.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import secrets
import tempfile
from collections.abc import Callable, Iterable
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from instantstart_sandbox.gateway import wire
from instantstart_sandbox.gateway.errors import AwsError
from instantstart_sandbox.gateway.registry import Context
from instantstart_sandbox.services.mlflow import processes
from instantstart_sandbox.services.mlflow.records import APP, USABLE, Record, records

if TYPE_CHECKING:
    from instantstart_sandbox.world.state import World

Environ = dict[str, Any]
StartResponse = Callable[[str, list[tuple[str, str]]], Any]
PREFIX = "/_mlflow/"
_HEADERS = ("HTTP_X_MLFLOW_SM_TRACKING_SERVER_ARN", "HTTP_X_SM_MLFLOW_APP_ARN")
_RELAYED = ("content-type", "content-encoding", "content-disposition", "location")
_PATIENCE_SECONDS = 60.0
_COMING_UP = frozenset({"Creating", "Starting", "Updating"})
#: MLflow's REST paths -> IAM's actions; what is not named is AccessUI
_ACTIONS = {
    "experiments/create": "CreateExperiment",
    "experiments/search": "SearchExperiments",
    "experiments/get": "GetExperiment",
    "experiments/get-by-name": "GetExperimentByName",
    "experiments/delete": "DeleteExperiment",
    "experiments/restore": "RestoreExperiment",
    "experiments/update": "UpdateExperiment",
    "experiments/set-experiment-tag": "SetExperimentTag",
    "runs/create": "CreateRun",
    "runs/update": "UpdateRun",
    "runs/delete": "DeleteRun",
    "runs/restore": "RestoreRun",
    "runs/get": "GetRun",
    "runs/search": "SearchRuns",
    "runs/log-metric": "LogMetric",
    "runs/log-batch": "LogBatch",
    "runs/log-model": "LogModel",
    "runs/log-inputs": "LogInputs",
    "runs/log-parameter": "LogParam",
    "runs/set-tag": "SetTag",
    "runs/delete-tag": "DeleteTag",
    "metrics/get-history": "GetMetricHistory",
    "artifacts/list": "ListArtifacts",
}


def action_of(record: Record, path: str) -> str:
    """What IAM is asked about a request."""
    if record["kind"] == APP:
        return "sagemaker:CallMlflowAppApi"
    return f"sagemaker-mlflow:{_ACTIONS.get(path.rpartition('/mlflow/')[2].strip('/'), 'AccessUI')}"


class Plane:
    """The processes of one world, and a WSGI application in front of them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._running: dict[str, processes.Server | processes.Responder] = {}
        self._tickets: dict[str, tuple[str, float]] = {}
        self._folder: Path | None = world.data_dir / "mlflow" if world.data_dir else None
        #: the sandbox's own address, for presigned URLs
        self.endpoint = ""

    # ------------------------------------------------------------------ processes

    def _place(self, record: Record) -> Path:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="sandbox-mlflow-"))
        return self._folder / hashlib.sha256(record["arn"].encode()).hexdigest()[:16]

    def start(self, record: Record) -> None:
        """Let its process come up; one that runs stays. A world that does not serve MLflow has a responder instead."""
        running = self._running.get(record["arn"])
        if running is not None and running.alive():
            return
        record["port"] = record["port"] or processes.free_port()
        python = processes.interpreter() if self._world.settings.mlflow_serves else None
        try:
            self._running[record["arn"]] = self._begin(python, record)
        except OSError:
            record["port"] = processes.free_port()  # somebody else took the port while the sandbox was down
            self._running[record["arn"]] = self._begin(python, record)

    def _begin(self, python: str | None, record: Record) -> processes.Server | processes.Responder:
        return processes.Server(python, self._place(record), record["port"]) if python else processes.Responder(record["port"])

    def stop(self, record: Record) -> None:
        """End its process; what it recorded stays."""
        running = self._running.pop(record["arn"], None)
        if running is not None:
            running.stop()

    def forget(self, record: Record) -> None:
        """End its process and remove what it recorded."""
        self.stop(record)
        processes.remove(self._place(record))

    def ready(self, record: Record) -> bool:
        """Whether its process answers; one that died is started again."""
        running = self._running.get(record["arn"])
        if running is None or not running.alive():
            self.start(record)
            return False
        return running.ready()

    def resume(self) -> None:
        """Start the processes that a sandbox which starts again should have."""
        for record in records(self._world).values():
            if record["status"] in USABLE | _COMING_UP:
                self.start(record)

    def close(self) -> None:
        """End all processes."""
        for running in self._running.values():
            running.stop()
        self._running.clear()

    def url(self, record: Record) -> str:
        """Where the process itself listens. Nobody's signature is asked for there."""
        return f"http://127.0.0.1:{record['port']}"

    def url_of(self, arn: str) -> str | None:
        """The address of a server or app that runs; None for what does not."""
        record = records(self._world).get(arn)
        return self.url(record) if record is not None and record["port"] and record["status"] in USABLE | {"Updating"} else None

    # ------------------------------------------------------------------ requests

    def presign(self, record: Record, seconds: int) -> str:
        """An address that leads to the process once, within so many seconds."""
        token = secrets.token_urlsafe(24)
        self._tickets[token] = (record["arn"], self._world.clock.now() + seconds)
        return f"{self.endpoint}{PREFIX}auth?authToken={token}"

    def wants(self, environ: Environ) -> bool:
        """Whether a request is for MLflow."""
        return any(name in environ for name in _HEADERS) or str(environ.get("PATH_INFO", "")).startswith(PREFIX)

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """WSGI: check, then pass on."""
        try:
            if str(environ.get("PATH_INFO", "")).startswith(PREFIX):
                return self._redeem(environ, start_response)
            length = int(environ.get("CONTENT_LENGTH") or 0)
            body: bytes = environ["wsgi.input"].read(length) if length else b""
            with self._world.clock.lock:
                address = self._admit(environ, body)
            return self._relay(address, environ, body, start_response)
        except AwsError as refused:
            return _say(start_response, refused.status, {"error_code": refused.code, "message": refused.message})

    def _redeem(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        token = parse_qs(environ.get("QUERY_STRING", "")).get("authToken", [""])[0]
        arn, until = self._tickets.pop(token, ("", 0.0))
        address = self.url_of(arn)
        if until < self._world.clock.now() or address is None:
            raise AwsError("AccessDenied", "The address has expired or was used before: ask for another one.", 403)
        start_response("302 Found", [("Location", f"{address}/"), ("Content-Length", "0")])
        return [b""]

    def _admit(self, environ: Environ, body: bytes) -> str:
        """The address of the process for a caller who may go there."""
        arn = next(str(environ[name]) for name in _HEADERS if name in environ)
        scope = wire.scope_of(environ, body, self._world.region)
        if scope is None:
            raise AwsError("MissingAuthenticationToken", "Missing Authentication Token", 403)
        iam, partition = self._world.gateway.iam, wire.partition_of(scope.region)
        principal = iam.identify(scope, partition, "sagemaker-mlflow")
        record = records(self._world).get(arn)
        if record is None or record["region"] != scope.region:
            raise AwsError("ResourceNotFound", f"{arn} does not exist.", 404)
        context = Context(
            account=self._world.account, region=scope.region, partition=partition, access_key=scope.access_key,
            principal_arn=principal, clock=self._world.clock, world=self._world,
        )  # fmt: skip
        iam.authorize_request(context, "sagemaker-mlflow", (action_of(record, environ.get("PATH_INFO", "")), arn), (environ, body))
        address = self.url_of(arn)
        if address is None:
            raise AwsError("ConflictException", f"{arn} is not active: its status is {record['status']}.", 409)
        return address

    def _relay(self, address: str, environ: Environ, body: bytes, start_response: StartResponse) -> Iterable[bytes]:
        target = str(environ.get("REQUEST_URI") or environ.get("PATH_INFO", "/"))
        if "?" not in target and environ.get("QUERY_STRING"):
            target = f"{target}?{environ['QUERY_STRING']}"
        headers = {"Content-Type": environ["CONTENT_TYPE"]} if environ.get("CONTENT_TYPE") else {}
        link = http.client.HTTPConnection(address.removeprefix("http://"), timeout=_PATIENCE_SECONDS)
        try:
            link.request(environ["REQUEST_METHOD"], target, body, headers)
            answer = link.getresponse()
            data = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise AwsError("ServiceUnavailable", f"MLflow does not answer: {error}", 503) from error
        finally:
            link.close()
        kept = [(k, v) for k, v in answer.getheaders() if k.lower() in _RELAYED]
        start_response(f"{answer.status} {answer.reason or ''}".strip(), [*kept, ("Content-Length", str(len(data)))])
        return [data]


def _say(start_response: StartResponse, status: int, body: dict[str, str]) -> Iterable[bytes]:
    data = json.dumps(body).encode()
    start_response(f"{status} {HTTPStatus(status).phrase}", [("Content-Type", "application/json"), ("Content-Length", str(len(data)))])
    return [data]
