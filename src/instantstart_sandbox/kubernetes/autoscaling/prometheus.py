"""Prometheus' HTTP API over what was scraped: behind every pod that runs Prometheus' image, and behind AMP's workspaces."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import parse_qs

from ...programs.serving.web import Request, Response, Server, answer_json, answer_text
from ..cluster import Cluster
from ..loops.objects import seconds_of
from .measures import Measures
from .promql import QueryError, query, result, seconds

_MOST_STEPS = 11_000
Answer = tuple[int, dict[str, Any]]


def answer(measures: Measures, now: float, path: str, given: dict[str, str]) -> Answer:
    """One request of the API by its path below ``/api/v1/``: (status, document)."""
    try:
        if path == "query":
            return 200, _good(measures.query(_needed(given, "query"), _moment(given.get("time"), now)))
        if path == "query_range":
            return 200, _good(_range(measures, given, now))
        if path == "label/__name__/values":
            return 200, _good(measures.samples.names())
        if path == "labels":
            return 200, _good(["__name__", "namespace", "pod"])
        if path == "status/buildinfo":
            return 200, _good({"version": "3.5.0", "revision": "sandbox"})
    except (QueryError, ValueError) as error:
        return 400, {"status": "error", "errorType": "bad_data", "error": str(error)}
    return 404, {"status": "error", "errorType": "not_found", "error": f"the sandbox does not serve /api/v1/{path}"}


def _good(data: Any) -> dict[str, Any]:
    return {"status": "success", "data": data}


def _needed(given: dict[str, str], name: str) -> str:
    text = given.get(name, "")
    if not text.strip():
        raise ValueError('invalid parameter "query": unknown position: parse error: no expression found in input')
    return text


def _moment(text: str | None, now: float) -> float:
    if not text:
        return now
    try:
        return float(text)
    except ValueError:
        return seconds_of(text)


def _range(measures: Measures, given: dict[str, str], now: float) -> dict[str, Any]:
    text, start, end = _needed(given, "query"), _moment(given.get("start"), now - 3600), _moment(given.get("end"), now)
    step = seconds(given["step"]) or float(given["step"]) if given.get("step") else 15.0
    if step <= 0 or (end - start) / step > _MOST_STEPS:
        raise ValueError("exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution (?step=XX)")
    lines: dict[str, dict[str, Any]] = {}
    moment = start
    while moment <= end:
        found = result(query(text, measures.samples, moment), moment)
        values = [{"metric": {}, "value": found["result"]}] if found["resultType"] == "scalar" else found["result"]
        for each in values:
            lines.setdefault(str(sorted(each["metric"].items())), {"metric": each["metric"], "values": []})["values"].append(each["value"])
        moment += step
    return {"resultType": "matrix", "result": list(lines.values())}


class QueryServer:
    """Listens on this machine for the pods that run Prometheus."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def run(self) -> None:
        """Listen until the cluster stops."""
        server = Server(self._answer, lambda *_: None)
        self._cluster.measures.address = ("127.0.0.1", await server.listen("127.0.0.1", 0))
        try:
            await asyncio.Event().wait()
        finally:
            self._cluster.measures.address = None
            await server.end()

    async def _answer(self, request: Request) -> Response:
        if request.path in ("/-/ready", "/-/healthy"):
            return answer_text("Prometheus Server is Ready.\n")
        _, mark, path = request.path.partition("/api/v1/")
        if not mark:
            return answer_text("404 page not found\n", 404)
        given = parameters(request.query, request.body, request.headers.get("content-type", ""))
        status, document = answer(self._cluster.measures, self._cluster.clock.now(), path.strip("/"), given)
        return answer_json(document, status)


def parameters(text: str, body: bytes, kind: str) -> dict[str, str]:
    """Parameters of the address and of a form."""
    form = body.decode(errors="replace") if "form-urlencoded" in kind else ""
    return {k: v[0] for k, v in parse_qs("&".join(filter(None, (text, form)))).items()}
