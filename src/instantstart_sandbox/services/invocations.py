"""InvokeEndpoint: a SageMaker endpoint of the inference operator is called, and its pods answer, as long as that takes.

It goes beside the gateway's one lock, like MLflow's data plane: a slow model must not hold up AWS. Each call counts as the metric
``Invocations`` of ``AWS/SageMaker``, which an autoscaling trigger of the operator may watch.
"""

from __future__ import annotations

import datetime as dt
import http.client
import json
import re
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from instantstart_sandbox.gateway import wire
from instantstart_sandbox.gateway.errors import AwsError
from instantstart_sandbox.gateway.registry import Context
from instantstart_sandbox.services import inference
from instantstart_sandbox.services.arns import Arn

if TYPE_CHECKING:
    from instantstart_sandbox.world.state import World

Environ = dict[str, Any]
StartResponse = Callable[[str, list[tuple[str, str]]], Any]
_PATH = re.compile(r"^/endpoints/(?P<name>[^/]+)/invocations$")
_PATIENCE_SECONDS = 60.0
_KEPT_SECONDS = 3 * 3600.0
NAMESPACE, METRIC = "AWS/SageMaker", "Invocations"


def install(world: World) -> None:
    """Take the requests."""
    world.gateway.invocations = Invocations(world)


def count(world: World, region: str, name: str, since: float) -> int:
    """How often an endpoint was called since a virtual moment."""
    return sum(1 for moment in world.section("invocations").get(f"{region}|{name}", []) if moment >= since)


def metric(world: World, cluster: str, asked: dict[str, str], since: float) -> float | None:
    """A metric as KEDA's aws-cloudwatch trigger asks for it: calls of endpoints are ours, everything else is moto's CloudWatch."""
    region, now = asked.get("awsRegion") or Arn.parse(cluster).region, world.clock.now()
    names = asked.get("dimensionName", "").split(";"), asked.get("dimensionValue", "").split(";")
    dimensions = {n: v for n, v in zip(*names, strict=False) if n}
    if (asked.get("namespace"), asked.get("metricName")) == (NAMESPACE, METRIC) and "EndpointName" in dimensions:
        calls = count(world, region, dimensions["EndpointName"], since)
        # one data point of a minute is the number of its calls
        return float(calls) if asked.get("metricStat") == "Sum" else calls / max((now - since) / 60.0, 1.0)
    statistic = asked.get("metricStat") or "Average"
    found = world.client("cloudwatch", region).get_metric_statistics(
        Namespace=asked.get("namespace", ""),
        MetricName=asked.get("metricName", ""),
        Dimensions=[{"Name": n, "Value": v} for n, v in dimensions.items()],
        StartTime=dt.datetime.fromtimestamp(since, dt.UTC),
        EndTime=dt.datetime.fromtimestamp(now, dt.UTC),
        Period=max(int(now - since) // 60 * 60, 60),
        Statistics=[statistic],
    )["Datapoints"]
    return float(max(found, key=lambda p: p["Timestamp"])[statistic]) if found else None


class Invocations:
    """The WSGI application."""

    def __init__(self, world: World) -> None:
        self._world = world

    @staticmethod
    def wants(environ: Environ) -> bool:
        """Whether a request is a call of an endpoint."""
        return environ.get("REQUEST_METHOD") == "POST" and _PATH.match(str(environ.get("PATH_INFO", ""))) is not None

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """WSGI: check who asks, then pass on."""
        found = _PATH.match(str(environ["PATH_INFO"]))
        assert found is not None
        name = unquote(found["name"])
        length = int(environ.get("CONTENT_LENGTH") or 0)
        body: bytes = environ["wsgi.input"].read(length) if length else b""
        more: list[tuple[str, str]] = []
        try:
            with self._world.clock.lock:
                self._world.drain()
                cluster, about = self._admit(environ, body, name)
            kind, data = self._call(cluster, about, environ.get("CONTENT_TYPE") or "application/json", body)
            status, more = 200, [("x-Amzn-Invoked-Production-Variant", "AllTraffic")]
        except AwsError as refused:
            status, kind = refused.status, "application/json"
            data = json.dumps({"message": refused.message, "Message": refused.message}).encode()
            more = [("x-amzn-ErrorType", refused.code)]
        headers = [("Content-Type", kind), ("Content-Length", str(len(data))), *more]
        start_response(f"{status} {HTTPStatus(status).phrase}", headers)
        return [data]

    def _admit(self, environ: Environ, body: bytes, name: str) -> tuple[str, dict[str, str]]:
        """(cluster, what is behind) for a caller who may call an endpoint that is in service."""
        scope = wire.scope_of(environ, body, self._world.region)
        if scope is None:
            raise AwsError("MissingAuthenticationTokenException", "Missing Authentication Token", 403)
        iam, partition = self._world.gateway.iam, wire.partition_of(scope.region)
        principal = iam.identify(scope, partition, "sagemaker")
        context = Context(
            account=self._world.account, region=scope.region, partition=partition, access_key=scope.access_key,
            principal_arn=principal, clock=self._world.clock, world=self._world,
        )  # fmt: skip
        arn = context.arn("sagemaker", f"endpoint/{name.lower()}")
        iam.authorize_request(context, "sagemaker", ("sagemaker:InvokeEndpoint", arn), (environ, body))
        held = inference.behind(self._world, scope.region, name)
        if held is None:
            raise AwsError("ValidationError", f"Endpoint {name} of account {self._world.account} not found.", 400)
        cluster, ready, about = held
        now = self._world.clock.now()
        if ready > now:
            raise AwsError("ValidationError", f"Endpoint {name} of account {self._world.account} is not in service.", 400)
        calls = self._world.section("invocations").setdefault(f"{Arn.parse(cluster).region}|{name}", [])
        calls[:] = [*(m for m in calls if m > now - _KEPT_SECONDS), now]
        return cluster, about

    def _call(self, cluster: str, about: dict[str, str], kind: str, body: bytes) -> tuple[str, bytes]:
        """(content type, body) of the model's answer."""
        address = inference.address(self._world, cluster, about["namespace"], f"{about['endpoint']}-service")
        if address is None:
            raise AwsError("ServiceUnavailable", "The endpoint has no healthy target.", 503)
        link = http.client.HTTPConnection(*address, timeout=_PATIENCE_SECONDS)
        try:
            link.request("POST", f"/{(about.get('path') or 'invocations').lstrip('/')}", body, {"Content-Type": kind})
            answer = link.getresponse()
            data = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise AwsError("ModelNotReadyException", f"The model does not answer: {error}", 429) from error
        finally:
            link.close()
        if answer.status >= 400:
            who = "client" if answer.status < 500 else "server"
            text = data.decode(errors="replace")[:1000]
            raise AwsError("ModelError", f'Received {who} error ({answer.status}) from primary with message "{text}".', 424)
        return answer.headers.get("Content-Type", "application/json"), data
