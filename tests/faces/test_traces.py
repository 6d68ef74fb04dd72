"""Traces as a collector receives them: a real receiver of OTLP, a real control plane that is killed and started again midway."""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest, ExportTraceServiceResponse
from tests.clusters.processes import ControlPlane
from tests.clusters.worlds import SandboxProcess

from instantstart_sandbox.world.settings import Settings as SandboxSettings

TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PATIENCE_SECONDS = 120.0
#: a value that must never leave: in a query and in a body
SECRET = "hunter2-in-a-query"


class Collector(ThreadingHTTPServer):
    """Takes what an exporter sends to /v1/traces, and keeps the spans."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.spans: list[dict[str, Any]] = []
        self.raw: list[bytes] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def take(self, body: bytes) -> None:
        self.raw.append(body)
        request = ExportTraceServiceRequest.FromString(body)
        for resource in request.resource_spans:
            about = _values(resource.resource.attributes)
            for scope in resource.scope_spans:
                self.spans += [_told(span, about) for span in scope.spans]


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert self.path == "/v1/traces"
        collector = self.server
        assert isinstance(collector, Collector)
        collector.take(gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body)
        answer = ExportTraceServiceResponse().SerializeToString()
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


def _values(attributes: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}


def _told(span: Any, about: dict[str, Any]) -> dict[str, Any]:
    ids = {"trace": span.trace_id.hex(), "id": span.span_id.hex(), "parent": span.parent_span_id.hex()}
    times = {"began": span.start_time_unix_nano, "ended": span.end_time_unix_nano}
    return {
        **ids,
        **times,
        "name": span.name,
        "kind": span.kind,
        "failed": span.status.code == 2,
        "about": about,
        **_values(span.attributes),
    }


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.shutdown()
    made.server_close()


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory, collector: Collector) -> tuple[dict[str, Any], Path]:
    """One operation asked with a traceparent, its server killed while it waits; the operation at its end, and the server's log."""
    folder = tmp_path_factory.mktemp("traces")
    sandbox = SandboxProcess(folder, 60.0)
    sandbox.start()
    sandbox.admin("settings", **{**SandboxSettings().dump(), "eks_create_seconds": 240.0})
    plane = ControlPlane(folder, sandbox, {"INSTANTSTART_OTLP_ENDPOINT": collector.endpoint, "INSTANTSTART_DRIFT_CHECK_SECONDS": "1"})
    plane.start()
    headers = {"Authorization": f"Bearer {plane.token}", "traceparent": f"00-{TRACE}-{CALLER}-01", "X-Request-Id": "asked-by-a-test"}
    url = f"{plane.url}/api/v1/eks-clusters"
    refused = httpx2.post(url, json={"tag": SECRET * 9}, params={"approval": SECRET}, headers=headers, timeout=60)
    assert (refused.status_code, refused.json()["request_id"], refused.headers["x-request-id"]) == (
        422,
        "asked-by-a-test",
        "asked-by-a-test",
    )
    operation = httpx2.post(url, json={"tag": "traced"}, headers=headers, timeout=60).json()["id"]
    _until(lambda: any(s.get("rpc.method") == "create_stack" for s in collector.spans))
    first_log = (folder / "control-plane.log").read_text()
    plane.kill_and_start()
    ended = plane.follow(operation)
    plane.stop()
    sandbox.stop()
    (folder / "all.log").write_text(first_log + (folder / "control-plane.log").read_text())
    return ended, folder / "all.log"


def _until(enough: Any) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while not enough():
        assert time.monotonic() < until
        time.sleep(0.1)


def test_one_trace_leads_from_the_caller_to_aws_over_a_kill(told: tuple[dict[str, Any], Path], collector: Collector) -> None:
    ended, _ = told
    assert ended["status"] == "succeeded"
    mine = [span for span in collector.spans if span["trace"] == TRACE]
    request = next(s for s in mine if s["name"] == "POST /api/v1/eks-clusters" and s["http.response.status_code"] == 202)
    assert (request["parent"], request["kind"]) == (CALLER, 2)
    operation = next(s for s in mine if s["name"] == "eks.create")
    assert operation["parent"] == request["id"]
    assert operation["instantstart.operation.id"] == ended["id"]
    looks = [s for s in mine if s["name"].startswith("eks.create ")]
    assert {s["parent"] for s in looks} == {operation["id"]}
    assert {s["instantstart.stage"] for s in looks} == {"account", "network", "stack"}
    assert all(operation["began"] <= s["began"] <= s["ended"] for s in looks)
    calls = {s["rpc.method"]: s for s in mine if s.get("rpc.system") == "aws-api"}
    of_looks = [s for s in mine if s.get("rpc.system") == "aws-api" and s["parent"] in {look["id"] for look in looks}]
    assert of_looks, "all but those of the look that the kill cut off, whose own span was never told"
    assert calls["create_stack"]["kind"] == 3
    assert calls["create_stack"]["http.response.status_code"] == 200
    assert calls["create_stack"]["http.request.resend_count"] == 0
    assert len(calls["create_stack"]["aws.request_id"]) > 8
    assert request["about"]["service.name"] == "instantstart"


def test_nothing_of_bodies_queries_or_tokens_is_sent(told: tuple[dict[str, Any], Path], collector: Collector) -> None:
    sent = b"".join(collector.raw)
    assert SECRET.encode() not in sent
    assert b"ist_" not in sent
    assert b"Bearer" not in sent
    assert b"AWSTemplateFormatVersion" not in sent


def test_background_rounds_make_no_traces(told: tuple[dict[str, Any], Path], collector: Collector) -> None:
    roots = [s for s in collector.spans if not s["parent"]]
    assert {s["kind"] for s in roots} <= {2}


def test_every_line_of_a_stage_and_of_the_access_log_leads_to_its_trace(told: tuple[dict[str, Any], Path]) -> None:
    lines = [json.loads(text) for text in told[1].read_text().splitlines() if text.startswith("{")]
    asked = next(line for line in lines if line["logger"] == "instantstart.access" and line["path"] == "/api/v1/eks-clusters")
    assert (asked["trace_id"], asked["request_id"], asked["identity_kind"]) == (TRACE, "asked-by-a-test", "person")
    assert (asked["method"], asked["level"]) == ("POST", "INFO")
    assert not [line for line in lines if SECRET in json.dumps(line)]
