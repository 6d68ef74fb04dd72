"""Amazon Managed Prometheus' queries: ``/workspaces/{id}/api/v1/query`` at the sandbox's endpoint, signed for ``aps``.

The workspaces are moto's. What a workspace answers is what the cluster scrapes whose observability add-on writes into it; a workspace that
no add-on names answers for the region's first cluster.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from instantstart_sandbox.gateway import wire
from instantstart_sandbox.gateway.errors import AwsError
from instantstart_sandbox.gateway.registry import Context
from instantstart_sandbox.kubernetes.autoscaling import prometheus
from instantstart_sandbox.services.arns import Arn

if TYPE_CHECKING:
    from instantstart_sandbox.world.state import World

Environ = dict[str, Any]
StartResponse = Callable[[str, list[tuple[str, str]]], Any]
_PATH = re.compile(r"^/workspaces/(?P<id>ws-[A-Za-z0-9-]+)/api/v1/(?P<path>.+)$")
_PATIENCE_SECONDS = 10.0
_ACTIONS = {"query": "QueryMetrics", "query_range": "QueryMetrics", "labels": "GetLabels"}


def install(world: World) -> None:
    """Take the requests."""
    world.gateway.queries = Queries(world)


class Queries:
    """The WSGI application."""

    def __init__(self, world: World) -> None:
        self._world = world

    @staticmethod
    def wants(environ: Environ) -> bool:
        """Whether a request is a query of a workspace."""
        return _PATH.match(str(environ.get("PATH_INFO", ""))) is not None

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """WSGI: check who asks, then evaluate in the clusters' own loop."""
        try:
            length = int(environ.get("CONTENT_LENGTH") or 0)
            body: bytes = environ["wsgi.input"].read(length) if length else b""
            found = _PATH.match(str(environ["PATH_INFO"]))
            assert found is not None
            with self._world.clock.lock:
                region = self._admit(environ, body, found["id"], found["path"].strip("/"))
                cluster = self._cluster(region, found["id"])
            given = prometheus.parameters(environ.get("QUERY_STRING", ""), body, environ.get("CONTENT_TYPE", ""))
            status, told = self._ask(cluster, found["path"].strip("/"), given)
        except AwsError as refused:
            status, told = refused.status, {"__type": refused.code, "message": refused.message}
        data = json.dumps(told).encode()
        start_response(f"{status} {HTTPStatus(status).phrase}", [("Content-Type", "application/json"), ("Content-Length", str(len(data)))])
        return [data]

    def _admit(self, environ: Environ, body: bytes, workspace: str, path: str) -> str:
        """The region, for a caller who may ask this workspace."""
        scope = wire.scope_of(environ, body, self._world.region)
        if scope is None:
            raise AwsError("MissingAuthenticationTokenException", "Missing Authentication Token", 403)
        iam, partition = self._world.gateway.iam, wire.partition_of(scope.region)
        principal = iam.identify(scope, partition, "aps")
        context = Context(
            account=self._world.account, region=scope.region, partition=partition, access_key=scope.access_key,
            principal_arn=principal, clock=self._world.clock, world=self._world,
        )  # fmt: skip
        arn = context.arn("aps", f"workspace/{workspace}")
        iam.authorize_request(context, "aps", (f"aps:{_ACTIONS.get(path, 'GetMetricMetadata')}", arn), (environ, body))
        try:
            self._world.client("amp", scope.region).describe_workspace(workspaceId=workspace)
        except ClientError as error:
            raise AwsError("ResourceNotFoundException", f"Workspace not found: {workspace}", 404) from error
        return scope.region

    def _cluster(self, region: str, workspace: str) -> Any:
        server: Any = self._world.kubernetes
        here = [c for c in server.clusters() if Arn.parse(c.arn).region == region] if hasattr(server, "clusters") else []
        for cluster in here:
            if any(workspace in json.dumps(a.configuration) for a in cluster.aws.addons(cluster.arn)):
                return cluster
        return here[0] if here else None

    def _ask(self, cluster: Any, path: str, given: dict[str, str]) -> prometheus.Answer:
        from instantstart_sandbox.kubernetes.autoscaling.measures import Measures

        if cluster is None:
            return prometheus.answer(Measures(), self._world.clock.now(), path, given)

        async def evaluate() -> prometheus.Answer:
            return prometheus.answer(cluster.measures, cluster.clock.now(), path, given)

        return asyncio.run_coroutine_threadsafe(evaluate(), cluster.loop).result(_PATIENCE_SECONDS)
