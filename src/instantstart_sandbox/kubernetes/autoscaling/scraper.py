"""Scrapes the metrics of pods that are real servers, every fifteen virtual seconds, as an annotated Prometheus or a collector does."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable

from ...programs.serving.web import read_body, read_head
from ..kubelet import programs
from ..loops.engine import Controller
from ..loops.objects import Object, annotations_of, key_of, labels_of, name_of, namespace_of, spec_of, split, status_of
from . import promql
from .prometheus import QueryServer

_PERIOD_SECONDS, _REAL_TIMEOUT_SECONDS = 15.0, 5.0
_MANAGED = {"deploying-service": "hyperpod-inference"}
_ROUTER_PORT = 29000


class Scraper(Controller):
    """Keys are pods."""

    name = "metrics-scraper"
    watched = ("pods",)

    def begin(self) -> None:
        """Answer queries."""
        self.cluster.start(QueryServer(self.cluster).run(), name="queries for ever")

    def keys(self, resource: str, obj: Object) -> Iterable[str]:
        """Pods on a node that have something to scrape."""
        return [key_of(obj)] if spec_of(obj).get("nodeName") and ports_of(obj) else []

    def concerns(self, resource: str, before: Object | None, after: Object | None) -> bool:
        """Coming, running and going: what changes meanwhile does not matter."""
        return status_of(before or {}).get("phase") != status_of(after or {}).get("phase")

    async def reconcile(self, key: str) -> None:
        """Scrape a running pod, and again later."""
        pod = self.cache.get("pods", key)
        if pod is None or status_of(pod).get("phase") != "Running":
            return
        self.cluster.start(self._scrape(pod), name=f"scrape {key}")
        self.later(_PERIOD_SECONDS, key)

    async def _scrape(self, pod: Object) -> None:
        space, name = split(key_of(pod))
        path = annotations_of(pod).get("prometheus.io/path", "/metrics")
        samples, moment = self.cluster.measures.samples, self.now()
        for port in ports_of(pod):
            assert self.cluster.backend is not None
            address = await self.cluster.backend("pods", str(space), name, str(port))
            text = await _page(address, path) if address is not None else None
            if text is not None:
                more = {"instance": f"{status_of(pod).get('podIP')}:{port}", **_labels(pod)}
                samples.take(text, more, moment)
        if _MANAGED.items() <= labels_of(pod).items():
            self._managed(pod, moment)
        samples.forget(moment)

    def _managed(self, pod: Object, moment: float) -> None:
        """What the inference operator's collector makes of a worker's metrics."""
        name, samples = name_of(pod), self.cluster.measures.samples
        labels = {"resource_name": labels_of(pod).get("app", ""), "namespace": namespace_of(pod), "pod": name}
        for metric, query in (
            ("model_concurrent_requests", 'sum({__name__=~"(vllm|sglang):num_.*_?req(s|uests_running|uests_waiting)", pod="%s"})'),
            ("model_invocations_total", 'sum({__name__=~"vllm:request_success_total|sglang:num_requests_total", pod="%s"})'),
        ):
            found = promql.query(query % name, samples, moment)
            if isinstance(found, list) and found:
                samples.put(metric, labels, moment, found[0].value)


def ports_of(pod: Object) -> list[int]:
    """Where the pod's metrics are: as it is annotated, else the ports of its model servers and routers."""
    notes = annotations_of(pod)
    if notes.get("prometheus.io/scrape") == "true" and notes.get("prometheus.io/port", "").isdigit():
        return [int(notes["prometheus.io/port"])]
    found: list[int] = []
    for container in spec_of(pod).get("containers") or []:
        if programs.serves(pod, container):
            found += [int(p["containerPort"]) for p in container.get("ports") or []]
    return [*dict.fromkeys([*found, *([_ROUTER_PORT] if programs.routes(pod) else [])])]


def _labels(pod: Object) -> dict[str, str]:
    own = {re.sub(r"[^a-zA-Z0-9_]", "_", k): v for k, v in labels_of(pod).items()}
    place = {"namespace": namespace_of(pod), "pod": name_of(pod), "node": str(spec_of(pod).get("nodeName"))}
    return {**own, **place, "job": "kubernetes-pods"}


async def _page(address: tuple[str, int], path: str) -> str | None:
    """The text of a page of metrics, or None."""
    try:
        async with asyncio.timeout(_REAL_TIMEOUT_SECONDS):
            reader, writer = await asyncio.open_connection(*address)
            try:
                writer.write(f"GET {path} HTTP/1.1\r\nHost: {address[0]}\r\nConnection: close\r\n\r\n".encode())
                head = await read_head(reader)
                body = b"".join([piece async for piece in read_body(reader, head[1])]) if head else b""
            finally:
                writer.close()
    except (OSError, TimeoutError, ValueError, asyncio.IncompleteReadError):
        return None
    return body.decode(errors="replace") if head and head[0].split(" ")[1] == "200" else None
